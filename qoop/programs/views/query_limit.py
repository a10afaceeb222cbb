"""Interrupts queries of views that take long after all: one thread for all of them, as to start one for each query
takes 0.4 ms."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


class QueryLimit:
    """Interrupts queries that take longer than some seconds, at most twice as long. Thread-safe."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._running: dict[int, tuple[duckdb.DuckDBPyConnection, float]] = {}  # connection and begin, by thread
        self._thread: threading.Thread | None = None
        self._last = 0.0

    @contextmanager
    def over(self, connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
        """Within the block this thread runs a query on this connection."""
        key = threading.get_ident()
        with self._lock:
            self._last = time.monotonic()
            self._running[key] = connection, self._last
            if self._thread is None or not self._thread.is_alive():  # none, too, in a process that was forked
                self._thread = threading.Thread(target=self._run, name="qoop-query-limit", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                del self._running[key]

    def _run(self) -> None:
        """Look at the queries now and then, until there has been none for as long as one may take."""
        while True:
            time.sleep(self._seconds)
            with self._lock:
                now = time.monotonic()
                for connection, begun in self._running.values():
                    if now >= begun + self._seconds:
                        connection.interrupt()
                if not self._running and now >= self._last + self._seconds:
                    self._thread = None
                    return
