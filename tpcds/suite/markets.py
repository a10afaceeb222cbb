"""What the profiles are like that queries meet: figure 2.3, and the numbers the paper gives of its own.

A spot profile is one series of five hours; a profile of the shared cluster is what one job of it sees.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qoop.profiles import events
from qoop.profiles.summary import PERCENTS
from qoop.tpcds.suite.situations import MAKERS

SERIES: Mapping[str, int] = {"spot": 20, "shared": 200}
"""How many profiles of each kind are counted."""
_SEED = 7_000_000
"""Other seeds than those that queries meet, as for any sample."""


@dataclass(frozen=True, slots=True)
class Series:
    """One profile to look at."""

    kind: str
    number: int
    seed: int


def items(seed: int) -> dict[str, Series]:
    """Those of every kind that there is."""
    kinds = {kind: SERIES[kind] for kind in MAKERS}
    return {f"{kind} {number}": Series(kind, number, seed) for kind, count in kinds.items() for number in range(count)}


def measure(series: Series) -> dict[str, Any]:
    """Events of each size, and the slots over time, as JSON values."""
    profile = MAKERS[series.kind](_SEED * series.seed + series.number)
    return {
        "kind": series.kind,
        "events": [events(profile, percent) for percent in PERCENTS],
        "seconds": profile.seconds,
        "machines": [[point.at, point.machines] for point in profile.changes()],
        "slots": [[point.at, point.all_slots] for point in profile.changes()],
    }
