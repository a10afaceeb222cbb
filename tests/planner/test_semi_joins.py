"""Inner joins become semi joins only where the number of partners does not matter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import duckdb
import pytest

from qoop.planner.algebra.relation import Join, Relation, walk
from qoop.planner.exchange.sqlgen import to_sql
from qoop.planner.rules import apply_rules
from qoop.planner.rules.semi_joins import semi_joins
from qoop.planner.sql.bind import Binder
from qoop.planner.sql.build import build

SOFTENED = [
    "SELECT DISTINCT t.a FROM t JOIN u ON t.a = u.a",
    "SELECT DISTINCT u.a FROM t JOIN u ON t.a = u.a WHERE t.b > 1",
    "SELECT t.a, min(t.b), max(t.b), count(DISTINCT t.b) FROM t JOIN u ON t.a = u.a GROUP BY t.a",
    "SELECT a FROM t WHERE a IN (SELECT x.a FROM u x JOIN u y ON x.a = y.a AND x.b <> y.b)",
    "SELECT a FROM t WHERE NOT EXISTS (SELECT 1 FROM u x JOIN t y ON x.a = y.a WHERE x.b = t.b)",
    "SELECT t.a FROM t JOIN u ON t.a = u.a UNION SELECT b FROM u",
    "WITH w AS (SELECT x.a FROM u x JOIN u y ON x.a = y.a AND x.b <> y.b) "
    "SELECT a FROM t WHERE a IN (SELECT a FROM w) AND b IN (SELECT a FROM w)",
]
KEPT = [
    "SELECT t.a FROM t JOIN u ON t.a = u.a",
    "SELECT DISTINCT t.a, u.b FROM t JOIN u ON t.a = u.a",
    "SELECT t.a, count(*) FROM t JOIN u ON t.a = u.a GROUP BY t.a",
    "SELECT t.a, sum(t.b), min(t.b) FROM t JOIN u ON t.a = u.a GROUP BY t.a",
    "SELECT t.a FROM t JOIN u ON t.a = u.a UNION ALL SELECT b FROM u",
    "SELECT t.a FROM t JOIN u ON t.a = u.a EXCEPT ALL SELECT b FROM u",
    "SELECT DISTINCT n FROM (SELECT count(*) OVER (PARTITION BY t.a) AS n FROM t JOIN u ON t.a = u.a)",
    "SELECT DISTINCT a FROM (SELECT t.a FROM t JOIN u ON t.a = u.a ORDER BY t.a LIMIT 3)",
    "WITH w AS (SELECT x.a FROM u x JOIN u y ON x.a = y.a) "
    "SELECT a FROM t WHERE a IN (SELECT a FROM w) AND b > (SELECT count(*) FROM w) / 100",
]


@pytest.fixture(scope="module")
def data() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT (i % 13)::INTEGER AS a, (i % 7)::INTEGER AS b FROM range(40) r(i)")
    connection.execute(
        "CREATE TABLE u AS SELECT CASE WHEN i % 9 = 0 THEN NULL ELSE (i % 17)::INTEGER END AS a, (i % 5)::INTEGER AS b "
        "FROM range(50) r(i)"
    )
    yield connection
    connection.close()


def prepared(sql: str) -> Relation:
    binder = Binder()
    for table in ("t", "u"):
        binder.add_table(table, "v1", (("a", "INTEGER"), ("b", "INTEGER")))
    try:
        return apply_rules(build(binder.bind(sql), binder.describe))
    finally:
        binder.close()


def inner_joins(relation: Relation) -> int:
    return sum(isinstance(node, Join) and node.kind == "inner" and bool(node.on) for node in walk(relation))


def rows(data: duckdb.DuckDBPyConnection, sql: str) -> Counter[str]:
    return Counter(map(repr, data.execute(sql).fetchall()))


@pytest.mark.parametrize("sql", SOFTENED)
def test_partners_that_are_only_asked_for_are_not_multiplied(data: duckdb.DuckDBPyConnection, sql: str) -> None:
    before = prepared(sql)
    after = semi_joins(before)
    assert inner_joins(after) < inner_joins(before)
    expected = rows(data, sql)
    assert rows(data, to_sql(after)) == expected
    assert expected
    assert semi_joins(after) is after


@pytest.mark.parametrize("sql", KEPT)
def test_joins_whose_duplicates_count_are_left_alone(data: duckdb.DuckDBPyConnection, sql: str) -> None:
    before = prepared(sql)
    after = semi_joins(before)
    assert inner_joins(after) == inner_joins(before)
    assert rows(data, to_sql(after)) == rows(data, sql)
