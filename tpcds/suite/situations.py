"""The situations: the grid of queries and parts of profiles that single-query runs are made over.

For each query, kind of profile and class of volatility ten regions are drawn, by the seed, each of a profile of its
own; a run begins with the region and the profile goes on after it. Items come in rounds, the first region of every
query and class before the second of any, so that what is broken off is balanced.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from qoop.adaptive.profiles import CapacityProfile, Region, Volatility, load, regions
from qoop.adaptive.profiles.named import REGIONS, Make, spot
from qoop.adaptive.profiles.shared import shared
from qoop.tpcds.simulate.workload import Query, fifty, workload
from qoop.tpcds.suite.runs import CLASSES

MAKERS: Mapping[str, Make] = {"spot": spot, "shared": shared}
"""The function that makes the profiles of each kind from a seed."""
_SEEDS = 10**6


@dataclass(frozen=True, slots=True)
class Ground:
    """The ground of runs: tables and profiles.

    directory: tables of scale 1, whose statistics are scaled. seed: of profiles and regions. file: a profile, or the
    name of one, in place of the generated ones.
    """

    directory: Path
    seed: int = 1
    file: str | None = None


@dataclass(frozen=True, slots=True)
class Situation:
    """One query in one region: `region` counts those that are drawn for it."""

    ground: Ground
    query: int
    kind: str
    volatility: str
    region: int

    @property
    def name(self) -> str:
        return f"{self.kind} {self.volatility} {self.region} query {self.query}"


def situations(ground: Ground, queries: Sequence[int], kinds: Sequence[str], count: int) -> dict[str, Situation]:
    """All of them by name, in rounds."""
    classes = classes_of(ground)
    found = [
        Situation(ground, query, kind, volatility, region)
        for region in range(count)
        for kind in kinds
        for query in queries
        for volatility in classes
    ]
    return {one.name: one for one in found}


def place(situation: Situation) -> Region:
    """The region of a situation, drawn by its name and the seed."""
    ground = situation.ground
    draw = random.Random(f"{ground.seed} {situation.name}")
    if ground.file is not None:
        return draw.choice(_of_file(ground.file)[situation.volatility])
    return REGIONS[situation.kind](Volatility(situation.volatility), draw.randrange(_SEEDS))


def profile(situation: Situation) -> CapacityProfile:
    """The profile that the query meets from its start on."""
    return place(situation).profile


def classes_of(ground: Ground) -> tuple[str, ...]:
    """The classes that there are regions of."""
    return CLASSES if ground.file is None else tuple(name for name in CLASSES if _of_file(ground.file)[name])


@lru_cache(maxsize=4)
def _of_file(path: str) -> Mapping[str, tuple[Region, ...]]:
    """The regions of a profile, by class."""
    every = regions(load(path))
    return {name: tuple(region for region in every if region.volatility == name) for name in CLASSES}


@lru_cache(maxsize=64)
def query(directory: Path, number: int) -> Query:
    """A query with its plans, kept for the process."""
    return workload(directory, (number,))[number]


def chosen(directory: Path) -> tuple[int, ...]:
    """The fifty queries with the most alternatives."""
    return fifty(workload(directory))
