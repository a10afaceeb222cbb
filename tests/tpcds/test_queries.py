"""The main job: all 99 TPC-DS queries, texts unchanged, through our own plans, with DuckDB's answers.

And the 22 of TPC-H. Column names and types, rows and order are compared, see `qoop.tpcds.oracle`. `make test` runs
them on 2 slots, and on DuckDB 2 with `--scale 0.01`; `make test-all` on 1 and 4 slots too.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import pytest

from qoop.planner.plan import Plan
from qoop.session.session import Session
from qoop.tpcds.oracle import Oracle, is_empty_answer
from qoop.tpcds.queries import text

AT_LEAST = 90
"""That many of the 99 have an answer with something in it, have no opaque stage, and run as several tasks."""

AT_LEAST_OF_LITTLE = 74
"""The number of queries whose answer is not empty at scale 0.01, nor a row of NULL and 0 alone."""


@dataclass(frozen=True)
class Right:
    """A query whose answer was DuckDB's."""

    plan: Plan
    empty: bool


_right: defaultdict[int, dict[int, Right]] = defaultdict(dict)  # by slots and number


@pytest.mark.timeout(120)
@pytest.mark.parametrize("number", range(1, 100))
def test_tpcds(
    number: int, slots: int, scale: float, tpcds_session: Session, tpcds_unstaged: Session, tpcds_oracle: Oracle
) -> None:
    theirs = tpcds_oracle.answer(text(number))
    job = tpcds_session.submit(text(number))
    difference = tpcds_oracle.judge(text(number), job.result().arrow(), theirs)
    assert difference is None, str(difference)
    if number % 9 == 0 or slots != 2 or scale < 1:  # all of them in other runs: on little data, and with other slots
        difference = tpcds_oracle.judge(text(number), tpcds_unstaged.sql(text(number)).arrow(), theirs)
        assert difference is None, f"by DuckDB's own plan: {difference}"
    _right[slots][number] = Right(job.plan, is_empty_answer(theirs))


@pytest.fixture(scope="session")
def scale(pytestconfig: pytest.Config) -> float:
    return float(pytestconfig.getoption("--scale"))


@pytest.fixture
def all_right(slots: int) -> dict[int, Right]:
    """All 99 queries; skips where only some of them were chosen."""
    if len(_right[slots]) < 99:
        pytest.skip("only if all 99 queries ran and were right")
    return _right[slots]


def test_the_answers_compared_are_not_empty(all_right: dict[int, Right], scale: float) -> None:
    least = AT_LEAST if scale >= 1 else AT_LEAST_OF_LITTLE
    assert sum(not query.empty for query in all_right.values()) >= least


def test_the_planner_takes_every_query_apart(all_right: dict[int, Right]) -> None:
    whole = [number for number, query in all_right.items() if all(stage.opaque for stage in query.plan.stages)]
    assert whole == [], "no query runs as one opaque stage"


def test_few_queries_have_an_opaque_stage(all_right: dict[int, Right]) -> None:
    assert sum(not any(stage.opaque for stage in query.plan.stages) for query in all_right.values()) >= AT_LEAST


def test_the_queries_run_as_several_tasks(all_right: dict[int, Right], slots: int, scale: float) -> None:
    if slots == 1 or scale < 1:
        pytest.skip("with one slot, or on little data, a single task is the best plan of a query")
    wide = sum(any(stage.width > 1 for stage in query.plan.stages) for query in all_right.values())
    assert wide >= AT_LEAST


@pytest.mark.timeout(120)
@pytest.mark.parametrize("number", range(1, 23))
def test_tpch(number: int, tpch_session: Session, tpch_oracle: Oracle) -> None:
    query = text(number, "tpch")
    difference = tpch_oracle.judge(query, tpch_session.sql(query).arrow())
    assert difference is None, str(difference)
