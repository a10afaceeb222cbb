"""The placing of exchanges, seen from the plan: one behaviour a test."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import duckdb
import pytest
from planner_world import SPLITS, World

from qoop.planner.estimate.cost import CostModel
from qoop.planner.exchange.distribution import hash_type
from qoop.planner.plan import Plan, Stage
from qoop.planner.variants import Thresholds

MILLION = """
create table sales as select i as id, i % 1000 as item, i % 50000 as customer, (i % 977)::decimal(7, 2) as price,
  (i % 7)::varchar as channel from range(5000) t(i);
create table back as select i * 2 as bid, i % 50000 as bcustomer, (i % 900)::decimal(9, 1) as amount
  from range(4000) t(i);
create table item as select i as iid, 'name' || i as name, i % 10 as category from range(100) t(i);
create table day as select i as did, date '2000-01-01' + i::integer as d from range(50) t(i);
"""


@pytest.fixture(scope="module")
def world() -> World:
    """The tables, by the planner's statistics: 5 M sales, 4 M back, 100 k items, 50 k days."""
    return World(MILLION, scale=1000)


def reads(stage: Stage) -> list[str]:
    return [item.mode for item in stage.stage_inputs]


def producers(plan: Plan, stage: Stage) -> list[Stage]:
    return [plan.by_id[item.stage] for item in stage.stage_inputs]


def test_a_large_scan_is_split_and_a_small_one_stays_whole_in_every_task(world: World) -> None:
    plan = world.plan("select name, price from sales join item on item = iid where price > 3")
    (stage,) = [stage for stage in plan.stages if stage.table_inputs[0].table == "sales"]
    assert 2 <= stage.width <= SPLITS
    assert {item.table: item.split for item in stage.table_inputs}["sales"]


def test_a_table_that_cannot_be_split_is_read_by_one_task(world: World) -> None:
    assert world.plan("select * from day").root.width == 1


def test_tasks_are_about_as_long_as_wanted_and_a_multiple_of_the_slots(world: World) -> None:
    for slots in (2, 4):
        plan = world.plan("select sum(price) from sales", Thresholds(task_seconds=0.01), slots=slots)
        scan, most = plan.stages[0], 0.01 * CostModel().apart
        assert scan.width == SPLITS or (scan.width % slots == 0 and scan.estimate.task_seconds <= most)


def test_an_aggregate_over_split_rows_has_two_phases(world: World) -> None:
    plan = world.plan("select item, sum(price) from sales group by item")
    partial, final = plan.stages
    assert (partial.width > 1, final.width, reads(final)) == (True, 1, ["all"])
    assert partial.estimate.rows <= partial.width * 1000


def test_no_second_phase_where_rows_lie_by_the_group_keys(world: World) -> None:
    query = "select id, sum(amount) from sales join back on id = bid group by id"
    plan = world.plan(query, Thresholds(hash_row=0.0, stage_seconds=0.0), CostModel(build_row=1e-5))
    assert plan.root.width > 1
    assert reads(plan.root) == ["partition", "partition"]


@pytest.mark.parametrize(
    ("key", "stages"),
    [
        ("coalesce(id, bid)", 1),
        ("coalesce(bid, id)", 1),
        ("case when bid is not null then bid else id end", 1),
        ("case when id is null then bid else id end", 1),
        ("coalesce(customer, bid)", 2),
        ("case when id is null then id else bid end", 2),
    ],
)
def test_rows_of_a_full_join_lie_by_whichever_key_there_is(world: World, key: str, stages: int) -> None:
    query = f"select k, avg(amount) from (select {key} as k, amount from sales full join back on id = bid) q group by k"
    limits = Thresholds(hash_row=0.0, stage_seconds=0.0, single_seconds=0.0)
    plan = world.plan(query, limits, CostModel(build_row=1e-5))
    joining = [stage for stage in plan.stages if reads(stage) == ["partition", "partition"]]
    assert len(joining) == 1 and len(plan.stages) == len(joining[0].stage_inputs) + stages
    assert (joining[0] is plan.root) == (stages == 1)


def test_partial_groups_that_are_many_are_hashed(world: World) -> None:
    plan = world.plan("select customer, sum(price) from sales group by customer", Thresholds(single_seconds=0.0))
    assert reads(plan.root) == ["partition"]
    assert plan.stages[0].layout.parts == plan.root.width > 1
    assert len(plan.stages[0].layout.keys) == 1


def test_variances_are_computed_whole_from_all_rows_of_a_group(world: World) -> None:
    plan = world.plan("select item, stddev_samp(price) from sales group by item", Thresholds(single_seconds=0.0))
    assert reads(plan.root) == ["partition"]
    assert "stddev" not in plan.stages[0].sql.lower()


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("select category, stddev_samp(price) from sales join item on item = iid group by category", 2),
        ("select category, customer, median(price) from sales join item on item = iid group by all", 3),
        ("select count(distinct channel) from sales join item on item = iid", 1),
        ("select median(1) from sales join item on item = iid", 1),
        ("select channel, median(amount) from sales full join back on customer = bcustomer group by channel", 2),
    ],
)
def test_a_join_puts_out_what_the_aggregate_above_reads_and_no_keys(world: World, query: str, columns: int) -> None:
    plan = world.plan(query, Thresholds(single_seconds=0.0, spread_seconds=0.0))
    assert plan.root.stage_inputs and [len(stage.columns) for stage in producers(plan, plan.root)] == [columns]


def test_grouping_sets_are_applied_to_partial_groups(world: World) -> None:
    plan = world.plan("select item, channel, sum(price) from sales group by rollup (item, channel)")
    assert "GROUPING SETS" not in plan.stages[0].sql
    assert "GROUPING SETS" in plan.root.sql


def test_each_task_has_its_own_top_n(world: World) -> None:
    plan = world.plan("select id from sales order by price desc limit 10 offset 5")
    assert "LIMIT 15" in plan.stages[0].sql
    assert "LIMIT 10 OFFSET 5" in plan.root.sql
    assert plan.stages[0].estimate.rows <= 15 * plan.stages[0].width


def test_only_the_preserved_side_of_an_outer_join_is_spread(world: World) -> None:
    for kind, spread in (("left", "sales"), ("right", "item")):
        plan = world.plan(f"select id, name from sales {kind} join item on item = iid and category = 3")
        for stage in plan.stages:
            if " JOIN " in stage.sql and stage.width > 1 and "partition" not in reads(stage):
                assert [item.table for item in stage.table_inputs if item.split] == [spread]


def test_a_full_join_is_never_done_by_broadcast(world: World) -> None:
    plan = world.plan("select id, amount from sales full join back on id = bid")
    (join,) = [stage for stage in plan.stages if "FULL JOIN" in stage.sql]
    assert join.width == 1 or reads(join) == ["partition", "partition"]


def test_not_in_gets_all_rows_of_its_right_side(world: World) -> None:
    plan = world.plan("select id from sales where customer not in (select bcustomer from back)")
    (join,) = [stage for stage in plan.stages if " IN (SELECT" in stage.sql]
    assert "partition" not in reads(join)
    assert join.width > 1


def test_lookups_read_distinct_keys(world: World) -> None:
    plan = world.plan("select did from day where exists (select 1 from sales where item = did)")
    assert "GROUP BY" in plan.stages[0].sql


def test_keys_of_different_types_are_hashed_as_their_common_type(world: World) -> None:
    query = "select id, amount from sales full join back on id = amount"
    plan = world.plan(query, Thresholds(hash_row=0.0, stage_seconds=0.0, single_seconds=0.0))
    keys = [stage.layout.keys for stage in plan.stages if stage.layout.keys]
    assert len(keys) == 2
    assert all("DECIMAL(20,1)" in key for (key,) in keys)


def test_types_are_hashed_alike_only_where_duckdb_compares_them_in_one_type() -> None:
    assert hash_type("DATE", "VARCHAR") is None
    assert hash_type("FLOAT", "DECIMAL(5,2)") is None
    assert hash_type("STRUCT(a INTEGER)", "STRUCT(a BIGINT)") is None


@pytest.mark.parametrize(
    ("left", "right"),
    [("INTEGER", "DECIMAL(7,2)"), ("UTINYINT", "BIGINT"), ("DATE", "TIMESTAMP"), ("DOUBLE", "DECIMAL(9,3)"),
     ("DECIMAL(5,1)", "DECIMAL(18,4)"), ("UBIGINT", "BIGINT"), ("SMALLINT", "DOUBLE")],
)  # fmt: skip
def test_equal_values_of_two_types_hash_alike_in_their_common_type(left: str, right: str) -> None:
    value = "DATE '2020-02-29'" if left == "DATE" else "7"
    common = hash_type(left, right)
    sides = (f"CAST(CAST({value} AS {type_}) AS {common})" for type_ in (left, right))
    equal, same = duckdb.sql(f"SELECT CAST({value} AS {left}) = CAST({value} AS {right}), "
                             f"hash({next(sides)}) = hash({next(sides)})").fetchall()[0]  # fmt: skip
    assert (equal, same) == (True, True)


def test_windows_are_spread_by_what_all_calls_partition_by(world: World) -> None:
    query = "select sum(price) over (partition by item, channel), avg(price) over (partition by item) from sales"
    plan = world.plan(query, Thresholds(single_seconds=0.0))
    assert [key.split("_")[0] for key in plan.stages[0].layout.keys] == ["item"]
    assert plan.root.width > 1


def test_a_window_without_partitions_is_for_one_task_with_all_slots(world: World) -> None:
    plan = world.plan("select rank() over (order by price) from sales")
    assert (plan.root.width, plan.root.slots) == (1, 2)


@pytest.mark.parametrize(("key", "slots", "longer"), [("customer", 2, 1.2), ("item", 2, 1.0), ("customer", 1, 1.0)])
def test_many_groups_take_longer_on_threads_of_one_task(world: World, key: str, slots: int, longer: float) -> None:
    query = f"select {key}, sum(price) from sales group by {key}"
    lone, costs = Thresholds(spread_seconds=inf, single_seconds=inf), [CostModel(grouped_together=by) for by in (1, 2)]
    once, twice = (world.plan(query, lone, cost, slots).root.estimate.task_seconds for cost in costs)
    assert twice >= longer * once
    assert longer > 1 or twice == once


def test_union_all_stays_spread(world: World) -> None:
    plan = world.plan("select sum(x) from (select price as x from sales union all select amount from back) u")
    assert [item.split for item in plan.stages[0].table_inputs] == [True, True]
    assert len(plan.stages) == 2


def test_a_shared_subplan_is_one_stage(world: World) -> None:
    query = """with c as (select item, sum(price) as t from sales group by item)
      select a.item from c a join c b on a.item = b.item + 1 where a.t > (select avg(t) from c)"""
    plan = world.plan(query)
    assert sum("sales" in [item.table for item in stage.table_inputs] for stage in plan.stages) == 1


def test_a_cheap_build_side_is_computed_in_every_task_and_a_dear_one_once(world: World) -> None:
    query = "select name, price from sales join item on item = iid where name like 'x%'"
    inline = world.plan(query, Thresholds(inline_seconds=10.0, spread_seconds=0.01))
    staged = world.plan(query, Thresholds(inline_seconds=-1.0, spread_seconds=0.01))
    assert [len(plan.stages) for plan in (inline, staged)] == [1, 2]


def test_what_may_come_out_differently_is_never_repeated_in_every_task(world: World) -> None:
    thresholds = Thresholds(inline_seconds=10.0)
    for subquery in ("select did from day limit 3", "select did from day where random() < 0.5"):
        plan = world.plan(f"select id from sales join ({subquery}) q on item = did", thresholds)
        (day,) = [stage for stage in plan.stages if "day" in [item.table for item in stage.table_inputs]]
        assert (day.width, day.shareable) == (1, False)


def test_one_slot_still_has_short_tasks(world: World) -> None:
    plan = world.plan("select sum(price) from sales", Thresholds(task_seconds=0.005), slots=1)
    assert plan.stages[0].width > 1


def test_tasks_ask_for_no_more_memory_than_there_is(world: World) -> None:
    plan = world.plan("select id, rank() over (order by price) from sales")
    assert all(2**24 <= stage.estimate.task_memory <= 4 << 30 for stage in plan.stages)


@pytest.mark.parametrize(("machine", "network", "modes"), [(8, 1e8, ["partition"] * 2), (1, 1e8, ["all"])])
def test_what_is_moved_depends_on_the_network_between_machines(
    world: World, machine: int, network: float, modes: list[str]
) -> None:
    query = "select price from sales join back on id = bid where amount < 100"
    plan = world.plan(
        query, Thresholds(machine_slots=machine, hash_row=1e-8, stage_seconds=0.0), slots=8, network=network
    )
    assert reads(plan.root) == modes  # eight copies of few rows are less than one of all sales


def test_rows_that_come_without_repeats_are_hashed_and_read_as_few(world: World) -> None:
    """Each task of a branch puts out its distinct rows, and what reads them pays for these alone."""
    plan = world.plan(
        "select item, channel from sales intersect select item, channel from sales where price > 3", slots=2
    )
    (root,) = [stage for stage in plan.stages if len(stage.stage_inputs) == 2]
    below = [plan.by_id[item.stage] for item in root.stage_inputs]
    assert all(stage.estimate.rows <= stage.width * 7000 for stage in below)
    assert root.estimate.task_seconds * root.width < 0.1 * sum(one.estimate.task_seconds * one.width for one in below)


def test_only_tasks_that_read_a_part_of_a_sorted_table_have_groups() -> None:
    world = World(MILLION, scale=1000)
    sales = world.stats["sales"]
    by_id = replace(sales.columns["id"], minimum=0.0, maximum=sales.rows, locality=1 / 16)
    world.stats = {**world.stats, "sales": replace(sales, columns={**sales.columns, "id": by_id})}

    def partial(text: str) -> Stage:
        plan = world.plan(text, Thresholds(task_seconds=0.001, spread_seconds=0.0), slots=2)
        return next(stage for stage in plan.stages if "partial" in stage.label)

    query = "select item, sum(price) from sales{} group by item"
    every, first = partial(query.format("")), partial(query.format(" where id < 500000"))
    assert first.estimate.rows / first.width < 0.7 * every.estimate.rows / every.width
