"""Slots and configurations of continuous queries. Pure.

The utility of a query is ``a_q (Q - Q^M)+ - c (Q^M - Q)+ - a_l (L - L^M)+`` at the end of a look-ahead of T seconds.
With an allocation a and a configuration of demand D, its lag is ``L + T - T a / D`` then. So the utility rises with a
from ``u* - a_l (L + T - L^M)+`` to u*, which the allocation ``a* = D (1 + (L - L^M) / T)+`` reaches.

- MAXMIN raises the least utility of all, then the next: the largest level is found by bisection, since the allocation
  that a query needs for a level is known.
- MAXSUM takes the steps of the concave hulls of all queries by their gain a slot, then shrinks and spends the rest.
- Both give slots that no utility needs to the queries that are most behind, against their goals.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

HORIZON = 10.0
"""T: seconds."""

_BELOW_GOAL = 2.0  # c, in units of the larger of a_q and 1; the source has none, so low quality would cost nothing
_BISECTIONS = 30
_LITTLE = 1e-9


@dataclass(frozen=True, slots=True)
class Configuration:
    """demand: slots that keep up with the data. quality: from 0 to 1."""

    demand: float
    quality: float


@dataclass(frozen=True, slots=True)
class Goals:
    """quality: Q^M. lag: L^M, seconds. of_quality, of_lag: the weights a_q and a_l."""

    quality: float
    lag: float
    of_quality: float = 1.0
    of_lag: float = 1.0

    def utility(self, quality: float, lag: float) -> float:
        """U.

        >>> Goals(0.5, 10.0).utility(0.75, 12.0)
        -1.75
        """
        above, below = max(0.0, quality - self.quality), max(0.0, self.quality - quality)
        late = max(0.0, lag - self.lag)
        return self.of_quality * above - _BELOW_GOAL * max(self.of_quality, 1.0) * below - self.of_lag * late


@dataclass(frozen=True, slots=True)
class Sharer:
    """A query now. choices: by demand. lag: seconds. error: its demand is this many times that of the choices."""

    goals: Goals
    choices: tuple[Configuration, ...]
    lag: float = 0.0
    error: float = 1.0


@dataclass(frozen=True, slots=True)
class Allocation:
    """slots, and the place of the configuration among the choices."""

    slots: float
    choice: int


@dataclass(frozen=True, slots=True)
class _Ramp:
    """One configuration. low: the utility without slots. top: that of `enough` slots."""

    low: float
    top: float
    enough: float

    def at(self, slots: float) -> float:
        if slots >= self.enough - _LITTLE:
            return self.top
        return self.low + (self.top - self.low) * slots / self.enough


@dataclass(frozen=True, slots=True)
class Curve:
    """The utility of a query by its slots."""

    ramps: tuple[_Ramp, ...]
    best: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "best", max(ramp.top for ramp in self.ramps))

    def at(self, slots: float) -> float:
        """The utility with the best configuration."""
        return max(ramp.at(slots) for ramp in self.ramps)

    def needs(self, level: float) -> float:
        """The least allocation of this utility, or of the best one if that is less."""
        level = min(level, self.best)
        least = math.inf
        for ramp in self.ramps:
            if ramp.top >= level:
                need = ramp.enough * (level - ramp.low) / (ramp.top - ramp.low) if level > ramp.low else 0.0
                least = min(need, least)
        return least


def curve(query: Sharer, horizon: float = HORIZON) -> Curve:
    """The utilities of a query at the end of the look-ahead."""
    goals = query.goals
    idle = query.lag + horizon
    ramps = []
    for one in query.choices:
        enough = query.error * one.demand * max(0.0, 1 + (query.lag - goals.lag) / horizon)
        top = goals.utility(one.quality, goals.lag)
        ramps.append(_Ramp(top if enough == 0 else goals.utility(one.quality, idle), top, enough))
    return Curve(tuple(ramps))


def max_min(queries: Sequence[Sharer], slots: float, horizon: float = HORIZON) -> list[Allocation]:
    """The allocation whose least utility is largest, then the next one, and so on.

    >>> fast, slow = Configuration(1.0, 0.5), Configuration(3.0, 0.9)
    >>> queries = [Sharer(Goals(0.0, 0.0), (fast, slow)), Sharer(Goals(0.0, 100.0), (fast, slow))]
    >>> max_min(queries, 4.0)
    [Allocation(slots=3.0, choice=1), Allocation(slots=1.0, choice=1)]
    """
    curves = [curve(one, horizon) for one in queries]
    low, high = min((one.at(0.0) for one in curves), default=0.0), max((one.best for one in curves), default=0.0)
    if sum(one.needs(high) for one in curves) > slots:
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            low, high = (middle, high) if sum(one.needs(middle) for one in curves) <= slots else (low, middle)
    else:
        low = high
    shares = [one.needs(low) for one in curves]
    return _completed(queries, _spent(curves, shares, slots), slots, horizon)


def max_sum(queries: Sequence[Sharer], slots: float, horizon: float = HORIZON) -> list[Allocation]:
    """An allocation whose sum of utilities is about the largest."""
    curves = [curve(one, horizon) for one in queries]
    steps = [(gain / cost, place, cost) for place, one in enumerate(curves) for gain, cost in _hull(one)]
    shares = [0.0] * len(curves)
    left = slots
    for _, place, cost in sorted(steps, key=lambda step: (-step[0], step[1])):
        taken = min(cost, left)
        shares[place] += taken
        left -= taken
    shares = [one.needs(one.at(had)) for one, had in zip(curves, shares, strict=True)]
    return _completed(queries, _spent(curves, shares, slots), slots, horizon)


def fair(queries: Sequence[Sharer], slots: float, horizon: float = HORIZON) -> list[Allocation]:
    """Equal shares, of which each query returns the part that its best configuration does not need."""
    needs = [whole(one, -1, horizon) for one in queries]
    shares = _filled(needs, slots)
    return [Allocation(share, fitting(one, share)) for one, share in zip(queries, shares, strict=True)]


POLICIES: dict[str, Callable[[Sequence[Sharer], float], list[Allocation]]] = {
    "max-min": max_min, "max-sum": max_sum, "fair": fair,
}  # fmt: skip
"""The ways to share: the least utility is largest; the sum of utilities; equal parts."""


def corrected(error: float, measured: float, weight: float = 0.3) -> float:
    """The error of a query's demand after another measurement of it.

    >>> corrected(1.0, 2.0, 0.5)
    1.5
    """
    return min(20.0, max(0.05, (1 - weight) * error + weight * measured))


def _hull(one: Curve) -> list[tuple[float, float]]:
    """The steps of the concave hull of a curve: gain and cost of each, by gain a slot."""
    points = sorted({(0.0, one.at(0.0)), *((ramp.enough, ramp.top) for ramp in one.ramps if ramp.enough > 0)})
    hull: list[tuple[float, float]] = []
    for cost, utility in points:
        while hull and utility >= hull[-1][1] and _is_below(hull, (cost, utility)):
            hull.pop()
        if not hull or utility > hull[-1][1]:
            hull.append((cost, utility))
    return [(high[1] - low[1], high[0] - low[0]) for low, high in pairwise(hull)]


def _is_below(hull: Sequence[tuple[float, float]], point: tuple[float, float]) -> bool:
    """True if the last point of a hull lies below the line to a further one."""
    if hull[-1][0] == point[0]:
        return True
    if len(hull) < 2:
        return False
    (a, u), (b, v), (c, w) = hull[-2], hull[-1], point
    return (v - u) * (c - b) <= (w - v) * (b - a)


def _spent(curves: Sequence[Curve], shares: Sequence[float], slots: float) -> list[float]:
    """The allocation after the slots that are left have gone to the largest gains a slot that they pay for."""
    made = list(shares)
    left = slots - sum(made)
    gains = [_by_gain(place, _gain(one, made[place], left)) for place, one in enumerate(curves)]
    heapq.heapify(gains)
    while left > _LITTLE and gains:
        rate, place, cost = heapq.heappop(gains)
        if -rate <= _LITTLE:
            break
        if cost <= left + _LITTLE:
            made[place] += cost
            left -= cost
        heapq.heappush(gains, _by_gain(place, _gain(curves[place], made[place], left)))
    return made


def _by_gain(place: int, gain: tuple[float, float]) -> tuple[float, int, float]:
    """In an order of which the first has the largest gain a slot."""
    return -gain[0], place, gain[1]


def _gain(one: Curve, had: float, left: float) -> tuple[float, float]:
    """The largest gain a slot of a query that has some, and its cost: to the top of a ramp, or up one with all that is
    left."""
    now = one.at(had)
    costs = [ramp.enough - had for ramp in one.ramps if ramp.top > now and ramp.enough > had]
    rates = [((one.at(had + cost) - now) / cost, cost) for cost in [*(c for c in costs if c <= left), left] if cost > 0]
    return max(rates, default=(0.0, 0.0))


def _completed(queries: Sequence[Sharer], shares: Sequence[float], slots: float, horizon: float) -> list[Allocation]:
    """The configurations of an allocation, and the slots that no utility needs for those that are most behind."""
    choices = [_best(one, had, horizon) for one, had in zip(queries, shares, strict=True)]
    made = list(shares)
    left = slots - sum(made)
    urgent = sorted(range(len(queries)), key=lambda place: -queries[place].lag / max(queries[place].goals.lag, 1.0))
    for place in urgent:
        if left <= _LITTLE:
            break
        more = min(left, max(0.0, whole(queries[place], choices[place], horizon) - made[place]))
        made[place] += more
        left -= more
    return [Allocation(slots_, choice) for slots_, choice in zip(made, choices, strict=True)]


def whole(one: Sharer, choice: int, horizon: float) -> float:
    """The slots with which a query catches up within the look-ahead."""
    return one.error * one.choices[choice].demand * (1 + one.lag / horizon)


def _best(one: Sharer, slots: float, horizon: float) -> int:
    """The choice of the largest utility; of several the best quality, then the least demand."""
    ramps = curve(one, horizon).ramps
    return max(
        range(len(ramps)),
        key=lambda place: (round(ramps[place].at(slots), 9), one.choices[place].quality, -one.choices[place].demand),
    )


def _filled(needs: Sequence[float], slots: float) -> list[float]:
    """Equal shares of slots, none above its need."""
    shares = [0.0] * len(needs)
    rest = sorted(range(len(needs)), key=lambda place: needs[place])
    for number, place in enumerate(rest):
        shares[place] = min(needs[place], slots / (len(rest) - number))
        slots -= shares[place]
    return shares


def fitting(one: Sharer, share: float) -> int:
    """The best configuration that keeps up with a share; else the cheapest."""
    fits = [place for place, choice in enumerate(one.choices) if one.error * choice.demand <= share + _LITTLE]
    return max(fits, default=0)
