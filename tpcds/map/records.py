"""Results of the map and of the classes, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean, median
from typing import Any

from qoop.tpcds.map.systems import ANNOUNCED, CEILING, CLARINET, OURS, REAL
from qoop.tpcds.quantiles import quantile

AS_GOOD = 0.01
"""Of systems that are this near to each other the simplest counts as the best."""
FASTER = 1.001
_ANNOUNCED = f", {ANNOUNCED}"


@dataclass(frozen=True, slots=True)
class Record:
    """One query in one situation. group: the cell or class. seconds, switches: by system."""

    group: str
    query: int
    joins: int
    seconds: Mapping[str, float]
    switches: Mapping[str, int]

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Record:
        """From JSON values."""
        runs = kept["runs"]
        seconds = {name: run["seconds"] for name, run in runs.items()}
        return cls(
            kept["group"], kept["query"], kept["joins"], seconds, {n: run["switches"] for n, run in runs.items()}
        )

    def gain(self, ours: str = OURS, over: str = CLARINET) -> float:
        """The other's time over ours."""
        return self.seconds[over] / self.seconds[ours]


@dataclass(frozen=True, slots=True)
class Group:
    """All records of a cell or a class."""

    name: str
    records: Sequence[Record]

    def of(self, system: str) -> list[Record]:
        """Those in which a system ran."""
        return [one for one in self.records if system in one.seconds]

    def gains(self, ours: str = OURS, over: str = CLARINET) -> list[float]:
        return [one.gain(ours, over) for one in self.of(ours) if over in one.seconds]

    def mean_gain(self, ours: str = OURS) -> float:
        gains = self.gains(ours)
        return fmean(gains) if gains else float("nan")

    def by_query(self, ours: str = OURS) -> list[float]:
        """Of each query Clarinet's mean time over that of the other."""
        ordered = sorted(self.of(ours), key=lambda one: one.query)
        pairs = ([*group] for _, group in groupby(ordered, key=lambda one: one.query))
        return [fmean(r.seconds[CLARINET] for r in some) / fmean(r.seconds[ours] for r in some) for some in pairs]

    @property
    def best(self) -> str:
        """The system that is nearest to the ceiling; of those as good the simplest."""
        over = {name: fmean(self.gains(CEILING, name)) for name in REAL}
        least = min(over.values())
        return next(name for name in REAL if over[name] <= least * (1.0 + AS_GOOD))


def groups(records: Iterable[Record]) -> dict[str, Group]:
    """The records by cell or class, in the order in which they come."""
    found: dict[str, list[Record]] = {}
    for one in records:
        found.setdefault(one.group, []).append(one)
    return {name: Group(name, some) for name, some in found.items()}


def over_ceiling(records: Iterable[Record], system: str = OURS) -> list[float]:
    """A system's time over the ceiling, of every record."""
    return [one.gain(CEILING, system) for one in records if CEILING in one.seconds]


def lines(found: Mapping[str, Group]) -> list[str]:
    """A line for each cell or class, and one more where capacity was announced."""
    width = max([len(name) for name in found], default=0) + len(_ANNOUNCED)
    head = (
        f"{'':<{width}}  runs Clarinet s  gain: robust  greedy    ours  median hindsight ceiling   worst  faster  best"
    )
    every = [(group, system) for group in found.values() for system in (OURS, ANNOUNCED) if group.of(system)]
    return [head, *(_line(group, width, system) for group, system in every)]


def _line(group: Group, width: int, ours: str) -> str:
    queries = group.by_query(ours)
    gains = [group.mean_gain(name) for name in (*REAL[1:-1], ours, "hindsight", CEILING)]
    cells = [*gains[:3], median(group.gains(ours)), *gains[3:], min(queries)]
    faster = sum(one > FASTER for one in queries) / len(queries)
    best = group.best if group.of(CEILING) else ""
    seconds = median(one.seconds[CLARINET] for one in group.records)
    numbers = " ".join(f"{cell:7.3f}" for cell in cells)
    name = group.name + (_ANNOUNCED if ours == ANNOUNCED else "")
    return f"{name:<{width}} {len(group.records):5d} {seconds:10.0f}       {numbers} {faster:7.0%}  {best}"


def summary(records: Sequence[Record]) -> str:
    """Each system against the ceiling, over all records."""
    over = {name: over_ceiling(records, name) for name in REAL}
    if not over[OURS]:
        return "no run had a ceiling"
    shown = (f"{name} {median(values):.3f}, {quantile(values, 0.95):.3f}" for name, values in over.items())
    return f"{len(over[OURS])} items; time over ceiling, median and 95th percentile: {'; '.join(shown)}"
