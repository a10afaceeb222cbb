"""The HTTP server: the application of :mod:`qoop.interfaces.server.http`, the threads of its queries, and where it
listens."""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from qoop.engine.storage.scratch import Scratch
from qoop.interfaces.server.http import application
from qoop.interfaces.server.kept import KeptQueries
from qoop.interfaces.server.listening import Listening
from qoop.interfaces.server.service import Service
from qoop.interfaces.server.timeouts import ClientLimits, Place, listening_socket

_SPARE = 4  # threads beyond those of queries, for what ends them


class HttpServer:
    """The HTTP server in a thread of its own; use it as a context manager.

    client_limits: `hosts` gain the place's own. answers: the folder of queries that go on without their client, which
    outlives the server; by default a temporary one, which the next server removes after a kill. listen: opens the
    socket. Raises ConfigError for a place that must not be listened to, or cannot be.
    """

    def __init__(
        self,
        service: Service,
        place: Place,
        client_limits: ClientLimits,
        answers: Path | None = None,
        listen: Callable[[Place], socket.socket] = listening_socket,
    ) -> None:
        place.check(service.users.are_identified)
        client_limits = replace(client_limits, hosts=(*client_limits.hosts, place.host))
        self._threads = ThreadPoolExecutor(service.queries + _SPARE, "qoop-http")
        self._scratch = Scratch(kind="answers") if answers is None else None
        folder = answers if self._scratch is None else self._scratch.path
        assert folder is not None
        self.kept = KeptQueries(service, folder, lasting=answers is not None)
        app = application(service, self._threads, client_limits, self.kept)
        self._listening = Listening(app, place, client_limits, listen=listen)
        self.address = self._listening.address

    def __enter__(self) -> HttpServer:
        self._listening.__enter__()
        return self

    def end_listening(self) -> None:
        """Take no more connections, and end those without a request; the others end with the answer to theirs."""
        self._listening.end_listening()

    def __exit__(self, *_: object) -> None:
        """Take no more connections, and end those that there are; close the service first to let them end."""
        self._listening.__exit__()
        self._threads.shutdown()
        self.kept.close()
        if self._scratch is not None:
            self._scratch.close()
