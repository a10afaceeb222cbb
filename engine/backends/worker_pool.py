"""The workers of a simulated machine, as those of :mod:`qoop.engine.backends.local`: each has a kernel.

A kernel that is new has to be opened before it takes up an attempt, and reads the footers of a table's files before it
first scans the table. Slots that come back bring new kernels; when memory falls, all are replaced, each as soon as
it is idle. Attempts wait for the first idle worker.

This module knows only which worker has which attempt. :class:`Kernels` says how long things take; the simulated backend
works it out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from qoop.catalog.value import value

A = TypeVar("A")


@value
class Kernels:
    """The cost of kernels besides their work, in seconds of one thread.

    opening: until a new one can be used. reading: before it scans a table for the first time, each.
    stopping: from an interrupt until the attempt has ended. read: tables that the first kernels have scanned before.
    """

    opening: float = 0.0
    reading: float = 0.0
    stopping: float = 0.0
    read: frozenset[str] = frozenset()


@dataclass(eq=False, slots=True)
class Worker:
    """One worker with its kernel. generation: of the pool, when it was hired. tables: those that it has read."""

    generation: int
    tables: set[str] = field(default_factory=set)

    def first(self, tables: Iterable[str]) -> int:
        """The number of tables that the worker reads for the first time; from then on it has read them."""
        new = set(tables) - self.tables
        self.tables |= new
        return len(new)


class WorkerPool(Generic[A]):
    """The workers of one machine, and the attempts that wait for one. At the start all kernels are open.

    read: tables that they have scanned by then.

    >>> worker_pool = WorkerPool(1)
    >>> worker = worker_pool.take("a")
    >>> worker_pool.take("b")  # none is idle
    >>> worker_pool.idle(worker)
    'b'
    """

    def __init__(self, slots: int, read: Iterable[str] = ()) -> None:
        self._slots = slots
        self._present = slots
        self._generation = 0
        self._idle = deque(Worker(0, set(read)) for _ in range(slots))
        self._waiting: deque[A] = deque()

    def staff(self, slots: int, fresh: bool) -> list[Worker]:
        """Have one worker for each slot. fresh: new ones replace all. Returns the new ones: each is to be `idle` once
        its kernel is open."""
        self._slots = slots
        if fresh:
            self._generation += 1
            self._present = 0
            self._idle.clear()
        while self._idle and self._present > slots:
            self._idle.popleft()
            self._present -= 1
        new = [Worker(self._generation) for _ in range(slots - self._present)]
        self._present += len(new)
        return new

    def take(self, attempt: A) -> Worker | None:
        """The worker that takes up the attempt: the one that is idle longest. None: the attempt waits."""
        if self._idle:
            return self._idle.popleft()
        self._waiting.append(attempt)
        return None

    def idle(self, worker: Worker) -> A | None:
        """The attempt that an idle worker takes up. None: there is none; a worker too many leaves."""
        if self._waiting:
            return self._waiting.popleft()
        if worker.generation != self._generation:
            return None
        if self._present > self._slots:
            self._present -= 1
            return None
        self._idle.append(worker)
        return None

    def withdraw(self, attempt: A) -> None:
        """The attempt no longer waits."""
        if attempt in self._waiting:
            self._waiting.remove(attempt)
