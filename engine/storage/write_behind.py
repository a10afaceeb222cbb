"""Durable outputs are written by separate threads, behind the running tasks, in the order in which they came.

What a killed process may lose is bounded: `reserve` waits while `WAITING_BYTES` have not been written, or an output has
waited for `WAITING_SECONDS`.

Outputs of one group that wait are written together. A group that has many has one thread at a time, so that what comes
while that writes is written together next; how many that are follows from how long writing takes, and none is held back
to wait for others. Its second thread begins once something has waited for `SOON` or much is waiting.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Generic, Protocol, TypeVar

from qoop.catalog.errors import QoopError
from qoop.catalog.priority import not_behind
from qoop.catalog.value import value
from qoop.engine.storage.manifest import Saved
from qoop.engine.task import JobId

WAITING_BYTES = 256 << 20
WAITING_SECONDS = 1.0
SOON = 0.25
TOGETHER = 128
"""Outputs that are written together at most."""

TOGETHER_BYTES = 32 << 20
_GROUPS = 1000  # that are remembered
_FEW = 4  # outputs of a group that are written at once, each by a thread, whatever else is being written
_PAUSE = 0.05  # seconds between looks at whether the waiting thread was stopped


@value
class Outcome:
    """The fate of an output that was to be written. saved: where it is. why: it is not, as a clause with advice.
    failure: the error that ends the jobs that made it."""

    saved: Saved | None = None
    why: str = ""
    failure: QoopError | None = None


class Writable(Protocol):
    """An output on behalf of some jobs. Hashed by identity."""

    jobs: set[JobId]

    @property
    def bytes(self) -> int: ...


Output = TypeVar("Output", bound=Writable)


class WriteBehind(Generic[Output]):
    """The outputs that are to be written, and the threads that write them.

    lock: that of the owner of the outputs. threads: how many there may be.
    write: writes outputs of one group, in one of the threads, and calls `done` for each; it is also given when each was
        queued. group: by what an output may be written with others; None: none may.
    """

    def __init__(
        self,
        lock: threading.Condition,
        threads: int,
        write: Callable[[Sequence[tuple[Output, float]]], object],
        group: Callable[[Output], Hashable] | None = None,
    ) -> None:
        self._lock = lock
        self._threads = threads
        self._write = write
        self._reserved: dict[Output, int] = {}  # for what waits, is being written, or is about to be queued
        self._waiting = 0  # bytes, of all of these
        self._group: Callable[[Output], Hashable] = group or id
        self._queue: deque[Output] = deque()
        self._writing: Counter[Hashable] = Counter()  # threads by the group that they write
        self._came: Counter[Hashable] = Counter()  # outputs by group, lately
        self._unwritten: dict[Output, float] = {}  # what waits and what is being written, the oldest first; since when
        self._writers: list[threading.Thread] = []
        self._closing = False
        self._failures: list[tuple[frozenset[JobId], QoopError]] = []  # by job

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
            self._note_group(self._group(output))
            self._unwritten[output] = time.monotonic()
            if len(self._writers) < min(self._threads, len(self._unwritten)):
                writer = threading.Thread(target=self._work, name="qoop-writer", daemon=True)
                self._writers.append(writer)
                not_behind(writer.start)
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
        """Raise the first failure to write an output of one of these jobs, None: of any. That is raised once."""
        with self._lock:
            theirs = [one for one in self._failures if of is None or not one[0].isdisjoint(of)]
            self._failures = [one for one in self._failures if one not in theirs]
        for _, failure in theirs:
            raise failure

    def _note_group(self, group: Hashable) -> None:
        self._came[group] += 1
        if len(self._came) > _GROUPS:
            self._came = Counter({one: times for one, times in self._came.items() if self._writing[one]})

    def _work(self) -> None:
        while found := self._next():
            group = self._group(found[0][0])
            try:
                self._write(found)
            finally:
                with self._lock:
                    self._writing -= Counter([group])
                    self._lock.notify_all()

    def _next(self) -> Sequence[tuple[Output, float]]:
        """The outputs to write next, and since when they wait; none: there will be no more."""
        with self._lock:
            while (first := self._first_ripe()) is None:
                if self._closing and not self._queue:
                    return ()
                self._lock.wait(_PAUSE if self._queue else None)
            group = self._group(first)
            together = self._together(group)
            taken = set(together)
            self._queue = deque(output for output in self._queue if output not in taken)
            self._writing[group] += 1
            return [(output, self._unwritten[output]) for output in together]

    def _first_ripe(self) -> Output | None:
        """The first output whose group may be written now."""
        now, bytes_ = time.monotonic(), Counter[Hashable]()
        for output in self._queue:
            group = self._group(output)
            bytes_[group] += output.bytes
            if not self._writing[group] or self._came[group] <= _FEW or bytes_[group] >= TOGETHER_BYTES:
                return output
            if now - self._unwritten[output] > SOON:
                return output
        return None

    def _together(self, group: Hashable) -> list[Output]:
        found: list[Output] = []
        bytes_ = 0
        for output in self._queue:
            if self._group(output) == group:
                bytes_ += output.bytes
                if found and (bytes_ > TOGETHER_BYTES or len(found) == TOGETHER):
                    break
                found.append(output)
        return found

    def _longest_wait(self) -> float:
        return time.monotonic() - next(iter(self._unwritten.values())) if self._unwritten else 0.0
