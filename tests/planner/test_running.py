"""Correlated aggregates over the rows up to a bound: the values of DuckDB, from rows that are sorted once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from planner_world import World, counted
from run_plan import run_plan

from qoop.planner.algebra.outline import outline
from qoop.planner.algebra.relation import Opaque, Window, walk
from qoop.planner.arrange.arrange import arranged
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.estimate.cost import DEFAULT

SCRIPT = """
CREATE TABLE t AS SELECT i AS id, nullif(i % 7, 5)::INTEGER AS k, nullif(i * 13 % 60, 11)::INTEGER AS at,
TIMESTAMP '2024-01-01' + INTERVAL (i * 17 % 90) HOUR AS ts FROM range(120) r(i);
CREATE TABLE u AS SELECT nullif(i % 6, 4)::INTEGER AS k, nullif(i * 7 % 50, 3)::INTEGER AS at,
CASE WHEN i % 9 > 0 THEN (i * 3 % 40)::INTEGER END AS v, TIMESTAMP '2024-01-01' + INTERVAL (i * 5 % 80) HOUR AS ts
FROM range(200) r(i);
"""
VALUES = {
    "max": "SELECT max(v) FROM u WHERE u.k = t.k AND u.at {op} t.at",
    "count of all": "SELECT count(*) FROM u WHERE t.k = u.k AND t.at {op} u.at",
    "expression": "SELECT coalesce(sum(v), -1) + 2 * count(v) FROM u WHERE u.k = t.k AND u.at + 3 {op} t.at AND v > 2",
    "filter": "SELECT min(v + 1) FILTER (WHERE v % 2 = 0) FROM u WHERE u.k + 1 = t.k + 0 AND u.at {op} t.at * 2",
    "no equal key": "SELECT avg(v) FROM u WHERE u.at {op} t.at",
    "times": "SELECT max(ts) FROM u WHERE u.k = t.k AND u.ts {op} t.ts",
    "doubles": "SELECT count(*) FROM u WHERE u.k = t.k AND (u.at - 25) / 5 {op} (t.at - 25) * -0.2::DOUBLE",
    "of a join": "SELECT sum(u.v * w.v) FROM u JOIN u w ON u.k = w.k AND w.at = 7 WHERE u.k = t.k AND u.at {op} t.at",
}


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    yield World(SCRIPT)


@pytest.mark.parametrize("op", ["<", "<=", ">", ">="])
@pytest.mark.parametrize("kind", VALUES)
def test_values_are_those_of_duckdb(world: World, kind: str, op: str) -> None:
    check(world, f"SELECT id, ({VALUES[kind].format(op=op)}) AS x FROM t WHERE id % 5 > 0")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id FROM t WHERE id > (SELECT max(v) FROM u WHERE u.k = t.k AND u.at <= t.at)",
        "SELECT k, sum(c) FROM (SELECT k, (SELECT count(*) FROM u WHERE u.k = t.k AND u.at < t.at) c FROM t) "
        "GROUP BY k",
        "SELECT id FROM t WHERE 3 IN (SELECT count(*) FROM u WHERE u.k = t.k AND u.at < t.at)",
        "SELECT a.id, (SELECT sum(b.at) FROM t b WHERE b.k = a.k AND b.id <= a.id) FROM t a, u WHERE a.at = u.at",
        "SELECT id, (SELECT max(v) FROM u WHERE u.k = t.k AND u.at < t.at) AS x, "
        "(SELECT min(v) FROM u WHERE u.k = t.k AND u.at > t.at) AS y FROM t",
    ],
    ids=["where", "below an aggregate", "in", "self", "two"],
)
def test_the_value_is_used_anywhere(world: World, query: str) -> None:
    check(world, query)


@pytest.mark.parametrize(
    "subquery",
    [
        "SELECT max(v) FROM u WHERE u.k = t.k AND u.at <= t.at AND u.at > t.at - 5",
        "SELECT count(DISTINCT v) FROM u WHERE u.k = t.k AND u.at <= t.at",
        "SELECT list(v) FROM u WHERE u.k = t.k AND u.at <= t.at",
        "SELECT max(v) FROM u WHERE u.k = t.k AND u.at <= t.at + 0.5",
        "SELECT max(v) FROM u WHERE u.k = t.k AND u.at <= t.at GROUP BY u.k",
        "SELECT max(v) FROM u WHERE u.k::DOUBLE = t.k::DOUBLE AND u.at <= t.at",
    ],
    ids=["two bounds", "distinct", "list", "types", "groups", "keys of doubles"],
)
def test_what_is_no_running_aggregate_runs_whole(world: World, subquery: str) -> None:
    _, relation = world.placed(f"SELECT id, ({subquery}) FROM t")
    assert any(isinstance(node, Opaque) for node in walk(relation))


def check(world: World, query: str) -> None:
    _, relation = world.placed(query)
    assert any(isinstance(node, Window) for node in walk(relation)), outline(relation)
    plan = world.plan(query, rewrite=lambda one: arranged(one, Cardinality(world.stats), DEFAULT))
    expected = counted(world.duckdb(query))
    assert expected and counted(run_plan(plan, world.tables)) == expected
