"""Ways to share a thread between views, over recorded costs: on a virtual clock, whatever the machine's speed is then.

::

    cost of all views a day, if each is refreshed once in 0.8 of its goal ──> goals of a load, a part of a thread's time
    days land ──> lags of all refreshes, by the session's own thread or by one that knows no goals

A refresh takes the seconds of a recorded one of the same view, drawn from those of about as many days. The clock goes
on by that alone: a thread that is ready begins at once.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from random import Random

from qoop.programs.views.freshness import SETTLED
from qoop.programs.views.owner import Clock, Owner, Refreshment, Target
from qoop.tpcds.views.days import CHANGED
from qoop.tpcds.views.load import AIM, DAYS
from qoop.tpcds.views.recorded import RecordedCosts
from qoop.tpcds.views.shapes import CHANNELS, shapes

EQUAL, TURNS = "equal", "turns"

POLICIES = ("max-min", "fair", EQUAL, TURNS)
"""The session's, by goals, with or without equal shares under shortage. Of those that know no goals: the view that has
had least of the time so far is refreshed as soon as there are changes (equal shares; a view without changes returns its
part); and one view after the other."""

_ALIKE = 5
"""Recorded refreshes of the most similar numbers of days, of which one is drawn."""

_DAYS_OFFERED = 320

_BEGIN = 1000.0


@dataclass(frozen=True, slots=True)
class Measures:
    """refreshes, overdue: as in `LoadMeasures`. busy: the part of the time. a_day: seconds of all views a day."""

    refreshes: int
    overdue: float
    busy: float
    a_day: float


class _World(Clock):
    """Views over tables in which days land, for an `Owner`. lags: of refreshes, with their goals."""

    def __init__(self, costs: RecordedCosts, targets: Sequence[float], landed: Sequence[float], seed: int) -> None:
        self._costs, self._landed, self._draw = costs, landed, Random(seed)
        self.views = {one.name: one for one in shapes(len(targets))}
        self._goals = dict(zip(self.views, targets, strict=True))
        self._refreshes = dict(zip(self.views, costs.refreshes, strict=True))
        self._others = {table: [self._draw.randrange(CHANGED) == 0 for _ in landed] for table in CHANNELS}
        self.at, self.busy = _BEGIN, 0.0
        self._compared = set[str]()
        self._known = dict.fromkeys(CHANNELS, 0)  # days that comparisons have found
        self._checked = dict.fromkeys(CHANNELS, 0)
        self._taken = dict.fromkeys(self.views, 0)
        self._served = dict.fromkeys(self.views, 0.0)  # seconds
        self.lags = list[tuple[float, float]]()
        self._owner: Owner | None = None

    def now(self) -> float:
        return self.at

    awake = since_boot = now

    def wait(self, woken: threading.Condition, seconds: float) -> None:
        self.at += seconds
        if self._owner is not None and self.is_over:
            self._owner.stop()

    @property
    def is_over(self) -> bool:
        """True once the last day has landed."""
        return self.at >= self._landed[-1]

    def targets(self) -> dict[str, Target]:
        return {name: Target(goal) for name, goal in self._goals.items()}

    def last(self, name: str) -> Refreshment:
        return Refreshment(0)

    def note_error(self, name: str, error: Exception) -> None:
        raise error

    def comparing_once(self) -> AbstractContextManager[set[str]]:
        return nullcontext(self._compared)

    def behind(self, name: str) -> float | None:
        table = self.views[name].table
        if table not in self._compared:
            self._compared.add(table)
            before, self._known[table] = self._known[table], bisect_right(self._landed, self.at - SETTLED)
            found = self._costs.compared if self._known[table] > before else self._costs.unchanged
            self._spend(self._draw.choice(found))
        self._spend(self._costs.again)
        return next(iter(self.changes_of(name)), None)

    def changes_of(self, name: str) -> Sequence[float]:
        return self._landed[self._taken[name] : self._known[self.views[name].table]]

    def losing(self, tables: Iterable[str]) -> set[str]:
        lost = {table for table in tables if any(self._others[table][self._checked[table] : self._known[table]])}
        self._checked |= self._known
        return {name for name, one in self.views.items() if one.table in lost}

    def refresh_view(self, name: str, full: bool = False, one_in: int = 1) -> bool:
        changes, first = self.changes_of(name), self._taken[name]
        if changes:
            self._taken[name] += len(changes)
            others = sum(self._others[self.views[name].table][first : self._taken[name]])
            seconds = self._drawn(name, len(changes), others) + self._costs.search
            self._served[name] += seconds
            self._spend(seconds)
            self.lags.append((self.at - changes[0], self._goals[name]))
        return bool(changes)

    def _drawn(self, name: str, days: int, others: int) -> float:
        """The seconds of a refresh like one of that number of days, of which some replaced or removed others."""
        unlike = lambda one: (abs(min(one[1], 2) - min(others, 2)), abs(one[0] - days))  # noqa: E731
        return self._draw.choice(sorted(self._refreshes[name], key=unlike)[:_ALIKE])[2]

    def _spend(self, seconds: float) -> None:
        self.at += seconds
        self.busy += seconds

    def play(self, policy: str) -> Measures:
        """Serve the views until the last day."""
        if policy == TURNS:
            self._in_turns()
        elif policy == EQUAL:
            self._equally()
        else:
            self._owner = Owner(self, lambda: None, sharing=policy, clock=self)
            self._owner.run()
        behind = [(self.at - at, self._goals[name]) for name in self.views for at in self.changes_of(name)[:1]]
        ended = [*self.lags, *((lag, goal) for lag, goal in behind if lag > goal)]
        late = sum(lag > goal for lag, goal in ended)
        days = bisect_right(self._landed, self.at)
        return Measures(len(ended), late / max(1, len(ended)), self.busy / (self.at - _BEGIN), self.busy / days)

    def _in_turns(self) -> None:
        """Statements refresh one view after the other; each compares the tables."""
        while not self.is_over:
            for name in self.views:
                self._compared.clear()
                self.behind(name)
                self.refresh_view(name)

    def _equally(self) -> None:
        """A thread that compares the tables once a day, and is never idle while there are changes."""
        landed = 0
        while not self.is_over:
            before, landed = landed, bisect_right(self._landed, self.at - SETTLED)
            if landed > before:
                self._compared.clear()
                for name in self.views:
                    self.behind(name)
            if waiting := [name for name in self.views if self.changes_of(name)]:
                self.refresh_view(min(waiting, key=self._served.__getitem__))
            else:
                self.at = self._landed[landed] + SETTLED

    def in_time(self) -> float:
        """Refresh each view once in `AIM` of its goal, counted in days; returns the seconds a day."""
        due = dict.fromkeys(self.views, 0.0)
        for day, at in enumerate(self._landed):
            self.at = at + SETTLED
            self._compared.clear()
            for name in [name for name, at in due.items() if at <= day]:
                self.behind(name)
                self.refresh_view(name)
                due[name] += AIM * DAYS * self.views[name].goal
        return self.busy / len(self._landed)


def offered(costs: RecordedCosts) -> float:
    """The seconds of all views a day, if each is refreshed once in `AIM` of its goal: whatever a policy makes of it."""
    landed = [_BEGIN + 1000.0 * day for day in range(_DAYS_OFFERED)]
    return _World(costs, [1.0] * len(costs.refreshes), landed, 1).in_time()


def play(
    costs: RecordedCosts, policy: str, targets: Sequence[float], seconds: float, seed: int, burst: bool = False
) -> Measures:
    """One run. policy: of `POLICIES`. targets: the goals, in seconds. burst: in the middle third of the time days land
    twice as fast."""
    return _World(costs, targets, list(_landings(min(targets) / DAYS, seconds, burst)), seed).play(policy)


def _landings(pace: float, seconds: float, burst: bool) -> Iterator[float]:
    """The times at which days land."""
    passed = 0.0
    while passed < seconds:
        yield _BEGIN + passed
        passed += pace / 2 if burst and seconds / 3 <= passed < seconds * 2 / 3 else pace
