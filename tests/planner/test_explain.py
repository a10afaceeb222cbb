"""EXPLAIN of TPC-H-like queries on a made-up machine: what is planned, held in files (`make golden`)."""

from __future__ import annotations

import json

import pytest
from planner_world import World

from qoop.planner.estimate.observed import Observation
from qoop.planner.explain import as_json, explain
from qoop.planner.plan import Estimate, Plan, Stage, StageInput

SCRIPT = """
create table lineitem as select i // 4 as l_orderkey, i % 97 as l_partkey, i % 13 as l_suppkey,
  (i % 50)::decimal(15, 2) as l_quantity, (i * 7 % 1000)::decimal(15, 2) as l_price,
  substr('ANR', 1 + i % 3, 1) as l_flag, date '1992-01-01' + (i % 2500)::integer as l_shipdate from range(6000) t(i);
create table orders as select i as o_orderkey, i % 150 as o_custkey,
  date '1992-01-01' + (i % 2400)::integer as o_orderdate from range(1500) t(i);
create table customer as select i as c_custkey, 'c' || i as c_name, 's' || i % 5 as c_segment, i % 25 as c_nation
  from range(150) t(i);
create table nation as select i as n_nationkey, 'n' || i as n_name from range(25) t(i);
"""

QUERIES = {
    "pricing_summary": """
        select l_flag, sum(l_quantity), avg(l_price), count(*) from lineitem
        where l_shipdate <= date '1998-09-02' group by l_flag order by l_flag""",
    "shipping_priority": """
        select l_orderkey, sum(l_price) as revenue from customer join orders on c_custkey = o_custkey
          join lineitem on l_orderkey = o_orderkey
        where c_segment = 's1' and o_orderdate < date '1995-03-15'
        group by l_orderkey order by revenue desc, l_orderkey limit 10""",
    "nations": """
        select n_name, l_flag, sum(l_price) from lineitem join orders on l_orderkey = o_orderkey
          join customer on c_custkey = o_custkey join nation on c_nation = n_nationkey
        group by rollup (n_name, l_flag)""",
    "large_orders": """
        with big as (select l_orderkey as k, sum(l_quantity) as q from lineitem group by l_orderkey)
        select a.k, a.q from big a join big b on a.k = b.k + 1 where a.q > 1.2 * b.q""",
    "opaque": "select * from (from nation pivot (count(*) for n_nationkey in (1, 2)))",
}


@pytest.fixture(scope="module")
def world() -> World:
    """The tables, with a thousand times their rows in the planner's statistics: about scale 1."""
    return World(SCRIPT, scale=1000)


@pytest.mark.parametrize("name", QUERIES)
def test_plans_of_typical_queries(world: World, golden, name: str) -> None:  # type: ignore[no-untyped-def]
    plan = world.plan(QUERIES[name], slots=4)
    golden(f"plans/{name}", f"{' '.join(QUERIES[name].split())}\n\n{explain(plan)}")


def test_a_stage_of_several_readers_is_drawn_once() -> None:
    one = Stage("s1", "", (), (("a", "INTEGER"),), 2, "x", estimate=Estimate(10, 80, 0.1, 1e6), label="scan t")
    readers = tuple(
        Stage(f"s{i}", "", (StageInput("s1", "s1", "all"),), (("a", "INTEGER"),), 1, f"y{i}", label="sum")
        for i in (2, 3)
    )
    inputs = (StageInput("s2", "s2", "all"), StageInput("s3", "s3", "all"))
    root = Stage("s4", "", inputs, (("a", "INTEGER"),), 3, "z", label="join")
    text = explain(Plan((one, *readers, root), (("a", "INTEGER"),)))
    assert text.count("scan t") == 1
    assert "gather s1 (see above)" in text
    assert "broadcast s2" in text
    assert "200 ms" in text


def test_what_was_seen_stands_under_what_was_expected() -> None:
    first = Stage("s1", "", (), (("a", "INTEGER"),), 2, "x", estimate=Estimate(10, 80, 0.1, 1e6), label="scan t")
    root = Stage("s2", "", (StageInput("s1", "s1", "all"),), (("a", "INTEGER"),), 1, "y", label="sum")
    text = explain(Plan((first, root), (("a", "INTEGER"),)), {"s1": Observation(1000, 8000, 0.25, 2e6)})
    assert "seen: 1,000 rows (×100), 250 ms, 8.0kB put out, 2.0MB a task at most" in text
    assert "seen: nothing" in text
    assert text.endswith("seen: 1 stage, 250 ms of one thread")


def test_as_json_says_what_the_text_says(world: World) -> None:
    plan = world.plan(QUERIES["nations"], slots=4)
    found = json.loads(json.dumps(as_json(plan, {plan.root.id: Observation(rows=5 * plan.root.estimate.rows)})))
    assert [item["id"] for item in found["stages"]] == [stage.id for stage in plan.stages]
    assert [item["estimate"]["rows"] for item in found["stages"]] == [stage.estimate.rows for stage in plan.stages]
    assert found["stages"][-1]["seen"]["q_error"] == 5
    assert found["stages"][0]["seen"] is None
    assert "seen" not in as_json(plan)["stages"][0]
