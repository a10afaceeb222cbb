"""The HTTP server: the application of :mod:`qoop.server.http`, the threads of its queries, and where it listens."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from qoop.server.http import application
from qoop.server.listening import Listening
from qoop.server.manners import Manners, Place
from qoop.server.service import Service

_SPARE = 4  # threads beyond those of queries, for what ends them


class HttpServer:
    """The HTTP server in a thread of its own; use it as a context manager.

    manners: `hosts` gain the place's own. Raises ConfigError for a place that must not be listened to, or cannot be.
    """

    def __init__(self, service: Service, place: Place, manners: Manners) -> None:
        place.check(service.users.are_told_apart)
        manners = replace(manners, hosts=(*manners.hosts, place.host))
        self._threads = ThreadPoolExecutor(service.queries + _SPARE, "qoop-http")
        app = application(service, self._threads, manners)
        self._listening = Listening(app, place, manners.patience)
        self.address = self._listening.address

    def __enter__(self) -> HttpServer:
        self._listening.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        """Take no more connections, and end those that there are; close the service first to let them end."""
        self._listening.__exit__()
        self._threads.shutdown()
