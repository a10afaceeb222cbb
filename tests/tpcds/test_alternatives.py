"""Every alternative of a query gives DuckDB's rows: plans for this machine, and plans for far larger data and machines.

Plans for larger data are made from statistics scaled up and run on the small data, so that their exchanges, early
aggregates and hash partitions are there although so few rows would not need them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from qoop.catalog.errors import QueryError
from qoop.planner.search.alternatives import pool
from qoop.planner.search.candidate import Candidate, Grid, local_grid
from qoop.query.job import Prepared
from qoop.session.opening import connect
from qoop.session.session import Session
from qoop.tpcds.oracle import Oracle
from qoop.tpcds.queries import text
from qoop.tpcds.scaling import growth, scaled, scaled_splits

SAMPLE = (1, 9, 85, 95)
SCALES = (pytest.param(1.0, marks=pytest.mark.slow), 300.0)


@pytest.fixture(scope="module")
def session(benchmark_texts: None, tpcds_small: Path) -> Iterator[Session]:
    with connect(slots=2, memory="4GB", statistics="full") as session:
        session.register_folder(tpcds_small)
        yield session


@pytest.fixture(scope="module")
def oracle(benchmark_texts: None, tpcds_small: Path) -> Iterator[Oracle]:
    with Oracle(tpcds_small, threads=2) as oracle:
        yield oracle


def candidates(session: Session, number: int, scale: float) -> tuple[Candidate, ...]:
    """All plans of the pool, kept or not."""
    prepared = session.prepare(text(number))
    grid = local_grid(session.available) if scale == 1 else Grid.of((2, 8), (1e8, 2e9), threads=2)
    return pool(_grown(prepared, scale).planning(), grid).candidates


def _grown(prepared: Prepared, scale: float) -> Prepared:
    return replace(
        prepared, stats=scaled(prepared.stats, scale), splits=scaled_splits(prepared.splits, min(scale, 8.0))
    )


@pytest.mark.timeout(300)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(
    "number", [n if n in SAMPLE else pytest.param(n, marks=pytest.mark.slow) for n in range(1, 100)]
)
def test_rows(number: int, scale: float, session: Session, oracle: Oracle) -> None:
    theirs = oracle.answer(text(number))
    for one in candidates(session, number, scale):
        ours = session.submit(text(number), plan=one.plan).result().arrow()
        difference = oracle.judge(text(number), ours, theirs)
        assert difference is None, f"{one.origin}: {difference}"


def test_the_plans_are_of_many_shapes(session: Session) -> None:
    shapes = [len({one.shape for one in candidates(session, number, 300.0)}) for number in (1, 2, 5, 7, 9, 10, 16, 18)]
    assert sum(count >= 3 for count in shapes) >= 7


def test_the_same_query_has_the_same_alternatives(session: Session) -> None:
    first, second = (session.alternatives(text(18)) for _ in range(2))
    assert [one.plan for one in first.kept] == [one.plan for one in second.kept]
    assert first.cover_error <= 0.10


def test_a_plan_of_another_query_is_refused(session: Session) -> None:
    plan = session.alternatives(text(7)).kept[0].plan
    with pytest.raises(QueryError, match="not one of this query"):
        session.submit(text(18), plan=plan)


def test_explain_draws_the_map(session: Session) -> None:
    shown = session.explain(text(7), alternatives=True)
    assert "memory a slot" in shown and "A: " in shown


@pytest.mark.parametrize(
    ("table", "scale", "least", "most"),
    [("store_sales", 500, 500, 500), ("date_dim", 500, 1, 1), ("customer", 10, 5, 5), ("customer", 500, 20, 120),
     ("store", 5000, 83.5, 300), ("item", 1, 1, 1)],
)  # fmt: skip
def test_growth_follows_the_documented_row_counts(table: str, scale: float, least: float, most: float) -> None:
    assert least * 0.999 <= growth(table, scale) <= most * 1.001


def test_scaled_keys_meet_scaled_tables(session: Session) -> None:
    stats = scaled(session.prepare(text(7)).stats, 100.0)
    items, sales = stats["item"], stats["store_sales"]
    assert sales.columns["ss_item_sk"].distinct <= 1.01 * items.rows
    assert items.columns["i_item_sk"].distinct <= 1.01 * items.rows
