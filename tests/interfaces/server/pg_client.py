"""Clients of PostgreSQL's protocol: psycopg, psql, and one by hand that sends what no client does."""

from __future__ import annotations

import base64
import hashlib
import hmac
import shutil
import socket
import struct
import subprocess
from typing import Any

import pytest
from server_world import ANA, World

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
needs_psql = pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed")


def connected(world: World, name: str = "ana", password: str = ANA, **options: Any) -> Any:
    host, port = world.postgres.address.removeprefix("postgresql://").rsplit(":", 1)
    told = {"host": host, "port": port, "dbname": "x", "sslmode": "disable"} | options
    return psycopg.connect(user=name, password=password, **told)


def psql(world: World, *commands: str, expect: int = 0, given: str = "", **variables: str) -> str:
    """Lines that psql prints for the commands. given: its input. variables: of its environment."""
    url = world.postgres.address.replace("//", "//ana@") + "/x"
    words = [word for command in commands for word in ("-c", command)]
    environment = {"PGPASSWORD": ANA, "PATH": "/usr/bin:/bin", "PSQLRC": "/dev/null"} | variables
    done = subprocess.run(
        ["psql", url, *words], input=given, capture_output=True, text=True, timeout=60, env=environment
    )
    assert done.returncode == expect, done.stderr
    return done.stdout + done.stderr


class raw:
    """A client by hand. first: its only message; without one it says a name and proves a password, right or wrong."""

    def __init__(
        self, world: World, name: str = "ana", password: str = ANA, first: bytes | None = None, fails: bool = False
    ) -> None:
        self._socket = socket.create_connection(("127.0.0.1", world.postgres.port), timeout=60)
        told = struct.pack("!i", 3 << 16) + f"user\0{name}\0\0".encode() if first is None else first
        self.write(struct.pack("!i", len(told) + 4) + told)
        if first is None:
            self.proves(password)
            assert self.message()[0] == (b"E" if fails else b"R")

    def __enter__(self) -> raw:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def write(self, data: bytes) -> None:
        self._socket.sendall(data)

    def send(self, kind: bytes, body: bytes = b"") -> None:
        self.write(kind + struct.pack("!i", len(body) + 4) + body)

    def message(self) -> tuple[bytes, bytes]:
        head = self._exactly(5)
        return head[:1], self._exactly(int.from_bytes(head[1:], "big") - 4)

    def kinds_until(self, last: bytes) -> list[bytes]:
        kinds = [self.message()[0]]
        while kinds[-1] != last:
            kinds.append(self.message()[0])
        return [kind for kind in kinds if kind not in (b"S", b"K", b"R", b"T")]

    def is_closed(self) -> bool:
        """True once the server has closed it, whatever it has said before."""
        try:
            while self._socket.recv(1 << 16):
                pass
        except ConnectionResetError:
            pass
        return True

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            piece = self._socket.recv(size - len(found))
            assert piece, "the server has closed the connection"
            found += piece
        return found

    def proves(self, password: str) -> None:
        """Prove the password, up to the message in which the server says whether it is right."""
        assert self.authentication() == (10, b"SCRAM-SHA-256\0\0")
        self.begins("n,,n=,r=ours")
        last, _ = proof(password, "n,,", "n=,r=ours", self.goes_on())
        self.send(b"p", last.encode())

    def begins(self, told: str, mechanism: str = "SCRAM-SHA-256") -> None:
        self.send(b"p", mechanism.encode() + b"\0" + struct.pack("!i", len(told)) + told.encode())

    def goes_on(self) -> str:
        number, told = self.authentication()
        assert number == 11
        return told.decode()

    def authentication(self) -> tuple[int, bytes]:
        kind, body = self.message()
        assert kind == b"R", body
        return int.from_bytes(body[:4], "big"), body[4:]


def proof(password: str, header: str, bare: str, told: str, bound: bytes = b"") -> tuple[str, str]:
    """The last message of a client of SCRAM, and what the server must answer."""
    nonce, salt, rounds = (field[2:] for field in told.split(","))
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(salt), int(rounds))
    client, server = (hmac.digest(salted, name, "sha256") for name in (b"Client Key", b"Server Key"))
    without = f"c={base64.b64encode(header.encode() + bound).decode()},r={nonce}"
    said = f"{bare},{told},{without}".encode()
    signature = hmac.digest(hashlib.sha256(client).digest(), said, "sha256")
    proven = bytes(one ^ other for one, other in zip(client, signature, strict=True))
    answer = base64.b64encode(hmac.digest(server, said, "sha256")).decode()
    return f"{without},p={base64.b64encode(proven).decode()}", f"v={answer}"
