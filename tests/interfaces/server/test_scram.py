"""SCRAM-SHA-256 over PostgreSQL's protocol: clients that prove a password, and those that try to get by without."""

from __future__ import annotations

import io
import ssl
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pg_client import connected, needs_psql, proof, psql, psycopg, raw
from server_world import ANA, BEN, PAT, ZOE, World, certified

from qoop.__main__ import main
from qoop.catalog.errors import ConfigError, NotKnown
from qoop.interfaces.server.identity.users_file import read_users
from qoop.interfaces.server.postgres.scram import Server, binding_of
from qoop.interfaces.server.postgres.server import PostgresServer
from qoop.interfaces.server.timeouts import ClientLimits, Place
from qoop.interfaces.server.users import new_user
from qoop.interfaces.server.verifiers import new_verifier, read_verifier


@pytest.fixture(scope="module")
def secure(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, dict[str, Any]]]:
    """A server with TLS, and the words of clients that look at its certificate."""
    certificate, key = certified(tmp_path_factory.mktemp("tls"))
    with PostgresServer(world.service, Place("127.0.0.1", 0, certificate, key), ClientLimits()) as server:
        told = {"host": "localhost", "sslmode": "verify-full", "sslrootcert": str(certificate)}
        yield replace(world, postgres=server), told


def test_a_password_is_proven_and_never_sent(world: World) -> None:
    for name, password in (("ana", ANA), ("pat", PAT)):
        with connected(world, name, password, require_auth="scram-sha-256") as connection:
            assert connection.execute("SELECT current_user").fetchone() == (name,)
    with pytest.raises(psycopg.OperationalError, match="no user has that name and password; one without a line scram"):
        connected(world, "zoe", ZOE)


@needs_psql
def test_psql_proves_it_too(world: World) -> None:
    assert "(4 rows)" in psql(world, "FROM t", PGREQUIREAUTH="scram-sha-256")


def test_within_tls_the_proof_is_bound_to_the_certificate(secure: tuple[World, dict[str, Any]]) -> None:
    world, told = secure
    with connected(world, **told, channel_binding="require", require_auth="scram-sha-256") as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    with connected(world, **told, channel_binding="disable") as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    with connected(world, "zoe", ZOE, **told) as connection:  # who has no verifier
        assert connection.execute("SELECT current_user").fetchone() == ("zoe",)
    with pytest.raises(psycopg.OperationalError, match=r"no user has that name and password$"):
        connected(world, "zoe", ANA, **told)


def test_a_proof_does_twice_for_nobody(world: World) -> None:
    with raw(world, first=_hello()) as client:
        client.authentication()
        client.begins("n,,n=,r=ours")
        last, answer = proof(ANA, "n,,", "n=,r=ours", client.goes_on())
        client.send(b"p", last.encode())
        assert client.authentication() == (12, answer.encode()), "the server proves that it has the verifier"
        assert client.authentication() == (0, b""), "it is in"
    for again in (last, last.replace("r=ours", "r=mine"), last.partition(",p=")[0], "", "p="):
        with raw(world, first=_hello()) as client:
            client.authentication()
            client.begins("n,,n=,r=ours")
            client.goes_on()
            client.send(b"p", again.encode())
            assert client.message()[0] == b"E" and client.is_closed()


@pytest.mark.parametrize(
    ("mechanism", "first"),
    [
        (ANA, ""), ("SCRAM-SHA-256-PLUS", "p=tls-server-end-point,,n=,r=ours"), ("SCRAM-SHA-1", "n,,n=,r=ours"),
        ("SCRAM-SHA-256", "p=tls-server-end-point,,n=,r=ours"), ("SCRAM-SHA-256", "n,,n=,r="), ("SCRAM-SHA-256", ""),
        ("SCRAM-SHA-256", "n,,m=x,n=,r=ours"), ("SCRAM-SHA-256", "n,,n=,r=" + "x" * 11_000),
    ],
)  # fmt: skip
def test_weaker_and_odd_begins_are_refused(world: World, mechanism: str, first: str) -> None:
    with raw(world, first=_hello()) as client:
        client.authentication()
        client.begins(first, mechanism)
        assert client.message()[0] == b"E" and client.is_closed()


def test_a_password_in_clear_text_is_never_asked_for_nor_taken(world: World) -> None:
    for name in ("ana", "zoe", "nobody"):
        with raw(world, first=_hello(name)) as client:
            assert client.authentication() == (10, b"SCRAM-SHA-256\0\0")
            client.send(b"p", ANA.encode() + b"\0")
            assert client.message()[0] == b"E" and client.is_closed()


def test_one_in_the_middle_is_found_out() -> None:
    verifier, bound = new_verifier(ANA), b"the hash of a certificate"
    plus = "SCRAM-SHA-256-PLUS"

    def ends(mechanism: str, header: str, seen: bytes, password: str = ANA) -> str | None:
        server = Server(verifier, bound)
        last, _ = proof(password, header, "n=,r=ours", server.first(mechanism, f"{header}n=,r=ours"), seen)
        return server.last(last)

    assert ends(plus, "p=tls-server-end-point,,", bound) is not None
    assert ends(plus, "p=tls-server-end-point,,", bound, BEN) is None
    with pytest.raises(NotKnown, match="another certificate"):
        ends(plus, "p=tls-server-end-point,,", b"the hash of another")
    for mechanism, header in (("SCRAM-SHA-256", "y,,"), (plus, "n,,"), (plus, "p=tls-unique,,")):
        with pytest.raises(NotKnown, match=r"in the middle|bound by"):  # who has cut the offer of PLUS out
            ends(mechanism, header, b"")
    server = Server(verifier, bound)
    last, _ = proof(ANA, "n,,", "n=,r=ours", server.first("SCRAM-SHA-256", "n,,n=,r=ours"))
    with pytest.raises(NotKnown, match="another begin"):
        server.last(last.replace("c=biws", "c=eSws"))


def test_names_that_nobody_has_look_like_others(world: World) -> None:
    told = {}
    for name in ("nobody", "nobody", "ana", "who"):
        with raw(world, first=_hello(name)) as client:
            client.authentication()
            client.begins("n,,n=,r=ours")
            nonce, salt, rounds = client.goes_on().split(",")
            assert told.setdefault(name, (salt, rounds)) == (salt, rounds) and rounds in ("i=4096", "i=100000")
            client.send(b"p", proof(ANA, "n,,", "n=,r=ours", f"{nonce},{salt},{rounds}")[0].encode())
            assert client.message()[0] == (b"R" if name == "ana" else b"E")
    assert len({len(salt) for salt, _ in told.values()}) == 1 and len(set(told.values())) == 3


def test_the_file_has_verifiers_and_no_password(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    token, lines = new_user("ana")
    monkeypatch.setattr("sys.stdin", io.StringIO("the password of pat\n"))
    assert main(["serve", "--new-user", "pat", "--password"]) == 0
    path = tmp_path / "users.toml"
    path.write_text(lines + capsys.readouterr().out)
    assert token not in path.read_text() and PAT not in path.read_text()
    users = read_users(path)
    assert users.of_password("pat", PAT).name == "pat" and users.without_verifier == []
    for name, told in (("ana", token), ("pat", PAT)):
        verifier = users.verifier(name, clear=True)
        assert verifier and verifier == new_verifier(told, verifier.rounds, verifier.salt)
    path.write_text('[ana]\nscram = "SCRAM-SHA-256$1:aa$aa:aa"\n' + lines.partition("\n")[2].partition("\n")[0])
    with pytest.raises(ConfigError, match="scram is no verifier"):
        read_users(path)
    for wrong in ("", "pässword"):
        with pytest.raises(ConfigError, match=r"must not be empty|must be of printable ASCII"):
            new_user("ana", wrong)


def test_a_verifier_is_that_of_postgresql() -> None:
    """RFC 7677's example; its keys are those that PostgreSQL keeps for the same password and salt."""
    salt = "W22ZaJ0SNY7soEsUEjb6gQ=="
    keys = "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
    known = f"SCRAM-SHA-256$4096:{salt}${keys}"
    verifier = read_verifier(known)
    assert new_verifier("pencil", 4096, verifier.salt) == verifier and str(verifier) == known


def test_the_hash_of_a_certificate_is_that_of_its_signature(tmp_path: Path) -> None:
    import hashlib

    certificate, _ = certified(tmp_path)
    data = ssl.PEM_cert_to_DER_cert(certificate.read_text())
    assert binding_of(data) == hashlib.sha256(data).digest()
    assert binding_of(b"") is None and binding_of(b"0\x84") is None


def _hello(name: str = "ana") -> bytes:
    return struct.pack("!i", 3 << 16) + f"user\0{name}\0\0".encode()
