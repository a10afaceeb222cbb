"""DISTINCT ON: taken apart where it has an order or asks for nothing but its keys."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from taken_apart import Both, both

TEXTS = (
    "SELECT DISTINCT ON (k) k, i FROM t ORDER BY k, i",
    "SELECT DISTINCT ON (k) i FROM t ORDER BY k, i DESC",
    "SELECT DISTINCT ON (n) n, i, S FROM t ORDER BY n NULLS FIRST, i",
    "SELECT DISTINCT ON (n) * FROM t ORDER BY i DESC",
    "SELECT DISTINCT ON (n, k) n, k, f FROM t ORDER BY k, n, f DESC",
    "SELECT DISTINCT ON (k % 2) k FROM t ORDER BY k % 2, k",
    "SELECT DISTINCT ON (1) k, i FROM t ORDER BY 1, 2",
    "SELECT DISTINCT ON (z) k % 3 AS z, i FROM t ORDER BY z, i",
    "SELECT DISTINCT ON (k, n) k FROM t ORDER BY k, n",
    "SELECT DISTINCT ON (k, n) n FROM t",
    "SELECT DISTINCT ON (k) k, i FROM t ORDER BY k, i LIMIT 2 OFFSET 1",
    "SELECT DISTINCT ON (k) k, i FROM nothing JOIN t USING (k) ORDER BY k, i",
    "SELECT DISTINCT ON (k) k, sum(i) AS s FROM t GROUP BY k, n ORDER BY k, s",
    "SELECT DISTINCT ON (n) n, sum(i) OVER (PARTITION BY k) AS x FROM t ORDER BY n, x",
    "SELECT DISTINCT ON (d.k) d.k, t.i FROM t JOIN u AS d ON t.k = d.k ORDER BY d.k, t.i, d.j",
    "SELECT k, count(*) FROM (SELECT DISTINCT ON (n) n, k, i FROM t ORDER BY n, i) GROUP BY k",
    "WITH q AS (SELECT DISTINCT ON (n) n, i FROM t ORDER BY n, i) SELECT * FROM q AS a JOIN q AS b ON a.n = b.n",
    "SELECT DISTINCT ON (n) n, i FROM t WHERE i > 100 ORDER BY n, i",
    "SELECT DISTINCT ON (n) n, k FROM t ORDER BY n, k",
    "SELECT DISTINCT ON (S) S, i FROM t ORDER BY ALL",
    "SELECT * FROM u WHERE j IN (SELECT DISTINCT ON (k) i FROM t ORDER BY k, i)",
)


@pytest.fixture(scope="module")
def world() -> Iterator[Both]:
    with both() as made:
        yield made


@pytest.mark.parametrize("text", TEXTS)
def test_the_first_row_of_each_group(world: Both, text: str) -> None:
    world.check(text)
    assert world.reasons(text) == []


def test_ties_leave_a_choice_that_is_made_once(world: Both) -> None:
    """Any of the rows that tie is right; all readers of a CTE see the same one."""
    text = (
        "WITH q AS (SELECT DISTINCT ON (k) k, i FROM t ORDER BY k, n) SELECT count(*) FROM q JOIN q AS p USING (k, i)"
    )
    world.check(text)
    assert world.reasons(text) == []


def test_without_an_order_duckdb_chooses(world: Both) -> None:
    text = "SELECT DISTINCT ON (k) k, i FROM t"
    assert len(world.staged.sql(text).fetchall()) == 5
    assert world.reasons(text) == ["DISTINCT ON without an order, which leaves the choice of the rows to DuckDB"]
