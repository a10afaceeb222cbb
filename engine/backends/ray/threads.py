"""The threads of a backend, of which an error ends them all."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import ParamSpec

P = ParamSpec("P")


class Threads:
    """Threads that run until `closed` is set. on_failure: called once one has failed, and `failure` is set."""

    def __init__(self, on_failure: Callable[[], object]) -> None:
        self.closed = threading.Event()
        self.failure: Exception | None = None
        self._on_failure = on_failure
        self._threads: list[threading.Thread] = []

    def run(self, name: str, work: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Do work in a thread; what it raises before the end is the failure."""

        def watched() -> None:
            try:
                work(*args, **kwargs)
            except Exception as error:
                if not self.closed.is_set():
                    self.failure = error
                    self._on_failure()

        thread = threading.Thread(target=watched, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def join(self) -> None:
        """Wait for all threads, which end once `closed` is set."""
        for thread in self._threads:
            thread.join()
