"""Grouping sets that are made from the groups of finer ones have DuckDB's rows, and are chosen where they pay."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planner_world import COST, World
from run_plan import run_plan
from test_exchange_rows import DEAR_BUILDS, HASH, same_rows

from qoop.planner.algebra.cascade import levels
from qoop.planner.algebra.expr import Column
from qoop.planner.algebra.relation import Aggregate, Relation, Scan, walk
from qoop.planner.algebra.traversal import bottom_up
from qoop.planner.arrange.eager_aggregation import eager_aggregation
from qoop.planner.arrange.roll_up import roll_up
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.plan import Plan

TABLES = """
create table facts as select i, case when i % 10 < 6 then 3 when i % 17 = 0 then null else i * 31 % 41 end as a,
  case when i % 7 = 0 then null else (i * 17 % 23)::varchar end as b, i * 13 % 19 as c,
  case when i % 5 = 0 then null else (i * 3 % 40 * 0.25)::decimal(7, 2) end as v, i % 8 / 3 as x from range(700) t(i);
create table names as select k, (k % 5)::varchar as name, k % 3 as kind from range(19) t(k);
"""
SETS = (
    "ROLLUP (a, b, c)",
    "CUBE (a, b)",
    "GROUPING SETS ((a, b), (b, c), (a), (a), ())",
    "a, ROLLUP (b, c)",
)
VALUES = """sum(v), count(*), count(v), avg(v), avg(i), avg(x), min(i), max(v), bool_or(i > 600),
    sum(i) FILTER (WHERE c > 3)"""


@pytest.fixture(scope="module")
def world() -> World:
    return World(TABLES)


def in_cascades(relation: Relation) -> Relation:
    """All of its grouping sets in a cascade, whether that pays or not."""
    return bottom_up(relation, lambda node: replace(node, cascade=True) if _has_sets(node) else node)


def _has_sets(node: Relation) -> bool:
    return isinstance(node, Aggregate) and node.grouping_sets is not None


def check(world: World, query: str, plan: Plan) -> None:
    wanted = world.duckdb(query)
    assert wanted.num_rows
    same_rows(run_plan(plan, world.tables), wanted, ordered=False)


@pytest.mark.parametrize("sets", SETS)
@pytest.mark.parametrize("where", ["", "WHERE i < 0"])
@pytest.mark.parametrize("tasks", ["one", "several"])
def test_rows(world: World, sets: str, where: str, tasks: str) -> None:
    query = f"SELECT {VALUES}, grouping(b, a), a, b FROM facts {where} GROUP BY {sets}"
    if where:
        query = f"SELECT count(*), sum(c) FROM ({query.replace('count(v)', 'count(v) AS c')})"
    spread = (HASH, DEAR_BUILDS, 3) if tasks == "several" else ()
    plan = world.plan(query, *spread, rewrite=in_cascades)
    assert any("level_1_1 AS MATERIALIZED" in stage.sql for stage in plan.stages)
    check(world, query, plan)


def test_one_over_another(world: World) -> None:
    inner = "SELECT a, b, sum(v) AS s FROM facts GROUP BY ROLLUP (a, b)"
    query = f"SELECT a, b, max(s), count(*) FROM ({inner}) GROUP BY ROLLUP (a, b)"
    plan = world.plan(query, rewrite=in_cascades)
    assert any("level_2_1 AS" in stage.sql for stage in plan.stages)
    check(world, query, plan)


def test_functions_that_have_no_parts_go_in_one(world: World) -> None:
    query = "SELECT a, count(DISTINCT b), stddev_samp(i) FROM facts GROUP BY ROLLUP (a, c)"
    plan = world.plan(query, rewrite=in_cascades)
    assert all("MATERIALIZED" not in stage.sql for stage in plan.stages)
    check(world, query, plan)


def test_parents_are_the_finer_level_with_the_fewest_keys() -> None:
    a, b, c = (Column(name, "INTEGER") for name in "abc")
    rows = Scan("t", "1", (("a", a), ("b", b), ("c", c)))
    sets = Aggregate(rows, (a, b, c), (), ((), (c, b), (a,), (b,)))
    found = [(" ".join(map(str, level.keys)), level.parent) for level in levels(sets)]
    assert found == [("a b c", None), ("b c", 0), ("a", 0), ("b", 1), ("", 3)]


def test_a_cascade_is_for_many_rows_in_fewer_groups() -> None:
    query = "SELECT a, b, c, sum(v) FROM facts GROUP BY ROLLUP (a, b, c)"
    few, many = World(TABLES), World(TABLES, scale=10_000)
    assert not _cascades(few, query)
    assert _cascades(many, query)


def _cascades(world: World, query: str) -> bool:
    def rewrite(relation: Relation) -> Relation:
        return roll_up(relation, Cardinality(world.stats), COST)

    _, relation = world.placed(query, rewrite=rewrite)
    return any(isinstance(node, Aggregate) and node.cascade for node in walk(relation))


def test_sets_are_aggregated_before_joins_that_only_widen() -> None:
    world = World(TABLES, scale=10_000)
    query = """SELECT name, kind, avg(v), count(*), grouping(name) FROM facts JOIN names ON c = k
               GROUP BY ROLLUP (kind, name)"""

    def rewrite(relation: Relation) -> Relation:
        return eager_aggregation(relation, Cardinality(world.stats), COST, 0.0)

    plan = world.plan(query, rewrite=lambda relation: in_cascades(rewrite(relation)))
    assert any(":early" in stage.sql for stage in plan.stages)
    check(world, query, plan)


def test_no_level_is_grouped_twice(world: World) -> None:
    """The groups of a level are whole: what is put out of them is not grouped again, but for the one without keys."""
    query = "SELECT a, b, c, sum(v), avg(v), count(*) FROM facts GROUP BY ROLLUP (a, b, c)"
    plan = world.plan(query, rewrite=in_cascades)
    text = " ".join(stage.sql for stage in plan.stages)
    assert text.count("GROUP BY") == 3
    check(world, query, plan)
