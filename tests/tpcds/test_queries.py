"""The main job: all 99 TPC-DS queries, texts unchanged, through our own plans, with DuckDB's answers.

And the 22 of TPC-H. Column names and types, rows and order are compared, see `qoop.tpcds.oracle`.
"""

from __future__ import annotations

import pytest

from qoop.job import Job
from qoop.session import Session
from qoop.tpcds.oracle import Oracle, is_empty_answer
from qoop.tpcds.queries import text

NOT_EMPTY = 90
"""So many of the 99 compared answers have something in them; at scale 1 all of them do."""

_empty: dict[int, bool] = {}
_jobs: dict[int, Job] = {}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("number", range(1, 100))
def test_tpcds(number: int, tpcds_session: Session, tpcds_oracle: Oracle) -> None:
    theirs = tpcds_oracle.answer(text(number))
    job = tpcds_session.submit(text(number))
    difference = tpcds_oracle.judge(text(number), job.result().arrow(), theirs)
    assert difference is None, str(difference)
    _empty[number] = is_empty_answer(theirs)
    _jobs[number] = job


def _of_all(what: dict[int, object]) -> dict[int, object]:
    """Skip where only some of the queries were chosen."""
    if len(what) < 99:
        pytest.skip("only if all 99 queries ran and were right")
    return what


def test_the_answers_compared_are_not_empty() -> None:
    _of_all({**_empty})
    assert sum(not empty for empty in _empty.values()) >= NOT_EMPTY


def test_the_planner_takes_the_queries_apart() -> None:
    _of_all({**_jobs})
    opaque = {number: [stage.opaque for stage in job.plan.stages if stage.opaque] for number, job in _jobs.items()}
    whole = [number for number, job in _jobs.items() if len(opaque[number]) == len(job.plan.stages)]
    assert whole == [], "no query runs as one opaque stage"
    assert sum(not reasons for reasons in opaque.values()) >= 90, "at least 90 have no opaque stage"


def test_the_queries_run_as_several_tasks() -> None:
    _of_all({**_jobs})
    assert sum(any(stage.width > 1 for stage in job.plan.stages) for job in _jobs.values()) >= 90


@pytest.mark.timeout(120)
@pytest.mark.parametrize("number", range(1, 23))
def test_tpch(number: int, tpch_session: Session, tpch_oracle: Oracle) -> None:
    query = text(number, "tpch")
    difference = tpch_oracle.judge(query, tpch_session.sql(query).arrow())
    assert difference is None, str(difference)
