"""One server in this process, for all tests of servers."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import qoop

if TYPE_CHECKING:
    from server_world import World

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    from server_world import USERS, World

    from qoop.interfaces.server.audit import AuditLog
    from qoop.interfaces.server.flight import FlightServer
    from qoop.interfaces.server.http_server import HttpServer
    from qoop.interfaces.server.postgres.server import PostgresServer
    from qoop.interfaces.server.service import Service
    from qoop.interfaces.server.timeouts import ClientLimits, Place

    secret, log = tmp_path_factory.mktemp("secret") / "canary.csv", io.StringIO()
    secret.write_text("secret\nof the canary\n")
    with qoop.connect(slots=2, memory="1GB", locked=True) as session:
        session.register("t", pa.table({"a": [1, 2, 3, None], "b": ["x", "y, z", 'q"', "<b>"]}))
        session.register("big", pa.table({"n": pa.array(range(60_000), pa.int64())}))
        service, client_limits = Service(session, USERS, AuditLog(log)), ClientLimits(body=10_000)
        with (
            HttpServer(service, Place(), client_limits) as server,
            FlightServer(service, Place(), client_limits) as flight,
            PostgresServer(service, Place(), client_limits) as postgres,
        ):
            yield World(service, server, flight, postgres, log, secret)
            service.close(0.0)


@pytest.fixture(scope="session")
def hasty(world: World) -> Iterator[World]:
    """The same, but it does not wait for slow clients."""
    from server_world import IDLE, PATIENCE

    from qoop.interfaces.server.flight import FlightServer
    from qoop.interfaces.server.http_server import HttpServer
    from qoop.interfaces.server.postgres.server import PostgresServer
    from qoop.interfaces.server.timeouts import ClientLimits, Place

    service, place = world.service, Place()
    client_limits = ClientLimits(patience=PATIENCE, idle=IDLE)
    with (
        HttpServer(service, place, client_limits) as server,
        FlightServer(service, place, client_limits) as flight,
        PostgresServer(service, place, client_limits) as postgres,
    ):
        yield replace(world, server=server, flight=flight, postgres=postgres)
