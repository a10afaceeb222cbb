"""Re-planning of real queries in a session: what changes a job's share, or belies its estimates, is thought over."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from qoop.catalog.errors import ConfigError
from qoop.engine.history import Decided, ShareReported, Started
from qoop.query.job import Job
from qoop.session.opening import connect
from qoop.session.session import Session

Expected = Callable[[str], list[tuple[object, ...]]]

ROWS = 2_500_000
LONG = "SELECT a.k % 1000 AS g, sum(a.v * b.v) AS s FROM facts a JOIN facts b ON a.k = b.k GROUP BY g ORDER BY g"
MISJUDGED = """
    SELECT count(*) AS n, sum(s) AS t, max(k) AS m FROM (
        SELECT k, sum(v) AS s FROM facts WHERE v % 7 = 3 AND (v + 4) % 7 = 0 AND (v + 11) % 7 = 0 GROUP BY k
    ) WHERE s > 0
"""


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    with duckdb.connect() as made:
        facts = made.sql(f"SELECT range AS k, range % 100 AS d, range * 13 % 1009 AS v FROM range({ROWS})")
        dims = made.sql("SELECT range AS id, 'd' || range AS name FROM range(100)")
        return {"facts": facts.to_arrow_table(), "dims": dims.to_arrow_table()}


@pytest.fixture
def session(tables: dict[str, pa.Table]) -> Iterator[Session]:
    with connect(slots=4, memory="2GB") as made:
        for name, table in tables.items():
            made.register(name, table)
        yield made


@pytest.fixture(scope="module")
def expected(tables: dict[str, pa.Table]) -> Expected:
    """DuckDB's answers."""

    @cache
    def answer(query: str) -> list[tuple[object, ...]]:
        with duckdb.connect() as made:
            for name, table in tables.items():
                made.register(name, table)
            found = made.sql(query).fetchall()
        assert found
        return found

    return answer


def rows(job: Job) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in job.result(60).arrow().to_pylist()]


def decisions(job: Job) -> list[Decided]:
    return [record for record in job.history() if isinstance(record, Decided)]


def submitted(session: Session, query: str) -> Job:
    """A job whose alternatives are made at once, however short it is."""
    planned = session.planning.plan(query)
    assert planned.adaptive is not None
    return session.start(replace(planned, adaptive=replace(planned.adaptive, at_once=True)))


def test_lost_slots_are_thought_over(session: Session, expected: Expected) -> None:
    job = submitted(session, LONG)
    assert not job.wait(0.05)
    session.resize(slots=1)
    assert rows(job) == expected(LONG)
    assert any("fell from 4 to 1 slots" in str(record) for record in decisions(job)), decisions(job)


def test_another_query_takes_half_and_gives_it_back(session: Session, expected: Expected) -> None:
    first = submitted(session, LONG)
    second = submitted(session, LONG)
    assert rows(first) == rows(second) == expected(LONG)
    assert any(record.after and record.after.cpu == 2 for record in (*decisions(first), *decisions(second)))


def test_rows_that_belie_the_estimate_are_thought_over(session: Session, expected: Expected) -> None:
    job = submitted(session, MISJUDGED)
    assert rows(job) == expected(MISJUDGED)
    reasons = [record.cause for record in decisions(job)]
    assert any("were expected" in reason for reason in reasons), reasons


def test_what_is_expected_is_thought_over_and_never_given(session: Session, expected: Expected) -> None:
    session.resize(slots=1)
    session.expect([(600, 3), (900, 4)])  # later than any machine needs for the query
    job = submitted(session, LONG)
    assert rows(job) == expected(LONG)
    assert "3 slots" in str(next(record for record in job.history() if isinstance(record, ShareReported)))
    assert any("3 slots" in str(record) for record in decisions(job)), decisions(job)
    assert all(record.resources.cpu == 1 for record in job.history() if isinstance(record, Started))
    session.expect([])
    after = submitted(session, LONG)
    assert rows(after) == expected(LONG)
    assert not any("expected in" in str(record) for record in decisions(after))


@pytest.mark.parametrize(
    ("course", "message"),
    [
        ([(0, 2)], "seconds of announced slots must be above 0 and increase; 0 is not valid"),
        ([(5, 2), (5, 3)], "; 5 is not valid"),
        ([(float("inf"), 2)], "; inf is not valid"),
        ([(5, -1)], "slots must be a whole number of at least 0, not -1"),
        ([(5, 1.5)], "slots must be a whole number"),
        ([5], "pairs of seconds from now and slots"),
        (7, "pairs of seconds from now and slots"),
    ],
)
def test_what_cannot_be_expected_is_refused(session: Session, course: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        session.expect(course)


def test_a_job_held_to_its_plan_decides_nothing(tables: dict[str, pa.Table], expected: Expected) -> None:
    threads = set(threading.enumerate())  # other sessions may be open
    with connect(slots=4, memory="2GB", replan=False) as session:
        for name, table in tables.items():
            session.register(name, table)
        job = session.submit(LONG)
        session.resize(slots=1)
        assert rows(job) == expected(LONG)
        assert decisions(job) == [] and len(job.plans) == 1
        assert not any(thread.name == "qoop-planner" for thread in set(threading.enumerate()) - threads)


def test_plans_are_compared_on_as_many_slots_as_are_expected() -> None:
    """Of the plans kept on one slot and two, none need be any good on eight."""

    def most(session: Session) -> float:
        pool = session.alternatives("SELECT i % 1000 AS k, count(*) FROM t GROUP BY k").pool
        return max(point.cpu for point in pool.grid.points)

    with connect(slots=1, memory="1GB") as session:
        session.register("t", pa.table({"i": np.arange(1_000_000)}))
        assert most(session) == 2
        session.expect([(60, 8), (90, 4)])
        assert most(session) == 8
        session.expect([])
        assert most(session) == 2
