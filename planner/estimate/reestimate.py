"""A plan's estimates, corrected by observations of its stages, without planning again.

The rows of a finished stage change the estimates of its readers. The output of a stage grows by the product of the
growths of its inputs; the time and memory of its tasks grow with the rows that they read and put out. Memory estimates
never shrink. That is the model of independent selectivities (Selinger et al., "Access Path Selection", SIGMOD 1979)
turned forward. It errs for groups, whose number does not grow with the rows, but equally for all plans of a query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from qoop.catalog.value import changed
from qoop.planner.estimate.cost import BASE_MEMORY, DEFAULT
from qoop.planner.estimate.observed import Errors, Observation, Observations, Tables, tables_below
from qoop.planner.plan import CallEstimate, Estimate, Plan, Predicate, Stage, StageId, read_table

ROW_SECONDS = DEFAULT.build_row + DEFAULT.miss_row + DEFAULT.group_row + DEFAULT.aggregate_row + DEFAULT.state_miss
"""The most seconds of one more row: to join and to group it. A stage estimated to read next to nothing takes some time
even so, which does not grow with the rows."""

ROW_BYTES = 128.0
"""The bytes that one more row makes a task hold at most: some columns and its place in a hash table."""

LEAST_SECONDS = 1e-4
"""The seconds that a task takes at least, however quick its functions are."""

LEAST_ROW_SECONDS = 1e-9
"""Seconds a row below which functions of Python count as equally fast."""

NO_MEMORY: Mapping[StageId, float] = {}
NO_ERRORS: Errors = {}


def reestimated(
    plan: Plan, observed: Observations, memory: Mapping[StageId, float] = NO_MEMORY, errors: Errors = NO_ERRORS
) -> Plan:
    """The plan with better estimates; the plan itself where nothing differs.

    The plan must have its first estimates, and `observed` must hold all observations: a correction of a corrected
    estimate would count growth twice. memory: bytes that a task of a stage is known to need at least.
    errors: of plans that were estimated with the same knowledge (:mod:`~qoop.planner.estimate.join_errors`).

    >>> plan = Plan((Stage("s", "", (), (), 1, "meaning"),), ())
    >>> reestimated(plan, Observations({"meaning": Observation(70)})).root.estimate.rows
    70
    """
    growth: dict[StageId, float] = {}
    stages: list[Stage] = []
    below = tables_below(plan) if errors else {}
    for stage in plan.stages:
        observation = observation_of(stage, observed)
        error = _error(stage, plan, below, errors) if errors and observation is None else None
        estimate = _timed(stage, _grown(stage, plan, growth, observation, error), growth, observed)
        if memory.get(stage.id, 0.0) > estimate.task_memory:
            estimate = replace(estimate, task_memory=memory[stage.id])
        growth[stage.id] = max(1.0, estimate.rows) / max(1.0, stage.estimate.rows)
        stages.append(stage if estimate == stage.estimate else replace(stage, estimate=estimate))
    same = all(new is old for new, old in zip(stages, plan.stages, strict=True))
    return plan if same else replace(plan, stages=tuple(stages))


def _timed(stage: Stage, grown: Estimate, growth: Mapping[StageId, float], observed: Observations) -> Estimate:
    """The estimate with observed seconds that cannot be predicted: those of functions of Python, and waits for tables.

    The number of calls grows with the number of rows to read."""
    factor = prod(growth[id] for id in dict.fromkeys(item.stage for item in stage.stage_inputs))
    calls = _observed_calls(stage.estimate.calls, factor, observed)
    more = sum(new.seconds - old.seconds for new, old in zip(calls, stage.estimate.calls, strict=True))
    for item in stage.table_inputs if observed.waits else ():
        more += observed.waits.get(read_table(item.table, item.version), 0.0) / (stage.width if item.split else 1)
    if not more:
        return grown
    return replace(grown, task_seconds=max(LEAST_SECONDS, grown.task_seconds + more), calls=calls)


def _observed_calls(calls: tuple[CallEstimate, ...], factor: float, observed: Observations) -> tuple[CallEstimate, ...]:
    known = [changed(one, row_seconds=observed.calls.get(one.function, one.row_seconds)) for one in calls]
    if factor == 1.0 and known == list(calls):
        return calls
    return in_best_order([changed(one, rows=one.rows * factor) for one in known])


def in_best_order(calls: Sequence[CallEstimate]) -> tuple[CallEstimate, ...]:
    """The calls, with the predicates of one filter in the best order for their seconds: a kernel finds it at run time
    (:mod:`qoop.engine.functions.ordering`).

    >>> quick = CallEstimate("f", 100.0, 1e-6, Predicate(1, 0, 0.2))
    >>> cheap = CallEstimate("g", 20.0, 1e-7, Predicate(1, 1, 0.5))
    >>> [one.rows for one in in_best_order([quick, cheap])]
    [50.0, 100.0]
    """
    rows: dict[Predicate, float] = {}
    for filter in dict.fromkeys(one.within.filter for one in calls if one.within is not None):
        of_filter = [(one.within, one) for one in calls if one.within is not None and one.within.filter == filter]
        seconds = {one: sum(call.row_seconds for within, call in of_filter if within == one) for one, _ in of_filter}
        left = max(call.rows for _, call in of_filter)
        for one in sorted(seconds, key=lambda one: rank(one.passes, seconds[one])):
            rows[one] = left
            left *= one.passes
    return tuple(one if one.within is None else changed(one, rows=rows[one.within]) for one in calls)


def rank(passes: float, seconds: float) -> float:
    """The predicates of a filter cost least in the order of this (Hellerstein and Stonebraker, "Predicate Migration",
    SIGMOD 1993)."""
    return (passes - 1.0) / max(seconds, LEAST_ROW_SECONDS)


def _without_calls(estimate: Estimate) -> float:
    """The seconds of a task that are not those of functions of Python."""
    return max(0.0, estimate.task_seconds - sum(one.seconds for one in estimate.calls))


def _error(stage: Stage, plan: Plan, below: Mapping[StageId, Tables], errors: Errors) -> float | None:
    from qoop.planner.estimate.join_errors import error_of  # few jobs meet an error

    return error_of(stage, plan, below, errors)


def observation_of(stage: Stage, observed: Observations) -> Observation | None:
    """The observation of a stage, or of one that has the same rows; None: there is none."""
    found = observed.by_signature.get(stage.signature)
    return found if found is not None or not stage.meaning else observed.by_signature.get(stage.meaning)


def _grown(
    stage: Stage, plan: Plan, growth: Mapping[StageId, float], observation: Observation | None, error: float | None
) -> Estimate:
    """The estimate of a stage whose inputs have grown, and whose own rows may be known, or by how much they err."""
    old = stage.estimate
    sources = dict.fromkeys(item.stage for item in stage.stage_inputs)
    factor = prod(growth[id] for id in sources)
    rows = observation.rows if observation is not None else old.rows * (factor if error is None else error)
    size = old.bytes * rows / max(1.0, old.rows)
    if observation is not None and observation.bytes is not None and observation.rows:
        size = observation.bytes
    if factor == 1.0 and rows == old.rows:
        return old
    read = [(plan.by_id[id].estimate.rows, growth[id]) for id in sources]
    work, own = _work(read, old.rows, rows, reads_table=bool(stage.table_inputs)), _without_calls(old)
    most = max(1.0, *(grown for _, grown in read)) if read else 1.0
    more = _more(stage, plan, growth, rows)
    return replace(
        old,
        rows=rows,
        bytes=size,
        task_seconds=old.task_seconds - own + min(own * work, own + more * ROW_SECONDS),
        task_memory=min(_grown_memory(old.task_memory, most), old.task_memory + more * ROW_BYTES),
        task_wants=min(_grown_memory(old.task_wants, most), old.task_wants + more * ROW_BYTES),
    )


def _more(stage: Stage, plan: Plan, growth: Mapping[StageId, float], rows: float) -> float:
    """The number of rows that one task reads and puts out beyond the estimate."""
    more = max(0.0, rows - stage.estimate.rows) / stage.width
    for item in stage.stage_inputs:
        added = max(0.0, growth[item.stage] - 1.0) * max(1.0, plan.by_id[item.stage].estimate.rows)
        more += added if item.mode == "all" else added / stage.width
    return more


def _grown_memory(memory: float, grown: float) -> float:
    """Bytes of a task that reads `grown` times the rows; the memory that every task takes does not grow."""
    return memory if memory <= BASE_MEMORY else BASE_MEMORY + (memory - BASE_MEMORY) * grown


def _work(read: list[tuple[float, float]], before: float, after: float, reads_table: bool) -> float:
    """The factor by which the work grows, in rows read and put out. The rows of a table are unknown to the plan, and
    count as the most of the others."""
    fixed = max([before, *(rows for rows, _ in read)]) if reads_table else 0.0
    old = fixed + before + sum(rows for rows, _ in read)
    new = fixed + after + sum(rows * grown for rows, grown in read)
    return new / old if old > 0 else 1.0
