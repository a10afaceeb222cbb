"""Arrow Flight SQL, which ADBC, JDBC and ODBC drivers speak: queries, prepared statements, metadata, cancelling.

A query takes two calls, and each of them asks for the token. The first starts the query, and the second fetches its
rows; the ticket between them holds the text, too, so that a late or second fetch runs it again. The handle of a
prepared statement holds its text, sealed for its user; its values are kept, and come as literals in tickets. So
tickets and handles of a server are valid in the next one, and in others with the same key.
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyarrow import flight

from qoop.catalog.errors import (
    Busy,
    Cancelled,
    CatalogError,
    ConfigError,
    Forbidden,
    NoCapacity,
    NotKnown,
    Overloaded,
    QoopError,
    QueryError,
    SessionClosed,
    Timeout,
    TooMuch,
)
from qoop.catalog.value import value
from qoop.interfaces.server import flight_metadata
from qoop.interfaces.server.answers import sendable
from qoop.interfaces.server.flight_messages import Message, message, packed, read_message, unpacked
from qoop.interfaces.server.queries import UserQuery
from qoop.interfaces.server.service import Service, as_ours
from qoop.interfaces.server.timeouts import ClientLimits, Place
from qoop.interfaces.server.users import User, Users
from qoop.query.result import exported_schema
from qoop.query.statements.parameters import Parameters
from qoop.query.statements.statement import parameters_of
from qoop.session.texts import with_parameters

_ID = 16  # characters of the id of a query, before its text in a ticket
_MOST_PREPARED, _MOST_BYTES = 1000, 8 << 20  # statements of a user whose values are kept, and bytes; the oldest go
_NONCE, _SEAL = 16, 16  # bytes of a handle of a prepared statement, before its text
_ENVELOPE = 1024  # bytes that a command may have besides its text
_POLL_SECONDS = 0.05  # seconds between two looks whether clients have gone
_UNREAD = 10.0  # seconds for which a query that has begun waits for a fetch of its rows
_TO_END = 5.0  # seconds that calls may take to end with the server; their queries have ended before
_CANCELLED, _NOT_CANCELLABLE, _CLOSED = 1, 3, 1
"""Results of cancelling a query, and of closing a session, as Flight numbers them."""

_ERRORS: tuple[tuple[tuple[type[QoopError], ...], type[Exception]], ...] = (
    ((NotKnown,), flight.FlightUnauthenticatedError), ((Forbidden,), flight.FlightUnauthorizedError),
    ((QueryError, CatalogError, TooMuch), pa.ArrowInvalid), ((Timeout,), flight.FlightTimedOutError),
    ((Busy, NoCapacity, Overloaded, SessionClosed), flight.FlightUnavailableError),
    ((QoopError,), flight.FlightServerError),
)  # fmt: skip
"""The errors of Flight for ours; the first that fits. Cancelled is not Flight's own: the client of pyarrow takes that
for a Ctrl-C of its user when it comes among the rows."""


@value
class _Values:
    """The values of a prepared statement. size: their bytes, about."""

    parameters: Parameters = ()
    size: int = 0


class FlightServer(flight.FlightServerBase):  # type: ignore[misc]
    """The server, which runs as soon as it is made; use it as a context manager.

    Raises ConfigError for a place that must not be listened to, or cannot be.
    """

    def __init__(self, service: Service, place: Place, client_limits: ClientLimits) -> None:
        place.check(service.users.are_identified)
        scheme, pairs = "grpc", []
        if place.certificate is not None and place.key is not None:
            scheme, pairs = "grpc+tls", [(place.certificate.read_bytes(), place.key.read_bytes())]
        self._service, self._client_limits = service, client_limits
        self._values: dict[str, OrderedDict[bytes, _Values]] = {}
        self._lock = threading.Lock()
        self._watch = _Watch(client_limits.patience, lambda: service.end_unread(_UNREAD))
        try:
            super().__init__(
                f"{scheme}://{place.name}:{place.port}",
                auth_handler=_Handshake(),
                tls_certificates=pairs,
                middleware={"user": _Door(service.users)},
            )
        except (OSError, pa.ArrowException) as error:
            raise ConfigError(f"cannot listen at {place.host}, port {place.port}: {error}") from error
        self.address = f"{scheme}://{place.name}:{self.port}"
        self._end = threading.Thread(target=self.shutdown, name="qoop-flight-end", daemon=True)
        self._watch.start()

    def end_listening(self) -> None:
        """Take no more calls, and leave the port; those under way go on."""
        if self._end.ident is None:
            self._end.start()

    def __exit__(self, *_: object) -> None:
        """End; a client that takes nothing of an answer cannot hold that up."""
        self.end_listening()
        self._end.join(_TO_END)
        self._watch.end()

    def get_flight_info(self, context: Any, descriptor: Any) -> Any:
        """Say how to fetch the answer of a command. The metadata is the id of its query."""
        with _as_flight():
            user, command = _user(context), descriptor.command
            text = self._text(user, command)
            if text is None:
                ticket, schema, id = command, self._metadata(*self._read(command)).schema, ""
            else:
                ticket, schema, id = self._begun(user, text)
            endpoint = flight.FlightEndpoint(ticket, [])
            return flight.FlightInfo(schema, descriptor, [endpoint], -1, -1, app_metadata=id)

    def get_schema(self, context: Any, descriptor: Any) -> Any:
        """Say which columns the answer of a command has."""
        with _as_flight():
            user, command = _user(context), descriptor.command
            text = self._text(user, command)
            known = self._metadata(*self._read(command)).schema if text is None else self._schema(user, text)
            return flight.SchemaResult(known)

    def do_get(self, context: Any, ticket: Any) -> Any:
        """Answer the command of a ticket."""
        user = _user(context)
        with _as_flight():
            command, fields = self._read(ticket.ticket)
            if command != "TicketStatementQuery":
                return flight.RecordBatchStream(self._metadata(command, fields))
            id, text = fields.text(1)[:_ID], fields.text(1)[_ID:]
            self._check_size(text)
            begun = self._service.begun(user, id, text)
            query = begun or self._service.admit(user, text, "flight", id=id)
        rows = self._rows(context, query)
        return flight.GeneratorStream(next(rows), rows)

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Take the values of a prepared statement."""
        user = _user(context)
        with _as_flight():
            command, fields = self._read(descriptor.command)
            if command != "CommandPreparedStatementQuery":
                raise Forbidden("a server answers queries; it takes no updates")
            handle = fields.raw(1)
            values = _values(self._statement(user, handle), reader, self._client_limits.body)
            self._keep(user, handle, _Values(values, len(handle) + len(repr(values))))

    def do_action(self, context: Any, action: Any) -> Iterator[Any]:
        """Prepare a statement or close one, or cancel a query."""
        user = _user(context)
        with _as_flight():
            body = action.body.to_pybytes()
            self._check_command(body)
            match action.type:
                case "CreatePreparedStatement":
                    return iter([flight.Result(self._prepare(user, unpacked(body)[1].text(1)))])
                case "ClosePreparedStatement":
                    with self._lock:
                        self._values.get(user.name, OrderedDict()).pop(unpacked(body)[1].raw(1), None)
                    return iter(())
                case "CancelFlightInfo":
                    return iter([flight.Result(message((1, self._cancel(user, read_message(body).raw(1)))))])
                case "CancelQuery":
                    done = self._cancel(user, unpacked(body)[1].raw(1))
                    return iter([flight.Result(packed("ActionCancelQueryResult", (1, done)))])
                case "GetSessionOptions":
                    return iter([flight.Result(flight_metadata.options())])
                case "SetSessionOptions":
                    return iter([flight.Result(flight_metadata.without_effect(body))])
                case "CloseSession":
                    return iter([flight.Result(message((1, _CLOSED)))])
            raise NotImplementedError(f"there is no action {action.type}")

    def list_actions(self, context: Any) -> list[tuple[str, str]]:
        """The actions there are."""
        return [
            ("CreatePreparedStatement", "keep a statement"), ("ClosePreparedStatement", "forget one"),
            ("CancelFlightInfo", "end a query"), ("CancelQuery", "the same"), ("CloseSession", "nothing is kept"),
            ("GetSessionOptions", "the catalog and the schema"), ("SetSessionOptions", "the same again"),
        ]  # fmt: skip

    def _text(self, user: User, data: bytes) -> str | None:
        """The text that a command asks; None: it asks about the server."""
        command, fields = self._read(data)
        if command == "CommandStatementQuery":
            text = fields.text(1)
        elif command == "CommandPreparedStatementQuery":
            handle = fields.raw(1)
            with self._lock:
                values = self._values.get(user.name, OrderedDict()).get(handle, _Values())
            text = with_parameters(self._statement(user, handle), values.parameters)
        else:
            return None
        self._check_size(text)
        return text

    def _begun(self, user: User, text: str) -> tuple[bytes, pa.Schema | None, str]:
        """Start a query. Returns the ticket for its rows, their columns, if they are known now, and its id."""
        query = self._service.begin(user, text, "flight")
        schema = None if query.job is None else query.job.schema
        return packed("TicketStatementQuery", (1, query.id + text)), schema, query.id

    def _schema(self, user: User, text: str) -> pa.Schema | None:
        """The columns of a text's answer; None for one that is no query, or whose data say which there are."""
        found = self._service.described(user, text, "flight")
        return None if found is None else exported_schema(*found)

    def _metadata(self, command: str, fields: Message) -> pa.Table:
        found = flight_metadata.answer(self._service.session, command, fields)
        if found is None:
            raise NotImplementedError(f"there is no command {command or 'of that kind'}")
        return found

    def _prepare(self, user: User, text: str) -> bytes:
        self._check_size(text)
        names = [name for _, found in parameters_of(text) for name in sorted(found)]
        schema = None if names else self._schema(user, text)
        nonce = secrets.token_bytes(_NONCE)
        handle = nonce + self._seal(user, nonce, text) + text.encode()
        columns = [] if schema is None else [(2, bytes(schema.serialize()))]
        taken = pa.schema([(name, pa.null()) for name in names])
        values = [(3, bytes(taken.serialize()))] if names else []
        return packed("ActionCreatePreparedStatementResult", (1, handle), *columns, *values)

    def _keep(self, user: User, handle: bytes, values: _Values) -> None:
        """Keep values: Flight says nothing of a client that goes, so the oldest of the user go."""
        with self._lock:
            kept = self._values.setdefault(user.name, OrderedDict())
            kept[handle] = values
            size = sum(one.size for one in kept.values())
            while len(kept) > 1 and (len(kept) > _MOST_PREPARED or size > _MOST_BYTES):
                size -= kept.popitem(last=False)[1].size

    def _statement(self, user: User, handle: bytes) -> str:
        """The text of a prepared statement of a user. Raises QueryError."""
        nonce, seal, rest = handle[:_NONCE], handle[_NONCE : _NONCE + _SEAL], handle[_NONCE + _SEAL :]
        text = rest.decode(errors="replace")
        if not hmac.compare_digest(seal, self._seal(user, nonce, text)):
            raise QueryError("you have no such prepared statement")
        return text

    def _seal(self, user: User, nonce: bytes, text: str) -> bytes:
        """The proof in a handle that the statement was prepared by its user."""
        return self._service.users.sign(f"statement {nonce.hex()} {len(user.name)} {user.name}{text}")[:_SEAL]

    def _cancel(self, user: User, info: bytes) -> int:
        """Cancel the query whose FlightInfo this is, if it is of that user."""
        for endpoint in read_message(info).fields.get(3, ()):
            if isinstance(endpoint, bytes):
                ticket = read_message(read_message(endpoint).raw(1)).raw(1)
                if self._service.cancel(user, unpacked(ticket)[1].text(1)[:_ID]):
                    return _CANCELLED
        return _NOT_CANCELLABLE

    def _read(self, command: bytes) -> tuple[str, Message]:
        """The kind of a command, or of a ticket, and its fields. Raises TooMuch, QueryError."""
        self._check_command(command)
        return unpacked(command)

    def _check_command(self, data: bytes) -> None:
        if len(data) > self._client_limits.body + _ENVELOPE:
            raise TooMuch(f"a request has at most {self._client_limits.body:,} bytes")

    def _check_size(self, text: str) -> None:
        if len(text.encode()) > self._client_limits.body:
            raise TooMuch(f"a statement has at most {self._client_limits.body:,} bytes")

    def _rows(self, context: Any, query: UserQuery) -> Iterator[Any]:
        """The schema of an answer, then its batches. Dropping it before its end cancels the query."""
        error: Exception | None = None
        with self._watch.of(context, query) as watched, _as_flight():
            try:
                schema = None
                for part in query.parts():
                    batches = part.batches()
                    if schema is None:
                        schema = batches.schema
                        yield schema
                    for batch in sendable(batches):
                        watched.sent = time.monotonic()
                        yield batch
                        watched.sent = None
                        query.check()
            except Exception as failed:
                error = failed
                raise
            finally:
                query.end(error)


class _Watched:
    """A call that answers a query. sent: when its last batch was handed over, until the next is asked for."""

    def __init__(self, context: Any, query: UserQuery) -> None:
        self.context, self.query = context, query
        self.sent: float | None = None


class _Watch:
    """A thread that cancels queries whose clients have gone, or take too long; Flight reports that only on request.

    besides: called at every look.
    """

    def __init__(self, patience: float, besides: Callable[[], None]) -> None:
        self._patience, self._besides = patience, besides
        self._calls: list[_Watched] = []
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="qoop-flight", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def end(self) -> None:
        """End."""
        self._over.set()
        self._thread.join()

    @contextlib.contextmanager
    def of(self, context: Any, query: UserQuery) -> Iterator[_Watched]:
        """Watch a call within this; its context means nothing after it."""
        call = _Watched(context, query)
        with self._lock:
            self._calls.append(call)
        try:
            yield call
        finally:
            with self._lock:
                self._calls.remove(call)

    def _poll(self) -> None:
        while not self._over.wait(_POLL_SECONDS):
            self._besides()
            with self._lock:
                gone = [call.query for call in self._calls if call.context.is_cancelled()]
                now = time.monotonic()
                slow = [call.query for call in self._calls if call.sent and now - call.sent > self._patience]
            for query in gone:
                query.cancel("the client has gone")
            for query in slow:
                why = f"the client took nothing for {self._patience:g} s"
                query.cancel(why)
                query.end(Cancelled(why))  # the call itself lasts as long as its connection


class _Door(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Asks every call for its user."""

    def __init__(self, users: Users) -> None:
        self._users = users

    def start_call(self, info: Any, headers: Mapping[str, list[str]]) -> _Known:
        [header, *_] = headers.get("authorization") or [""]
        with _as_flight():
            user = self._users.of_header(header)
        return _Known(user, self._users.token_of(user) if header.lower().startswith("basic ") else None)


class _Known(flight.ServerMiddleware):  # type: ignore[misc]
    """The user of a call. token: replaces the password in later calls."""

    def __init__(self, user: User, token: str | None) -> None:
        self.user, self._token = user, token

    def sending_headers(self) -> Mapping[str, str]:
        return {} if self._token is None else {"authorization": f"Bearer {self._token}"}


class _Handshake(flight.ServerAuthHandler):  # type: ignore[misc]
    """Lets a client ask for a token with its password; `_Door` has looked at it by then, as at every call."""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        """Nothing is left to do."""

    def is_valid(self, token: bytes) -> bytes:
        """Nothing is left to do."""
        return b""


def _user(context: Any) -> User:
    known: _Known = context.get_middleware("user")
    return known.user


def _values(text: str, reader: Any, most: int) -> Parameters:
    """The values of one row, by name where the columns are called as the parameters are. Raises QueryError, TooMuch."""
    rows: list[dict[str, object]] = []
    names: list[str] = reader.schema.names
    columns: list[object] = []
    for chunk in reader:
        if chunk.data.nbytes > most:
            raise TooMuch(f"the values of a statement have at most {most:,} bytes")
        rows += chunk.data.to_pylist() if len(set(names)) == len(names) else []
        columns = [column[-1].as_py() for column in chunk.data.columns] if chunk.data.num_rows else columns
        if chunk.data.num_rows > 1 or len(rows) > 1:
            raise QueryError("a statement takes the values of one row at a time")
    required = {name for _, found in parameters_of(text) for name in found}
    if rows and required == {name.lower() for name in names}:
        return rows[0]
    return columns


@contextlib.contextmanager
def _as_flight() -> Iterator[None]:
    """Errors become those of Flight; one that is neither is in the log."""
    try:
        yield
    except (pa.ArrowException, NotImplementedError):
        raise
    except Exception as failed:
        error = as_ours(failed, "a call of Flight")
        kind = next(kind for ours, kind in _ERRORS if isinstance(error, ours))
        raise kind(f"{type(error).__name__}: {error}") from None  # get_schema would send all of the cause
