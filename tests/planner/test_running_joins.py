"""Aggregates over joins by an inequality have DuckDB's values as running aggregates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planner_world import World, counted
from run_plan import run_plan

from qoop.planner.algebra.outline import outline
from qoop.planner.algebra.relation import Aggregate, Relation, Window, walk
from qoop.planner.arrange.running_joins import as_running
from qoop.planner.exchange.sqlgen import to_sql
from qoop.planner.rules import apply_rules
from qoop.planner.sql.build import build

SCRIPT = """
CREATE TABLE t AS SELECT (i // 2)::INTEGER AS id, nullif(i % 7, 5)::INTEGER AS k, nullif(i * 13 % 60, 11)::INTEGER AS d
FROM range(120) r(i);
CREATE TABLE u AS SELECT nullif(i % 6, 4)::BIGINT AS k, nullif(i * 7 % 50, 3)::INTEGER AS d,
CASE WHEN i % 9 > 0 THEN (i * 3 % 40)::DECIMAL(7, 2) END AS v FROM range(200) r(i);
CREATE TABLE nothing AS FROM u WHERE false;
"""
MEASURES = ["sum(u.v)", "count(*)", "count(u.v)", "min(u.v)", "max(u.d + 1)", "avg(u.v)", "sum(u.d) FILTER (u.v > 9)"]
ON = [["u.k = t.k"], ["t.k + 1 = u.k"], []]
GROUPS = ["t.id", "t.id % 3", "t.k, t.d", "t.d + t.k"]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    yield World(SCRIPT)


@settings(max_examples=60, deadline=None)
@given(
    measures=st.lists(st.sampled_from(MEASURES), min_size=1, max_size=3, unique=True),
    on=st.sampled_from(ON),
    group=st.sampled_from(GROUPS),
    op=st.sampled_from(["<", "<=", ">", ">="]),
    table=st.sampled_from(["u", "u", "nothing"]),
    swapped=st.booleans(),
)
def test_values_are_those_of_duckdb(
    world: World, measures: list[str], on: list[str], group: str, op: str, table: str, swapped: bool
) -> None:
    condition = " AND ".join([*on, f"u.d {op} t.d"])
    items = ("t", f"{table} u") if not swapped else (f"{table} u", "t")
    query = f"SELECT {group}, {', '.join(measures)} FROM {items[0]} JOIN {items[1]} ON {condition} GROUP BY {group}"
    bound = world.binder.bind(query)
    relation = apply_rules(build(bound, world.binder.describe))
    aggregate = next((node for node in walk(relation) if isinstance(node, Aggregate)), None)
    assert aggregate is not None
    found = as_running(aggregate, "running_1")
    assert found is not None and found.columns == aggregate.columns, outline(relation)
    assert rows(world, found) == rows(world, aggregate)


def rows(world: World, relation: Relation) -> Counter[tuple[object, ...]]:
    return Counter(world.connection.execute(to_sql(relation)).fetchall())


@pytest.mark.parametrize(
    "query",
    [
        "SELECT t.id, sum(u.v) FROM t LEFT JOIN u ON u.k = t.k AND u.d < t.d GROUP BY t.id",
        "SELECT t.id, sum(u.v + t.d) FROM t JOIN u ON u.k = t.k AND u.d < t.d GROUP BY t.id",
        "SELECT t.id, count(DISTINCT u.v) FROM t JOIN u ON u.k = t.k AND u.d < t.d GROUP BY t.id",
        "SELECT t.id, u.v, count(*) FROM t JOIN u ON u.k = t.k AND u.d < t.d GROUP BY t.id, u.v",
        "SELECT t.id, sum(u.v) FROM t JOIN u ON u.k = t.k AND u.d < t.d AND u.v < t.id GROUP BY t.id",
        "SELECT t.id, sum(u.v) FROM t JOIN u ON u.k = t.k AND u.d <> t.d GROUP BY t.id",
    ],
    ids=["left", "both sides", "distinct", "group of the inner side", "two bounds", "no bound"],
)
def test_others_are_left_alone(world: World, query: str) -> None:
    relation = apply_rules(build(world.binder.bind(query), world.binder.describe))
    for node in walk(relation):
        assert not isinstance(node, Aggregate) or as_running(node, "running_1") is None


QUERIES = [
    "SELECT a.id, sum(b.v) AS s FROM t a JOIN u b ON b.k = a.k AND b.d <= a.d GROUP BY a.id",
    "SELECT k, max(s) FROM (SELECT a.k, a.id, count(*) AS s FROM t a, t b WHERE b.k = a.k AND b.d < a.d GROUP BY ALL) "
    "GROUP BY k",
    "SELECT a.id, a.k, sum(b.v) AS s FROM t a, u b WHERE b.k = a.k AND b.d <= a.d GROUP BY ROLLUP (a.id, a.k)",
]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize(("scale", "taken"), [(1000.0, True), (1.0, False)], ids=["many rows", "few"])
def test_a_plan_runs_aggregates_where_pairs_would_take_long(query: str, scale: float, taken: bool) -> None:
    world = World(SCRIPT, scale)
    relation, plan = world.arranged(query)
    assert any(isinstance(node, Window) for node in walk(relation)) == taken
    expected = world.duckdb(query)
    assert expected.num_rows and counted(run_plan(plan, world.tables)) == counted(expected)
