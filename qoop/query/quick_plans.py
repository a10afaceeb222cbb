"""Plans of stages that are quick to make, to compare DuckDB's own plan with: the quick search.

The usual plan, plans that divide its long tasks into more parts, and plans of one task take half the time of a search
among all plans.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from qoop.adaptive.replanning.greedy import LONG_SECONDS, held_to_take
from qoop.adaptive.replanning.observations import done_parts
from qoop.catalog.value import value
from qoop.engine.task import CheckpointKey, checkpoint_keys
from qoop.planner.estimate.cost import SPILL_BYTE
from qoop.planner.finish import Done
from qoop.planner.plan import WHOLE_PER_TASKS, Plan, Resources
from qoop.planner.search.candidate import Candidate, Grid
from qoop.planner.variants import CUTTING, Variant
from qoop.query.job import Prepared

if TYPE_CHECKING:
    from qoop.catalog.table import Table
    from qoop.planner.estimate.cost import CostModel
    from qoop.planner.sql.bind import Bound

FINER = (2, 4)
"""Factors of the slots for which plans are made that divide a long task into more parts. Query 67 at scale 10 takes
4.2 s by such a plan and 7.9 s by the usual one, on two slots and 2 GB."""


CUTS = (1, 2, 4, 8)
"""The same for processes that end soon. Query 67 at scale 30 has a task of 21 s of 53 s by the usual plan on one slot,
and none above 0.4 s of 41 s by one for four."""


@value
class QuickPlans:
    """The plans of stages of a quick search. prepared: None: the store had them."""

    bound: Bound
    tables: Mapping[str, Table]
    candidates: Sequence[Candidate]
    prepared: Prepared | None = None

    def spilling(self, share: Resources) -> float:
        """Seconds of one thread that DuckDB's plan should take for tables that do not fit its memory: as the plan of
        one task, whose tables are as large. Rows that are sorted for windows cost it next to nothing more."""
        memory = WHOLE_PER_TASKS * share.memory
        lone = [one.plan.stages for one in self.candidates if one.variant.lone]
        excess = [
            sum(max(0.0, one.estimate.task_wants - memory) for one in stages if " OVER (" not in one.sql)
            for stages in lone
        ]
        return share.cpu * SPILL_BYTE * min(excess, default=0.0)

    def keys(self) -> list[CheckpointKey]:
        """The outputs of the plans that other runs may have left, each once."""
        return keys_of(self.candidates)


def keys_of(candidates: Sequence[Candidate]) -> list[CheckpointKey]:
    """The outputs of plans that other runs may have left, each once."""
    stages = [stage for one in candidates for stage in one.plan.stages if stage.shareable]
    return list(dict.fromkeys(checkpoint_keys(*stages)))


@value
class TimedCandidate:
    """A candidate, the seconds that it is expected to take, and the number of its outputs that are present."""

    candidate: Candidate
    seconds: float
    present: int


def best_of(
    candidates: Sequence[Candidate],
    share: Resources,
    doubted: bool,
    present: Collection[CheckpointKey] = (),
    free: float = 0.0,
) -> TimedCandidate:
    """The candidate that should end first; of those that take at most `free` of its seconds more, that with the
    shortest tasks: the least is lost with its process.

    doubted: the alternative is DuckDB's plan of a long query, so the seconds count with the doubt in their estimate.
    present: keys of outputs that exist.
    """
    weighed = []
    for one in candidates:
        done = done_parts(one.plan, present)
        seconds = one.finish.seconds(share, Done(done))
        weighed.append(
            TimedCandidate(one, held_to_take(one, share, seconds) if doubted else seconds, sum(done.values()))
        )
    most = (1.0 + free) * min(one.seconds for one in weighed)
    near = [one for one in weighed if one.seconds <= most]
    return min(near, key=lambda one: (one.candidate.longest_task(share) if free else 0.0, one.seconds))


def quick_plans(prepared: Prepared, plan: Plan, share: Resources, grid: Grid, cost: CostModel) -> QuickPlans:
    """The plans of a quick search. plan: the usual one of the query."""
    from qoop.planner.search.alternatives import pool  # loads the planner
    from qoop.planner.variants import LONE

    usual = Candidate(plan, "usual", grid.machine, cost, available=share)
    planning = prepared.planning()
    variants = [one for one in LONE if not one.logical.inline or planning.may_inline()]
    lone = pool(planning, replace(grid, availability=(share,)), variants).candidates
    return QuickPlans(prepared.bound, prepared.tables, (usual, *_finer(prepared, usual, share, grid), *lone), prepared)


LONE_PART = 1 / 8
"""The part of a life that work is divided from which one task could do alone: a lone task has no slices, and is lost
with all that it has done."""


def cut_plans(prepared: Prepared, share: Resources, grid: Grid, cost: CostModel, life: float) -> list[Candidate]:
    """Plans as for more slots than there are, by the variants that divide rows the most: their tasks are short. life:
    seconds of a process."""
    planning, found = prepared.planning(), list[Candidate]()
    for factor, variant in product(CUTS, CUTTING):
        size = Resources(factor * share.cpu, share.memory)
        limits = replace(variant.limits, single_seconds=min(variant.limits.single_seconds, LONE_PART * life))
        fitted = replace(variant, limits=limits).on(size, grid.threads, grid.machine)
        plan = planning.plan(fitted, size)
        found.append(Candidate(plan, f"{variant.name}, cut", grid.machine, cost, fitted, size))
    return found


def _finer(prepared: Prepared, usual: Candidate, share: Resources, grid: Grid) -> Sequence[Candidate]:
    """Plans as for more slots than there are, where the usual plan has a task of more than a second.

    They divide its rows into more parts: less is lost with the process, and less spills.
    """
    if usual.longest_task(share) <= LONG_SECONDS:
        return ()
    sizes = [Resources(factor * share.cpu, share.memory) for factor in FINER]
    fitted = [Variant().on(size, grid.threads, grid.machine) for size in sizes]  # no task has more slots than there are
    plans = [prepared.planning().plan(variant, size) for variant, size in zip(fitted, sizes, strict=True)]
    return [
        replace(usual, plan=plan, variant=variant, available=size)
        for plan, variant, size in zip(plans, fitted, sizes, strict=True)
    ]
