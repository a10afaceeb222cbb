"""Reports of the progress of long attempts: what DuckDB says of it, and how far other programs slow their threads.

Source: proc(5) and "Scheduler Statistics" in the documentation of Linux, for ``/proc/self/task/*/schedstat``: by thread
the nanoseconds on a CPU, and those in which it could run and waited for one. Where no such file is, nothing slows it.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from qoop.catalog.priority import go_behind, usable_cpus
from qoop.engine.backends.while_working import WhileWorking
from qoop.engine.events import Event, WorkObserved
from qoop.engine.task import AttemptId

_EVERY, _PART = 0.25, 0.02
"""Seconds between two reports of an attempt, and the part of its age, if that is more."""

_FIRST = 0.1
"""Seconds between its first reports: plans are compared after 0.1 to 0.4 s, and what DuckDB believes to be over by then
tells more of its plan than an estimate."""

_SOON = 0.03  # seconds between two looks whether an attempt is to go behind others

_KEPT = 0.9
"""The part of what was counted until a look that counts as much as what is counted later."""

_LITTLE = 0.05
"""Seconds on a CPU that tell little: threads that wait for files, or a clock, wait for a CPU whenever they wake."""

_TASKS = "/proc/self/task"


@dataclass(slots=True)
class _Watched:
    attempt: AttemptId
    part: Callable[[], float | None]
    cpu_seconds: Callable[[], float | None]
    begun: float
    due: float
    thread: int  # that runs it
    urgent: float  # seconds of a CPU that the thread has had when it is to go behind others
    behind_from: float = math.inf  # those when it went


class WorkWatch:
    """Reports, while they run, the progress of attempts that take longer than a moment.

    urgent: seconds of a CPU in its thread after which an attempt goes behind others; infinite: none does. went_behind:
    called with that one, which stays behind.
    """

    def __init__(self, report: Callable[[Event], None]) -> None:
        self._report = report
        self._lock = threading.Lock()
        self._attempts: dict[AttemptId, _Watched] = {}
        self._cpu = ThreadTimes()
        self._ended_behind = 0.0
        self.urgent = math.inf
        self.went_behind: Callable[[int], object] = lambda thread: None
        self._thread = WhileWorking(self._check, "qoop-progress", first=_FIRST)

    @contextmanager
    def watched(
        self,
        attempt: AttemptId,
        part: Callable[[], float | None],
        cpu_seconds: Callable[[], float | None],
        is_long: bool = False,
    ) -> Iterator[None]:
        """Report an attempt meanwhile. part, cpu_seconds: see `WorkObserved`. is_long: if attempts go behind others, it
        does so at once."""
        now = time.perf_counter()
        with self._lock:
            self._attempts[attempt] = _Watched(
                attempt,
                part,
                cpu_seconds,
                now,
                now + _FIRST,
                threading.get_native_id(),
                time.thread_time() + self.urgent,
            )
            watched = self._attempts[attempt]
        if is_long and self.urgent < math.inf:
            self._send_behind(watched)
        try:
            with self._thread.watched():
                yield
        finally:
            with self._lock:
                del self._attempts[attempt]
                self._ended_behind += _since(time.thread_time(), watched)

    def behind_seconds(self) -> float:
        """Seconds of the CPUs that attempts have had while they were behind others."""
        with self._lock:
            attempts = [one for one in self._attempts.values() if one.behind_from < math.inf]
            return self._ended_behind + sum(_since(_ran(one.thread), one) for one in attempts)

    def close(self) -> None:
        """Look no more."""
        self._thread.close()

    def _check(self) -> float:
        now = time.perf_counter()
        with self._lock:
            due = [one for one in self._attempts.values() if one.due <= now]
            urgent = [one for one in self._attempts.values() if one.urgent < math.inf]
            begun = min((one.begun for one in self._attempts.values()), default=now)
        for one in urgent:
            if _ran(one.thread) > one.urgent:
                self._send_behind(one)
        if due:
            self._cpu.read(begun)
        for one in due:
            self._report(WorkObserved(one.attempt, one.part(), self._cpu.slowed, one.cpu_seconds()))
            one.due = now + _pause(now - one.begun)
        return _SOON if self.urgent < math.inf else _FIRST

    def _send_behind(self, watched: _Watched) -> None:
        with self._lock:
            if self._attempts.get(watched.attempt) is not watched:
                return  # the thread has other work by now
            watched.behind_from = _ran(watched.thread)
            go_behind(watched.thread)
            watched.urgent = math.inf
        self.went_behind(watched.thread)


def _since(ran: float, attempt: _Watched) -> float:
    """Of the seconds that a thread has had so far, those since its attempt went behind others."""
    return max(0.0, ran - attempt.behind_from)


def _pause(age: float) -> float:
    """Seconds until the next report of an attempt of that age."""
    return max(_FIRST, min(_EVERY, 0.25 * age), _PART * age)


class ThreadTimes:
    """Seconds that the threads of this process have run on a CPU, and have waited for one that other programs had, of
    late.

    A search for plans next to a query that has a thread for each CPU makes all three wait, and no other program does.
    """

    def __init__(self) -> None:
        self.ran = self.waited = 0.0
        self._before, self._read_at = dict(_threads()), time.perf_counter()

    @property
    def slowed(self) -> float:
        """The factor by which others on the CPUs slow this process."""
        return 1.0 + self.waited / (self.ran + _LITTLE) if self.ran > 0 else 1.0

    def read(self, begun: float = -math.inf) -> None:
        """Bring both up to date. begun: when this process began to work, on the clock of `time.perf_counter`."""
        now, at, none = dict(_threads()), time.perf_counter(), (0, 0)
        ran = sum(max(0, times[0] - self._before.get(thread, none)[0]) for thread, times in now.items()) / 1e9
        waited = sum(max(0, times[1] - self._before.get(thread, none)[1]) for thread, times in now.items()) / 1e9
        had_by_others = max(0.0, len(usable_cpus()) * (at - max(begun, self._read_at)) - ran)
        self.ran = _KEPT * self.ran + ran
        self.waited = _KEPT * self.waited + min(waited, had_by_others)
        self._before, self._read_at = now, at


def _threads() -> Iterator[tuple[str, tuple[int, int]]]:
    with suppress(OSError):  # not Linux
        for thread in os.listdir(_TASKS):
            if (found := _times(thread)) is not None:
                yield thread, found


def _times(thread: str | int) -> tuple[int, int] | None:
    """Nanoseconds on a CPU, and those of waiting for one; None: it has just ended, or its kernel does not count."""
    with suppress(OSError, ValueError):
        with open(f"{_TASKS}/{thread}/schedstat", "rb") as file:
            ran, waited, *_ = file.read().split()
        return int(ran), int(waited)
    return None


def _ran(thread: int) -> float:
    """Seconds on a CPU that a thread has had in all."""
    found = _times(thread)
    return 0.0 if found is None else found[0] / 1e9
