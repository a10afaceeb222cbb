"""An application that listens: its socket, TLS, connections that dawdle, a thread of its own, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from qoop.interfaces.server.timeouts import ClientLimits, Place, first_to_go, listening_socket

_TICK = 1.0
"""Seconds after which the date that answers bear is another."""
_STRAGGLERS = 0.05
"""Seconds between two looks for connections that a server without a listening socket still has."""
_FRESH = 1.0
"""Seconds for the first request of a new connection to arrive while the server stops listening."""


class Listening:
    """An application that listens in a thread of its own; use it as a context manager.

    daemon: the thread does not keep the process from its end. listen: opens the socket. Raises ConfigError for a place
    that cannot be listened to.
    """

    def __init__(
        self,
        app: Any,
        place: Place,
        client_limits: ClientLimits,
        daemon: bool = False,
        listen: Callable[[Place], socket.socket] = listening_socket,
    ) -> None:
        self._socket = listen(place)
        self._server = _Server(_config(app, place, client_limits))
        self._thread = threading.Thread(target=self._serve, name="qoop-http", daemon=daemon)
        scheme = "https" if place.certificate else "http"
        self.port: int = self._socket.getsockname()[1]
        self.address = f"{scheme}://{place.name}:{self.port}"

    def __enter__(self) -> Listening:
        self._thread.start()
        return self

    def end_listening(self) -> None:
        """Take no more connections, and end those without a request; the others end with the answer to theirs."""
        self._server.end_listening()

    def __exit__(self, *_: object) -> None:
        """Take no more connections, and end those that there are."""
        self._server.end()
        self._thread.join()

    def _serve(self) -> None:
        asyncio.run(self._server.serve([self._socket]))


class _Server(uvicorn.Server):
    """Leaves signals to the command, and wakes up once a second: uvicorn does so ten times, at the cost of queries."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending = asyncio.Event()

    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), _TICK)

    def end_listening(self) -> None:
        """Take no more connections, and end those without a request. May be called from any thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._end_listening)

    def _end_listening(self) -> None:
        for server in self.servers:
            server.close()
        now = asyncio.get_running_loop().time()
        for connection in list(self.server_state.connections):
            assert isinstance(connection, _Dated)
            if connection.cycle is not None or now - connection.since > _FRESH:  # else its first request is on the way
                connection.shutdown()
        if not self.should_exit:  # a connection may have been accepted just before
            asyncio.get_running_loop().call_later(_STRAGGLERS, self._end_listening)

    def end(self) -> None:
        """Take no more connections, and end those that there are. May be called from any thread."""
        self.should_exit = True
        if self._loop is not None:  # else it looks before it waits
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._ending.set)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Dated(H11Protocol):
    """A connection that knows since when it is there."""

    since = 0.0


def _config(app: Any, place: Place, client_limits: ClientLimits) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=_protocol(client_limits),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=10,
        timeout_keep_alive=client_limits.idle,  # type: ignore[arg-type]  # any number of seconds
        ssl_certfile=place.certificate,
        ssl_keyfile=place.key,
    )


_FULL = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nretry-after: 1\r\nconnection: close\r\n\r\n"
_TWO_LENGTHS = b"a request has either Content-Length or Transfer-Encoding, and the latter from HTTP/1.1 on\n"


def _protocol(client_limits: ClientLimits) -> type[H11Protocol]:
    """uvicorn's protocol, which ends a connection whose request does not arrive, and lets the application do so.

    Where there are as many connections as may be, one more takes the place of one whose user is not known; if there is
    none, it is refused at once, as it may never send a request.
    """

    class Impatient(_Dated):
        _late: asyncio.TimerHandle | None = None
        _known = False
        _address = ""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            # asyncio does so for the sockets that it makes itself; a head and a body would wait for each other
            transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.since = self.loop.time()
            self._address = str((transport.get_extra_info("peername") or ("",))[0])
            app = self.app

            async def with_abort(scope: Scope, receive: Receive, send: Send) -> None:
                scope["abort"], scope["known"] = transport.abort, self._is_known
                await (_refuse_two_lengths if _has_two_lengths(scope) else app)(scope, receive, send)

            self.app = with_abort
            if len(self.connections) > client_limits.connections and not self._may_stay():
                transport.write(_FULL)
                transport.close()
                return
            self._wait_for_request()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._wait_for_request()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._late is not None:
                self._late.cancel()
            super().connection_lost(exc)

        def _is_known(self) -> None:
            self._known = True

        def _is_answered(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

        def _may_stay(self) -> bool:
            """End a connection whose user is not known in favour of this one, if there are too many. False if there is
            none. Of many that come at once each must find another: those that were ended are still listed."""
            listed = [one for one in self.connections if isinstance(one, Impatient) and one is not self]
            others = [one for one in listed if not one.transport.is_closing()]
            if len(others) < client_limits.connections:
                return True
            strangers = [one for one in others if not one._known and not one._is_answered()]
            if strangers:
                strangers.sort(key=lambda one: one.since)
                first_to_go([(one, one._address) for one in strangers]).transport.abort()
            return bool(strangers)

        def _wait_for_request(self) -> None:
            """Give a request that has begun that long to arrive, from its first byte on."""
            answered = self._is_answered()
            if answered and self._late is not None:
                self._late.cancel()
                self._late = None
            elif not answered and self._late is None:
                self._late = self.loop.call_later(client_limits.patience, self.transport.abort)

    return Impatient


def _has_two_lengths(scope: Scope) -> bool:
    """True for a request whose end others may see elsewhere: what follows it would be another request to them."""
    names = [name for name, _ in scope["headers"]]
    return b"transfer-encoding" in names and (b"content-length" in names or scope["http_version"] == "1.0")


async def _refuse_two_lengths(scope: Scope, receive: Receive, send: Send) -> None:
    headers = [(b"content-type", b"text/plain"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 400, "headers": headers})
    await send({"type": "http.response.body", "body": _TWO_LENGTHS})
