"""Rows without end that are read in part: what stops to read them stands in their stage."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import qoop

_COUNTING = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r)"
QUERIES = [
    f"{_COUNTING} FROM r LIMIT 3",
    f"{_COUNTING} SELECT n FROM r WHERE n % 2 = 0 OFFSET 2 LIMIT 1",
    f"{_COUNTING} SELECT sum(n) FROM (FROM r LIMIT 10)",
    f"{_COUNTING} SELECT i FROM t WHERE i IN (FROM r LIMIT 3)",
    f"{_COUNTING} SELECT (SELECT n FROM r LIMIT 1)",
    f"{_COUNTING} SELECT EXISTS (FROM r)",
    f"{_COUNTING} SELECT i FROM t WHERE EXISTS (FROM r)",
    f"{_COUNTING} SELECT n FROM r UNION ALL SELECT i FROM t LIMIT 3",
    "SELECT * FROM range(100_000_000_000) r(i) WHERE i % 1000 = 3 LIMIT 5",
    "SELECT i, x FROM t, range(100_000_000_000) u(x) LIMIT 3",
    "WITH a AS (FROM generate_series(1, 100_000_000_000)) FROM a LIMIT 3",
    "FROM repeat(1, 100_000_000_000) LIMIT 5",
]


@pytest.fixture(scope="module")
def session() -> Iterator[qoop.Session]:
    with qoop.connect(slots=2, memory="500MB", staged=True) as opened:
        opened.sql("CREATE TABLE t AS SELECT i FROM range(7) r(i)")
        yield opened


@pytest.mark.parametrize("query", QUERIES)
def test_the_query_ends_with_what_is_read(query: str, session: qoop.Session) -> None:
    with duckdb.connect() as oracle:
        oracle.sql("CREATE TABLE t AS SELECT i FROM range(7) r(i)")
        rows = oracle.sql(query).fetchall()
    assert sorted(session.submit(query, timeout=20).result().fetchall()) == sorted(rows) != []
