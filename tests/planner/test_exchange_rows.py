"""Plans with exchanges give DuckDB's rows, whichever form of each operator is forced."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from planner_world import World
from run_plan import run_plan

from qoop.planner.estimate.cost import CostModel
from qoop.planner.variants import Thresholds

TABLES = """
create table facts as select i, (i * 7919) % 97 as a, case when i % 11 = 0 then null else (i * 31) % 200 end as b,
  ((i * 13) % 1000 / 10)::decimal(7, 2) as v, (i % 5)::varchar as s, (i % 13)::double / 3 as x,
  date '2000-01-01' + (i % 60)::integer as day, i % 3 = 0 as flag from range(1200) t(i);
create table dims as select case when i = 50 then null else i end as k, 'n' || i % 7 as n, i % 4 as m
  from range(90) t(i);
create table returns as select (i * 3)::decimal(9, 2) as ri, (i * 5) % 97 as ra, (i * 1.5)::decimal(7, 2) as rv,
  case when i % 9 = 0 then null else i % 210 end as rb, (date '2000-01-01' + (i % 70)::integer)::timestamp as moment
  from range(500) t(i);
create table void as select 1 as z, 'a' as t, 1.5::decimal(5, 1) as d where false;
"""

QUERIES = [
    # scans, filters, projections
    "select * from facts",
    "select i + 1 as j, v * 2 as w from facts where a > 50",
    "select count(*) from facts",
    "select 1 as one, i from void, facts",
    # joins: one big side, two big sides, every kind
    "select n, i from facts join dims on a = k",
    "select n, i from facts left join dims on a = k and m > 1",
    "select n, i from facts right join dims on a = k",
    "select n, i from dims left join facts on a = k",
    "select n, i from facts full join dims on a = k and m = 2",
    "select i, ri, rv from facts join returns on i = ri",
    "select i, ri, rv from facts left join returns on i = ri and v > rv",
    "select i, ri, rv from facts right join returns on i = ri",
    "select i, ri, rv from facts full join returns on i = ri",
    "select i, ra from facts full join returns on a = ra and b = rb",
    "select b, rb from facts left join returns on b = rb",
    "select i, moment from facts join returns on day = moment",
    "select i, ra from facts join returns on x > ra + 90",
    "select i from facts where exists (select 1 from returns where ri = i)",
    "select i from facts where not exists (select 1 from returns where rb = b)",
    "select i from facts where b in (select rb from returns)",
    "select i from facts where b not in (select rb from returns)",
    "select i from facts where b not in (select rb from returns where rb is not null)",
    "select i, b in (select rb from returns where ra < 10) as known from facts",
    "select k from dims where k in (select a from facts where v > 90)",
    "select k, (select count(*) from facts where a = k) as c from dims",
    "select i from facts, (select avg(v) as m from facts where flag) q where v > m",
    "select n, i, ra from facts join dims on a = k join returns on i = ri where m < 3",
    # aggregates
    "select n, m, stddev_samp(v) as d, max(i) as e from facts join dims on a = k join returns on i = ri group by all",
    "select n, s, sum(rv) as t, median(v) as e from facts join dims on a = k left join returns on i = ri "
    "group by grouping sets ((n, s), (n), (s), ())",
    "select count(distinct n), median(1) from facts join dims on a = k",
    "select median(a) as e, count(*) as c from facts full join returns on b = rb",
    "select sum(v), avg(v), min(s), max(day), count(*), count(b), bool_or(flag), avg(i), avg(x), sum(x) from facts",
    "select sum(v), avg(v), count(*), count(v), min(i) from facts where i < 0",
    "select a, sum(v) as t, avg(v) as m, count(b) as c, max(x) as x from facts group by a",
    "select b, sum(i) filter (where flag) as t, avg(v) filter (where not flag) as m from facts group by b",
    "select a, stddev_samp(v) as sd, sum(i) as t from facts group by a",
    "select stddev_samp(v) as sd, count(*) as c from facts",
    "select a, count(distinct b) as c, sum(v) as t, count(distinct b + 1) as e from facts group by a",
    "select count(distinct b) as c, count(distinct a) filter (where flag) as d, avg(v) as m from facts",
    "select a, min(distinct v) as c, sum(distinct i % 3) as d from facts group by a",
    "select a, string_agg(s, ',' order by i) as l from facts group by a",
    "select distinct a, s from facts",
    "select distinct a, n from facts join dims on a = k",
    "select a, s, sum(v) as t, grouping(a, s) as g from facts group by rollup (a, s)",
    "select a, s, avg(v) as t, count(distinct b) as c from facts group by cube (a, s)",
    "select a, s, count(*) as t from facts where i < 0 group by grouping sets ((a), (s), ())",
    "select a, s, stddev_samp(v) as t from facts group by grouping sets ((a, s), (a))",
    "select a, n, sum(rv) as t from facts join returns on i = ri join dims on a = k group by a, n having sum(rv) > 9",
    "select i, sum(rv) as t from facts join returns on i = ri group by i",
    "select i, count(*) as c from facts full join returns on i = ri group by i",
    "select q, count(*) as c from (select coalesce(a, ra) as q, v from facts full join returns on a = ra) j group by q",
    "select case when rb is not null then rb else b end as q, sum(i) as t "
    "from facts full join returns on b = rb group by 1",
    "select q, count(*) as c from (select coalesce(i, rb) as q from facts full join returns on i = ra) j group by q",
    "select q, p, sum(i) over (partition by q) as t from (select coalesce(a, ra) as q, coalesce(b, rb) as p, i "
    "from facts full join returns on a = ra and b = rb) j",
    "select ri, count(*) as c from facts left join returns on i = ri group by ri",
    "select z, count(*) as c, sum(d) as t from void group by z",
    "select count(*) as c, sum(d) as t, avg(d) as m, max(t) as x from void",
    "select count(*) from (select distinct a from facts) q",
    # windows
    "select i, rank() over (partition by a order by v, i) as r from facts",
    "select i, sum(v) over (partition by a, s) as r, avg(v) over (partition by a) as q from facts",
    "select i, row_number() over (order by i) as r from facts",
    "select a, sum(v) as t, rank() over (partition by a % 30 order by sum(v), a) as r from facts group by a",
    # order and limits
    "select i, v from facts order by v desc, i limit 7",
    "select i, v from facts order by v, i limit 7 offset 5",
    "select i, v from facts order by v, i offset 1190",
    "select a, sum(v) as t from facts group by a order by t desc, a limit 5",
    "select i from facts order by i",
    "select count(*) from (select i from facts limit 10) q",
    # set operations
    "select i, s from facts union all select ra, 'r' from returns",
    "select i, s from facts union all select k, n from dims",
    "select q, count(*) as c from (select a as q from facts union all select ra from returns) u group by q",
    "select a from facts union select ra from returns",
    "select a from facts intersect select ra from returns",
    "select a from facts except select ra from returns where ra < 50",
    "select b from facts intersect all select rb from returns",
    "select b from facts except all select rb from returns",
    "select a, s from facts union select k, n from dims intersect select ra, 'r' from returns",
    "select 1 as one union all select 2",
    # shared subplans
    "with c as (select a, sum(v) as t from facts group by a) "
    "select x.a, x.t, y.t as u from c x join c y on x.a = y.a + 1 where x.t > (select avg(t) from c)",
    "with c as (select i, a, v from facts where flag) "
    "select a, sum(v) as t from c group by a union all select i, v from c where i < 30 order by 1, 2",
    "with c as (select i, v from facts where flag) select x.i, y.v from c x join c y on x.i = y.i",
]

FREE = Thresholds()
SPLIT = Thresholds(spread_seconds=0.0, task_seconds=1e-5)
HASH = Thresholds(
    spread_seconds=0, task_seconds=1e-5, single_seconds=0, stage_seconds=0, hash_row=0, gather_rows=0, most_parts=5
)
STAGED = Thresholds(spread_seconds=0, task_seconds=1e-4, inline_seconds=-1.0, gather_rows=0)
DEAR_BUILDS = CostModel(build_row=1e-3, probe_row=1e-3)

FORMS = {
    "free": (FREE, CostModel(), 2),
    "split": (SPLIT, CostModel(), 2),
    "hash": (HASH, DEAR_BUILDS, 3),
    "staged": (STAGED, CostModel(), 4),
    "one slot": (Thresholds(spread_seconds=0, task_seconds=1e-5), CostModel(), 1),
}


@pytest.fixture(scope="module")
def world() -> World:
    return World(TABLES)


COMBINED = [(query, form) for query in QUERIES for form in FORMS]


@pytest.mark.parametrize(
    ("query", "form"),
    [one if place % 3 == 0 else pytest.param(*one, marks=pytest.mark.slow) for place, one in enumerate(COMBINED)],
)
def test_rows_and_types_are_duckdbs(world: World, query: str, form: str) -> None:
    thresholds, cost, slots = FORMS[form]
    plan = world.plan(query, thresholds, cost, slots)
    same_rows(run_plan(plan, world.tables), world.duckdb(query), ordered=is_ordered(query))


def test_averages_in_two_phases_are_exact_to_the_last_digit(world: World) -> None:
    averages = {"v": "avg(v)", "i": "avg(i)", "w": "avg(v * v)"}
    items = ", ".join(f"{average} as {name}" for name, average in averages.items())
    plan = world.plan(f"select a, {items} from facts group by a order by a", SPLIT)
    assert len(plan.stages) == 2
    ours = run_plan(plan, world.tables)
    for name, average in averages.items():  # one by one: together, DuckDB 2 rounds some of them twice
        assert ours[name].equals(world.duckdb(f"select {average} as x from facts group by a order by a")["x"])


def is_ordered(query: str) -> bool:
    """True if the whole query ends in an ORDER BY (those here that do are total orders)."""
    _, order, rest = query.rpartition(" order by ")
    return bool(order) and ")" not in rest


def same_rows(got: pa.Table, wanted: pa.Table, ordered: bool) -> None:
    assert got.schema.types == wanted.schema.types
    ours, theirs = ([tuple(map(_rounded, row.values())) for row in t.to_pylist()] for t in (got, wanted))
    assert Counter(ours) == Counter(theirs)
    if ordered:
        assert ours == theirs


def _rounded(value: object) -> object:
    return float(f"{value:.9g}") if isinstance(value, float) else value
