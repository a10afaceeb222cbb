"""A server of both protocols in this process, and clients of it; and Arrow's own server of the same rows."""

from __future__ import annotations

import contextlib
import http.client
import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import flight

from qoop.catalog.errors import ConfigError
from qoop.server.audit import AuditLog
from qoop.server.flight import FlightServer
from qoop.server.flight_messages import packed, unpacked
from qoop.server.flight_metadata import answer
from qoop.server.http_server import HttpServer
from qoop.server.manners import Manners, Place
from qoop.server.service import Service
from qoop.server.users import Users
from qoop.session import Session

Ask = Callable[[str], pa.Table]
"""Asks a text and gives its rows."""

_ARROW = "application/vnd.apache.arrow.stream"


@dataclass(frozen=True, slots=True)
class Asked:
    """The ways to ask. session: without a server. http, flight: by each protocol, over one connection."""

    session: Ask
    http: Ask
    flight: Ask

    @property
    def ways(self) -> Mapping[str, Ask]:
        """By name."""
        return {"session": self.session, "http": self.http, "flight": self.flight}


@contextlib.contextmanager
def served(session: Session) -> Iterator[Asked]:
    """Serve a locked session at the loopback address. Raises ConfigError where ADBC's driver is not installed."""
    service, place, manners = Service(session, Users(), AuditLog(io.StringIO())), Place(), Manners()
    with (
        HttpServer(service, place, manners) as web,
        FlightServer(service, place, manners) as door,
        driven(door.address) as by_flight,
    ):
        client = http.client.HTTPConnection("127.0.0.1", int(web.address.rpartition(":")[2]))

        def by_http(text: str) -> pa.Table:
            client.request("POST", "/sql", text, {"accept": _ARROW})
            answer = client.getresponse()
            with pa.ipc.open_stream(answer) as reader:
                rows = reader.read_all()
            answer.read()  # to the end, so that the connection can be used again
            return rows

        yield Asked(lambda text: session.sql(text).arrow(), by_http, by_flight)
        client.close()


@contextlib.contextmanager
def driven(address: str) -> Iterator[Ask]:
    """ADBC's driver, connected to a server of Flight SQL. Raises ConfigError where it is not installed."""
    try:
        import adbc_driver_flightsql.dbapi as adbc
    except ImportError as error:
        raise ConfigError("pip install adbc-driver-flightsql pyarrow: the client of Flight SQL") from error
    with adbc.connect(address, autocommit=True) as connection, connection.cursor() as cursor:

        def ask(text: str) -> pa.Table:
            cursor.execute(text)
            return cursor.fetch_arrow_table()

        yield ask


class _Bare(flight.FlightServerBase):  # type: ignore[misc]
    """Sends the same rows to everybody."""

    def __init__(self, rows: pa.Table, session: Session | None = None) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self._rows, self._session = rows, session

    def get_flight_info(self, context: Any, descriptor: Any) -> Any:
        """The place of the rows; a driver asks what the server can do, too."""
        known = answer(self._session, *unpacked(descriptor.command)) if self._session is not None else None
        ticket, rows = (b"", self._rows) if known is None else (descriptor.command, known)
        return flight.FlightInfo(rows.schema, descriptor, [flight.FlightEndpoint(ticket, [])], -1, -1)

    def do_action(self, context: Any, action: Any) -> Any:
        """Every statement is prepared."""
        return iter([flight.Result(packed("ActionCreatePreparedStatementResult", (1, b"any")))])

    def do_get(self, context: Any, ticket: Any) -> Any:
        """All rows, as Arrow itself sends them."""
        known = answer(self._session, *unpacked(ticket.ticket)) if self._session is not None else None
        return flight.RecordBatchStream(self._rows if known is None else known)


@contextlib.contextmanager
def bare(rows: pa.Table) -> Iterator[Callable[[], pa.Table]]:
    """Arrow's own server of rows, and what fetches them."""
    with _Bare(rows) as server, flight.connect(f"grpc://127.0.0.1:{server.port}") as client:
        yield lambda: client.do_get(flight.Ticket(b"")).read_all()


@contextlib.contextmanager
def bare_and_driven(rows: pa.Table, session: Session) -> Iterator[Ask]:
    """Arrow's own server of rows, and ADBC's driver, which gets the same whatever it asks. session: says what there is
    besides."""
    with _Bare(rows, session) as server, driven(f"grpc://127.0.0.1:{server.port}") as ask:
        yield ask
