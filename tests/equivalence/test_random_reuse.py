"""Outputs that one random query leaves behind serve another, whose rows stay DuckDB's.

All finished stages of a plan of the first query are held; plans of the second take over whatever serves them: equal
stages, stages cut in another way, and stages that hold more rows and columns than are asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import pytest
from benchmark_plans import TASKS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from join_queries import TABLES, related_queries
from planner_world import World
from random_plans import GRIDS, SCALES, candidates
from run_plan import Kept, Runner, narrowed, storage

from qoop.planner.plan import Plan
from qoop.planner.search.candidate import stage_key
from qoop.planner.search.reuse import finished_stages, reuse
from qoop.tpcds.oracle import compare

MOST_PLANS = 5


@pytest.fixture(scope="module")
def worlds() -> Mapping[float, World]:
    return {scale: World(TABLES, scale) for scale in SCALES}


def plans(world: World, text: str, grid: str) -> list[Plan]:
    return [narrowed(one.plan, TASKS) for one in candidates(world, text, grid)[:MOST_PLANS]]


def differences(world: World, texts: tuple[str, str], grid: str, changed: Counter[bool]) -> Iterator[str]:
    """Run plans of the second query over what each plan of the first has left behind."""
    theirs = storage(world.duckdb(texts[1]))
    seconds = plans(world, texts[1], grid)
    for first in plans(world, texts[0], grid)[:2]:
        finished = finished_stages(first, [stage.id for stage in first.stages])
        kept: Kept = {}
        with Runner(world.tables, kept) as runner:
            runner.run(first)
        kept = {stage_key(item.stage): kept[stage_key(item.stage)] for item in finished}
        for plan in seconds:
            served = reuse(plan, finished)
            changed[served is not plan] += 1
            with Runner(world.tables, dict(kept)) as runner:
                difference = compare(storage(runner.answer(served)), theirs)
            if difference is not None:
                yield f"{difference}\n" + "\n".join(f"{s.id} {s.inputs} {s.sql}" for s in served.stages)


def check_many(examples: int, worlds: Mapping[float, World]) -> None:
    """Check that many pairs of queries; some of the plans must take something over."""
    changed = Counter[bool]()

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(texts=related_queries(), scale=st.sampled_from(SCALES), grid=st.sampled_from(sorted(GRIDS)))
    def check(texts: tuple[str, str], scale: float, grid: str) -> None:
        found = list(differences(worlds[scale], texts, grid, changed))
        assert not found, "\n\n".join([*texts, found[0]])

    check()
    assert changed[True] >= 0.1 * examples, changed


def test_finished_work_of_another_query_serves(worlds: Mapping[float, World]) -> None:
    check_many(5, worlds)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_finished_work_of_another_query_serves_many(worlds: Mapping[float, World]) -> None:
    check_many(150, worlds)
