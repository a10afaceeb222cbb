"""The rules that extrapolate measurements on small data to large data.

Measured, on data of scale 1 and, where it could be afforded, 10: rows, bytes and processor seconds of each stage of the
kept plans, as one task on one thread (:mod:`qoop.tpcds.simulate.measuring`).  The result: the same at the target scale.

Rows
    The estimate is off at the target by the factor by which it is off at the largest scale that was measured, but
    growth stays between none and that of the fastest growing table below: true rows there times the estimate's growth,
    from 1 to the growth of that table.  Of partial groups each task has at most all groups, and never more than the
    rows that enter.
Seconds
    The cost model by true rows, times a *residual*: measured seconds over what the model says by the true rows of the
    data they were measured on.  A stage of less than :data:`LEAST` seconds tells little; it has the residual of its
    kind, which is its dearest operator: all seconds measured of that kind over all that the model says.  All of them
    are relative to the residual of everything that was measured: the machines that are simulated are as fast as the
    cost model says, however fast the one was that measured.
Bytes
    As many a row as were measured.
Memory
    Hash tables, groups and sorted rows by the cost model, by true rows.

Where nothing was measured belief stands in for rows, and seconds are believed ones times the residual of the kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from qoop.catalog.statistics.stats import TableStats
from qoop.planner.algebra.relation import Aggregate, Exchange, Filter, Join, Limit, Project, Relation, Scan
from qoop.planner.estimate import tree_cost
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.estimate.cost import BASE_MEMORY, DEFAULT, CostModel
from qoop.planner.estimate.observed import NOTHING, Observation, Observations, observe, tables_below
from qoop.planner.exchange.distribution import fragment_nodes
from qoop.planner.plan import Stage, StageId
from qoop.planner.planner import Planning
from qoop.session.session import Session
from qoop.tpcds.scaling import growth, scaled
from qoop.tpcds.simulate.measuring import Measured, StageKey, stage_keys
from qoop.tpcds.simulate.workload import Query, Setting, planning_of

LEAST = 0.005
"""Seconds; what took less was mostly starting and the resolution of the clock."""

_LEAST_WORK = 0.1
"""Of the seconds of a stage, what at least is its operators' work and not moving rows in and out."""

ALL = ""
"""Stands for all kinds together."""

_MOST = 8.0
"""A residual beyond this factor is taken for noise."""


@dataclass(frozen=True, slots=True)
class StageGroundTruth:
    """The demands of one stage of one plan at the target, without the residual of its kind.

    seconds: of one task on one thread by true rows. everywhere, parted: bytes read, by every task and by all together.
    wants: bytes a task would hold. kind: its dearest operator. measured, model: seconds of its operators at the largest
    scale measured, and what the model says of them by true rows; None: it was not measured.
    """

    key: str
    seconds: float
    local: float
    wants: float
    everywhere: float
    parted: float
    rows: float
    bytes: float
    kind: str
    measured: float | None = None
    model: float | None = None


def residuals(stages: Iterable[StageGroundTruth]) -> dict[str, float]:
    """By kind of stage, and of all (ALL), how many times what the model says was measured."""
    sums: dict[str, tuple[float, float]] = {}
    for stage in stages:
        if stage.measured is not None and stage.model is not None:
            for kind in (stage.kind, ALL):
                measured, model = sums.get(kind, (0.0, 0.0))
                sums[kind] = measured + stage.measured, model + stage.model
    return {kind: measured / model for kind, (measured, model) in sums.items() if model > 0}


def residual(stage: StageGroundTruth, kinds: Mapping[str, float]) -> float:
    """The residual of one stage relative to that of all: its own if it was measured well enough, else that of its kind;
    1: unknown."""
    machine = kinds.get(ALL, 1.0)
    if stage.measured is not None and stage.model and stage.measured >= LEAST:
        return _bounded(stage.measured / stage.model / machine)
    return _bounded(kinds.get(stage.kind, machine) / machine)


def _bounded(factor: float) -> float:
    return min(_MOST, max(1.0 / _MOST, factor))


@dataclass(frozen=True)
class Sample:
    """The measurements of one query on data of one scale."""

    scale: float
    stages: Mapping[StageKey, Measured]


class Extrapolation:
    """The truth of one query's plans.

    text: the query's. samples: the smallest scale first.
    """

    def __init__(self, session: Session, query: Query, text: str, setting: Setting, samples: Sequence[Sample]) -> None:
        self.query, self.setting, self.samples = query, setting, samples
        self.stats, self.planning = planning_of(session, text, setting)
        self._plans = [one.plan for one in query.candidates]
        self._keys = [stage_keys(plan) for plan in self._plans]
        self._exchanges = [self.planning.exchanges(one.variant, one.available) for one in query.candidates]
        self._beliefs: dict[float, Cardinality] = {}

    def stages(self) -> Iterator[StageGroundTruth]:
        """Of every stage of every plan what is true at the target."""
        last = self.samples[-1] if self.samples else Sample(1.0, {})
        sizes = [self._sizes(place, last) for place in range(len(self._plans))]
        there = self._seeing(self.setting.scale, sizes)
        here = self._measured(last)
        cost, believed = self.setting.cost, self.belief(self.setting.scale)
        for place, plan in enumerate(self._plans):
            put_out = self._put_out(place, sizes[place], there)
            for number, (stage, exchange) in enumerate(zip(plan.stages, self._exchanges[place], strict=True)):
                task = self.query.candidates[place].finish.tasks[number]
                rows, bytes_ = put_out[stage.id]
                everywhere = sum(put_out[item.stage][1] for item in stage.stage_inputs if item.mode == "all")
                parted = sum(put_out[item.stage][1] for item in stage.stage_inputs if item.mode != "all")
                yield StageGroundTruth(
                    key=f"{place}.{number}",
                    seconds=task.seconds * _ratio(_task(exchange, there, cost), _task(exchange, believed, cost)),
                    local=cost.moving(everywhere + parted / stage.width, bytes_ / stage.width)
                    + cost.task_overhead_seconds,
                    wants=_memory_of(task.wants, exchange, there, believed, cost),
                    everywhere=everywhere,
                    parted=parted,
                    rows=rows,
                    bytes=bytes_,
                    kind=_kind(exchange, there, cost),
                    **self._held_against(place, stage, exchange, here, last),
                )

    def belief(self, scale: float) -> Cardinality:
        """The estimated cardinalities of data of a scale."""
        if scale not in self._beliefs:
            self._beliefs[scale] = _Sized(self.planning, self._stats(scale))
        return self._beliefs[scale]

    def grown(self, place: int, number: int, rows: float, before: float, after: float) -> float:
        """Rows of a stage at one scale, from those at a smaller one."""
        plan, exchange = self._plans[place], self._exchanges[place][number]
        meaning = _meaning(exchange)
        estimated = self.belief(after).rows(meaning) / max(1e-9, self.belief(before).rows(meaning))
        below = tables_below(plan)[plan.stages[number].id]
        most = max((growth(name, after) / growth(name, before) for name, _ in below), default=1.0)
        return rows * min(most, max(1.0, estimated))

    def _stats(self, scale: float) -> Mapping[str, TableStats]:
        return self.stats if scale == 1.0 else scaled(self.stats, scale)

    def _sizes(self, place: int, sample: Sample) -> dict[StageId, tuple[float, float]]:
        """Rows that each stage would put out as one task at the target, and bytes a row; those not measured are
        left out."""
        found = {}
        for number, stage in enumerate(self._plans[place].stages):
            one = sample.stages.get(self._keys[place][stage.id])
            if one is not None:
                rows = self.grown(place, number, max(0.5, one.rows), sample.scale, self.setting.scale)
                width = stage.estimate.bytes / max(1.0, stage.estimate.rows)
                found[stage.id] = rows, one.bytes / one.rows if one.rows else width
        return found

    def _put_out(
        self, place: int, sizes: Mapping[StageId, tuple[float, float]], there: _Sized
    ) -> dict[StageId, tuple[float, float]]:
        """Rows and bytes of every stage's output."""
        found = {}
        for stage, exchange in zip(self._plans[place].stages, self._exchanges[place], strict=True):
            if stage.id not in sizes:
                found[stage.id] = stage.estimate.rows, stage.estimate.bytes
                continue
            rows, width = sizes[stage.id]
            rows = rows if stage.meaning else there.unfinished(exchange, stage.width)
            found[stage.id] = rows, rows * width
        return found

    def _measured_rows(self, place: int, sample: Sample) -> dict[StageId, tuple[float, float]]:
        keys = self._keys[place].items()
        return {id_: (float(one.rows), 0.0) for id_, key in keys if (one := sample.stages.get(key)) is not None}

    def _measured(self, sample: Sample) -> _Sized:
        """Estimates for the tasks that were measured, each of them the only one of its stage."""
        rows = [self._measured_rows(place, sample) for place in range(len(self._plans))]
        return self._seeing(sample.scale, rows, alone=True)

    def _seeing(
        self, scale: float, sizes: Sequence[Mapping[StageId, tuple[float, float]]], alone: bool = False
    ) -> _Sized:
        """Estimates at a scale where these rows are known."""
        observed = NOTHING
        groups: dict[int, float] = {}
        for plan, exchanges, known in zip(self._plans, self._exchanges, sizes, strict=True):
            whole = {id_: Observation(rows) for id_, (rows, _) in known.items() if plan.by_id[id_].meaning}
            observed |= observe(plan, whole)
            for stage, exchange in zip(plan.stages, exchanges, strict=True):
                if stage.id in known and not stage.meaning:
                    groups[id(exchange.input)] = known[stage.id][0]
        return _Sized(self.planning, self._stats(scale), observed, groups, alone)

    def _held_against(
        self, place: int, stage: Stage, exchange: Exchange, here: _Sized, sample: Sample
    ) -> dict[str, float]:
        one = sample.stages.get(self._keys[place][stage.id])
        if one is None:
            return {}
        read = sum(_bytes_in(item, sample, self._keys[place]) for item in stage.stage_inputs)
        moved = DEFAULT.moving(read, one.bytes) + DEFAULT.task_overhead_seconds
        return {
            "measured": max(one.seconds - moved, _LEAST_WORK * one.seconds),
            "model": _alone(exchange, here, DEFAULT),
        }


def _bytes_in(item: object, sample: Sample, keys: Mapping[StageId, StageKey]) -> float:
    one = sample.stages.get(keys[item.stage])  # type: ignore[attr-defined]
    return one.bytes if one is not None else 0.0


class _Sized(Cardinality):
    """Estimates that know how many rows the tasks of a stage put out together, unfinished ones, too.

    groups: rows of unfinished outputs as one task would put them out, by id of the relation. alone: there is one task.
    """

    def __init__(
        self,
        planning: Planning,
        stats: Mapping[str, TableStats],
        observed: Observations = NOTHING,
        groups: Mapping[int, float] | None = None,
        alone: bool = False,
    ) -> None:
        super().__init__(stats, planning.observed_rows(observed))
        self._groups = groups or {}
        self._alone = alone

    def rows(self, relation: Relation) -> float:
        if isinstance(relation, Exchange) and relation.fragment is not None and relation.fragment.partial:
            return self.unfinished(relation, 1 if self._alone else relation.fragment.width)
        found = self._groups.get(id(relation))
        return super().rows(relation) if found is None else found

    def unfinished(self, exchange: Exchange, width: int) -> float:
        """Rows of partial groups, or of each task's first rows: no more than enter, and than all tasks can have."""
        top = exchange.input
        while isinstance(top, Project):
            top = top.input
        groups = self.rows(exchange.input)
        if not isinstance(top, Aggregate | Limit):
            return groups
        below = top.input
        return min(max(groups, self.rows(below)), width * groups)


def _meaning(exchange: Exchange) -> Relation:
    fragment = exchange.fragment
    return exchange.input if fragment is None or fragment.partial else fragment.meaning


@dataclass(frozen=True, slots=True)
class _Work:
    """Seconds of one thread: those that tasks divide, and those that each of them repeats. spread: rows fall to
    several tasks."""

    spread: bool
    divided: float
    repeated: float = 0.0


def _task(exchange: Exchange, cardinality: Cardinality, cost: CostModel) -> float:
    """Seconds of one task of the fragment, moving rows in and out apart; as :mod:`~qoop.planner.exchange.exchange`."""
    width = exchange.fragment.width if exchange.fragment is not None else 1
    work = _work(exchange.input, cardinality, cost)
    starting = cost.operator_seconds * sum(1 for _ in fragment_nodes(exchange.input))
    return work.divided / width + work.repeated + starting


def _alone(exchange: Exchange, cardinality: Cardinality, cost: CostModel) -> float:
    """Seconds of the fragment as one task."""
    nodes = list(fragment_nodes(exchange.input))
    return _serial(exchange.input, cardinality, cost) + cost.operator_seconds * len(nodes)


def _serial(node: Relation, cardinality: Cardinality, cost: CostModel) -> float:
    if isinstance(node, Exchange):
        return 0.0
    below = sum(_serial(child, cardinality, cost) for child in node.inputs)
    return tree_cost.own_seconds(cost, node, cardinality) + max(
        0.0, below - tree_cost.spared_seconds(cost, node, cardinality)
    )


def _work(node: Relation, cardinality: Cardinality, cost: CostModel) -> _Work:
    if isinstance(node, Exchange):
        return _Work(node.kind != "gather", 0.0)
    own = tree_cost.own_seconds(cost, node, cardinality)
    if isinstance(node, Scan):
        return _Work(node.parts > 1, own)
    parts = [_work(child, cardinality, cost) for child in node.inputs]
    spread = any(part.spread for part in parts)
    divided = sum(part.divided for part in parts if part.spread or not spread)
    repeated = sum(part.repeated + (0.0 if part.spread or not spread else part.divided) for part in parts)
    if isinstance(node, Join) and parts[0].spread != parts[1].spread:
        again = min(own, _done_by_all(node, parts[0].spread, cardinality, cost))
        own, repeated = own - again, repeated + again
    return _Work(spread, own + max(0.0, divided - tree_cost.spared_seconds(cost, node, cardinality)), repeated)


def _done_by_all(join: Join, left_spread: bool, cardinality: Cardinality, cost: CostModel) -> float:
    """The work that every task does of a join of which it has one side whole."""
    right = cardinality.rows(join.right)
    if left_spread:
        return cost.build(right, cardinality.width(join.right.columns))
    return cost.probe(cardinality.rows(join.left), right)


def _kind(exchange: Exchange, cardinality: Cardinality, cost: CostModel) -> str:
    """The dearest operator of a fragment; of several alike the upper one."""
    nodes = [node for node in fragment_nodes(exchange.input) if not isinstance(node, Exchange | Project | Filter)]
    if not nodes:
        return "Project"
    return type(max(nodes, key=lambda node: tree_cost.own_seconds(cost, node, cardinality))).__name__


def _memory_of(wants: float, exchange: Exchange, there: Cardinality, believed: Cardinality, cost: CostModel) -> float:
    grown = _ratio(_memory(exchange.input, there, cost), _memory(exchange.input, believed, cost))
    return wants if wants <= BASE_MEMORY else BASE_MEMORY + (wants - BASE_MEMORY) * grown


def _memory(node: Relation, cardinality: Cardinality, cost: CostModel) -> float:
    """Bytes that the operators of a fragment hold."""
    if isinstance(node, Exchange):
        return 0.0
    return max(0.0, tree_cost.own_memory(cost, node, cardinality)) + sum(
        _memory(c, cardinality, cost) for c in node.inputs
    )


def _ratio(new: float, old: float) -> float:
    return new / old if old > 0 else 1.0
