"""One item of the map: a query in a cell."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from qoop.adaptive.profiles import CapacityProfile
from qoop.catalog.errors import ConfigError
from qoop.tpcds.map.cells import FOURFOLD, OURS, SHARES, Cell, point, profile, share
from qoop.tpcds.map.systems import Contest, json_of
from qoop.tpcds.simulate.ground_truth import GroundTruth, believed, measured, misjudged
from qoop.tpcds.simulate.measuring import measurements
from qoop.tpcds.simulate.workload import Query, Setting, workload

SCALES = (1.0, 10.0)
"""Of data on which stages may have been measured."""


@dataclass(frozen=True, slots=True)
class Item:
    """directory: tables of scale 1. seed: of moments and errors."""

    directory: Path
    seed: int
    cell: Cell
    query: int


def measure(item: Item) -> dict[str, Any]:
    """One record, as JSON values."""
    cell, query = item.cell, query_of(item.directory, item.query, item.cell.setting)
    truth = _truth(item)
    likely = [share(slots, cell.memory) for slots in SHARES]
    calm = CapacityProfile((point(0.0, cell.before, cell.memory),))
    steady = Contest(query, calm, truth, likely)
    run = steady.pinned(steady.launch).seconds
    chance = random.Random(f"{item.seed} {cell.name} {item.query}")
    contest = Contest(query, profile(cell, run, chance), truth, likely)
    return {"group": cell.name, "query": item.query, "joins": query.joins, "runs": json_of(contest.all())}


@lru_cache(maxsize=64)
def query_of(directory: Path, number: int, setting: Setting) -> Query:
    """A query with its plans, kept for the process."""
    return workload(directory, (number,), setting)[number]


def as_measured(directory: Path, query: Query, setting: Setting) -> GroundTruth:
    """The ground truth of a query by its measurements. Raises ConfigError if it has none: all would be as believed."""
    if not measurements(directory).scales(query.number, SCALES):
        raise ConfigError(
            f"query {query.number} was not measured: qoop bench measure {directory} --queries {query.number}"
        )
    return measured(directory, {query.number: query}, setting, SCALES)


def _truth(item: Item) -> GroundTruth:
    setting, error = item.cell.setting, item.cell.error
    query = query_of(item.directory, item.query, setting)
    if error == OURS:
        return as_measured(item.directory, query, setting)
    truth = believed((query,), setting)
    return misjudged(truth, 4.0, item.seed) if error == FOURFOLD else truth
