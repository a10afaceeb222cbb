"""Queries of several tenants as they arrive: open arrivals of a given load, in bursts and alone, with deadlines.

Three habits: a *dashboard* asks twenty short queries at once, an *analyst* one long query after the other, a *batch* a
night's worth of all kinds at one moment. Everything follows from the seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

BURST = 20
"""Queries of a dashboard at once."""


@dataclass(frozen=True)
class Arrival:
    """A query that a tenant asks. at: seconds. priority: 1 to 10."""

    name: str
    tenant: str
    query: int
    at: float
    priority: float = 5.0


@dataclass(frozen=True)
class Tenant:
    """habit: of those in `HABITS`. part: of the load, relative to other tenants."""

    name: str
    habit: str
    part: float = 1.0


TENANTS = (
    Tenant("dash1", "dashboard"), Tenant("dash2", "dashboard"), Tenant("dash3", "dashboard"),
    Tenant("ana1", "analyst"), Tenant("ana2", "analyst"), Tenant("ana3", "analyst"), Tenant("ana4", "analyst"),
    Tenant("night", "batch"),
)  # fmt: skip


@dataclass(frozen=True)
class Queries:
    """The queries by the work they take, in slot seconds: a third counts as short, a third as long."""

    work: Mapping[int, float]

    @property
    def _ordered(self) -> Sequence[int]:
        return sorted(self.work, key=lambda number: (self.work[number], number))

    @property
    def short(self) -> Sequence[int]:
        return self._ordered[: max(1, len(self.work) // 3)]

    @property
    def long(self) -> Sequence[int]:
        return self._ordered[-max(1, len(self.work) // 3) :]

    @property
    def all(self) -> Sequence[int]:
        return self._ordered


def arrivals(
    queries: Queries, slots: float, load: float, seconds: float, seed: int, tenants: Sequence[Tenant] = TENANTS
) -> list[Arrival]:
    """The queries that arrive within a number of seconds, in the order in which they do.

    load: the work that is offered, as a part of what the slots can do in that time. What each tenant offers is random
    (by a factor of up to two), then scaled so that all of it is the load.
    """
    chance = random.Random(seed)
    parts = {tenant: tenant.part * chance.uniform(0.7, 1.4) for tenant in tenants}
    unit = load * slots * seconds / sum(parts.values())
    found = [
        Arrival("", tenant.name, query, at, float(chance.randint(1, 10)))
        for tenant in tenants
        for at, query in HABITS[tenant.habit](queries, parts[tenant] * unit, seconds, chance)
    ]
    found.sort(key=lambda one: one.at)
    return [Arrival(f"{one.tenant}-{i}", one.tenant, one.query, one.at, one.priority) for i, one in enumerate(found)]


_Arrivals = Iterator[tuple[float, int]]


def _in_groups(
    queries: Sequence[int], size: int, all_of: Queries, work: float, seconds: float, chance: random.Random
) -> _Arrivals:
    """Groups that come together at random moments, until that much work is offered."""
    drawn: list[list[int]] = []
    offered = 0.0
    while offered < work:
        group = [chance.choice(queries) for _ in range(size)]
        total = sum(all_of.work[query] for query in group)
        if drawn and offered + total - work > work - offered:  # nearer without it
            break
        drawn.append(group)
        offered += total
    for at, group in zip(_moments(len(drawn), seconds, chance), drawn, strict=True):
        yield from ((at, query) for query in group)


def _moments(count: int, seconds: float, chance: random.Random) -> list[float]:
    """Of a Poisson process of which it is known how often it came."""
    return sorted(chance.uniform(0.0, seconds) for _ in range(count))


def _dashboard(queries: Queries, work: float, seconds: float, chance: random.Random) -> _Arrivals:
    return _in_groups(queries.short, BURST, queries, work, seconds, chance)


def _analyst(queries: Queries, work: float, seconds: float, chance: random.Random) -> _Arrivals:
    return _in_groups(queries.long, 1, queries, work, seconds, chance)


def _batch(queries: Queries, work: float, seconds: float, chance: random.Random) -> _Arrivals:
    """All at one moment of the first half."""
    at = chance.uniform(0.0, seconds / 2)
    return ((at, query) for _, query in _in_groups(queries.all, 1, queries, work, seconds, chance))


HABITS: Mapping[str, Callable[[Queries, float, float, random.Random], _Arrivals]] = {
    "dashboard": _dashboard,
    "analyst": _analyst,
    "batch": _batch,
}


def offered(found: Sequence[Arrival], work: Mapping[int, float]) -> float:
    """Slot seconds of work."""
    return sum(work[one.query] for one in found)
