"""A server of a small shop, for sessions and clients of PostgreSQL's protocol."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import duckdb
from server_world import ANA, USERS

import qoop
from qoop.interfaces.server.audit import AuditLog
from qoop.interfaces.server.postgres.server import PostgresServer
from qoop.interfaces.server.service import Service
from qoop.interfaces.server.timeouts import ClientLimits, Place

TABLES = {
    "customers": "SELECT * FROM (VALUES (1::BIGINT, 'ann'), (2, 'bob'), (3, 'cy')) AS t(id, name)",
    "sales": (
        "SELECT range::INTEGER AS id, (range * 1.5)::DECIMAL(28,2) AS price, "
        "DATE '2026-01-01' + range::INTEGER AS day, "
        "'r' || range % 3 AS region, TIMESTAMP '2026-01-01' + to_hours(range::INTEGER) AS sold, range % 2 = 0 AS good "
        "FROM range(100)"
    ),
}


@dataclass(frozen=True)
class Shop:
    """The server, and how ana comes in."""

    service: Service
    port: int

    @property
    def url(self) -> str:
        return f"postgresql://ana:{ANA.replace(' ', '%20')}@127.0.0.1:{self.port}/shop?sslmode=disable"

    @property
    def keywords(self) -> dict[str, object]:
        return {"host": "127.0.0.1", "port": self.port, "user": "ana", "password": ANA, "database": "shop"}


@contextmanager
def open_shop() -> Iterator[Shop]:
    with qoop.connect(slots=1, memory="1GB", locked=True) as session:
        for name, text in TABLES.items():
            session.register(name, duckdb.sql(text).to_arrow_table())
        session.sql("CREATE VIEW cheap AS SELECT id, price FROM sales WHERE price < 30").arrow()
        service = Service(session, USERS, AuditLog(io.StringIO()))
        with PostgresServer(service, Place(), ClientLimits()) as server:
            yield Shop(service, server.port)
            service.close(0.0)
