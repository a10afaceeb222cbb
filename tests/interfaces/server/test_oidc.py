"""Users with tokens of an issuer, which is a small server in this process."""

from __future__ import annotations

import base64
import hmac
import http.server
import io
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from server_world import World

pytest.importorskip("joserfc", reason="the extra oidc is not installed")

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey

from qoop.catalog.errors import Busy, NotKnown
from qoop.interfaces.server.audit import AuditLog
from qoop.interfaces.server.http_server import HttpServer
from qoop.interfaces.server.identity.oidc import Issuer, IssuerSettings
from qoop.interfaces.server.identity.users_file import read_users
from qoop.interfaces.server.limits import Limits
from qoop.interfaces.server.service import Service
from qoop.interfaces.server.timeouts import ClientLimits, Place
from qoop.interfaces.server.users import User, Users, token_digest

NOW = 1_800_000_000.0


class Login:
    """The issuer: its keys, and the number of times that they were fetched."""

    def __init__(self) -> None:
        self.keys = KeySet([RSAKey.generate_key(2048, {"kid": "first"})])
        self.fetched, self.down, self.says = 0, False, ""
        login = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if login.down:
                    self.send_error(500)
                    return
                where = {"issuer": login.says or login.url, "jwks_uri": f"{login.url}/keys"}
                login.fetched += self.path == "/keys"
                body = json.dumps(login.keys.as_dict() if self.path == "/keys" else where).encode()
                self.send_response(200)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def token(self, key: Any = None, algorithm: str = "RS256", **claims: Any) -> str:
        key = key or self.keys.keys[0]
        facts = {"iss": self.url, "aud": "qoop", "sub": "u1", "email": "ann@example.com", "team": "day"}
        facts |= {"exp": int(NOW) + 300, "iat": int(NOW)} | claims
        facts = {name: fact for name, fact in facts.items() if fact is not None}
        return jwt.encode({"alg": algorithm, "kid": key.kid}, facts, key, algorithms=[algorithm])


@pytest.fixture
def login() -> Iterator[Login]:
    found = Login()
    thread = threading.Thread(target=found.server.serve_forever, args=(0.01,))
    thread.start()
    yield found
    found.server.shutdown()
    thread.join()
    found.server.server_close()


def settings(login: Login) -> IssuerSettings:
    return IssuerSettings(login.url, "qoop", user="email", tenant="team", limits=Limits(rows=2))


def test_a_token_names_user_and_tenant(login: Login) -> None:
    issuer = Issuer(settings(login), lambda: NOW)
    assert issuer.user(login.token()) == User("ann@example.com", "day", limits=Limits(rows=2), issued=True)
    assert issuer.user(login.token(aud=["other", "qoop"])).name == "ann@example.com"
    assert Issuer(IssuerSettings(login.url, "qoop"), lambda: NOW).user(login.token()).tenant == "u1"
    assert login.fetched == 2, "once for each, however many tokens"


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://other.example.com"}, {"aud": "other"}, {"aud": None}, {"iss": None}, {"exp": None},
        {"exp": int(NOW) - 61}, {"nbf": int(NOW) + 120}, {"email": None}, {"email": 7}, {"team": None}, {"email": ""},
    ],
    ids=str,
)  # fmt: skip
def test_a_token_with_another_claim_is_refused(login: Login, claims: dict[str, Any]) -> None:
    with pytest.raises(NotKnown):
        Issuer(settings(login), lambda: NOW).user(login.token(**claims))


def test_clocks_may_differ_by_a_minute(login: Login) -> None:
    assert Issuer(settings(login), lambda: NOW).user(login.token(exp=int(NOW) - 55, nbf=int(NOW) + 55))


def test_a_token_with_another_signature_is_refused(login: Login) -> None:
    issuer, token = Issuer(settings(login), lambda: NOW), login.token()
    head, body, signature = token.split(".")
    other = RSAKey.generate_key(2048, {"kid": "first"})
    forged = [
        login.token(other),
        with_public_key(login.keys.keys[0].as_pem(private=False), body),
        f"{head}.{body}.",
        f"{head}.{body}.{signature[::-1]}",
    ]
    none = "eyJhbGciOiJub25lIn0"  # {"alg":"none"}
    for wrong in (*forged, f"{none}.{body}.", "a.b.c", "..", "é.é.é"):
        with pytest.raises(NotKnown):
            issuer.user(wrong)


def with_public_key(public: bytes, body: str) -> str:
    """A token whose signer takes the public key, which all know, for a secret one."""
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","kid":"first"}').rstrip(b"=").decode()
    mac = base64.urlsafe_b64encode(hmac.digest(public, f"{head}.{body}".encode(), "sha256"))
    return f"{head}.{body}.{mac.rstrip(b'=').decode()}"


def test_new_keys_are_fetched_when_a_token_has_one(login: Login) -> None:
    now = NOW
    issuer = Issuer(settings(login), lambda: now)
    old = login.token()
    issuer.user(old)
    login.keys = KeySet([ECKey.generate_key("P-256", {"kid": "second"})])
    new = login.token(algorithm="ES256")
    with pytest.raises(NotKnown):
        issuer.user(new)
    assert login.fetched == 1, "tokens with unknown keys do not make requests at any rate"
    now += 11
    assert issuer.user(new).name == "ann@example.com"
    with pytest.raises(NotKnown):
        issuer.user(old)
    assert login.fetched == 2


def test_known_keys_stay_valid_while_the_issuer_is_down(login: Login) -> None:
    now = NOW
    issuer = Issuer(settings(login), lambda: now)
    login.down = True
    with pytest.raises(Busy, match="cannot be fetched"):
        issuer.user(login.token())
    login.down, now = False, now + 11
    issuer.user(login.token())
    login.down, now = True, now + 3601
    assert issuer.user(login.token(exp=int(now) + 9)).name == "ann@example.com"


def test_an_issuer_by_another_name_is_refused(login: Login) -> None:
    login.says = "https://other.example.com"
    with pytest.raises(Busy, match=r"it says that it is https://other\.example\.com"):
        Issuer(settings(login), lambda: NOW).user(login.token())


def test_over_http_within_limits_and_next_to_users_of_the_file(world: World, login: Login, tmp_path: Path) -> None:
    path, far = tmp_path / "users.toml", {"exp": 4_000_000_000, "iat": 1_000_000_000}
    text = (
        f'[ann]\ntoken = "{token_digest("of the file")}"\n[oidc]\nissuer = "{login.url}"\naudience = "qoop"\nrows = 2\n'
    )
    path.write_text(text)
    path.chmod(0o600)
    log = io.StringIO()
    service = Service(world.service.session, read_users(path), AuditLog(log))
    with HttpServer(service, Place(), ClientLimits()) as server:
        here = replace(world, service=service, server=server)
        token = login.token(**far)
        assert here.sql("SELECT 42 AS a", token).rows() == [{"a": 42}]
        assert here.sql("SELECT 43 AS a", "of the file").rows() == [{"a": 43}]
        assert here.sql("FROM t", token).error == "TooMuch"
        assert here.sql("SELECT 1", login.token(aud="other", **far)).status == 401
        assert here.sql("SELECT 1", login.token(sub="ann", **far)).status == 401, (
            "a name of the file is not the issuer's"
        )
        service.reload(Users({"ann": service.users.of_token("of the file")}))
        assert here.sql("SELECT 1", token).status == 401, "the issuer is no longer trusted"
    assert [json.loads(line)["user"] for line in log.getvalue().splitlines()] == ["u1", "ann", "u1"]
