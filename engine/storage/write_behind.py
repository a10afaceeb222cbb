"""Durable outputs are written by threads of their own, behind the running tasks, in the order in which they came.

What a killed process may lose is bounded: `reserve` waits while `WAITING_BYTES` have not been written, or an output has
waited for `WAITING_SECONDS`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from typing import Generic, Protocol, TypeVar

from qoop.catalog.errors import QoopError
from qoop.engine.task import JobId

WAITING_BYTES = 256 << 20
WAITING_SECONDS = 1.0
_PAUSE = 0.05  # seconds between looks at whether the waiting thread was stopped


class Writable(Protocol):
    """An output on behalf of some jobs. Hashed by identity."""

    jobs: set[JobId]

    @property
    def bytes(self) -> int: ...


Output = TypeVar("Output", bound=Writable)


class WriteBehind(Generic[Output]):
    """The outputs that are to be written, and the threads that write them.

    lock: that of the owner of the outputs. threads: how many there may be.
    write: writes one output, in one of the threads, and calls `done`; it is also given when the output was queued.
    """

    def __init__(self, lock: threading.Condition, threads: int, write: Callable[[Output, float], object]) -> None:
        self._lock = lock
        self._threads = threads
        self._write = write
        self._reserved: dict[Output, int] = {}  # for what waits, is being written, or is about to be queued
        self._waiting = 0  # bytes, of all of these
        self._queue: deque[Output] = deque()
        self._unwritten: dict[Output, float] = {}  # what waits and what is being written, the oldest first; since when
        self._writers: list[threading.Thread] = []
        self._closing = False
        self._failures: list[tuple[frozenset[JobId], QoopError]] = []  # for whom to tell

    @property
    def waiting(self) -> int:
        """Bytes that wait or are being written, or may be queued at once."""
        return self._waiting

    def reserve(self, output: Output, at_most: int, between: Callable[[], None]) -> None:
        """Wait until an output may be queued; one of any size may, if it is alone.

        at_most: bytes that may wait, if that is less than usual. between: is called while this waits; may raise.
        Raises the failure to write an earlier output of the same jobs.
        """
        self.raise_failure(output.jobs)
        limit, bytes_ = min(WAITING_BYTES, at_most), output.bytes or 1
        with self._lock:
            while self._waiting and (self._waiting + bytes_ > limit or self._longest_wait() > WAITING_SECONDS):
                self._lock.wait(_PAUSE)
                between()
            self._reserved[output] = bytes_
            self._waiting += bytes_

    def withdraw(self, output: Output) -> None:
        """An output will not be queued, if it was to be. Only with the lock."""
        bytes_ = self._reserved.pop(output, 0)
        if bytes_:
            self._waiting -= bytes_
            self._lock.notify_all()

    def enqueue(self, output: Output) -> None:
        """Have an output written, for which there is a reservation."""
        with self._lock:
            self._queue.append(output)
            self._unwritten[output] = time.monotonic()
            if len(self._writers) < min(self._threads, len(self._unwritten)):
                writer = threading.Thread(target=self._work, name="qoop-writer", daemon=True)
                self._writers.append(writer)
                writer.start()
            self._lock.notify_all()

    def done(self, output: Output, failure: QoopError | None) -> None:
        """An output is written, or could not be. Only with the lock."""
        if failure is not None:
            self._failures.append((frozenset(output.jobs), failure))
        self.withdraw(output)
        del self._unwritten[output]

    def flush(self) -> None:
        """Wait until all outputs are written."""
        with self._lock:
            while self._waiting:
                self._lock.wait()

    def close(self) -> None:
        """Write what waits and end the threads."""
        with self._lock:
            self._closing = True
            self._lock.notify_all()
        for writer in self._writers:
            writer.join()

    def raise_failure(self, of: Collection[JobId] | None = None) -> None:
        """Raise the first failure to write an output of one of these jobs, None: of any. That is told once."""
        with self._lock:
            theirs = [one for one in self._failures if of is None or not one[0].isdisjoint(of)]
            self._failures = [one for one in self._failures if one not in theirs]
        for _, failure in theirs:
            raise failure

    def _work(self) -> None:
        while (found := self._next()) is not None:
            self._write(*found)

    def _next(self) -> tuple[Output, float] | None:
        with self._lock:
            while not self._queue and not self._closing:
                self._lock.wait()
            if not self._queue:
                return None
            output = self._queue.popleft()
            return output, self._unwritten[output]

    def _longest_wait(self) -> float:
        return time.monotonic() - next(iter(self._unwritten.values())) if self._unwritten else 0.0
