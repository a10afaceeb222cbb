"""The shares of views with goals, where the thread that refreshes them lacks time. Pure.

A refresh of r rows costs f + g r seconds. A view whose tables grow by some rows a second, refreshed each tau seconds,
needs the part f / tau + g (rows a second) of the thread's time: the later, the less. So tau is as long as the goal
permits, `_AIM` of it. A view with `max_error` may read a part of the new rows, which costs less and gives intervals.
`allocation` divides the thread's time by the utilities of lag and error. While all exact refreshes fit, each view has
what it needs.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from qoop.catalog.value import value
from qoop.programs.views.allocation import POLICIES, Configuration, Goals, Sharer
from qoop.programs.views.freshness import COMPARISONS, IN_TIME, SAFETY, Allotted

ONE_IN = (2, 4, 8, 16)
"""The parts of new row groups that a refresh may read, each as one in a number."""

_AIM = 1 - 2 / COMPARISONS
"""The part of a goal between two refreshes: comparisons are a tenth of it apart, and a refresh waits for others."""

_FORGET = 0.8
"""The weight of older refreshes with each further one."""

_TOGETHER = 0.1

_LATE = 0.75
"""The part of its goal by which a refresh that is late anyway may be later."""

_FULL = 0.95
"""The part of the capacity that exact refreshes may need before the time is shared."""

_SAMPLED_TO = 0.85
"""The part of the capacity that refreshes need once views are sampled: with less to spare, many are late."""


@value
class RefreshCost:
    """The cost of refreshes, by weighted least squares over those so far.

    count, rows, seconds: sums of weights, of rows and of seconds; squares, products: of rows, and of rows and seconds.
    """

    count: float = 0.0
    rows: float = 0.0
    seconds: float = 0.0
    squares: float = 0.0
    products: float = 0.0

    def after(self, rows: float, seconds: float) -> RefreshCost:
        """The same after another refresh of this many rows."""
        w = _FORGET
        return RefreshCost(
            w * self.count + 1, w * self.rows + rows, w * self.seconds + seconds,
            w * self.squares + rows * rows, w * self.products + rows * seconds,
        )  # fmt: skip

    @property
    def fixed_and_rate(self) -> tuple[float, float]:
        """f and g: the seconds of a refresh of no rows, and those of a row; neither is below 0.

        >>> f, g = RefreshCost().after(100, 0.3).after(300, 0.5).fixed_and_rate
        >>> round(f, 6), round(g, 6)
        (0.2, 0.001)
        >>> RefreshCost().after(100, 0.3).after(100, 0.5).fixed_and_rate[1]
        0.0
        """
        if not self.count:
            return 0.0, 0.0
        mean = self.seconds / self.count
        spread = self.squares - self.rows**2 / self.count
        if spread <= 1e-6 * self.squares:
            return mean, 0.0
        rate = max(0.0, (self.products - self.rows * mean) / spread)
        fixed = mean - rate * self.rows / self.count
        return (fixed, rate) if fixed >= 0 else (0.0, self.seconds / self.rows)


def gap_of(changes: Iterable[float]) -> float:
    """The seconds between changes at these times, where those that come within a tenth of that are one; 0: not known.

    >>> round(gap_of([10.0, 10.01, 12.0, 14.0]), 1)
    2.0
    """
    gaps = [after - before for before, after in pairwise(sorted(set(changes)))]
    apart = [gap for gap in gaps if gap > _TOGETHER * max(gaps)]
    return sum(apart) / len(apart) if apart else 0.0


@value
class Due:
    """The next refresh of a view. end: the time when it has to end, `IN_TIME` of its goal. seconds: that it takes.
    goal: seconds."""

    end: float
    seconds: float
    goal: float


def early(due: Mapping[str, Due], now: float) -> dict[str, float]:
    """For each view the seconds by which its refresh has to begin sooner than it alone would, so that those that end
    later do so in time; in the order in which they are served.

    The refresh whose goal ends first is served first. Where not all can end within their goals, the fewest are late:
    those that take longest give way, until `_LATE` of their goals later. In the order of the ends of goals alone, one
    late refresh would make all after it late.

    due: by name. now: the present time.

    >>> views = {"a": Due(9.0, 0.5, 10.0), "b": Due(8.9, 0.2, 10.0), "c": Due(9.0, 0.1, 10.0)}
    >>> early(views, 8.0)
    {'b': 0.8, 'a': 0.15, 'c': 0.0}
    >>> list(early({"a": Due(1.0, 2.0, 4.0), "b": Due(1.1, 0.5, 4.0), "c": Due(1.2, 0.5, 4.0)}, 0.2))
    ['b', 'c', 'a']
    """
    late = _late(due, now)
    ends = {name: one.end + (_LATE * one.goal if name in late else 0.0) for name, one in due.items()}
    order = sorted(due, key=ends.__getitem__)
    sooner, begin = dict.fromkeys(order, 0.0), math.inf
    for name in reversed(order):
        end = ends[name]
        sooner[name] = round(max(0.0, end - begin), 9)
        begin = min(end, begin) - SAFETY * due[name].seconds
    return sooner


def _late(due: Mapping[str, Due], now: float) -> set[str]:
    """The fewest refreshes that cannot end within their goals (the algorithm of Moore and Hodgson)."""
    late, chosen, at = set[str](), list[tuple[float, str]](), now
    for name in sorted(due, key=lambda name: due[name].end):
        one = due[name]
        heapq.heappush(chosen, (-one.seconds, name))
        at += one.seconds
        if at > one.end + (1 - IN_TIME) * one.goal:
            seconds, longest = heapq.heappop(chosen)
            late.add(longest)
            at += seconds
    return late


@value
class ViewLoad:
    """A view with a goal. lag: seconds. cost: of its refreshes. rows_a_second: by which its tables grow.

    max_error: its option; 0: it is always exact. errors: by `ONE_IN`, of the editions that were estimated; infinite:
    the interval could not be kept. one_in: of the samples in its edition; 1: there are none. unread: rows that an exact
    refresh reads for these.
    """

    goal: float
    lag: float
    cost: RefreshCost
    rows_a_second: float
    max_error: float = 0.0
    errors: Mapping[int, float] | None = None
    one_in: int = 1
    unread: float = 0.0

    @property
    def every(self) -> float:
        """Seconds from one refresh to the next."""
        return _AIM * self.goal

    def demand(self, one_in: int) -> float:
        """The part of a thread's time that keeps up."""
        fixed, rate = self.cost.fixed_and_rate
        rows_a_second = self.rows_a_second + (self.unread / self.every if one_in == 1 else 0.0)
        return fixed / self.every + rate * rows_a_second / one_in

    def sharer(self, lag: float) -> tuple[Sharer, tuple[int, ...]]:
        """Its goals and choices for an allocation at a lag, and what each choice reads."""
        found = [(self.demand(1), 1.0, 1)]
        for one_in in ONE_IN if self.max_error else ():
            error = self._error(one_in)
            if error <= self.max_error and self.demand(one_in) < found[-1][0] and self.one_in in (1, one_in):
                found.append((self.demand(one_in), 1 - error, one_in))
        found.reverse()
        choices = tuple(Configuration(max(demand, _LITTLE), quality) for demand, quality, _ in found)
        goals = Goals(1 - self.max_error, self.every)
        return Sharer(goals, choices, lag), tuple(one_in for _, _, one_in in found)

    def _error(self, one_in: int) -> float:
        """The predicted error: it rises as the root of the part that is not read does; unknown, that permitted."""
        known = [(m, error) for m, error in (self.errors or {}).items() if m <= one_in]
        if not known:
            return self.max_error * math.sqrt((1 - 1 / one_in) * one_in / ONE_IN[-1])
        m, error = max(known)
        return error * math.sqrt((one_in - 1) / (m - 1))


_LITTLE = 1e-9


def shares(views: Mapping[str, ViewLoad], slots: float, sharing: str = "max-min") -> dict[str, Allotted]:
    """The share of each view, by name. slots: the part of a thread's time that all may take. sharing: of `POLICIES`.

    What a view reads depends on the lag just before a refresh: at the present one most views can wait, so a shortage
    would show when they are late.

    >>> cost = RefreshCost().after(0, 1.0)
    >>> shares({"v": ViewLoad(10.0, 0.0, cost, 0.0)}, 1.0)
    {'v': Allotted(slots=inf, one_in=1)}
    >>> shares({name: ViewLoad(1.25, 0.0, cost, 0.0) for name in "vw"}, 1.0, "fair")
    {'v': Allotted(slots=0.5, one_in=1), 'w': Allotted(slots=0.5, one_in=1)}
    """
    if sum(one.demand(1) for one in views.values()) <= _FULL * slots:
        return dict.fromkeys(views, Allotted())
    names = sorted(views)
    just_before = [views[name].sharer(max(views[name].lag, views[name].every)) for name in names]
    may_be_sampled = any(one.max_error for one in views.values())
    reads = _allotted(just_before, _SAMPLED_TO * slots, sharing) if may_be_sampled else []
    if reads and sharing == "max-min":  # refreshes begin by the ends of goals, whatever their slots
        return dict(zip(names, reads, strict=True))
    now = _allotted([views[name].sharer(views[name].lag) for name in names], slots, sharing)
    return {name: Allotted(one.slots, other.one_in) for name, one, other in zip(names, now, reads or now, strict=True)}


def _allotted(sharers: Sequence[tuple[Sharer, tuple[int, ...]]], slots: float, sharing: str) -> list[Allotted]:
    made = POLICIES[sharing]([sharer for sharer, _ in sharers], slots)
    return [Allotted(one.slots, reads[one.choice]) for one, (_, reads) in zip(made, sharers, strict=True)]
