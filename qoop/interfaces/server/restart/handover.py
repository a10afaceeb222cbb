"""The listening sockets of a server, which the next one on the same folder of answers takes over while this one runs.

The next server connects to a socket of the folder, and gets the listening sockets themselves. So both accept from one
queue of connections, and the earlier one may stop at any moment: no client is refused. It works within one machine and
its network: containers that share a folder have networks of their own, and hand over nothing.

gRPC takes no sockets. The next server waits until the port of Flight SQL is free (:class:`FlightWhenFree`).
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from qoop.catalog.errors import ConfigError

if TYPE_CHECKING:
    from qoop.interfaces.server.flight import FlightServer
    from qoop.interfaces.server.timeouts import Place

_log = logging.getLogger(__name__)

_NAME = "handover.sock"
_MOST = 8  # sockets that are handed over at once
_BYTES = 4096  # of the list of their addresses
_PATIENCE = 5.0  # seconds that another server may take to hand them over
_LONGEST = 70  # characters of a folder's path within the address of a socket, which has 108, or 104
_TRY_SECONDS = 0.05  # seconds between two tries to listen at the port of Flight SQL


class Listeners:
    """Opens the listening sockets of a server, or takes over those of another one.

    folder: of answers; None: there is no other server. places: where this server is to listen. opened: opens a socket
    there. Use it as a context manager.
    """

    def __init__(self, folder: Path | None, places: Sequence[Place], opened: Callable[[Place], socket.socket]) -> None:
        self._folder, self._opened = folder, opened
        self._listening: dict[str, socket.socket] = {}
        self._taken = {} if folder is None else _take(folder, [_key(one.host, one.port) for one in places])
        self._giving: socket.socket | None = None
        self._own: int | None = None  # the number of the file of that socket
        self.have_predecessor = bool(self._taken)
        """True if another server has handed over sockets."""
        self.have_successor = False
        """True once another server has taken over sockets."""

    def __enter__(self) -> Listeners:
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._taken.values():
            one.close()
        if self._giving is not None:
            with contextlib.suppress(OSError):
                self._giving.shutdown(socket.SHUT_RDWR)
            self._giving.close()
            path = self._path()
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_ino == self._own:  # else it is another server's
                    path.unlink()

    def _path(self) -> Path:
        assert self._folder is not None
        return self._folder / _NAME

    def listen(self, place: Place) -> socket.socket:
        """A socket that listens there. Raises ConfigError."""
        found = self._taken.pop(_key(place.host, place.port), None) or self._opened(place)
        self._listening[_key(place.host, found.getsockname()[1])] = found
        return found

    def offer(self) -> None:
        """Hand the sockets over to the next server that asks for them, from now on."""
        if self._folder is None:
            return
        try:
            self._giving = _bound(self._folder)
        except OSError as error:
            _log.warning("no other server can take over the ports of this one: %s", error)
            return
        self._own = self._path().stat().st_ino
        threading.Thread(target=self._give, name="qoop-handover", daemon=True).start()

    def _give(self) -> None:
        assert self._giving is not None
        while True:
            try:
                connection, _ = self._giving.accept()
            except OSError:  # it was closed
                return
            with connection, contextlib.suppress(OSError, ValueError):  # the other one has gone, or is of no server
                connection.settimeout(_PATIENCE)
                self._give_to(connection)

    def _give_to(self, connection: socket.socket) -> None:
        network, *required = json.loads(connection.recv(_BYTES))
        keys = [key for key in required if key in self._listening and network == _network()]
        files = [self._listening[key].fileno() for key in keys]
        self.have_successor = self.have_successor or bool(keys)
        socket.send_fds(connection, [json.dumps(keys).encode()], files)


class FlightWhenFree:
    """A server of Flight SQL that begins once another one has left its port. Use it as a context manager.

    make: begins it, and raises ConfigError while the port is taken. begun: is called with it then.
    """

    def __init__(self, make: Callable[[], FlightServer], begun: Callable[[FlightServer], None]) -> None:
        self._make, self._begun = make, begun
        self._over = threading.Event()
        self._server: FlightServer | None = None
        self._thread = threading.Thread(target=self._wait, name="qoop-flight-begin", daemon=True)

    def __enter__(self) -> FlightWhenFree:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._server is not None:
            self._server.__exit__()

    def end_listening(self) -> None:
        """Take no more calls."""
        self._over.set()
        if self._server is not None:
            self._server.end_listening()

    def _wait(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(ConfigError):  # the port is still taken
                self._server = self._make()
                self._begun(self._server)
                return
            self._over.wait(_TRY_SECONDS)


def _key(host: str, port: int) -> str:
    return f"{host}:{port}"


def _network() -> str:
    """The network of this process: an address means something within one only."""
    return os.readlink("/proc/self/ns/net") if sys.platform == "linux" else ""


def _take(folder: Path, keys: Sequence[str]) -> dict[str, socket.socket]:
    """The listening sockets of the server that uses the folder now, by address, of those that are required."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_PATIENCE)
        try:
            with _short(folder) as short:
                connection.connect(f"{short}/{_NAME}")
            connection.sendall(json.dumps([_network(), *keys]).encode())
            data, files, *_ = socket.recv_fds(connection, _BYTES, _MOST)
        except OSError:  # no server, one that was killed, or one on another machine
            return {}
    for file in files:
        os.set_inheritable(file, False)
    return {key: socket.socket(fileno=file) for key, file in zip(json.loads(data or "[]"), files, strict=True)}


def _bound(folder: Path) -> socket.socket:
    """A socket that listens in the folder, in place of that of an earlier server. Raises OSError."""
    found, draft = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), f"{_NAME}.{os.getpid()}"
    try:
        with _short(folder) as short:
            found.bind(f"{short}/{draft}")
        found.listen()
        (folder / draft).replace(folder / _NAME)
    except OSError:
        found.close()
        raise
    return found


@contextlib.contextmanager
def _short(folder: Path) -> Iterator[str]:
    """A path of the folder that is short enough for the address of a socket."""
    if len(str(folder.absolute())) <= _LONGEST or sys.platform != "linux":
        yield str(folder.absolute())
        return
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{opened}"
    finally:
        os.close(opened)
