"""Every kept plan of every query gives DuckDB's rows: for the shares of this machine, and for those of a cluster.

Queries whose answer at scale 0.01 is empty, or a row of NULL and 0, prove nothing there and run at scale 1.
``make test`` has a sample, ``make test-all`` all 99.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from benchmark_plans import GRIDS, TASKS, alternatives, running
from run_plan import narrowed

from qoop.planner.plan import Plan
from qoop.query.result import Result
from qoop.session.session import Session
from qoop.tpcds.oracle import Oracle, is_empty_answer
from qoop.tpcds.queries import text

SAMPLE = (35, 69, 78)


@pytest.fixture(scope="module")
def small(benchmark_texts: None, tpcds_small: Path) -> Iterator[Oracle]:
    with Oracle(tpcds_small, threads=2) as oracle:
        yield oracle


@pytest.fixture(scope="module")
def large(benchmark_texts: None, tpcds_test: Path) -> Iterator[Oracle]:
    with Oracle(tpcds_test, threads=2) as oracle:
        yield oracle


@pytest.mark.timeout(300)
@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize(
    "number", [n if n in SAMPLE else pytest.param(n, marks=pytest.mark.slow) for n in range(1, 100)]
)
def test_rows(
    number: int, grid: str, planner: Session, small: Oracle, large: Oracle, tpcds_small: Path, tpcds_test: Path
) -> None:
    oracle, folder = small, tpcds_small
    theirs = oracle.answer(text(number))
    if is_empty_answer(theirs):
        oracle, folder = large, tpcds_test
        theirs = oracle.answer(text(number))
    assert not is_empty_answer(theirs)
    kept = alternatives(planner, number, grid).kept
    with running(folder, [one.plan for one in kept]) as runner:
        for one in kept:
            ours = exported(runner.answer(narrowed(one.plan, TASKS)), one.plan)
            difference = oracle.judge(text(number), ours, theirs)
            assert difference is None, f"{one.origin}: {difference}"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_rows_with_all_the_tasks_of_a_cluster(planner: Session, small: Oracle, tpcds_small: Path) -> None:
    """Hundreds of tasks and partitions, most of which have no rows."""
    number = 7
    theirs = small.answer(text(number))
    kept = alternatives(planner, number, "cluster").kept
    assert max(stage.width for one in kept for stage in one.plan.stages) >= 300
    with running(tpcds_small, [one.plan for one in kept]) as runner:
        for one in kept:
            difference = small.judge(text(number), exported(runner.answer(one.plan), one.plan), theirs)
            assert difference is None, f"{one.origin}: {difference}"
            runner.forget()


def exported(rows: pa.Table, plan: Plan) -> pa.Table:
    """The root's rows with the types a session gives them: stages are run with DuckDB's lossless ones."""
    return Result(rows, plan.columns, plan.settings).arrow()
