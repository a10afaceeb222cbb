"""A server in this process as tests see it: its users, and requests of theirs."""

from __future__ import annotations

import http.client
import io
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra server is not installed")
pytest.importorskip("uvicorn", reason="the extra server is not installed")

from qoop.server.listening import HttpServer
from qoop.server.service import Service
from qoop.server.users import User, Users, password_digest, token_digest

SLOW = "SELECT sum(hash(a.range, b.range)) AS s FROM range(1000000) a, range(1000000) b"
"""A query that takes for ever, and ends at once when it is cancelled."""
PATIENCE = 0.4
"""Seconds that this server waits for slow clients."""
ANA, BEN, EVE = ("the token of ana", "the token of ben", "the token of eve")


@dataclass
class World:
    """The server that the tests talk to."""

    service: Service
    server: HttpServer
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
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)

    def begun(self, text: str, token: str = ANA) -> http.client.HTTPConnection:
        """The connection of a query that now runs."""
        connection = self.connection()
        connection.request("POST", "/sql", text, {"authorization": f"Bearer {token}"})
        until(lambda: any(query.job is not None for query in self.service.of(self.user(token))))
        return connection

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


def until(holds: Any, seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it has not come about"
        time.sleep(0.01)


USERS = Users(
    {
        "ana": User("ana", "dashboards", token_digest(ANA)),
        "ben": User("ben", "night", token_digest(BEN)),
        "eve": User("eve", "night", token_digest(EVE), longest_query=0.3, rows=1000, queries=1),
        "pat": User("pat", "night", password_digest("the password of pat")),
    }
)
