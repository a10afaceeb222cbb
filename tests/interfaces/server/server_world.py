"""A server in this process as tests see it: its users, and requests of theirs."""

from __future__ import annotations

import http.client
import io
import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from waits import until

pytest.importorskip("starlette", reason="the extra server is not installed")
pytest.importorskip("uvicorn", reason="the extra server is not installed")

from qoop.interfaces.server.flight import FlightServer
from qoop.interfaces.server.http_server import HttpServer
from qoop.interfaces.server.limits import Limits
from qoop.interfaces.server.postgres.server import PostgresServer
from qoop.interfaces.server.service import Service
from qoop.interfaces.server.users import User, Users, password_digest, token_digest
from qoop.interfaces.server.verifiers import OF_PASSWORD, new_verifier

SLOW = "SELECT sum(hash(a.range, b.range)) AS s FROM range(1000000) a, range(1000000) b"
"""A query that takes for ever, and ends at once when it is cancelled."""
PATIENCE, IDLE = 0.4, 0.3
"""Seconds that a hasty server waits for slow clients, and for the next request of idle ones."""
ANA, BEN, EVE, TIM = (f"the token of {name}" for name in ("ana", "ben", "eve", "tim"))


@dataclass
class World:
    """The server that the tests talk to."""

    service: Service
    server: HttpServer
    flight: FlightServer
    postgres: PostgresServer
    log: io.StringIO = field(repr=False)
    secret: Path

    @property
    def port(self) -> int:
        return int(self.server.address.rpartition(":")[2])

    def ask(self, method: str, path: str, body: object = None, token: str | None = ANA, **headers: str) -> Reply:
        """One request on a connection of its own."""
        connection = self.connection()
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            told["authorization"] = f"Bearer {token}"
        connection.request(method, path, body, told)
        found = connection.getresponse()
        reply = Reply(found.status, dict(found.headers), found.read())
        connection.close()
        return reply

    def sql(self, text: str, token: str | None = ANA, **headers: str) -> Reply:
        return self.ask("POST", "/sql", text.encode(), token, **headers)

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def begun(self, text: str, token: str = ANA) -> http.client.HTTPConnection:
        """The connection of a query that now runs."""
        connection = self.connection()
        connection.request("POST", "/sql", text, {"authorization": f"Bearer {token}"})
        until(lambda: any(query.job is not None for query in self.service.of(self.user(token))))
        return connection

    def quiet(self) -> None:
        """Wait for the end of queries whose clients have gone."""
        until(lambda: not self.service._running)

    def user(self, token: str) -> User:
        return self.service.users.of_token(token)

    def entries(self, statement: str) -> list[dict[str, Any]]:
        """The lines of the audit log about a statement."""
        return [entry for entry in map(json.loads, self.log.getvalue().splitlines()) if entry["statement"] == statement]


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> str:
        """The class of the error that was told."""
        return str(json.loads(self.body)["error"])

    def rows(self) -> list[dict[str, object]]:
        assert self.status == 200, self.body
        found: list[dict[str, object]] = json.loads(self.body)
        return found


NO_LIMITS = Limits()
PAT, ZOE = "the password of pat", "the token of zoe"


def known(name: str, tenant: str, token: str, limits: Limits = NO_LIMITS) -> User:
    """A user with a token, which SCRAM proves, too."""
    return User(name, tenant, token_digest(token), limits, new_verifier(token))


USERS = Users(
    {
        "ana": known("ana", "dashboards", ANA),
        "ben": known("ben", "night", BEN),
        "eve": known("eve", "night", EVE, Limits(rows=1000, queries=1)),
        "tim": known("tim", "night", TIM, Limits(longest_query=0.3)),
        "pat": User("pat", "night", password_digest(PAT), verifier=new_verifier(PAT, OF_PASSWORD)),
        "zoe": User("zoe", "night", token_digest(ZOE)),
    }
)


def certified(folder: Path) -> tuple[Path, Path]:
    """A certificate of localhost and its key."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now, day = ec.generate_private_key(ec.SECP256R1()), datetime.now(), timedelta(1)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number()).not_valid_before(now - day).not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, *form))
    return folder / "cert.pem", folder / "key.pem"
