"""The server: its socket, a thread for each connection, and the end of all of them."""

from __future__ import annotations

import contextlib
import itertools
import logging
import re
import secrets
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from qoop.catalog.errors import Busy, ConfigError, QoopError, SessionClosed
from qoop.interfaces.server.postgres.catalog.questions import PgCatalog
from qoop.interfaces.server.postgres.catalog.settings import REPORTED, ClientSettings, time_zone
from qoop.interfaces.server.postgres.catalog.viewer import Activity, Viewer
from qoop.interfaces.server.postgres.client import Client
from qoop.interfaces.server.postgres.door import Cancel, Door, let_in
from qoop.interfaces.server.postgres.messages import Gone, Wire
from qoop.interfaces.server.postgres.sqlstates import failed
from qoop.interfaces.server.service import Service
from qoop.interfaces.server.timeouts import ClientLimits, Place, first_to_go, listening_socket

_CONNECTIONS = 200  # of clients that were let in, at a time
_STRANGERS = 300  # concurrent connections without authentication; one more ends the oldest
_SHOWN = 1024  # characters of a statement that pg_stat_activity shows
_IDLE = 3600.0  # seconds until a client that says nothing is sent away
_POLL_SECONDS = 0.05  # seconds between two looks whether clients have gone
_TO_END = 5.0  # seconds that connections may take to end with the server; their queries have ended before
_GONE = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR | select.POLLNVAL

_log = logging.getLogger(__name__)


class PostgresServer:
    """The server in threads of its own; use it as a context manager.

    listen: opens the socket. Raises ConfigError for a place that must not be listened to, or cannot be.
    """

    def __init__(
        self,
        service: Service,
        place: Place,
        client_limits: ClientLimits,
        listen: Callable[[Place], socket.socket] = listening_socket,
    ) -> None:
        place.check(service.users.are_identified)
        self._service, self._client_limits = service, client_limits
        self._pg_catalog = PgCatalog(service.session)
        self._zone = time_zone()
        self._door = Door(service.users, _tls(place), client_limits.patience, _certificate(place))
        self._socket = listen(place)
        self._socket.setblocking(False)  # another server may accept from it, too
        self._wake = socket.socketpair()
        self.port: int = self._socket.getsockname()[1]
        self.address = f"postgresql://{place.name}:{self.port}"
        self._connections: dict[int, _Connection] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._over, self._deaf = threading.Event(), threading.Event()
        self._threads = [threading.Thread(target=run, name="qoop-postgres") for run in (self._accept, self._watch)]

    def __enter__(self) -> PostgresServer:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take no more connections, and end those that there are."""
        self._stop_accepting()
        self._over.set()
        with self._lock:
            left = list(self._connections.values())
        for one in left:
            one.end()
        end = time.monotonic() + _TO_END
        for thread in (*self._threads, *(one.thread for one in left)):
            thread.join(max(0.0, end - time.monotonic()))
        self._pg_catalog.close()

    def end_listening(self) -> None:
        """Take no more connections, and end those whose clients wait for nothing."""
        self._stop_accepting()
        with self._lock:
            idle = [one for one in self._connections.values() if one.client is not None and not one.client.is_running]
        for one in idle:
            one.end()

    def _stop_accepting(self) -> None:
        self._deaf.set()
        with contextlib.suppress(OSError):  # it is closed already
            self._wake[1].send(b".")
        accepting = self._threads[0]
        if accepting.ident is not None:
            accepting.join()
        for opened in (self._socket, *self._wake):
            opened.close()

    def _accept(self) -> None:
        poll = select.poll()
        for source in (self._socket, self._wake[0]):
            poll.register(source, select.POLLIN)
        while not self._deaf.is_set():
            poll.poll()
            try:
                connection, address = self._socket.accept()
            except BlockingIOError:  # another server has taken it, or this one is to stop
                continue
            except OSError:
                _log.exception("a connection could not be taken")
                self._deaf.wait(_POLL_SECONDS)  # such as too many open files
                continue
            connection.setblocking(True)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            one = _Connection(next(self._numbers), self._door.plain(connection), address[0])
            with self._lock:
                self._one_stranger_less()
                self._connections[one.key[0]] = one
            one.thread = threading.Thread(target=self._serve, args=(one,), name="qoop-postgres", daemon=True)
            one.thread.start()

    def _one_stranger_less(self) -> None:
        """End the oldest connection without authentication where there are too many."""
        strangers = [(one, one.address) for one in self._connections.values() if one.is_stranger]
        if len(strangers) >= _STRANGERS:
            first_to_go(strangers).shut()

    def _serve(self, one: _Connection) -> None:
        try:
            self._converse(one)
        except Gone:
            pass
        except QoopError as error:
            self._send_away(one, error)
        except Exception as error:
            _log.exception("a connection of PostgreSQL's protocol failed")
            self._send_away(one, QoopError(f"the server has failed: {type(error).__name__}"))
        finally:
            with self._lock:
                self._connections.pop(one.key[0], None)
            one.close()

    def _converse(self, one: _Connection) -> None:
        entered = self._door.enter(one.wire, one.replace)
        if isinstance(entered, Cancel):
            self._cancel(entered)
            return
        user, startup = entered.user, entered.startup
        settings = self._settings(user.name, startup)
        viewer = Viewer(user.name, startup.get("database", user.name), one.key[0], settings, self)
        reported = {name: settings[key] for key, name in REPORTED.items()}
        wire = Wire(one.wire.connection, self._client_limits.body, self._client_limits.patience, _IDLE)
        client = Client(wire, self._service, user, self._pg_catalog, viewer)
        with self._lock:
            if sum(other.client is not None for other in self._connections.values()) >= _CONNECTIONS:
                raise Busy(f"{_CONNECTIONS} clients are connected, which is as many as may")
            one.client, one.user = client, user.name
        let_in(wire, one.key, reported)
        one.replace(wire)
        client.run()

    def activity(self, user: str) -> list[Activity]:
        """The connections of clients that were let in, with the texts of a user's own."""
        with self._lock:
            found = [(one, one.client) for one in self._connections.values() if one.client is not None]
        return [one.activity(client, one.user == user) for one, client in found]

    def end(self, user: str, process: int, whole: bool) -> bool:
        """Cancel what a connection of a user runs, or end it as a whole. False: the user has none of that number."""
        with self._lock:
            one = self._connections.get(process)
        if one is None or one.client is None or one.user != user:
            return False
        one.client.cancel("another connection of the user has cancelled the query")
        if whole:
            one.shut()
        return True

    def _settings(self, user: str, startup: Mapping[str, str]) -> ClientSettings:
        """The settings of a client, with those of its first message. Those that cannot be set are reported as they
        are."""
        settings = ClientSettings({"session_authorization": user, "timezone": self._zone})
        options = re.findall(r"-c\s*(\w[\w.]*)=((?:\\.|\S)*)|--([\w.-]+)=((?:\\.|\S)*)", startup.get("options", ""))
        pairs = {name or other.replace("-", "_"): re.sub(r"\\(.)", r"\1", text or more)
                 for name, text, other, more in options}  # fmt: skip
        pairs |= {name: text for name, text in startup.items() if name not in ("user", "database", "options")}
        for name, text in pairs.items():
            with contextlib.suppress(QoopError):
                settings.set(name, text)
        return ClientSettings({**settings.all()})

    def _cancel(self, request: Cancel) -> None:
        with self._lock:
            one = self._connections.get(request.key[0])
        if one is not None and one.client is not None and secrets.compare_digest(*map(_bytes, (one.key, request.key))):
            one.client.cancel("the query was cancelled")

    def _send_away(self, one: _Connection, error: QoopError) -> None:
        with contextlib.suppress(Gone):
            one.wire.put(failed(error, fatal=True))
            one.wire.flush()

    def _watch(self) -> None:
        """Cancel queries of clients that have gone, and end connections that do not authenticate in time."""
        while not self._over.wait(_POLL_SECONDS):
            with self._lock:
                connections = list(self._connections.values())
            late = time.monotonic() - self._client_limits.patience
            for one in connections:
                if one.client is None:
                    if one.since < late:
                        one.shut()
                elif one.client.is_running and one.has_gone:
                    one.client.cancel("the client has gone")


class _Connection:
    """A connection, from its first byte on. key: what cancels its query, told to its client only."""

    def __init__(self, number: int, wire: Wire, address: str) -> None:
        self.key = number, secrets.randbits(31)
        self.wire, self.address = wire, address
        self.since = time.monotonic()
        self.client: Client | None = None
        self.user = ""
        self._begun = datetime.now(UTC)
        self._is_shut = False
        self.thread: threading.Thread = threading.current_thread()

    def replace(self, wire: Wire) -> None:
        """Its messages come by another wire from now on."""
        self.wire = wire

    def activity(self, client: Client, own: bool) -> Activity:
        """Its row of pg_stat_activity. own: its texts, too."""
        application = client.settings["application_name"] if own else ""
        query, started = (client.text[:_SHOWN], client.text_since) if own else ("<insufficient privilege>", None)
        return Activity(self.key[0], self.user, application, self.address, self._begun, started, client.state, query)

    @property
    def is_stranger(self) -> bool:
        """True until its client has authenticated."""
        return self.client is None and not self._is_shut

    @property
    def has_gone(self) -> bool:
        """True if the client has closed it."""
        poll = select.poll()
        try:
            poll.register(self.wire.connection, _GONE)
            return any(event & _GONE for _, event in poll.poll(0))
        except (OSError, ValueError):  # it was closed just now
            return True

    def end(self) -> None:
        """Stop what runs, and say why to a client that waits for nothing."""
        client = self.client
        if client is not None and client.is_running:
            client.cancel("the server ends")
        elif client is not None:
            with contextlib.suppress(Gone):
                self.wire.put(failed(SessionClosed("the server ends"), fatal=True))
                self.wire.flush()
        self.shut()

    def shut(self) -> None:
        """Let its thread find it closed."""
        self._is_shut = True
        with contextlib.suppress(OSError):
            self.wire.connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close it."""
        with contextlib.suppress(OSError):
            self.wire.connection.close()


def _bytes(key: tuple[int, int]) -> bytes:
    return b"".join(number.to_bytes(8, "big", signed=True) for number in key)


def _tls(place: Place) -> ssl.SSLContext | None:
    if place.certificate is None or place.key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(place.certificate, place.key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"{place.certificate} and {place.key} are no certificate and its key: {error}") from error
    return context


def _certificate(place: Place) -> bytes | None:
    """The certificate in DER: the first of its file, as those of its issuers follow it."""
    if place.certificate is None:
        return None
    pem = place.certificate.read_text(encoding="ascii", errors="replace")
    first = pem[pem.index(ssl.PEM_HEADER) : pem.index(ssl.PEM_FOOTER) + len(ssl.PEM_FOOTER)]
    return ssl.PEM_cert_to_DER_cert(first)
