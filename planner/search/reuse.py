"""Finished work of other plans in a plan that has no equal stage: by re-partitioning, and by containment.

The engine finds the checkpoints of a stage by key: its meaning and its partitioning. :func:`reuse` makes more of them
usable. A stage of the plan is

- dropped for a finished one of equal signature, if its readers accept its partitioning: they read all rows, or
partitions
  of the same layout;
- replaced by one that reads a finished stage of equal signature part by part and partitions it for the plan;
- replaced by one that reads a finished stage of which its rows and columns are a part (:func:`~qoop.planner.
  identity.containment.served`), and filters and projects it.

The finished stage joins the plan under its own key. All of its parts are kept, so the engine runs none of it, nor of
the stages below. These come along so that a lost checkpoint can be made again. The replaced stage keeps its signature.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from hashlib import blake2b
from itertools import count

from qoop.catalog.value import value
from qoop.planner.algebra.expr import Column, conjunction, quote
from qoop.planner.algebra.facts import Served
from qoop.planner.estimate.cost import BASE_MEMORY, DEFAULT, CostModel
from qoop.planner.finish import NOTHING, Done
from qoop.planner.plan import Estimate, Layout, Plan, Signature, Stage, StageId, StageInput
from qoop.planner.variants import USUAL

Key = tuple[Signature, Layout, int, str]


@value
class FinishedStage:
    """A stage whose outputs are all kept.

    below: the stages that it rests on, in an order in which they can run. Raises PlanError where one is missing.
    """

    stage: Stage
    below: tuple[Stage, ...] = ()

    def __post_init__(self) -> None:
        Plan((*self.below, self.stage), ())


def finished_stages(plan: Plan, stages: Iterable[StageId]) -> tuple[FinishedStage, ...]:
    """These stages of a plan, without the non-deterministic ones (law 12), which serve no other plan."""
    return tuple(
        FinishedStage(plan.by_id[name], _below(plan, name)) for name in stages if plan.by_id[name].shareable
    )  # fmt: skip


def _below(plan: Plan, name: StageId) -> tuple[Stage, ...]:
    needed = {name}
    for stage in reversed(plan.stages):
        if stage.id in needed:
            needed.update(item.stage for item in stage.stage_inputs)
    return tuple(stage for stage in plan.stages if stage.id in needed and stage.id != name)


def reuse(plan: Plan, finished: Sequence[FinishedStage], done: Done = NOTHING, cost: CostModel = DEFAULT) -> Plan:
    """The plan with stages replaced where finished ones serve them with less work than is left without.

    done: how far the plan's own stages are; those whose exact key is among the finished count as done anyway.
    The same object where nothing is gained.
    """
    keys = {_key(item.stage) for item in finished}
    parts = {stage.id: stage.width for stage in plan.stages if stage.shareable and _key(stage) in keys}
    state = _State(plan, {**done.parts, **parts})
    usable = [item for item in finished if item.stage.shareable]
    for stage in reversed(plan.stages):
        if stage.id in state.needed and usable:
            state = _improved(state, stage.id, usable, cost)
    return state.plan


def _key(stage: Stage) -> Key:
    return stage.signature, stage.layout, stage.width, stage.cut


@value
class _State:
    """A plan and how many tasks of its stages are done."""

    plan: Plan
    parts: Mapping[StageId, int]
    needed: Mapping[StageId, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "needed", _needed(self.plan, self.parts))

    def work(self, cost: CostModel) -> float:
        """Slot seconds of the remaining work."""
        return sum(tasks * _seconds(self.plan, self.plan.by_id[name], cost) for name, tasks in self.needed.items())


def _needed(plan: Plan, parts: Mapping[StageId, int]) -> dict[StageId, int]:
    """By stage the tasks still to be done, of those that something unfinished reads."""
    required, needed = {plan.root.id}, {}
    for stage in reversed(plan.stages):
        left = stage.width - parts.get(stage.id, 0)
        if stage.id in required and left > 0:
            needed[stage.id] = left
            required.update(item.stage for item in stage.stage_inputs)
    return needed


def _seconds(plan: Plan, stage: Stage, cost: CostModel) -> float:
    """Slot seconds of one task: its work, what it reads and writes, and starting it."""
    read = 0.0
    for item in stage.stage_inputs:
        whole = plan.by_id[item.stage].estimate.bytes
        read += whole if item.mode == "all" else whole / stage.width
    moving = cost.moving(read, stage.estimate.bytes / stage.width)
    return stage.estimate.task_seconds + moving + stage.slots * cost.task_overhead_seconds


def _improved(state: _State, name: StageId, finished: Sequence[FinishedStage], cost: CostModel) -> _State:
    """The state in which the stage is served by whichever finished stage leaves the least work, if any does."""
    parts = {key: value for key, value in state.parts.items() if key != name}
    served = [
        _State(offer.plan, {**parts, offer.source: item.stage.width})
        for item in finished
        for offer in _offers(state.plan, state.plan.by_id[name], item, cost)
    ]
    return min((state, *served), key=lambda one: one.work(cost)) if served else state


@value
class _Offer:
    """A plan in which one stage is served by a finished one, which is called `source` there."""

    plan: Plan
    source: StageId


def _offers(plan: Plan, stage: Stage, item: FinishedStage, cost: CostModel) -> Iterator[_Offer]:
    """The ways in which the finished stage can stand for this one."""
    if not stage.shareable or _key(stage) == _key(item.stage):
        return
    if stage.signature == item.stage.signature:
        modes, graft = _modes(plan, stage), _Graft(plan, item)
        if "forward" not in modes and ("partition" not in modes or stage.layout == item.stage.layout):
            yield from graft.instead(stage)
        elif stage is not plan.root and _forwards(stage, item.stage, modes):
            yield from graft.between(stage, _passed_on(stage, graft.name, item.stage, _all_of(stage), cost))
        return
    offered, requested = item.stage.facts.value, stage.facts.value
    if offered is None or requested is None:
        return
    if not stage.width == item.stage.width == 1 and "forward" in _modes(plan, stage):
        return
    from qoop.planner.identity.containment import served  # loads a part of the planner, which few jobs need

    found = served(offered, requested, dict(item.stage.columns))
    if found is not None:
        graft = _Graft(plan, item)
        yield from graft.between(stage, _passed_on(stage, graft.name, item.stage, found, cost))


def _modes(plan: Plan, stage: Stage) -> set[str]:
    """The modes in which other stages read this one."""
    return {item.mode for other in plan.stages for item in other.stage_inputs if item.stage == stage.id}


def _forwards(stage: Stage, finished: Stage, modes: Collection[str]) -> bool:
    """True if readers that take the stage part by part find the same rows in the same parts."""
    return "forward" not in modes or (stage.width, stage.cut) == (finished.width, finished.cut)


def _all_of(stage: Stage) -> Served:
    return Served((), tuple((name, Column(name, type_)) for name, type_ in stage.columns))


def _passed_on(stage: Stage, source: StageId, finished: Stage, how: Served, cost: CostModel) -> Stage:
    """The stage made of the parts of a finished one. Which rows fall to its tasks follows from theirs."""
    types = dict(stage.columns)
    items = ", ".join(f"CAST({expr} AS {types[name]}) AS {quote(name)}" for name, expr in how.columns)
    where = f" WHERE {conjunction(how.predicates)}" if how.predicates else ""
    width, cut = finished.width, ""
    if width > 1:
        cut = finished.cut if not how.predicates and stage.signature == finished.signature else _cut_of(finished)
    return replace(
        stage,
        sql=f"SELECT {items or '1'} FROM {quote(source)}{where}",
        inputs=(StageInput(source, source, "forward"),),
        width=width,
        cut=cut,
        slots=1,
        estimate=_estimate(stage, finished, how, cost),
        opaque=None,
        join_filters=True,
        label=f"read {source}{', filter' if how.predicates else ''}",
    )


def _cut_of(finished: Stage) -> str:
    """Digest of how the rows made of a finished stage's fall to the tasks."""
    text = repr(("of", finished.signature, finished.width, finished.cut))
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _estimate(stage: Stage, finished: Stage, how: Served, cost: CostModel) -> Estimate:
    """Rows are as planned, or as many as there are; the work is that of one pass over what is kept."""
    rows, width = finished.estimate.rows, finished.width
    each = cost.exchange_row + cost.filter_row * len(how.predicates)
    hashing = USUAL.hash_row * stage.estimate.rows if stage.layout.parts > 1 else 0.0
    return Estimate(
        min(stage.estimate.rows, rows),
        min(stage.estimate.bytes, finished.estimate.bytes) if not how.predicates else stage.estimate.bytes,
        (rows * each + hashing) / width,
        BASE_MEMORY + (finished.estimate.bytes + stage.estimate.bytes) / width,
    )


class _Graft:
    """Puts a finished stage, with those below it, into a plan; equal stages are one, the plan's own."""

    def __init__(self, plan: Plan, item: FinishedStage) -> None:
        self.plan = plan
        self.known = {_key(stage): stage.id for stage in reversed(plan.stages) if stage.shareable}
        taken = {stage.id for stage in plan.stages}
        self.fresh = (name for name in (f"h{i}" for i in count(1)) if name not in taken)
        self.names: dict[StageId, StageId] = {}
        self.added = [self.take(stage) for stage in (*item.below, item.stage)]
        self.name = self.names[item.stage.id]

    def take(self, stage: Stage) -> Stage:
        name = self.known.get(_key(stage)) if stage.shareable else None
        self.names[stage.id] = name if name is not None else next(self.fresh)
        if name is not None:
            return self.plan.by_id[name]
        inputs = tuple(
            replace(i, stage=self.names[i.stage]) if isinstance(i, StageInput) else i for i in stage.inputs
        )  # fmt: skip
        return replace(stage, id=self.names[stage.id], inputs=inputs)

    def instead(self, stage: Stage) -> Iterator[_Offer]:
        """The plan whose readers of the stage read the finished one."""
        changed = [_reading(other, stage.id, self.name) for other in self.plan.stages if other is not stage]
        root = self.name if stage is self.plan.root else self.plan.root.id
        yield from self.ordered(changed, root)

    def between(self, stage: Stage, new: Stage) -> Iterator[_Offer]:
        """The plan with another stage under the same name."""
        yield from self.ordered([new if other is stage else other for other in self.plan.stages], self.plan.root.id)

    def ordered(self, stages: Iterable[Stage], root: StageId) -> Iterator[_Offer]:
        """Those stages that the root rests on, in an order in which they can run; nothing if they go in circles."""
        by_id = {stage.id: stage for stage in (*self.added, *stages)}
        order = _order(by_id, root)
        if order is not None:
            yield _Offer(replace(self.plan, stages=tuple(by_id[name] for name in order)), self.name)


def _reading(stage: Stage, old: StageId, new: StageId) -> Stage:
    """The stage with one input taken from another stage, under the name it has in the fragment."""
    if all(item.stage != old for item in stage.stage_inputs):
        return stage
    inputs = (replace(i, stage=new) if isinstance(i, StageInput) and i.stage == old else i for i in stage.inputs)
    return replace(stage, inputs=tuple(inputs))


def _order(by_id: Mapping[StageId, Stage], root: StageId) -> list[StageId] | None:
    """The stages that the root rests on, inputs first; None if a stage rests on itself."""
    order: list[StageId] = []
    open_: set[StageId] = set()
    stack = [(root, False)]
    while stack:
        name, finished = stack.pop()
        if finished:
            open_.discard(name)
            order.append(name)
        elif name in open_:
            return None
        elif name not in order:
            open_.add(name)
            stack.append((name, True))
            stack += [(item.stage, False) for item in reversed(by_id[name].stage_inputs) if item.stage not in order]
    return order
