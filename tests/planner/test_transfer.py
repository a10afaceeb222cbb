"""Predicate transfer: where keys go, where they must not, and that no row is lost or gained."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from qoop.catalog.statistics.stats import ColumnStats, TableStats
from qoop.planner.algebra.expr import TRUE, Call, Column, Literal, binary, equals
from qoop.planner.algebra.relation import (
    Aggregate,
    Filter,
    Join,
    JoinKind,
    Limit,
    Project,
    Relation,
    Scan,
    SetOp,
    Shared,
    walk,
)
from qoop.planner.arrange.transfer import transfer
from qoop.planner.arrange.work import Work
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.estimate.cost import CostModel
from qoop.planner.identity.provenance import provenance

from .test_rules_random import database, relations, rows

__all__ = ["database"]

HUGE = {name: TableStats(1e8, 1e10, {}) for name in ("t", "u", "v")}


def column(name: str, type_: str = "INTEGER") -> Column:
    return Column(name, type_)


def scan(table: str, *names: str, type_: str = "INTEGER") -> Scan:
    return Scan(table, "1", tuple((name, column(name, type_)) for name in names))


def spread(distinct: float) -> ColumnStats:
    return ColumnStats(0, distinct, minimum=0, maximum=1e5)


STATS = {
    "sales": TableStats(1e8, 1e10, {"item": spread(1e5), "customer": spread(1e5)}),
    "returns": TableStats(1e7, 1e9, {"returned": spread(1e5), "by": spread(1e5)}),
    "items": TableStats(1e5, 1e7, {"id": spread(1e5), "maker": ColumnStats(0, 1000, minimum=0, maximum=999)}),
    "shops": TableStats(1e3, 1e5, {"shop": spread(1e5)}),
}
SALES, RETURNS, SHOPS = scan("sales", "item", "customer"), scan("returns", "returned", "by"), scan("shops", "shop")
MAKER = equals(column("maker"), Literal("7", "INTEGER", 7))
OF_ONE_MAKER = Project(Filter(scan("items", "id", "maker"), (MAKER,)), ((column("id"), column("id")),))
BY_ITEM = Aggregate(SALES, (column("item"),), ())
SAME = (equals(column("item"), column("id")),)


def transferred(relation: Relation, gain: float = 1.2) -> Relation:
    return transfer(relation, Work(Cardinality(STATS), CostModel()), gain)


def reduced(relation: Relation) -> list[Relation]:
    """The relations that keys cut down, once for each time."""
    semis = (node for node in walk(transferred(relation)) if isinstance(node, Join) and node.kind == "semi")
    return [semi.left for semi in semis if isinstance(semi.right, Project) and isinstance(semi.right.input, Shared)]


def test_keys_go_below_the_groups_and_are_computed_once() -> None:
    after = transferred(Join(BY_ITEM, OF_ONE_MAKER, "inner", SAME))
    assert isinstance(after, Join) and isinstance(after.left, Aggregate) and isinstance(after.left.input, Join)
    assert (after.left.input.kind, after.left.input.left) == ("semi", SALES)
    assert {node.input for node in walk(after) if isinstance(node, Shared)} == {OF_ONE_MAKER}


@pytest.mark.parametrize("kind", ["inner", "left", "semi", "anti"])
def test_a_right_side_is_reduced_where_the_join_drops_its_rows_without_a_partner(kind: JoinKind) -> None:
    assert reduced(Join(OF_ONE_MAKER, BY_ITEM, kind, SAME)) == [SALES]


def test_keys_reach_both_sides_of_a_join_that_equates_them() -> None:
    both = Join(BY_ITEM, Aggregate(RETURNS, (column("returned"),), ()), "inner",
                (equals(column("item"), column("returned")),))  # fmt: skip
    assert set(reduced(Join(both, OF_ONE_MAKER, "inner", SAME))) == {SALES, RETURNS}


def test_keys_reach_all_branches_of_a_union() -> None:
    united = SetOp("union", False, (scan("sales", "item"), scan("returns", "returned")), (column("item"),))
    assert reduced(Join(united, OF_ONE_MAKER, "inner", SAME)) == [scan("sales", "item"), scan("returns", "returned")]


def test_keys_go_on_from_what_they_have_reduced() -> None:
    """items -> sales by item -> returns by customer: forward and backward over the same joins."""
    customers = Aggregate(RETURNS, (column("by"),), ())
    few = Join(Aggregate(SALES, SALES.columns, ()), OF_ONE_MAKER, "inner", SAME)
    rare = {**STATS, "items": TableStats(1e5, 1e7, {**STATS["items"].columns, "maker": ColumnStats(0, 1e5)})}
    join = Join(customers, few, "inner", (equals(column("by"), column("customer")),))
    after = transfer(join, Work(Cardinality(rare), CostModel()), 1.2)
    semis = [node.left for node in walk(after) if isinstance(node, Join) and node.kind == "semi"]
    assert RETURNS in semis and SALES in semis


def test_the_keys_come_from_the_least_part_of_a_side_that_has_as_few() -> None:
    wide = Join(RETURNS, OF_ONE_MAKER, "inner", (equals(column("returned"), column("id")),))
    sources = {node.input for node in walk(transferred(Join(BY_ITEM, wide, "inner", SAME))) if isinstance(node, Shared)}
    assert OF_ONE_MAKER in sources


@pytest.mark.parametrize(
    "join",
    [
        Join(BY_ITEM, scan("items", "id", "maker"), "inner", SAME),  # all items: nothing is dropped
        Join(BY_ITEM, OF_ONE_MAKER, "inner", (binary("<", column("item"), column("id")),)),
        Join(BY_ITEM, OF_ONE_MAKER, "left", SAME),  # items of other makers stay
        Join(BY_ITEM, OF_ONE_MAKER, "anti", SAME),
        Join(BY_ITEM, OF_ONE_MAKER, "full", SAME),
        Join(BY_ITEM, OF_ONE_MAKER, "mark", SAME, column("m", "BOOLEAN")),
        Join(Limit(BY_ITEM, 10), OF_ONE_MAKER, "inner", SAME),  # other groups would come in
        Join(Aggregate(SALES, (), ()), OF_ONE_MAKER, "inner", ()),
        Join(SALES, SHOPS, "inner", (equals(column("item"), column("shop")),)),  # the join itself looks them up
    ],
)
def test_nothing_is_reduced_where_rows_would_change_or_nothing_is_gained(join: Join) -> None:
    assert transferred(join) is join


@pytest.mark.parametrize("type_", ["DOUBLE", "VARCHAR COLLATE NOCASE", "INTEGER[]"])
def test_keys_whose_equal_values_differ_stay(type_: str) -> None:
    k, i = column("k", type_), column("i", type_)
    groups, few = (
        Aggregate(scan("sales", "k", type_=type_), (k,), ()),
        Filter(scan("shops", "i", type_=type_), (TRUE,)),
    )
    assert (
        transfer(Join(groups, few, "inner", (equals(k, i),)), Work(Cardinality(STATS), CostModel()), 0.0).left is groups
    )


def test_what_may_come_out_differently_is_not_computed_for_its_keys() -> None:
    random = Filter(OF_ONE_MAKER, (binary("<", Call("random", (), "random()", "DOUBLE"), column("id")),))
    after = transferred(Join(BY_ITEM, random, "inner", SAME), 0.0)
    assert all(node.input is not random for node in walk(after) if isinstance(node, Shared))


def test_keys_do_not_pass_what_may_come_out_differently() -> None:
    coin = Project(
        BY_ITEM, ((column("item"), column("item")), (column("r", "DOUBLE"), Call("random", (), "random()", "DOUBLE")))
    )
    after = transferred(Join(coin, OF_ONE_MAKER, "inner", SAME), 0.0)
    assert isinstance(after, Join) and isinstance(after.left, Join) and after.left.left is coin


def test_estimates_do_not_count_a_reduction_twice() -> None:
    cardinality, join = Cardinality(STATS), Join(BY_ITEM, OF_ONE_MAKER, "inner", SAME)
    after = transfer(join, Work(cardinality, CostModel()), 1.2)
    assert after is not join and cardinality.rows(after) == cardinality.rows(join)


def test_a_join_of_a_reduced_side_means_what_it_meant() -> None:
    """The join's rows are the same, so its checkpoints serve both; the reduced side's are other rows."""
    both = Join(SALES, RETURNS, "inner", (equals(column("customer"), column("by")),))
    join = Join(both, OF_ONE_MAKER, "inner", SAME)
    after = transferred(join)
    assert isinstance(after, Join) and after is not join
    assert provenance(after).signature == provenance(join).signature
    assert provenance(after.left).signature != provenance(join.left).signature


@settings(max_examples=80, deadline=None)
@given(relations())
def test_transfer_keeps_rows(database: object, relation: Relation) -> None:
    work = Work(Cardinality(HUGE), CostModel())
    after = transfer(relation, work, 0.0)
    if after is not relation:
        assert after.columns == relation.columns
        assert rows(database, after) == rows(database, relation)  # type: ignore[arg-type]
        assert transfer(after, work, 0.0) == after
