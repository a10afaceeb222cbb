"""Reports of the progress of long attempts: what DuckDB says of it, and how far other programs slow their threads.

Source: proc(5) and "Scheduler Statistics" in the documentation of Linux, for ``/proc/self/task/*/schedstat``: by thread
the nanoseconds on a CPU, and those in which it could run and waited for one. Where no such file is, nothing slows it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from qoop.engine.backends.while_working import WhileWorking
from qoop.engine.events import Event, WorkSeen
from qoop.engine.task import AttemptId

_EVERY, _PART = 0.25, 0.02
"""Seconds between two reports of an attempt, and the part of its age, if that is more."""

_TELLING = 0.1
"""Seconds of CPUs after which a comparison with seconds of waiting says something."""

_TASKS = "/proc/self/task"


@dataclass(slots=True)
class _Watched:
    attempt: AttemptId
    part: Callable[[], float | None]
    begun: float
    due: float
    ran: float | None = None  # seconds that the threads of this process had run, and waited, at the first look
    waited: float = 0.0


class WorkWatch:
    """Reports, while they run, the progress of attempts that take longer than a moment."""

    def __init__(self, report: Callable[[Event], None]) -> None:
        self._report = report
        self._lock = threading.Lock()
        self._attempts: dict[AttemptId, _Watched] = {}
        self._cpu = ThreadTimes()
        self._thread = WhileWorking(self._look, "qoop-progress", first=_EVERY)

    @contextmanager
    def watched(self, attempt: AttemptId, part: Callable[[], float | None]) -> Iterator[None]:
        """Report an attempt meanwhile. part: see `WorkSeen`."""
        now = time.perf_counter()
        with self._lock:
            self._attempts[attempt] = _Watched(attempt, part, now, now + _EVERY)
        try:
            with self._thread.watched():
                yield
        finally:
            with self._lock:
                del self._attempts[attempt]

    def close(self) -> None:
        """Look no more."""
        self._thread.close()

    def _look(self) -> float:
        now = time.perf_counter()
        with self._lock:
            due = [one for one in self._attempts.values() if one.due <= now]
        if due:
            self._cpu.read()
        for one in due:
            self._report(WorkSeen(one.attempt, one.part(), self._slowed(one)))
            one.due = now + max(_EVERY, _PART * (now - one.begun))
        return _EVERY

    def _slowed(self, one: _Watched) -> float:
        """The factor by which others have slowed this process since the first look at an attempt."""
        if one.ran is None:
            one.ran, one.waited = self._cpu.ran, self._cpu.waited
        ran, waited = self._cpu.ran - one.ran, self._cpu.waited - one.waited
        return 1.0 + waited / ran if ran > _TELLING else 1.0


class ThreadTimes:
    """Seconds that the threads of this process have run on a CPU, and have waited for one, as far as it was read while
    they lived."""

    def __init__(self) -> None:
        self.ran = self.waited = 0.0
        self._before: dict[str, tuple[int, int]] = {}

    def read(self) -> None:
        """Bring both up to date."""
        now = dict(_threads())
        for thread, (ran, waited) in now.items():
            ran_before, waited_before = self._before.get(thread, (0, 0))
            self.ran += max(0, ran - ran_before) / 1e9
            self.waited += max(0, waited - waited_before) / 1e9
        self._before = now


def _threads() -> Iterator[tuple[str, tuple[int, int]]]:
    with suppress(OSError):  # not Linux
        for thread in os.listdir(_TASKS):
            with suppress(OSError, ValueError):  # it has just ended, or its kernel does not count
                with open(f"{_TASKS}/{thread}/schedstat", "rb") as file:
                    ran, waited, *_ = file.read().split()
                yield thread, (int(ran), int(waited))
