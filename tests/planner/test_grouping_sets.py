"""Grouping sets in two branches and ranks in two phases give DuckDB's rows, and are chosen where they pay."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from planner_world import World
from run_plan import Kept, run_plan
from test_exchange_rows import DEAR_BUILDS, HASH, same_rows

from qoop.planner.algebra.expr import Column
from qoop.planner.algebra.grouping_sets import split_sets
from qoop.planner.algebra.relation import Aggregate, Scan
from qoop.planner.plan import Plan
from qoop.planner.variants import USUAL

TABLES = """
create table facts as select i, case when i % 10 < 6 then 3 when i % 17 = 0 then null else i * 31 % 41 end as a,
  case when i % 7 = 0 then null else (i * 17 % 23)::varchar end as b, i * 13 % 19 as c,
  case when i % 5 = 0 then null else (i * 3 % 40 * 0.25)::decimal(7, 2) end as v, i * 7 % 6 as w,
  case when i % 9 = 0 then null else (i % 8)::double / 3 end as x, i % 3 = 0 as flag from range(700) t(i);
create table void as select * from facts where false;
"""
ALWAYS = replace(HASH, parting_factor=float("inf"))


@pytest.fixture(scope="module")
def world() -> World:
    return World(TABLES)


def plan_of(world: World, query: str) -> Plan:
    return world.plan(query, ALWAYS, DEAR_BUILDS, 3)


def is_split(plan: Plan) -> bool:
    """True if some stage puts groups of two branches together."""
    return any("GROUP BY" in stage.sql and "UNION ALL" in stage.sql for stage in plan.stages)


def ranks_early(plan: Plan) -> bool:
    return any(stage.label.endswith("partial window") for stage in plan.stages)


def check(world: World, query: str) -> Plan:
    plan = plan_of(world, query)
    wanted = world.duckdb(query)
    same_rows(run_plan(plan, world.tables), wanted, ordered=False)
    return plan


# ---- which sets


A, B, C = (Column(name, "INTEGER") for name in "abc")
ROWS = Scan("t", "1", (("a", A), ("b", B), ("c", C)))


def keys_and_coarse(*sets: tuple[Column, ...]) -> set[tuple[str, int]]:
    found = split_sets(Aggregate(ROWS, (A, B, C), (), sets))
    return {
        ("".join(key.name for key in split.keys), len(split.coarse.groups.grouping_sets or ((),))) for split in found
    }


def test_a_rollup_is_split_at_each_of_its_prefixes() -> None:
    assert keys_and_coarse((A, B, C), (A, B), (A,), ()) == {("a", 1), ("ab", 2), ("abc", 3)}


def test_sets_are_split_by_what_two_of_them_share() -> None:
    assert ("a", 1) in keys_and_coarse((A, B), (A, C), (C,))


def test_sets_that_all_have_a_key_are_not_split_by_it() -> None:
    assert all(keys != "a" for keys, _ in keys_and_coarse((A, B, C), (A, B), (A,)))


# ---- rows


AGGREGATES = (
    "sum(v) as t, count(*) as n, count(b) as m, avg(v) as f, min(b) as lo, max(x) as hi, avg(i) as g, sum(i) as s"
)
QUERIES = [
    f"select a, b, c, {AGGREGATES} from facts group by rollup (a, b, c)",
    f"select a, b, c, {AGGREGATES}, grouping(a, b, c) as y, grouping(c, a) as z from facts group by cube (a, b, c)",
    "select a, b, sum(v) filter (where flag) as t, count(distinct c) as d from facts group by rollup (a, b)",
    "select a, b, count(distinct c + w) as d, sum(distinct w) as e from facts group by rollup (a, b)",
    "select a, b, sum(v) as t, grouping(b) as g from facts group by grouping sets ((a, b), (a), (b), (b), (), ())",
    "select a, b, count(*) as n from facts group by rollup (a, b) having count(*) > 5 or grouping(a) = 1",
    "select a, b, sum(x) as t from facts where i < 0 group by rollup (a, b)",
    "select a, b, count(*) as n, count(v) as m, sum(v) as t, avg(v) as f, grouping(a) as g "
    "from facts where i < 0 group by cube (a, b)",
    "select a, b, bool_or(flag) as f, count_if(flag) as n from facts group by rollup (a, b)",
    "select distinct n from (select a, b, count(*) as n from facts group by rollup (a, b)) q",
    "select q.a, sum(n) as t from (select a, b, count(*) as n from facts group by rollup (a, b)) q group by q.a",
    "select i, n from facts, (select a as k, b, count(*) as n from facts group by rollup (a, b)) q where i = k",
]


@pytest.mark.parametrize("query", QUERIES)
def test_grouping_sets_in_two_branches_give_the_same_rows(world: World, query: str) -> None:
    assert is_split(check(world, query)), "the rule was not tried"


def test_finished_groups_mean_the_same_split_or_not(world: World) -> None:
    query = "select * from (select a, b, sum(v) as t from facts group by rollup (a, b)) q, void where q.t = void.v"
    whole = world.plan(query, replace(ALWAYS, parting_factor=0.0), DEAR_BUILDS, 3)
    split = plan_of(world, query)
    assert is_split(split) and not is_split(whole)
    assert whole.stages[-1].signature == split.stages[-1].signature


RANKS = [
    "select i, rank() over (partition by a order by v desc) as r from facts qualify r <= 3",
    "select i, rank() over (partition by a order by v nulls first) as r from facts qualify 2 >= r and r > 1",
    "select i, dense_rank() over (partition by a, b order by x desc nulls last, w) as r from facts qualify r < 2",
    "select i, rank() over (order by v nulls last) as r from facts qualify r between 2 and 9",
    "select i, row_number() over (order by i desc, a) as r from (select distinct i, a from facts) q qualify r = 2",
    "select i, rank() over (partition by c order by v) as r, dense_rank() over (partition by c order by v) as d "
    "from facts qualify d <= 2 and r <= 4",
    "select i, rank() over (order by x) as r from facts qualify r < 1",
    "select i, rank() over (order by x) as r from facts where i < 0 qualify r <= 1",
    "select a, b, c, t, r from (select a, b, c, sum(w) as t, rank() over (partition by b order by sum(w) desc) as r "
    "from facts group by rollup (a, b, c)) q where r <= 2",
]


@pytest.mark.parametrize("query", RANKS)
def test_first_ranks_in_two_phases_give_the_same_rows(world: World, query: str) -> None:
    world_of_many = World(TABLES, scale=1e3)
    assert ranks_early(check(world_of_many, query)), "the rule was not tried"


@pytest.mark.parametrize(
    "query",
    [
        "select i, sum(w) over (partition by a) as s, rank() over (partition by a order by v) as r "
        "from facts qualify r < 2",
        "select i, rank() over (partition by a order by v) as r, rank() over (partition by b order by v) as q "
        "from facts qualify r < 2",
        "select i, row_number() over (partition by a order by w) as r from facts qualify r <= 2 and r > 2",
        "select i, percent_rank() over (partition by a order by v) as r from facts qualify r <= 0",
        "select i, rank() over (partition by a order by v) as r from facts qualify r >= 9",
        "select i, rank() over (partition by a order by v) as r from facts qualify r <= 2 or i < 5",
        "select i, rank() over (partition by a order by v) as r from facts",
    ],
)
def test_rows_that_others_need_are_not_dropped_early(query: str) -> None:
    assert not ranks_early(check(World(TABLES, scale=1e3), query))


# ---- at random


@pytest.mark.parametrize("seed", range(20))
def test_random_grouping_sets_and_ranks(world: World, seed: int) -> None:
    check(world, random_query(random.Random(seed)))


@pytest.mark.parametrize("seed", range(100, 108))
def test_what_one_plan_kept_serves_the_others(world: World, seed: int) -> None:
    query = random_query(random.Random(seed))
    wanted, kept = world.duckdb(query), Kept()
    for parting in (ALWAYS.parting_factor, 0.0):
        for parts in (5, 4):
            limits = replace(ALWAYS, parting_factor=parting, most_parts=parts)
            plan = world.plan(query, limits, DEAR_BUILDS, 3)
            same_rows(run_plan(plan, world.tables, kept), wanted, ordered=False)


def random_query(rng: random.Random) -> str:
    """Grouping sets over keys with NULLs, and maybe the first ranks of their groups."""
    keys = rng.sample(["a", "b", "c", "w"], rng.randint(2, 4))
    values = rng.sample(AGGREGATES.replace("max(x) as hi", "count(distinct w) as hi").split(", "), rng.randint(1, 3))
    values.append(f"grouping({', '.join(rng.sample(keys, rng.randint(1, len(keys))))}) as bits")
    having = rng.choice(["", "", " having count(*) > 3", f" having {keys[0]} is null"])
    source = rng.choice(["facts", "facts", "facts where a is null", "facts where i < 0"])
    if " where" in source and having.endswith("null"):
        having = ""
    groups = (
        f"select {', '.join([*keys, *values])}, sum(i) as o from {source} group by {random_sets(rng, keys)}{having}"
    )
    if rng.random() < 0.4:
        return groups
    over = f"partition by {rng.choice(keys)} " if rng.random() < 0.8 else ""
    order = f"{rng.choice([*keys, 'o'])} {rng.choice(['', 'desc'])} nulls {rng.choice(['first', 'last'])}"
    call = f"{rng.choice(['rank', 'dense_rank'])}() over ({over}order by {order})"
    bound = rng.choice(["r <= 3", "r < 3", "r = 1", "r between 1 and 4", "2 >= r"])
    return f"select * from (select *, {call} as r from ({groups}) g) q where {bound}"


def random_sets(rng: random.Random, keys: list[str]) -> str:
    if rng.random() < 0.6:
        return f"{rng.choice(['rollup', 'cube'])} ({', '.join(keys)})"
    sets = [rng.sample(keys, rng.randint(0, len(keys))) for _ in range(rng.randint(2, 4))]
    sets.append(keys)
    return f"grouping sets ({', '.join('(' + ', '.join(each) + ')' for each in sets)})"


def test_large_rollups_are_split_and_small_ones_are_not() -> None:
    query = "select a, b, c, i, sum(v) as t from facts group by rollup (a, b, c, i)"
    assert is_split(World(TABLES, scale=1e4).plan(query, USUAL, slots=2))
    assert not is_split(World(TABLES).plan(query, USUAL, slots=2))
