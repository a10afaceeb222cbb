"""The classes of profiles that are nearer to the paper's, and lengths of queries (see tpcds/EVALUATION_LOG.md)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from qoop.adaptive.profiles import CapacityProfile, Volatility, load, market, regions
from qoop.adaptive.profiles.named import spot, spot_region
from qoop.adaptive.profiles.shared import shared
from qoop.adaptive.profiles.spot import announced_by as spot_announced_by
from qoop.adaptive.profiles.volatility import REGION_SECONDS
from qoop.tpcds.map import cluster
from qoop.tpcds.map.cells import SHARES
from qoop.tpcds.map.simulate import as_measured, query_of
from qoop.tpcds.map.systems import Announcement, Contest, json_of
from qoop.tpcds.simulate.workload import Setting

DISK = 500e6
_A = Setting(disk=DISK)
LENGTHS: Mapping[str, Setting] = {
    "A": _A,
    "B": replace(_A, pace=800.0),
    "C": replace(_A, pace=3200.0),
    "D": replace(_A, pace=3200.0, grain=1.0),
    "E": replace(_A, scale=2000.0, pace=800.0),
}
USUAL = "C"
"""The length at which the tolerance is swept, and recorded traces are run."""
FIRST, EVEN, REST, HELD = "first minute", "even", "rest", "held"
STARTS: Mapping[str, int] = {FIRST: 4, "low": 3, "medium": 3, "high": 3, EVEN: 2, REST: 2, HELD: 2}
TOLERANCES = (0.0, 0.02, 0.05)
"""Besides the usual one."""
_SEEDS = 10**6
_GOES_ON = 1800.0
"""Seconds of a cluster that are left, at least, where a query begins."""


@dataclass(frozen=True, slots=True)
class Item:
    """A query at one start. directory: tables of scale 1. start: counts those of the class. file: a recorded trace."""

    directory: Path
    seed: int
    name: str
    start: int
    query: int
    length: str = USUAL
    tolerance: float | None = None
    file: str | None = None

    @property
    def setting(self) -> Setting:
        setting = LENGTHS[self.length]
        return setting if self.tolerance is None else replace(setting, tolerance=self.tolerance)

    @property
    def group(self) -> str:
        kept = "" if self.tolerance is None else f", plans within {self.tolerance:.0%}"
        return f"{self.length} {self.name}{kept}"


def items(directory: Path, seed: int, queries: Sequence[int], file: str | None = None) -> dict[str, Item]:
    """All of them by name, one query through all classes and lengths before the next one."""
    make = _of_trace if file is not None else _of_paper
    every = (one for query in queries for one in make(directory, seed, query, file))
    return {f"query {one.query}, {one.group} {one.start}": one for one in every}


def _of_paper(directory: Path, seed: int, query: int, _: str | None) -> Iterator[Item]:
    for start in range(max(STARTS.values())):
        for name in (name for name, count in STARTS.items() if start < count):
            usual = Item(directory, seed, name, start, query)
            yield from (replace(usual, length=length) for length in LENGTHS)
            if name in (FIRST, "high"):
                yield from (replace(usual, tolerance=tolerance) for tolerance in TOLERANCES)


def _of_trace(directory: Path, seed: int, query: int, file: str | None) -> Iterator[Item]:
    there = {one.volatility for one in regions(load(str(file)))}
    for name in (str(one) for one in Volatility if one in there):
        yield from (Item(directory, seed, name, start, query, file=file) for start in range(STARTS[name]))


def profile(item: Item) -> CapacityProfile:
    """The slots that the query meets from its start on, which do not depend on the length: all else draws them."""
    chance = _chance(item)
    if item.file is not None:
        region = chance.choice([one for one in regions(load(item.file)) if one.volatility == item.name])
        return region.whole.since(region.begin + chance.uniform(0.0, region.seconds))
    return _MAKERS.get(item.name, _region)(item, chance)


def _first(_: Item, chance: random.Random) -> CapacityProfile:
    market_seed, start = _first_minute(chance)
    return spot(market_seed).since(start)


def announcements(item: Item) -> list[Announcement]:
    """The machines that the bidder means to have, from the query's start on: in the first minute of bidding."""
    if item.name != FIRST or item.file is not None:
        return []
    market_seed, start = _first_minute(_chance(item))
    bids = list(spot_announced_by(market.prices(market_seed)))
    first = max(place for place, (at, _) in enumerate(bids) if at <= start)
    return [
        (max(0.0, at - start), tuple((then - start, count) for then, count in coming)) for at, coming in bids[first:]
    ]


def _first_minute(chance: random.Random) -> tuple[int, float]:
    """The seed of a market, and the second of it in which a query begins."""
    return chance.randrange(_SEEDS), chance.uniform(0.0, 60.0)


def _chance(item: Item) -> random.Random:
    return random.Random(f"{item.seed} {item.name} {item.start} {item.query}")


def _region(item: Item, chance: random.Random) -> CapacityProfile:
    region = spot_region(Volatility(item.name), chance.randrange(_SEEDS))
    return region.whole.since(region.begin + chance.uniform(0.0, REGION_SECONDS))


def _even(item: Item, chance: random.Random) -> CapacityProfile:
    return _anywhere(shared(chance.randrange(_SEEDS)), chance)


def _rest(item: Item, chance: random.Random) -> CapacityProfile:
    return _anywhere(cluster.recorded(item.directory, item.seed).rest(), chance)


def _held(item: Item, chance: random.Random) -> CapacityProfile:
    return _anywhere(cluster.recorded(item.directory, item.seed).held(), chance)


def _anywhere(whole: CapacityProfile, chance: random.Random) -> CapacityProfile:
    return whole.since(chance.uniform(0.0, max(0.0, whole.seconds - _GOES_ON)))


_MAKERS: Mapping[str, Callable[[Item, random.Random], CapacityProfile]] = {
    FIRST: _first, EVEN: _even, REST: _rest, HELD: _held,
}  # fmt: skip


def measure(item: Item) -> dict[str, Any]:
    """One record, as JSON values; systems that know the future run only at the first start of a class."""
    query = query_of(item.directory, item.query, item.setting)
    truth = as_measured(item.directory, query, item.setting)
    shares = [item.setting.share(slots) for slots in SHARES]
    contest = Contest(query, profile(item), truth, shares, announcements(item))
    runs = contest.all() if item.start == 0 else contest.real()
    return {"group": item.group, "query": item.query, "joins": query.joins, "runs": json_of(runs)}
