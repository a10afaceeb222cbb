"""Finished stages of other plans serve a plan that has no equal stage, and the rows stay DuckDB's."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from planner_world import World
from run_plan import Kept, run_plan
from test_exchange_rows import FORMS, QUERIES, TABLES, is_ordered, same_rows

from qoop.planner.plan import Plan
from qoop.planner.search.candidate import stage_key
from qoop.planner.search.reuse import FinishedStage, finished_stages, reuse


@pytest.fixture(scope="module")
def world() -> World:
    """The planner's statistics have a thousand times the rows there are, so that work is worth saving."""
    return World(TABLES, scale=1000.0)


def plan_of(world: World, query: str, form: str) -> Plan:
    thresholds, cost, slots = FORMS[form]
    return world.plan(query, thresholds, cost, slots)


def all_finished(plan: Plan, *, root: bool = False) -> tuple[FinishedStage, ...]:
    return finished_stages(plan, [stage.id for stage in plan.stages if root or stage is not plan.root])


def scanned(plan: Plan, kept: Kept) -> set[str]:
    """Base tables that running the plan reads, given what is kept."""
    wanted, tables = {plan.root.id}, set()
    for stage in reversed(plan.stages):
        if stage.id in wanted and stage_key(stage) not in kept:
            tables.update(item.table for item in stage.table_inputs)
            wanted.update(item.stage for item in stage.stage_inputs)
    return tables


@pytest.mark.parametrize("place", range(len(FORMS)))
def test_a_plan_of_a_query_can_take_over_the_stages_of_another(world: World, place: int) -> None:
    assert taken_over(world, list(FORMS)[place], QUERIES[place :: 4 * len(FORMS)]) > 1


@pytest.mark.slow
@pytest.mark.parametrize("one", FORMS)
def test_any_plan_of_a_query_can_take_over_the_stages_of_any_other(world: World, one: str) -> None:
    assert taken_over(world, one, QUERIES) > 15


def taken_over(world: World, one: str, queries: Sequence[str]) -> int:
    """Every stage of one form but its root is held; each other form takes what serves it. How many took something."""
    changed = 0
    for query in queries:
        first = plan_of(world, query, one)
        kept: Kept = {}
        expected = world.duckdb(query)
        same_rows(run_plan(first, world.tables, kept), expected, is_ordered(query))
        finished = all_finished(first)
        kept = {stage_key(item.stage): kept[stage_key(item.stage)] for item in finished}
        for other in FORMS:
            plan = plan_of(world, query, other)
            served = reuse(plan, finished)
            assert served.columns == plan.columns and served.root.signature == plan.root.signature
            if served is not plan:
                changed += 1
                same_rows(run_plan(served, world.tables, dict(kept)), expected, is_ordered(query))
    return changed


NARROWER = {
    "one more filter": (
        "select a, v, n, m from facts join dims on a = k where flag",
        "select n, v from facts join dims on a = k where flag and m = 2",
    ),
    "a narrower range": (
        "select i, a, v, n, m from facts join dims on a = k where v < 90",
        "select i, n from dims join facts on a = k where v > 20 and v < 30",
    ),
    "a date in a range": (
        "select i, day, n from facts join dims on a = k where day between date '2000-01-05' and date '2000-02-20'",
        "select i, n from facts join dims on a = k where day = date '2000-01-10'",
    ),
    "fewer in the list": (
        "select i, m, n from facts join dims on a = k where m in (1, 2, 3)",
        "select i, n from facts join dims on a = k where m in (3, 1)",
    ),
    "one more equality": (
        "select i, b, ra, rb, rv from facts join returns on i = ri",
        "select i, rv from facts join returns on i = ri and b = rb",
    ),
    "groups of some keys": (
        "select a, s, sum(v) as t from facts group by a, s",
        "select s, t from (select a, s, sum(v) as t from facts group by a, s) where a < 20 and t > 10",
    ),
    "having": (
        "select a, sum(v) as t from facts group by a",
        "select a, sum(v) as t from facts group by a having sum(v) > 600",
    ),
    "an expression of columns": (
        "select i, v, rv, n from facts join returns on i = ri join dims on a = k",
        "select i, v - rv as d from facts join returns on i = ri join dims on a = k where v > rv",
    ),
    "above a left join": (
        "select i, rv, n, a from (facts left join returns on i = ri) join dims on a = k",
        "select i, n from (facts left join returns on i = ri) join dims on a = k where rv is null",
    ),
    "filtered windows": (
        "select i, a, s, rank() over (partition by a order by v, i) as r from facts join dims on a = k",
        "select i, r from (select i, s, a, rank() over (partition by a order by v, i) as r "
        "from facts join dims on a = k) where r < 3 and s <> '2'",
    ),
}


@pytest.mark.parametrize("form", ["one slot", "split"])
@pytest.mark.parametrize("what", NARROWER)
def test_a_narrower_query_takes_rows_from_a_wider_one(world: World, what: str, form: str) -> None:
    wide, narrow = NARROWER[what]
    first, plan = staged(world, wide, form), staged(world, narrow, form)
    kept: Kept = {}
    run_plan(first, world.tables, kept)
    served = reuse(plan, all_finished(first))
    assert served is not plan
    assert scanned(served, kept) < scanned(plan, {}), [stage.sql for stage in served.stages]
    got = run_plan(served, world.tables, kept)
    assert got.num_rows
    same_rows(got, world.duckdb(twice(narrow)), ordered=False)


def staged(world: World, query: str, form: str) -> Plan:
    """A plan of the query's rows, twice, which makes them a stage of their own."""
    return plan_of(world, twice(query), form)


def twice(query: str) -> str:
    return f"with q as ({query}) select * from q union all select * from q"
