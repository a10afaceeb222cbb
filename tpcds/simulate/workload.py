"""The TPC-DS queries as the paper's cluster would run them: for each the plans that are kept, for simulations.

    statistics of scale 1 ──scaled──> of scale 500 ──pool, keep──> candidates ──> a file each, read in milliseconds

Nothing is run, and data of scale 500 need not exist.  The search for the plans of all queries takes a minute or two,
so the cache folder keeps them in JSON, by the versions of the tables, of the planner and of the setting.

**Pace.**  Our kernel takes 61 slot seconds for a query at scale 500 in the mean, so on 600 slots most would end in a
second, and a price that changes every minute would not affect them.  The paper's jobs do: in its shared cluster they
arrive 20 s apart in the mean and take about 500 s, so by Little's law 25 of them share the 600 slots, and each does up
to 24 × 500 = 12,000 slot seconds of work: 200 times as much as ours.  So in a :class:`Setting` all of the kernel's
times are multiplied by a pace, 200 by default: queries then stand to the steps of the profiles, and to the network, as
they did there.  A pace of 1 gives our own times on that cluster.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

from qoop.adaptive.replanning.adaptive import Adaptive
from qoop.catalog.catalog import Catalog
from qoop.catalog.errors import PlanError
from qoop.catalog.paths import cache_directory
from qoop.catalog.statistics.stats import TableStats
from qoop.catalog.stores.whole_file import write_whole
from qoop.catalog.written.codec import Codec, Pair
from qoop.planner.algebra.facts import LazyFacts
from qoop.planner.algebra.facts import from_json as read_facts
from qoop.planner.algebra.relation import Join, walk
from qoop.planner.collector import collector_waits
from qoop.planner.estimate.cost import DEFAULT, CostModel
from qoop.planner.estimate.observed import NOTHING
from qoop.planner.plan import Resources, Stage
from qoop.planner.planner import Planning
from qoop.planner.search.alternatives import keep, pool
from qoop.planner.search.candidate import MOST_TOLERANCE, Alternatives, Candidate, Grid
from qoop.planner.variants import VARIANTS, Variant
from qoop.query.plan_keys import planner_version
from qoop.session.opening import connect
from qoop.session.session import Session
from qoop.tpcds.queries import text
from qoop.tpcds.scaling import at_scale

FORMAT = 2
"""Raised when a file means something else than before."""

Show = Callable[[int], object]


@dataclass(frozen=True)
class Setting:
    """The setting that the plans are made for: the cluster of the paper's evaluation (paper section 6).

    scale: of the data. pace: how many times our kernel's seconds everything takes there (see above).
    grain: the work of a task, as part of what it would be if tasks became longer with the pace: more and shorter tasks.
    machines: how many. slots, memory, link, disk: of each; memory in bytes, link and disk in bytes per second.
    disk: if it is given, tasks of a machine share its disk and its link as they come; else each has a disk to itself,
    and of the link the part that the stage leaves it.
    tolerance: how far behind the best a plan may be to count as near it, when plans are kept.
    """

    scale: float = 500.0
    pace: float = 200.0
    grain: float = 0.2
    machines: int = 20
    slots: int = 30
    memory: float = 128e9
    link: float = 125e6
    disk: float = 0.0
    tolerance: float = MOST_TOLERANCE

    @property
    def machine(self) -> Resources:
        """One machine."""
        return Resources(self.slots, self.memory, self.disk, self.link)

    @property
    def whole(self) -> Resources:
        """The whole cluster as a share."""
        return self.share(self.machines * self.slots)

    def share(self, slots: float) -> Resources:
        """The share with that many slots: their part of the memory, and the links of as few machines as have them."""
        network = self.link * ceil(slots / self.slots) if slots > self.slots else 0.0
        disk = self.disk * ceil(slots / self.slots)
        return Resources(slots, slots * self.memory / self.slots, disk, network)

    @property
    def cost(self) -> CostModel:
        """The constants of estimates: those that ship, at the setting's pace."""
        return DEFAULT.times(self.pace)

    @property
    def grid(self) -> Grid:
        """The shares that plans are compared on: from one slot to all, with all of a slot's memory or a quarter, on
        links as they are and a quarter of that."""
        each, some = self.memory / self.slots, (600, 360, 240, 120, 60, 30, 8, 1)
        slots = [count for count in some if count <= self.machines * self.slots]
        shares = [count for count in (600, 240, 60, 8, 1) if count in slots]
        return Grid.of(slots, (each / 4, each), 1, self.slots, (self.link, self.link / 4), shares)

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The variants, with thresholds at the setting's pace."""
        factor = self.pace * self.grain
        return tuple(replace(one, limits=one.limits.times(factor)) for one in VARIANTS)


PAPER = Setting()
"""The cluster of the paper, at the pace of the paper's jobs."""


@dataclass(frozen=True)
class Query:
    """One query with its plans.

    candidates: the kept plans; the first is the usual one, made for all slots. found: plans the search had costed.
    joins: of the query as it is written.
    """

    number: int
    joins: int
    found: int
    candidates: tuple[Candidate, ...]

    @property
    def launch(self) -> Candidate:
        """The plan that a session with the whole cluster begins with."""
        return self.candidates[0]

    def best(self, share: Resources) -> Candidate:
        """The plan with the least estimated time on a constant share."""
        return min(self.candidates, key=lambda one: one.finish.seconds(share))

    def adaptive(self, available: Resources, **more: Any) -> Adaptive:
        """The settings of a job that may change among the plans. available: at its launch. more: policy, triggers."""
        return Adaptive(lambda _: self.candidates, available, at_once=True, **more)


Workload = Mapping[int, Query]


def workload(
    directory: Path,
    queries: Iterable[int] | None = None,
    setting: Setting = PAPER,
    show: Show = lambda query: None,
    cache_dir: Path | None = None,
) -> dict[int, Query]:
    """The plans of TPC-DS queries (None: of all), from the cache or made now.

    directory: tables of scale 1, whose statistics are scaled. show: is called with each query that is planned, which
    takes up to a few seconds. Raises ConfigError, SourceError.
    """
    numbers = tuple(range(1, 100)) if queries is None else tuple(queries)
    kept = Kept(folder(cache_dir), version(directory, setting))
    loaded = {number: _load(kept.load(str(number))) for number in numbers}
    found = {number: query for number, query in loaded.items() if query is not None}
    missing = [number for number in numbers if number not in found]
    if missing:
        with connect(staged=True, statistics="full") as session:
            session.register_folder(directory)
            for number in missing:
                found[number] = _planned(session, number, text(number, directory=directory), setting)
                kept.save(str(number), _dump(found[number]))
                show(number)
    return {number: found[number] for number in numbers}


def folder(cache_dir: Path | None = None) -> Path:
    """The folder that keeps workloads."""
    return (cache_dir or cache_directory()) / "workload"


def fifty(found: Workload, most: int = 50) -> tuple[int, ...]:
    """The numbers of the queries with the most alternatives, in order; of those with as many kept plans, the ones of
    which the search has found more."""
    ranked = sorted(found.values(), key=lambda one: (-len(one.candidates), -one.found, one.number))
    return tuple(sorted(one.number for one in ranked[:most]))


def planning_of(session: Session, statement: str, setting: Setting) -> tuple[Mapping[str, TableStats], Planning]:
    """The statistics of a query's tables as they are, and its planning with them as they would be in a setting."""
    prepared = session.prepare(statement)
    there = replace(at_scale(prepared, setting.scale), cost=setting.cost, known=NOTHING)
    return prepared.stats, there.planning()


@collector_waits()
def _planned(session: Session, number: int, statement: str, setting: Setting) -> Query:
    _, planning = planning_of(session, statement, setting)
    kept = keep(pool(planning, setting.grid, setting.variants), setting.tolerance)
    joins = sum(isinstance(node, Join) for node in walk(planning.relation))
    return Query(number, joins, len(kept.pool.candidates), _with_launch(kept))


def _with_launch(kept: Alternatives) -> tuple[Candidate, ...]:
    """The kept plans, the usual one before them: a session runs it while it looks for others."""
    usual = kept.pool.candidates[0]
    return (usual, *(one for one in kept.kept if one is not usual))


def version(directory: Path, setting: Setting) -> str:
    """Digest of all that the plans follow from: tables, planner, setting."""
    with Catalog.from_folder(directory) as catalog:
        tables = sorted((name, table.version, table.max_parts()) for name, table in catalog.tables().items())
    own = (Path(__file__), Path(__file__).with_name("alternatives.py"))
    return digest(str(FORMAT), planner_version(), *map(digest_of, own), json.dumps(tables), json.dumps(asdict(setting)))


def digest(*parts: str) -> str:
    """Of some texts."""
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def digest_of(path: Path) -> str:
    """Of a file; empty if there is none."""
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest() if path.exists() else ""


class Kept:
    """JSON values in a folder, a file each, that belong to one version of what they follow from."""

    def __init__(self, folder: Path, version: str) -> None:
        self._folder, self._version = folder, version

    def load(self, name: str) -> Any:
        """The values, None if there are none or they are damaged."""
        try:
            data = json.loads(self._path(name).read_text(encoding="utf-8"))
            return data["values"] if data["version"] == self._version else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def save(self, name: str, values: Any) -> None:
        """Keep them for later readers; a reader sees all or nothing."""
        data = {"version": self._version, "values": values}
        write_whole(self._path(name), json.dumps(data, separators=(",", ":"), allow_nan=False))

    def _path(self, name: str) -> Path:
        return self._folder / f"{self._version}-{name}.json"


def _dump(query: Query) -> Any:
    """The query as JSON values: stages that plans have in common are written once."""
    stages: list[Stage] = []
    data = _codec(stages).write(query)
    return {"query": data, "stages": [_fields_codec().write(stage) for stage in stages]}


def _load(data: Any) -> Query | None:
    """The query that :func:`_dump` took apart; None if it is damaged."""
    try:
        stages: list[Stage] = [_fields_codec().read(Stage, item) for item in data["stages"]]
        query: Query = _codec(stages).read(Query, data["query"])
    except (KeyError, TypeError, PlanError):
        return None
    return query


def _codec(stages: list[Stage]) -> Codec:
    """Writes a stage as its place in the list, which grows; reads it from there."""
    places: dict[Stage, int] = {}

    def write(stage: Stage) -> int:
        if stage not in places:
            places[stage] = len(stages)
            stages.append(stage)
        return places[stage]

    return Codec({Stage: (write, lambda place: stages[place])})


@cache
def _fields_codec() -> Codec:
    facts: Pair = (LazyFacts.to_json, read_facts)
    return Codec({LazyFacts: facts}, also=frozenset({"facts"}))
