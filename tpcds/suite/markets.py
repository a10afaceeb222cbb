"""Statistics of the profiles of the queries: figure 2.3, and the numbers that the paper gives of its profiles.

A spot profile is one series of five hours. The profile of a shared cluster is the share of each job during its life.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from qoop.adaptive.profiles import events
from qoop.adaptive.profiles.named import spot
from qoop.adaptive.profiles.shared import observable_jobs, recorded, view
from qoop.adaptive.profiles.summary import PERCENTS

SERIES = 20
"""The number of series of the market that are counted."""
_SEED = 7_000_000
"""Other seeds than those that queries meet, as for any sample."""
_SHOWN, _LONG = 3, 400.0


@dataclass(frozen=True, slots=True)
class Series:
    """One series of the market, or one of the recorded clusters."""

    kind: str
    number: int
    seed: int


def items(seed: int) -> dict[str, Series]:
    """All that are looked at."""
    counts = {"spot": SERIES, "shared": len(recorded())}
    return {f"{kind} {number}": Series(kind, number, seed) for kind, count in counts.items() for number in range(count)}


def measure(series: Series) -> dict[str, Any]:
    """Events of each size, and capacity over time, as JSON values."""
    return _market(_SEED * series.seed + series.number) if series.kind == "spot" else _cluster(series.number)


def _market(seed: int) -> dict[str, Any]:
    profile = spot(seed)
    machines = [[point.at, point.machines] for point in profile.changes()]
    counts = [events(profile, percent) for percent in PERCENTS]
    return {"kind": "spot", "events": counts, "seconds": profile.seconds, "machines": machines}


def _cluster(number: int) -> dict[str, Any]:
    """jobs: by size, the events that each of them saw. shares: of a few that were there for some time."""
    lifetimes = recorded()[number]
    long = [
        (came, ended)
        for came, ended in zip(lifetimes.came, lifetimes.ended, strict=True)
        if lifetimes.begin <= came and ended <= lifetimes.end and ended - came >= _LONG
    ]
    views = [view(lifetimes, came, ended) for came, ended in long[:_SHOWN]]
    shares = [[[point.at, point.all_slots] for point in one.points] for one in views]
    return {"kind": "shared", "jobs": [observable_jobs(lifetimes, percent) for percent in PERCENTS], "shares": shares}
