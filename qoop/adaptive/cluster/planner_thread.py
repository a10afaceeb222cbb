"""The place where decisions are worked out: a background thread of the cluster, or in it where time is simulated."""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")

IDLE_SECONDS = 1.0
"""Seconds in which no job runs, after which work is done that waits for such a time."""


class Planner(Protocol):
    """Does work and tells of its end. `ask` never raises what the work raises."""

    def ask(self, work: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        """Have the work done; `then` is called, in whatever thread, with what it returned or raised."""
        ...

    def close(self) -> None:
        """Wait for the work that goes on; what has not begun is dropped."""
        ...


class Background(Planner, Protocol):
    """Does work for later jobs."""

    def ask_when_idle(self, work: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        """As `ask`, but the work waits until no job runs."""
        ...


class InlinePlanner:
    """Does the work at once, in the caller's thread: it takes no time of a simulated clock."""

    def ask(self, work: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        then(_outcome(work))

    ask_when_idle = ask

    def close(self) -> None:
        pass


class PlannerThread:
    """One thread, started when there is work for the first time, which does one work after the other.

    nice: added to the priority number of the thread, as in nice(1): the threads of running tasks then go first. Linux
        only; elsewhere the thread has the priority of the process.
    busy: true while jobs run; by default none ever does.
    """

    def __init__(self, nice: int = 0, busy: Callable[[], bool] = lambda: False) -> None:
        self._nice = nice
        self._busy = busy
        self._later: deque[Callable[[], None]] = deque()  # work that waits for an idle time
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False

    def ask(self, work: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        self._work.put(lambda: then(_outcome(work)))
        if self._thread is None:
            self._thread = threading.Thread(target=self._loop, name="qoop-planner", daemon=True)
            self._thread.start()

    def ask_when_idle(self, work: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        """As of `Background`."""
        self._later.append(lambda: then(_outcome(work)))
        self.ask(lambda: None, lambda _: None)  # a thread that waits for work sees that there is some

    def close(self) -> None:
        self._closed = True
        self._work.put(None)
        if self._thread is not None:
            self._thread.join()

    def _loop(self) -> None:
        if self._nice and sys.platform == "linux":  # where a thread has a priority of its own
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), self._nice)
        while (work := self._next()) is not None:
            if not self._closed:
                work()

    def _next(self) -> Callable[[], None] | None:
        """The work to do now: what is asked for at once, else what waits, once no job was seen to run twice in a
        row."""
        idle = 0
        while True:
            try:
                return self._work.get(timeout=IDLE_SECONDS / 2 if self._later else None)
            except queue.Empty:
                idle = 0 if self._busy() else idle + 1
                if idle == 2:
                    return self._later.popleft()


def _outcome(work: Callable[[], T]) -> T | Exception:
    try:
        return work()
    except Exception as error:  # the caller decides what it means
        return error
