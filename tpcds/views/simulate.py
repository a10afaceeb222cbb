"""Queries share slots on a virtual clock: every second a policy allocates, and lag follows from what was processed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from qoop.programs.views import allocation
from qoop.programs.views.allocation import HORIZON, Allocation, Sharer, corrected, fitting, whole
from qoop.tpcds.views.workload import SLOTS, Query

_AIM = 0.8
"""The part of a lag goal that policies aim at: demands change while a lag is corrected."""

Policy = Callable[[Sequence[Sharer], float], list[Allocation]]


def first_come(queries: Sequence[Sharer], slots: float, horizon: float = HORIZON) -> list[Allocation]:
    """All that its best configuration needs for each query, in order, until the slots are used."""
    made = []
    for one in queries:
        share = min(slots, whole(one, -1, horizon))
        slots -= share
        made.append(Allocation(share, fitting(one, share)))
    return made


POLICIES: dict[str, Policy] = {**allocation.POLICIES, "first-come": first_come}


@dataclass(frozen=True, slots=True)
class Measures:
    """Over all seconds of all queries. quality: the mean. overdue: the part with a lag above the goal. cost: the part
    of the slots in use. worst: the least mean utility of a query. backlog: seconds until no lag is above its goal after
    slots came back; 0: it never was."""

    quality: float
    overdue: float
    cost: float
    worst: float
    backlog: float


@dataclass(slots=True)
class _Running:
    """A query while it runs. error: of its demand, as corrected so far."""

    query: Query
    lag: float = 0.0
    error: float = 1.0
    choice: int = 0

    def sharer(self) -> Sharer:
        goals = self.query.goals
        return Sharer(replace(goals, lag=_AIM * goals.lag), self.query.choices, self.lag, self.error)

    def step(self, made: Allocation, at: float, corrects: bool) -> float:
        """A second with these slots; returns those in use."""
        self.choice = made.choice
        demand = self.query.choices[made.choice].demand * self.query.real(at)
        done = min(self.lag + 1, made.slots / demand)
        self.lag += 1 - done
        if corrects and done > 0.01:
            self.error = corrected(self.error, self.query.real(at))
        return done * demand


def play(
    policy: str,
    queries: Sequence[Query],
    seconds: float,
    corrects: bool = True,
    dip: tuple[float, float] = (0.0, 0.0),
    slots: float = SLOTS,
) -> Measures:
    """One run. corrects: measured demands correct those of the choices. dip: half of the slots are gone in between."""
    allocate = POLICIES[policy]
    running = {place: _Running(one) for place, one in enumerate(queries)}
    qualities, late, used = list[float](), list[bool](), 0.0
    utilities: dict[int, list[float]] = {place: [] for place in running}
    last_late = dip[1]
    for at in map(float, range(int(seconds))):
        now = [place for place, one in enumerate(queries) if one.begins <= at < one.ends]
        here = slots / 2 if dip[0] <= at < dip[1] else slots
        made = allocate([running[place].sharer() for place in now], here)
        for place, one in zip(now, made, strict=True):
            own = running[place]
            used += own.step(one, at, corrects)
            quality = own.query.choices[own.choice].quality
            qualities.append(quality)
            late.append(own.lag > own.query.goals.lag)
            utilities[place].append(own.query.goals.utility(quality, own.lag))
            last_late = at if late[-1] and dip[1] else last_late
    worst = min(fmean(found) for found in utilities.values() if found)
    return Measures(
        fmean(qualities), fmean(late), used / (slots * seconds), worst, max(0.0, last_late - dip[1]) if dip[1] else 0.0
    )
