"""The thread that refreshes the views of a session by their goals: it carries out the orders of their programs.

The thread begins with the first view that has a goal. It compares the tables of views with their editions, and
refreshes one view at a time. Views whose comparisons are due at about the same time take part in one round. A
comparison of a table serves all views for a part of their goals. Where their refreshes need more than the thread's
time, `sharing.py` says which views are sampled. If sharing is not by the worst view, it also gives each view its share
of the thread's time. People's queries come first: while they run, refreshes wait as long as their goals permit, and
begin somewhat sooner, in pauses between queries. Where they cannot wait, the thread rests after each, so that queries
keep their share.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from qoop.adaptive.monitor.sleep import boot_seconds
from qoop.adaptive.program import Begin, Stop
from qoop.catalog.errors import TableChanged
from qoop.catalog.value import value
from qoop.programs.views.freshness import (
    EXPECTED,
    IN_TIME,
    SAFETY,
    Allotted,
    Freshness,
    Message,
    Refresh,
    RefreshEnded,
    TablesCompared,
    Wait,
    expected_within,
)
from qoop.programs.views.sharing import Due, RefreshCost, ViewLoad, early, gap_of, shares

if TYPE_CHECKING:
    from qoop.adaptive.program_log import MessageLog

_IDLE = 60.0

_EARLY = 0.05
"""The part of its goal by which a view is compared early, to take part in a round."""

_ROUND_SECONDS = 1.0
"""A round that lasts longer ends: goals may have changed."""

_OLD_PART, _OLD_PART_EXPECTED, _OLD_COSTS = 0.1, 0.5, 20
"""A comparison serves a view for that part of its goal, and for that many times the seconds of a comparison. The second
part is for changes at known intervals: then it serves until the next one is expected."""

_SHARE_SECONDS = 1.0
"""Seconds between two divisions of the thread's time."""

_NEW = 0.3
"""The weight of a new measurement in a running mean."""

_RESERVED = 0.6
"""The part of its goal by which a refresh begins sooner at most, to leave time for refreshes after replaced files."""

_LEAST_PART = 0.05
"""Of the thread's time that views have, whatever other tenants weigh."""

_LONGEST_REST = 2.0
"""Seconds that the thread rests after a refresh at most."""

_SOONER = 0.1
"""The part of its goal by which a refresh may begin sooner, in a pause between people's queries …"""

_BUSY_SECONDS = 10.0
"""… so long after the last one that was noticed."""

_CHECK_SECONDS = 0.005
"""Between two checks whether people's queries still run."""


class Clock:
    """The times by which the thread reckons; a simulation has others."""

    def now(self) -> float:
        """Seconds since 1970. They may be set back."""
        return time.time()

    def awake(self) -> float:
        """Seconds in which the machine did not sleep."""
        return time.monotonic()

    def since_boot(self) -> float:
        """Seconds, those of sleep among them."""
        return boot_seconds()

    def wait(self, woken: threading.Condition, seconds: float) -> None:
        """Wait so long, or until the condition is notified."""
        woken.wait(seconds)


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

    def changes_of(self, name: str) -> Sequence[float]: ...

    def losing(self, tables: Iterable[str]) -> set[str]: ...

    def refresh_view(self, name: str, full: bool = False, one_in: int = 1) -> bool: ...

    def last(self, name: str) -> Refreshment: ...

    def note_error(self, name: str, error: Exception) -> None: ...

    def comparing_once(self) -> AbstractContextManager[set[str]]: ...


class _Program:
    """The program of one view, and what its refreshes cost. next: the time of the next comparison, on the clock since
    the boot: the time of day, in which the program reckons, may be set back. loses: files of its edition are others or
    gone, so its refresh computes their leaf and the nodes above it again."""

    def __init__(self, target: Target, sampled: bool, log: MessageLog | None, clock: Clock) -> None:
        self.target, self._clock = target, clock
        self.state = Freshness(target.lag, sampled=sampled)
        self.next = 0.0
        self.refresh: Refresh | None = None
        self.loses = False
        self._loss = 0.0  # seconds of a refresh after that, as a running mean
        self.cost = RefreshCost()
        self._rows_a_second = 0.0
        self._one_in, self._unread = 1, 0.0
        self._gap = self._last = 0.0
        self._errors: dict[int, float] = {}
        self._measured = self._compared = self._clock.since_boot()
        self._log = log
        self.send(Begin())

    def send(self, message: Message) -> bool:
        """Take a message; True: the refresh `refresh` is due."""
        if self._log is not None:
            self._log(self.state, message)
        self.state, orders = self.state.after(message)
        at = message.at if isinstance(message, TablesCompared | RefreshEnded) else 0.0
        if isinstance(message, TablesCompared):
            self._compared = self._clock.since_boot() - message.age
        waits = [order.until - at for order in orders if isinstance(order, Wait)]
        self.next = self._clock.since_boot() + waits[0] if waits else self.next
        self.refresh = next((order for order in orders if isinstance(order, Refresh)), None)
        return self.refresh is not None

    def learn(self, changes: Sequence[float]) -> tuple[float, float]:
        """The time of the last of these changes, and the seconds between changes, of these or those before."""
        self._last = max(changes, default=self._last)
        self._gap = gap_of(changes) or self._gap
        return self._last, self._gap

    @property
    def old(self) -> float:
        """Seconds after which a comparison no longer serves."""
        return (_OLD_PART_EXPECTED if self._gap else _OLD_PART) * self.target.lag

    def since_expected(self) -> float:
        """Seconds since another change was expected; infinite: changes come at no known intervals."""
        since = self._clock.now() - self._last - expected_within(self._gap)
        return since % self._gap + EXPECTED / 2 * self._gap if self._gap and since > self._gap else math.inf

    def due(self) -> Due:
        """The next refresh. A change may have come just after the last comparison, or when it was expected."""
        since = self.state.since
        if since is None:
            compared = self._clock.now() - (self._clock.since_boot() - self._compared)
            since = max(compared, self._last + self._gap)
        seconds = max(self.state.seconds, self._loss) if self.loses else self.state.seconds
        return Due(since + IN_TIME * self.target.lag, seconds, self.target.lag)

    def must(self, due: Due, sooner: float) -> float:
        """The time by which the next refresh has to begin, if a change came just after the last comparison or before.
        due: of `due`. sooner: see `TablesCompared.early`."""
        compared = self._clock.now() - (self._clock.since_boot() - self._compared)
        return min(due.end, compared + IN_TIME * self.target.lag) - SAFETY * due.seconds - sooner

    def measure(self, last: Refreshment, requested: int, seconds: float) -> None:
        """Learn from a refresh. requested: see `Refresh.one_in`."""
        now = self._clock.since_boot()
        self.cost = self.cost.after(last.rows_read, seconds)
        if self.loses:
            self._loss += (seconds - self._loss) * (_NEW if self._loss else 1.0)
            self.loses = False
        if not self.state.sampled:  # else it read rows again
            rate = last.rows_read * last.one_in / max(now - self._measured, 0.001)
            self._rows_a_second += (rate - self._rows_a_second) * (_NEW if self.cost.count > 1 else 1.0)
        self._measured, self._one_in = now, last.one_in
        self._unread = self._unread + last.rows_read * (last.one_in - 1) if last.one_in > 1 else 0.0
        if last.one_in > 1:
            self._errors[last.one_in] = last.error
        elif requested > 1:
            self._errors[requested] = math.inf

    @property
    def extra(self) -> float:
        """Seconds that a refresh after replaced files takes over others."""
        return max(0.0, self._loss - self.state.seconds)

    def load(self) -> ViewLoad:
        """The view as its share depends on it."""
        since, target = self.state.since, self.target
        lag = 0.0 if since is None else max(0.0, self._clock.now() - since)
        return ViewLoad(
            target.lag, lag, self.cost, self._rows_a_second, target.max_error, dict(self._errors), self._one_in,
            self._unread,
        )  # fmt: skip


class _Compared:
    """The tables that were compared of late. names: see `comparing_once`."""

    def __init__(self, names: set[str], clock: Clock) -> None:
        self._names, self._clock = names, clock
        self._at: dict[str, float] = {}

    def forget(self, seconds: float) -> None:
        """Have the tables compared again that were compared longer ago."""
        since = self._clock.awake() - seconds
        for name in [name for name, at in self._at.items() if at <= since]:
            del self._at[name]
            self._names.discard(name)

    def note(self, at: float) -> set[str]:
        """Tables were compared now, from this time on, unless they had been; returns their names."""
        new = self._names - self._at.keys()
        self._at |= dict.fromkeys(new, at)
        return new

    @property
    def oldest(self) -> float:
        """The time of the oldest comparison that serves."""
        return min(self._at.values(), default=self._clock.awake())


class Owner:
    """Refreshes views by their goals. log: a new log of a program's messages. slots: that other tenants leave
    to views now; the thread uses one at most. busy: queries of others run now. sharing: of `allocation.POLICIES`.
    clock: None: the system's."""

    def __init__(
        self,
        views: Refreshed,
        log: Callable[[], MessageLog | None],
        slots: Callable[[], float] = lambda: 1.0,
        busy: Callable[[], bool] = lambda: False,
        sharing: str = "max-min",
        clock: Clock | None = None,
    ) -> None:
        self._views, self._log = views, log
        self._clock = clock or Clock()
        self._slots_now, self._busy, self._sharing = slots, busy, sharing
        self._last_busy = -math.inf  # the last time at which others' queries ran
        self._slots = 1.0  # the capacity, as a running mean
        self._shared = 0.0
        self._comparison = 0.0  # seconds of one, as a running mean
        self._reserve = 0.0  # extra seconds of all views after a table has replaced files, as a running mean
        self._programs: dict[str, _Program] = {}
        self._compared = _Compared(set(), self._clock)
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
                self._thread = threading.Thread(target=self.run, name="qoop-views", daemon=True)
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

    def run(self) -> None:
        """Serve the views until `stop`."""
        with self._views.comparing_once() as names:
            self._compared = _Compared(names, self._clock)
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
                self._programs[name] = _Program(target, self._views.last(name).one_in > 1, self._log(), self._clock)

    def _share(self) -> None:
        """Divide the thread's time between the views, now and then."""
        now = self._clock.since_boot()
        if now < self._shared + _SHARE_SECONDS:
            return
        self._shared = now
        self._slots += (self._capacity() - self._slots) * _NEW
        loads = {name: program.load() for name, program in self._programs.items()}
        for name, share in shares(loads, self._slots, self._sharing).items():
            if self._sharing == "max-min":  # refreshes by the ends of goals are equally late, and leave no time unused
                share = Allotted(one_in=share.one_in)
            if share != self._programs[name].state.share:
                self._programs[name].send(share)

    def _round(self) -> None:
        """Serve the views that are due, and with them those that are due soon, by the ends of their goals."""
        begun = self._clock.since_boot()
        if min((program.next for program in self._programs.values()), default=math.inf) > begun:
            return
        while not self._changed and self._serve_one() and self._clock.since_boot() < begun + _ROUND_SECONDS:
            pass

    def _serve_one(self) -> bool:
        """Refresh the first view that is due, and compare those before it; False: none is due."""
        due = {name: program.due() for name, program in self._programs.items()}
        order = {
            name: sooner + (self._reserve if self._reserve <= _RESERVED * due[name].goal else 0.0)
            for name, sooner in early(due, self._clock.now()).items()
        }
        if self._busy() and self._gives_way(
            min(self._programs[name].must(one, order[name]) for name, one in due.items())
        ):
            return True
        sooner_by = _SOONER if self._clock.since_boot() < self._last_busy + _BUSY_SECONDS else 0.0
        for name, sooner in order.items():
            program = self._programs[name]
            sooner += sooner_by * program.target.lag
            if self._stopped or (
                program.next <= self._clock.since_boot() + _EARLY * program.target.lag
                and self._turn(name, program, sooner)
            ):
                return not self._stopped
        return False

    def _gives_way(self, until: float) -> bool:
        """Wait while queries of others run, at most until this time; False: it has come."""
        has_waited = False
        while not (self._stopped or self._changed) and self._busy():
            self._last_busy = self._clock.since_boot()
            left = until - self._clock.now()
            if left <= 0:
                return False
            with self._woken:
                self._clock.wait(self._woken, min(_CHECK_SECONDS, left))
            has_waited = True
        return has_waited

    def _turn(self, name: str, program: _Program, sooner: float) -> bool:
        """Compare the tables of a view, and refresh it if that is due. Errors show in the status of the view.

        sooner: see `TablesCompared.early`. Returns True after a refresh."""
        begun, compared = self._clock.awake(), self._compared
        compared.forget(min(max(program.old, _OLD_COSTS * self._comparison), program.since_expected()))
        try:
            since = self._views.behind(name)
        except Exception as error:
            self._views.note_error(name, error)
            since = self._clock.now()
        if new := compared.note(begun):
            self._comparison += (self._clock.awake() - begun - self._comparison) * _NEW
            losing = [self._programs[one] for one in self._views.losing(new) & self._programs.keys()]
            for one in losing:
                one.loses = True
            if losing:
                self._reserve += (sum(one.extra for one in losing) - self._reserve) * _NEW
        found = TablesCompared(
            self._clock.now(), since, sooner, self._comparison, self._clock.awake() - compared.oldest,
            *program.learn(self._views.changes_of(name)),
        )  # fmt: skip
        if not program.send(found) or self._stopped:
            return False
        assert program.refresh is not None
        one_in = program.refresh.one_in
        failed = self._failure(name, one_in)
        if isinstance(failed, TableChanged):  # since it was compared
            compared.forget(0.0)
            failed = self._failure(name, one_in)
        seconds = self._clock.awake() - begun
        sampled = False
        if failed is not None:
            self._views.note_error(name, failed)
        else:
            last = self._views.last(name)
            program.measure(last, one_in, seconds)
            sampled = last.one_in > 1
        program.send(RefreshEnded(self._clock.now(), seconds, failed is not None, sampled))
        self._rest(seconds)
        return True

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
                    self._clock.wait(self._woken, min(_LONGEST_REST, seconds * (1 / part - 1)))

    def _capacity(self) -> float:
        """The part of the thread's time that people's queries leave now."""
        return min(1.0, max(_LEAST_PART, self._slots_now()))

    def _wait(self) -> None:
        until = min((program.next for program in self._programs.values()), default=self._clock.since_boot() + _IDLE)
        with self._woken:
            if not self._stopped and not self._changed:
                self._clock.wait(self._woken, min(max(0.001, until - self._clock.since_boot()), _IDLE))
