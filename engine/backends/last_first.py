"""A condition that wakes the thread which came last.

`threading.Condition` wakes the one that has waited longest, so that two workers take turns at queries that come one
after the other. Each has its DuckDB, with footers, pages of files and views that it has seen: taking turns, a
session has all of them read and kept twice, and each query may meet the one that has not.
"""

from __future__ import annotations

import threading
from types import TracebackType


class LastFirst:
    """A lock, as a context manager, and the threads that wait under it, as :class:`threading.Condition` has them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[threading.Lock] = []

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def wait(self) -> None:
        """Give the lock back until this thread is woken, and take it again."""
        turn = threading.Lock()
        turn.acquire()
        self._waiting.append(turn)
        self._lock.release()
        try:
            turn.acquire()
        finally:
            self._lock.acquire()

    def notify(self) -> None:
        """Wake the thread that came last, if one waits. Under the lock."""
        if self._waiting:
            self._waiting.pop().release()

    def notify_all(self) -> None:
        """Wake all. Under the lock."""
        while self._waiting:
            self.notify()
