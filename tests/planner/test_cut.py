"""From placed relations to plans: stages, inputs, names, layouts, signatures."""

from __future__ import annotations

import pytest
from planner_world import World

from qoop.catalog.errors import PlanError
from qoop.planner.algebra.relation import Exchange, Relation, Scan
from qoop.planner.exchange.cut import Cutter, Identity
from qoop.planner.plan import Layout, Plan, TableInput
from qoop.planner.variants import Thresholds

SCRIPT = """
create table facts as select i as id, i % 100 as k, (i % 13)::decimal(7, 2) as v from range(2000) t(i);
create table "s1" as select i as k2, 'x' as word from range(40) t(i);
"""
SPLIT = Thresholds(spread_seconds=0.0, task_seconds=1e-4, inline_seconds=-1.0)


@pytest.fixture(scope="module")
def world() -> World:
    return World(SCRIPT, scale=100)


def nothing_known(_: Relation) -> Identity:
    return Identity("", {}, False)


def test_the_root_keeps_the_order_and_types_of_the_result(world: World) -> None:
    plan = world.plan("select v as b, id as a, v as b from facts", SPLIT)
    assert plan.columns == (("b", "DECIMAL(7,2)"), ("a", "BIGINT"), ("b", "DECIMAL(7,2)"))
    assert [type_ for _, type_ in plan.root.columns] == [type_ for _, type_ in plan.columns]


def test_every_stage_comes_after_what_it_reads(world: World) -> None:
    plan = world.plan("select word, sum(v) from facts join s1 on k = k2 group by word order by 2", SPLIT)
    assert [stage.id for stage in plan.stages] == [f"s{i + 1}" for i in range(len(plan.stages))]
    assert len(plan.stages) == 3


def test_a_table_is_read_by_its_own_column_names_and_no_others(world: World) -> None:
    plan = world.plan("select sum(v) from facts where id > 3", SPLIT)
    (table,) = plan.stages[0].table_inputs
    assert table == TableInput("facts", "facts", "v1", ("id", "v"), split=True)


def test_two_reads_of_one_table_in_one_fragment_have_names_of_their_own(world: World) -> None:
    plan = world.plan("select a.id from facts a join facts b on a.id = b.id + 1 and b.v = 3")
    names = [item.name for stage in plan.stages for item in stage.inputs]
    assert all(len({item.name for item in stage.inputs}) == len(stage.inputs) for stage in plan.stages)
    assert "facts" in names


def test_a_table_called_like_a_stage_is_not_mixed_up_with_it(world: World) -> None:
    plan = world.plan("select word, id from s1 join (select id from facts order by v limit 3) q on k2 = id")
    names = [item.name for item in plan.root.inputs]
    assert len(set(names)) == len(names) == 2


def test_hash_layouts_name_columns_of_the_stage(world: World) -> None:
    plan = world.plan("select id, stddev_samp(v) from facts group by id", Thresholds(0.0, 1e-3, single_seconds=0.0))
    producer = plan.stages[0]
    names = [name for name, _ in producer.columns]
    assert producer.layout.parts == plan.root.width
    assert all(key in names for key in producer.layout.keys)


def test_what_all_tasks_read_is_not_partitioned(world: World) -> None:
    plan = world.plan("select sum(v) from facts", SPLIT)
    assert plan.stages[0].layout == Layout()


def test_partial_groups_are_another_content_than_finished_ones(world: World) -> None:
    query = "select k, sum(v) from facts group by k"
    split, whole = world.plan(query, SPLIT), world.plan(query, Thresholds(spread_seconds=1e9))
    assert len(split.stages) == 2
    assert split.root.signature == whole.root.signature
    assert split.stages[0].signature != split.root.signature


def test_equal_stages_of_a_plan_are_made_once(world: World) -> None:
    query = (
        "select a.s, b.c from (select sum(v) s from facts where id > 7) a, (select sum(v) c from facts where id > 7) b"
    )
    plan = world.plan(query, SPLIT)
    assert sum("facts" in [item.table for item in stage.table_inputs] for stage in plan.stages) == 1


def test_non_deterministic_stages_are_not_shareable(world: World) -> None:
    plan = world.plan("select sum(v) from (select v from facts limit 10) q", SPLIT)
    assert not plan.root.shareable
    assert world.plan("select sum(v) from facts", SPLIT).root.shareable


@pytest.mark.parametrize(("limited", "pushes"), [("order by id limit 3", False), ("where v < 3", True)])
def test_no_filter_of_a_join_may_pass_a_limit_below_it(world: World, limited: str, pushes: bool) -> None:
    joined = f"select word, id from (select id, v from facts {limited}) q join s1 on id = k2"
    plan = world.plan(joined, Thresholds(inline_seconds=1e9))
    (stage,) = [stage for stage in plan.stages if len(stage.table_inputs) == 2]
    assert stage.join_filters is pushes


MOVED = Thresholds(spread_seconds=0.0, task_seconds=1e-4, single_seconds=0.0, inline_seconds=1e9)


def test_no_filter_of_a_join_gets_to_rows_that_arrow_holds(world: World) -> None:
    """They are read through a call; scans of tables in the same fragment get their filters."""
    plan = world.plan(
        "select word, b.v from (select k, max(v) as v from facts group by k) b join s1 on b.k = k2", MOVED
    )
    (stage,) = [stage for stage in plan.stages if stage.stage_inputs and "JOIN" in stage.sql]
    (groups,) = (plan.by_id[item.stage] for item in stage.stage_inputs)
    key, value = (next(name for name, _ in groups.columns if name.startswith(start)) for start in ("k_", "max_"))
    assert f"greatest({key}) AS " in stage.sql and stage.join_filters
    assert f" {value} AS " in stage.sql


def test_what_cannot_be_taken_apart_is_one_opaque_stage_with_all_slots(world: World) -> None:
    plan = world.plan("select * from (from facts pivot (sum(v) for k in (1, 2)))")
    opaque = [stage for stage in plan.stages if stage.opaque]
    assert [(stage.width, stage.slots) for stage in opaque] == [(1, 2)]
    assert opaque[0].table_inputs == (TableInput("facts", "facts", "v1", ("id", "k", "v"), split=False),)


def test_the_label_says_what_a_stage_does(world: World) -> None:
    plan = world.plan("select word, sum(v) from facts join s1 on k = k2 group by word order by 2 limit 3", SPLIT)
    labels = [stage.label for stage in plan.stages]
    assert any("⋈" in label and label.endswith("partial sum") for label in labels)
    assert labels[-1].endswith("sum, sort, top 3")


def test_a_relation_without_placed_exchanges_is_refused() -> None:
    scan = Scan("facts", "v1", ())
    for relation in (scan, Exchange(scan, "gather")):
        with pytest.raises(PlanError, match="place"):
            Cutter(nothing_known, {}).cut(relation, ())


def test_plans_do_not_depend_on_what_was_planned_before(world: World) -> None:
    query = "select word, count(distinct id), sum(v) from facts join s1 on k = k2 group by word"

    def text(plan: Plan) -> str:
        return repr(plan.stages)

    first = text(world.plan(query, SPLIT))
    world.plan("select 1", SPLIT)
    assert text(world.plan(query, SPLIT)) == first
