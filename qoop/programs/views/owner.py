"""The thread that refreshes the views of a session by their goals: it carries out the orders of their programs.

The thread begins with the first view that has a goal. It compares the tables of views with their editions, and
refreshes one view at a time. Views whose comparisons are due at about the same time take part in one round, which
compares each table once. Where their refreshes need more than the thread's time, each view has a share of it
(`sharing.py`). While people's queries run, the thread rests, so that these keep their share.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from qoop.adaptive.monitor.sleep import boot_seconds
from qoop.adaptive.program import Begin, Stop
from qoop.catalog.errors import TableChanged
from qoop.catalog.value import value
from qoop.programs.views.freshness import Freshness, Message, Refresh, RefreshEnded, TablesCompared, Wait
from qoop.programs.views.sharing import RefreshCost, ViewLoad, ahead, shares

if TYPE_CHECKING:
    from qoop.adaptive.program_log import MessageLog

_IDLE = 60.0

_EARLY = 0.05
"""The part of its goal by which a view is compared early, to take part in a round."""

_ROUND_SECONDS, _ROUND_PART = 1.0, 0.1
"""A round that lasts longer, or longer than that part of the least goal, ends: another one begins with the view whose
goal ends first, and compares the tables again."""

_SHARE_SECONDS = 1.0
"""Seconds between two divisions of the thread's time."""

_NEW = 0.3
"""The weight of a new measurement in a running mean."""

_LEAST_PART = 0.05
"""Of the thread's time that views have, whatever other tenants weigh."""

_LONGEST_REST = 2.0
"""Seconds that the thread rests after a refresh at most."""


@value
class Target:
    """The goals of a view. lag: seconds. max_error: of its columns, relative; 0: it is exact."""

    lag: float
    max_error: float = 0.0


@value
class Refreshment:
    """The last edition of a view. rows_read: for it. one_in, error: of the samples in it; 1 and 0: there are none."""

    rows_read: int
    one_in: int = 1
    error: float = 0.0


class Refreshed(Protocol):
    """Views that are refreshed."""

    def targets(self) -> Mapping[str, Target]: ...

    def behind(self, name: str) -> float | None: ...

    def refresh_view(self, name: str, full: bool = False, one_in: int = 1) -> bool: ...

    def last(self, name: str) -> Refreshment: ...

    def note_error(self, name: str, error: Exception) -> None: ...

    def comparing_once(self) -> AbstractContextManager[set[str]]: ...


class _Program:
    """The program of one view, and what its refreshes cost. next: the time of the next comparison, on the clock since
    the boot: the time of day, in which the program reckons, may be set back."""

    def __init__(self, target: Target, sampled: bool, log: MessageLog | None) -> None:
        self.target = target
        self.state = Freshness(target.lag, sampled=sampled)
        self.next = 0.0
        self.refresh: Refresh | None = None
        self.cost = RefreshCost()
        self._rows_a_second = 0.0
        self._one_in = 1
        self._errors: dict[int, float] = {}
        self._measured = self._compared = boot_seconds()
        self._log = log
        self.send(Begin())

    def send(self, message: Message) -> bool:
        """Take a message; True: the refresh `refresh` is due."""
        if self._log is not None:
            self._log(self.state, message)
        self.state, orders = self.state.after(message)
        at = message.at if isinstance(message, TablesCompared | RefreshEnded) else 0.0
        self._compared = boot_seconds() if at else self._compared
        waits = [order.until - at for order in orders if isinstance(order, Wait)]
        self.next = boot_seconds() + waits[0] if waits else self.next
        self.refresh = next((order for order in orders if isinstance(order, Refresh)), None)
        return self.refresh is not None

    def due(self) -> tuple[float, float]:
        """The time of day when a refresh has to end, and the seconds that it takes. A change may have come just after
        the last comparison."""
        since = time.time() - (boot_seconds() - self._compared) if self.state.since is None else self.state.since
        return since + self.target.lag, self.state.seconds

    def measure(self, last: Refreshment, requested: int, seconds: float) -> None:
        """Learn from a refresh. requested: see `Refresh.one_in`."""
        now = boot_seconds()
        self.cost = self.cost.after(last.rows_read, seconds)
        if not self.state.sampled:  # else it read rows again
            rate = last.rows_read * last.one_in / max(now - self._measured, 0.001)
            self._rows_a_second += (rate - self._rows_a_second) * (_NEW if self.cost.count > 1 else 1.0)
        self._measured, self._one_in = now, last.one_in
        if last.one_in > 1:
            self._errors[last.one_in] = last.error
        elif requested > 1:
            self._errors[requested] = math.inf

    def load(self) -> ViewLoad:
        """The view as its share depends on it."""
        since, target = self.state.since, self.target
        lag = 0.0 if since is None else max(0.0, time.time() - since)
        return ViewLoad(
            target.lag, lag, self.cost, self._rows_a_second, target.max_error, dict(self._errors), self._one_in
        )


class Owner:
    """Refreshes views by their goals. log: a new log of a program's messages. slots: that other tenants leave
    to views now; the thread uses one at most. sharing: of `allocation.POLICIES`."""

    def __init__(
        self,
        views: Refreshed,
        log: Callable[[], MessageLog | None],
        slots: Callable[[], float] = lambda: 1.0,
        sharing: str = "max-min",
    ) -> None:
        self._views, self._log = views, log
        self._slots_now, self._sharing = slots, sharing
        self._slots = 1.0  # the capacity, as a running mean
        self._shared = 0.0
        self._programs: dict[str, _Program] = {}
        self._woken = threading.Condition()
        self._stopped = False
        self._changed = False  # views or goals, since they were last followed
        self._thread: threading.Thread | None = None

    def wake(self) -> None:
        """Views or their goals have changed."""
        if self._thread is None and not self._views.targets():
            return
        with self._woken:
            if self._thread is None and not self._stopped:
                self._thread = threading.Thread(target=self._run, name="qoop-views", daemon=True)
                self._thread.start()
            self._changed = True
            self._woken.notify()

    def stop(self) -> None:
        """Begin no further refresh."""
        with self._woken:
            self._stopped = True
            self._woken.notify()

    def close(self) -> None:
        """Wait for the end of the thread."""
        self.stop()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped:
            self._follow_goals()
            self._round()
            self._share()
            self._wait()
        for program in self._programs.values():
            program.send(Stop())

    def _follow_goals(self) -> None:
        """Begin and end programs as views and goals come and go."""
        self._changed = False
        targets = self._views.targets()
        for name in [name for name, one in self._programs.items() if targets.get(name) != one.target]:
            self._programs.pop(name).send(Stop())
        for name, target in targets.items():
            if name not in self._programs:
                self._programs[name] = _Program(target, self._views.last(name).one_in > 1, self._log())

    def _share(self) -> None:
        """Divide the thread's time between the views, now and then."""
        now = boot_seconds()
        if now < self._shared + _SHARE_SECONDS:
            return
        self._shared = now
        self._slots += (self._capacity() - self._slots) * _NEW
        loads = {name: program.load() for name, program in self._programs.items()}
        for name, share in shares(loads, self._slots, self._sharing).items():
            if share != self._programs[name].state.share:
                self._programs[name].send(share)

    def _round(self) -> None:
        """Serve the views that are due, and with them those that are due soon, by the ends of their goals."""
        begun = boot_seconds()
        if min((program.next for program in self._programs.values()), default=math.inf) > begun:
            return
        limit = min(_ROUND_SECONDS, _ROUND_PART * min(program.target.lag for program in self._programs.values()))
        with self._views.comparing_once() as compared:
            for name, seconds in ahead({name: program.due() for name, program in self._programs.items()}).items():
                if self._stopped or boot_seconds() > begun + limit:
                    return
                program = self._programs[name]
                if program.next <= begun + _EARLY * program.target.lag:
                    self._turn(name, program, compared, seconds)

    def _turn(self, name: str, program: _Program, compared: set[str], ahead_seconds: float) -> None:
        """Compare the tables of a view, and refresh it if that is due. Errors show in the status of the view.

        ahead_seconds: see `TablesCompared`."""
        begun = time.monotonic()
        try:
            since = self._views.behind(name)
        except Exception as error:
            self._views.note_error(name, error)
            since = time.time()
        if not program.send(TablesCompared(time.time(), since, ahead_seconds)) or self._stopped:
            return
        assert program.refresh is not None
        one_in = program.refresh.one_in
        failed = self._failure(name, one_in)
        if isinstance(failed, TableChanged):  # since the round compared it
            compared.clear()
            failed = self._failure(name, one_in)
        seconds = time.monotonic() - begun
        sampled = False
        if failed is not None:
            self._views.note_error(name, failed)
        else:
            last = self._views.last(name)
            program.measure(last, one_in, seconds)
            sampled = last.one_in > 1
        program.send(RefreshEnded(time.time(), seconds, failed is not None, sampled))
        self._rest(seconds)

    def _failure(self, name: str, one_in: int) -> Exception | None:
        """Refresh a view; returns the error of a refresh that failed."""
        try:
            self._views.refresh_view(name, one_in=one_in)
        except Exception as error:
            return error
        return None

    def _rest(self, seconds: float) -> None:
        """Leave people's queries their share after a refresh that took this long."""
        part = self._capacity()
        if part < 1:
            with self._woken:
                if not self._stopped:
                    self._woken.wait(min(_LONGEST_REST, seconds * (1 / part - 1)))

    def _capacity(self) -> float:
        """The part of the thread's time that people's queries leave now."""
        return min(1.0, max(_LEAST_PART, self._slots_now()))

    def _wait(self) -> None:
        until = min((program.next for program in self._programs.values()), default=boot_seconds() + _IDLE)
        with self._woken:
            if not self._stopped and not self._changed:
                self._woken.wait(min(max(0.001, until - boot_seconds()), _IDLE))
