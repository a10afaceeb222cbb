"""The decisions that led to a query's plans: they make plans for the same query with other literals.

The search behind :func:`~qoop.planner.search.alternatives.keep` tries many variants with several resources and
simulates the resulting plans, to find the few that are worth keeping. The result seldom depends on the literals: a
query for another month has the same good plans, if the estimates are similar. So the decisions are kept, and
:func:`replay` makes plans by them from the new text. These are right by construction, as any plan is. It gives up if an
estimate has moved so far that the search might find other plans.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from qoop.catalog.value import value
from qoop.planner.estimate.cost import CostModel
from qoop.planner.plan import Plan, Resources
from qoop.planner.search.candidate import Alternatives, Candidate, Grid, Pool
from qoop.planner.variants import Variant

if TYPE_CHECKING:
    from qoop.planner.planner import Planning

MOVED = 2.0
"""A stage whose estimated rows or seconds differ by more than this factor is another case."""

_FEW_ROWS, _SHORT = 1_000.0, 0.005


@value
class PlanDecision:
    """A kept plan: the variant (fitted to the resources) and the resources that led to it, and the estimates of its
    stages, in the plan's order."""

    variant: Variant
    available: Resources
    origin: str
    rows: tuple[float, ...]
    seconds: tuple[float, ...]


def decisions(alternatives: Alternatives) -> tuple[PlanDecision, ...]:
    """The decisions behind the plans that are kept."""
    return tuple(
        PlanDecision(one.variant, one.available, one.origin, *_expected(one.plan)) for one in alternatives.kept
    )


def replay(planning: Planning, grid: Grid, made: Sequence[PlanDecision]) -> Alternatives | None:
    """Plans along decisions that were made for a query of other literals; None where they need not hold."""
    plans = []
    for decision in made:
        plan = planning.plan(decision.variant, decision.available)
        rows, seconds = _expected(plan)
        if _moved(rows, decision.rows, _FEW_ROWS) or _moved(seconds, decision.seconds, _SHORT):
            return None
        plans.append(plan)
    return recalled(zip(plans, made, strict=True), grid, planning.cost)


def recalled(plans: Iterable[tuple[Plan, PlanDecision]], grid: Grid, cost: CostModel) -> Alternatives:
    """Alternatives of plans that are known to be those worth keeping, in their order."""
    candidates = tuple(
        Candidate(plan, one.origin, grid.machine, cost, one.variant, one.available) for plan, one in plans
    )
    return Alternatives(Pool(grid, candidates, whole=False), tuple(range(len(candidates))))


def _expected(plan: Plan) -> tuple[tuple[float, ...], tuple[float, ...]]:
    estimates = [(stage.estimate, stage.width) for stage in plan.stages]
    return (
        tuple(estimate.rows for estimate, _ in estimates),
        tuple(estimate.task_seconds * width for estimate, width in estimates),
    )


def _moved(now: Sequence[float], before: Sequence[float], least: float) -> bool:
    """True if a number is off by more than the factor; numbers below `least` are all alike."""
    if len(now) != len(before):
        return True
    pairs = ((max(one, least), max(other, least)) for one, other in zip(now, before, strict=True))
    return any(max(pair) > MOVED * min(pair) for pair in pairs)
