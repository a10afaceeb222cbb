"""Orders and segments of pulls, searched: the best that knowing everything could do.

The source of such searches (Mahajan, "Better Algorithms and Systems for Distributed Machine Learning", Syndicate) runs
one over thousands of equal iterations. A query runs once. So this search is not what a session could have: each
candidate is judged by simulating the query as it will really go. It bounds from above what an order that is worked out
beforehand, and kept to, can gain. It is bounded by the candidates that it examines, not by seconds, so it repeats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from qoop.engine.exchanges.terms import Exchanges
from qoop.planner.plan import Plan, StageId

BETTER = 0.001
"""A candidate is taken if it is better by that part."""

SEGMENTS = (2, 4)


def searched(
    plan: Plan, begin: Exchanges, seconds: Callable[[Exchanges], float], examined: int
) -> tuple[Exchanges, float]:
    """The best terms found by local search, and their seconds; never worse than `begin`.

    seconds: of the plan with these terms. examined: candidates at most, `begin` included.
    """
    best, least, left = begin, seconds(begin), examined - 1
    improved = True
    while improved and left > 0:
        improved = False
        for candidate in _neighbours(plan, best):
            if left <= 0:
                break
            left -= 1
            found = seconds(candidate)
            if found < least * (1 - BETTER):
                best, least, improved = candidate, found, True
                break
    return best, least


def _neighbours(plan: Plan, terms: Exchanges) -> Iterator[Exchanges]:
    """Terms with one stage's pulls earlier or later, or in segments; the longest ways to the end first."""
    paths = {**_paths(plan), **terms.paths}
    exchanging = [stage.id for stage in plan.stages if stage.stage_inputs and stage.width > 1]
    for stage in sorted(exchanging, key=lambda one: -paths[one]):
        others = [paths[one] for one in exchanging if one != stage]
        for path in (max(others, default=0.0) + 1.0, min(others, default=0.0) - 1.0):
            if path != paths[stage]:
                yield replace(terms, paths={**paths, stage: path})
        for segments in SEGMENTS:
            if terms.segments.get(stage, 1) != segments:
                yield replace(terms, paths=paths, segments={**terms.segments, stage: segments})


def _paths(plan: Plan) -> dict[StageId, float]:
    """Seconds from a task's beginning to the end, as the engine orders stages."""
    found: dict[StageId, float] = {}
    for stage in reversed(plan.stages):
        readers = (other for other in plan.stages if any(item.stage == stage.id for item in other.stage_inputs))
        found[stage.id] = stage.estimate.task_seconds + max((found[one.id] for one in readers), default=0.0)
    return found
