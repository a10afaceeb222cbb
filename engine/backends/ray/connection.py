"""The connection between a session and its process on a node: orders go there, events come back.

A call of Ray's goes through five threads of two processes. Next to tasks that keep all processors busy it takes 1 ms on
its way, and an event that comes back 1.3 ms; together they take 2 ms of processor time. A message over a connection of
our own takes 0.1 ms. So Ray begins the process and hands over its settings, and the session connects then.

Messages are JSON (`messages`). What cannot be written so is named by a number, under which Ray carries it; it counts as
said when the number is. A message bears a mark that needs the key, which Ray hands over and
which is never sent here: keyed BLAKE2b over the message, its number and what both sides have drawn for the connection.
No other process can send a message, nor repeat one. There is a connection for each direction, of which each
end is used by one thread, as TLS wants it. With TLS both sides show certificates (`tls`).
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import logging
import secrets
import socket
import struct
import threading
from collections.abc import Callable
from itertools import count
from typing import Any

from qoop.catalog.errors import PlanError
from qoop.engine.backends.ray import messages
from qoop.engine.backends.ray.tls import client_context, server_context

_LENGTH = struct.Struct("!I")
_DRAWN, _MARK = 16, 16  # bytes
_HEAD = _LENGTH.size + _MARK
_PIECE = 256 << 10  # bytes that are read at a time
_REACH = 10.0  # seconds that a socket, and the first word on it, may take
_STUCK = 30.0  # seconds for which a message may not be taken, after which the other side counts as gone
_PAUSE = 0.5  # seconds between checks whether one still waits for a session
_ORDERS, _EVENTS = b"orders", b"events"
_logger = logging.getLogger(__name__)


def new_key() -> bytes:
    """A random key."""
    return secrets.token_bytes(32)


class Connection:
    """Messages in one direction of a socket, for one thread at each end."""

    def __init__(self, sock: socket.socket, key: bytes) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(_REACH)
        self._socket, self._key = sock, key
        self._in_use = threading.Lock()
        self._numbers = count()
        self._came = bytearray()
        mine = secrets.token_bytes(_DRAWN)
        sock.sendall(mine)
        theirs = self._exactly(_DRAWN)
        self._drawn = hashlib.blake2b(b"".join(sorted((mine, theirs))), digest_size=_DRAWN).digest()

    def send(self, message: bytes) -> None:
        """Raises OSError if the other side is gone, or does not take it."""
        with self._in_use:
            self._socket.settimeout(_STUCK)
            self._socket.sendall(_LENGTH.pack(len(message)) + self._mark(message) + message)

    def receive(self, timeout: float | None) -> bytes | None:
        """The next message; None if it has not come within the timeout. Raises OSError if the other side is gone, or is
        not the expected peer."""
        with self._in_use, contextlib.suppress(TimeoutError):
            size = _LENGTH.unpack(self._at_least(_LENGTH.size, timeout)[: _LENGTH.size])[0]
            whole = bytes(self._at_least(_HEAD + size, timeout)[: _HEAD + size])
            del self._came[: _HEAD + size]
            mark, message = whole[_LENGTH.size : _HEAD], whole[_HEAD:]
            if not hmac.compare_digest(mark, self._mark(message)):
                raise ConnectionAbortedError("a message does not bear the mark of its expected sender")
            return message
        return None

    def close(self) -> None:
        """Have both sides see that it is over, whatever they wait for."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with self._in_use:  # the waiting thread has been woken; another socket may get its number from now on
            self._socket.close()

    def _mark(self, message: bytes) -> bytes:
        number = next(self._numbers).to_bytes(16, "big")
        return hashlib.blake2b(message, digest_size=_MARK, key=self._key, salt=self._drawn, person=number).digest()

    def _exactly(self, size: int) -> bytes:
        found = bytes(self._at_least(size, _REACH)[:size])
        del self._came[:size]
        return found

    def _at_least(self, size: int, timeout: float | None) -> bytearray:
        """All that has come, once there is that much. Raises TimeoutError, after which one can go on."""
        while len(self._came) < size:
            self._socket.settimeout(timeout)
            found = self._socket.recv(_PIECE)
            if not found:
                raise ConnectionResetError("the other side has ended")
            self._came += found
        return self._came


class SessionEnd:
    """The end of a session, which has connected. `send` and `receive` may be called by a thread each, `close` by any.

    address: "host:port" of the other end. bring, fetch: have Ray carry orders there, and events here, by their numbers.
    Raises OSError if it cannot be reached, ConfigError as `certificates` does.
    """

    def __init__(
        self,
        address: str,
        key: bytes,
        tls: bool,
        bring: Callable[[int, Any], None],
        fetch: Callable[[int], Any],
    ) -> None:
        self._bring, self._fetch = bring, fetch
        self._numbers = count()
        self._connections: list[Connection] = []
        try:
            for direction in (_ORDERS, _EVENTS):
                connection = Connection(_connected(address, tls), key)
                self._connections.append(connection)
                connection.send(direction)
        except BaseException:
            self.close()
            raise
        self._orders, self._events = self._connections

    def send(self, orders: Any) -> None:
        """Raises OSError if the node is gone; `receive` does from then on."""
        message = messages.written(orders)
        if message is None:
            number = next(self._numbers)
            self._bring(number, orders)
            message = json.dumps(number).encode()
        try:
            self._orders.send(message)
        except OSError:
            self.close()
            raise

    def receive(self, timeout: float) -> Any:
        """The next events of the node; None: none within the timeout. Raises OSError if it is gone."""
        message = self._events.receive(timeout)
        if message is None:
            return None
        try:
            found = json.loads(message)
            return self._fetch(found) if isinstance(found, int) else messages.read(found)
        except (PlanError, TypeError, ValueError, KeyError) as error:
            raise ConnectionAbortedError(f"a node sent an unknown message: {error}") from error

    def close(self) -> None:
        """Hang up."""
        for connection in self._connections:
            connection.close()


class NodeEnd:
    """The end of a node's process, which waits for one session and no other.

    obey: takes what the session sends. happened: returns the events to report, or nothing now and then. Each is called
    by its own thread; when the session has gone, or one of them fails, it is over.
    """

    def __init__(
        self, host: str, key: bytes, tls: bool, obey: Callable[[Any], None], happened: Callable[[], Any]
    ) -> None:
        self._key, self._obey, self._happened = key, obey, happened
        self._context = server_context() if tls else None
        self._listener = socket.create_server((host, 0))
        self._listener.settimeout(_PAUSE)
        self.address = f"{host}:{self._listener.getsockname()[1]}"
        self._connections: dict[bytes, Connection] = {}
        self._brought: dict[int, Any] = {}
        self._kept: dict[int, Any] = {}
        self._numbers = count()
        self._came = threading.Condition()  # of what Ray has brought
        self._over = threading.Event()
        self._there = threading.Event()  # both connections are, or it is over
        self._letting_in = threading.Lock()
        self._threads = [
            threading.Thread(target=self._serve, args=(work,), name=f"qoop-connection-{name}", daemon=True)
            for work, name in ((self._await, "accept"), (self._take_orders, "orders"), (self._tell_events, "events"))
        ]
        for thread in self._threads:
            thread.start()

    def bring(self, number: int, what: Any) -> None:
        """Have it obeyed when the session comes to that number."""
        with self._came:
            self._brought[number] = what
            self._came.notify()

    def fetch(self, number: int) -> Any:
        """The events of that number."""
        return self._kept.pop(number)

    def close(self) -> None:
        """Hang up, and wait until neither of the functions is called any more: `happened` should return soon."""
        self.hang_up()
        for thread in self._threads:
            thread.join()

    def hang_up(self) -> None:
        """Have it end, without waiting."""
        with self._letting_in:
            self._over.set()
            self._there.set()
            connections = list(self._connections.values())
        for connection in connections:
            connection.close()

    def _serve(self, work: Callable[[], None]) -> None:
        try:
            work()
        except OSError as error:
            if not self._over.is_set():
                _logger.info("the connection to a session has ended: %s", error)
            self.hang_up()
        except Exception:
            _logger.exception("the connection to a session has failed")
            self.hang_up()

    def _await(self) -> None:
        """Let the session in. Other clients that try keep it from nothing."""
        with self._listener:
            while not self._there.is_set():
                with contextlib.suppress(TimeoutError):
                    sock, _ = self._listener.accept()
                    threading.Thread(target=self._let_in, args=(sock,), name="qoop-connection-in", daemon=True).start()

    def _take_orders(self) -> None:
        self._there.wait()
        while not self._over.is_set():
            message = self._connections[_ORDERS].receive(None)
            if message is not None:
                found = json.loads(message)
                self._obey(self._named(found) if isinstance(found, int) else messages.read(found))

    def _named(self, number: int) -> Any:
        """The orders that Ray brings under a number. Raises ConnectionAbortedError if it does not come."""
        with self._came:
            if not self._came.wait_for(lambda: number in self._brought, _STUCK):
                raise ConnectionAbortedError("orders have not come by Ray")
            return self._brought.pop(number)

    def _tell_events(self) -> None:
        self._there.wait()
        while not self._over.is_set():
            found = self._happened()
            if found:
                message = messages.written(found)
                if message is None:
                    self._kept[number := next(self._numbers)] = found
                    message = json.dumps(number).encode()
                self._connections[_EVENTS].send(message)

    def _let_in(self, sock: socket.socket) -> None:
        """Make a connection of a socket whose opener has the key."""
        try:
            sock.settimeout(_REACH)
            if self._context is not None:
                sock = self._context.wrap_socket(sock, server_side=True)
            connection = Connection(sock, self._key)
            direction = connection.receive(_REACH)
            with self._letting_in:
                if direction not in (_ORDERS, _EVENTS) or direction in self._connections or self._over.is_set():
                    raise ConnectionAbortedError("there is no such connection, or it is taken")
                self._connections[direction] = connection
                if len(self._connections) == 2:
                    self._there.set()
        except OSError as error:
            sock.close()
            _logger.warning("a client that is no session of ours was refused: %s", error)


def _connected(address: str, tls: bool) -> socket.socket:
    host, _, port = address.rpartition(":")
    sock = socket.create_connection((host, int(port)), timeout=_REACH)
    if not tls:
        return sock
    try:
        return client_context().wrap_socket(sock, server_hostname=host)
    except BaseException:
        sock.close()
        raise
