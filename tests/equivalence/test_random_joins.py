"""All plans of random join queries give DuckDB's rows: those kept, and those that are only in the pool.

What their stages put out goes to the :mod:`witness` of equal signatures, over all queries drawn.

The planner is told that the tables are up to a million times as large as they are, and plans for a cluster of 600
containers or for two slots. Failures are shrunk by hypothesis and print the text and the variant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from benchmark_plans import TASKS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from join_queries import TABLES, join_queries
from planner_world import World
from random_plans import GRIDS, SCALES, candidates
from run_plan import Runner, narrowed, storage
from witness import Witness

from qoop.tpcds.oracle import compare, is_empty_answer
from qoop.tpcds.ordering import ordering


@pytest.fixture(scope="module")
def worlds() -> Mapping[float, World]:
    return {scale: World(TABLES, scale) for scale in SCALES}


@pytest.fixture(scope="module")
def runner(worlds: Mapping[float, World]) -> Iterator[Runner]:
    with Runner(worlds[SCALES[0]].tables) as runner:
        yield runner


def differences(
    worlds: Mapping[float, World], runner: Runner, witness: Witness, text: str, scale: float, grid: str
) -> Iterator[str]:
    """Run all plans of a query; where one gives other rows than DuckDB, say so."""
    world = worlds[scale]
    theirs = storage(world.duckdb(text))
    order = ordering(text, theirs.column_names)
    runner.forget()
    found = candidates(world, text, grid)
    witness.see(text, [one.plan for one in found], runner)
    for one in found:
        ours = storage(runner.answer(narrowed(one.plan, TASKS)))
        difference = compare(ours, theirs, order=order, unlimited=lambda: storage(world.duckdb(order.unlimited or "")))
        if difference is not None:
            yield f"{one.origin}: {difference}"


def check_many(examples: int, least: int, worlds: Mapping[float, World], runner: Runner, folder: Path) -> None:
    """Check that many random queries; at least that many of them must have an answer with something in it."""
    answered, witness = Counter[bool](), Witness(folder)

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(text=join_queries(), scale=st.sampled_from(SCALES), grid=st.sampled_from(sorted(GRIDS)))
    def check(text: str, scale: float, grid: str) -> None:
        answered[is_empty_answer(worlds[scale].duckdb(text))] += 1
        assert not list(differences(worlds, runner, witness, text, scale, grid))

    check()
    assert answered[False] >= least, answered
    assert witness.compared.total() >= examples


def test_all_plans_give_the_same_rows(worlds: Mapping[float, World], runner: Runner, tmp_path: Path) -> None:
    check_many(5, 1, worlds, runner, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_all_plans_of_many_queries_give_the_same_rows(
    worlds: Mapping[float, World], runner: Runner, tmp_path: Path
) -> None:
    check_many(200, 80, worlds, runner, tmp_path)
