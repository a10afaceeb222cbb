"""Semi-join reduction of large sides: where it is done, and that no row is lost or gained."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from qoop.catalog.statistics.stats import ColumnStats, TableStats
from qoop.planner.algebra.expr import Call, Column, binary, equals
from qoop.planner.algebra.relation import Filter, Join, JoinKind, Project, Relation, Scan, Shared, walk
from qoop.planner.arrange.reduce_facts import reduce_facts
from qoop.planner.estimate.cardinality import Cardinality

from .test_rules_random import database, relations, rows

__all__ = ["database"]

HUGE = {name: TableStats(1e8, 1e10, {}) for name in ("t", "u", "v")}


def column(name: str) -> Column:
    return Column(name, "INTEGER")


def scan(table: str, *names: str) -> Scan:
    return Scan(table, "1", tuple((name, column(name)) for name in names))


STATS = {
    "sales": TableStats(
        1e9, 1e11, {"customer": ColumnStats(0, 1e7, minimum=0, maximum=1e7), "ticket": ColumnStats(0, 1e8)}
    ),
    "returns": TableStats(1e8, 1e10, {"ticket_r": ColumnStats(0, 1e8)}),
    "visits": TableStats(3e8, 3e10, {"visitor": ColumnStats(0, 1e4, minimum=0, maximum=1e7)}),
    "shops": TableStats(1e3, 1e5, {"shop": ColumnStats(0, 1e3)}),
}
SALES, VISITS = scan("sales", "customer", "ticket"), scan("visits", "visitor")
RETURNS, SHOPS = scan("returns", "ticket_r"), scan("shops", "shop")
SAME = (equals(column("customer"), column("visitor")),)


def semi_joins(relation: Relation) -> list[Join]:
    return [node for node in walk(relation) if isinstance(node, Join) and node.kind == "semi"]


def test_the_large_side_is_reduced_by_keys_that_are_computed_once() -> None:
    reduced = reduce_facts(Join(SALES, VISITS, "inner", SAME), Cardinality(STATS))
    assert isinstance(reduced, Join) and isinstance(reduced.left, Join)
    assert (reduced.left.left, reduced.left.kind) == (SALES, "semi")
    assert {node.input for node in walk(reduced) if isinstance(node, Shared)} == {VISITS}


def test_the_reduction_goes_below_other_joins_of_large_sides() -> None:
    both = Join(SALES, RETURNS, "inner", (equals(column("ticket"), column("ticket_r")),))
    (semi,) = semi_joins(reduce_facts(Join(both, VISITS, "inner", SAME), Cardinality(STATS)))
    assert semi.left == SALES


def test_estimates_do_not_count_a_reduction_twice() -> None:
    cardinality, join = Cardinality(STATS), Join(SALES, VISITS, "inner", SAME)
    assert cardinality.rows(reduce_facts(join, cardinality)) == cardinality.rows(join)


@pytest.mark.parametrize(
    "join",
    [
        Join(SALES, SHOPS, "inner", (equals(column("customer"), column("shop")),)),  # every machine may have all shops
        Join(SALES, VISITS, "inner", (binary("<", column("customer"), column("visitor")),)),
        Join(SALES, VISITS, "left", SAME),  # sales without a visit stay
        Join(SALES, VISITS, "anti", SAME),
        Join(SALES, VISITS, "full", SAME),
        Join(SALES, VISITS, "mark", SAME, Column("m", "BOOLEAN")),
    ],
)
def test_nothing_is_reduced_where_rows_would_be_lost_or_nothing_gained(join: Join) -> None:
    assert reduce_facts(join, Cardinality(STATS)) == join


def test_what_may_come_out_differently_is_not_computed_for_its_keys() -> None:
    random = Filter(VISITS, (binary("<", Call("random", (), "random()", "DOUBLE"), column("visitor")),))
    join = Join(SALES, random, "inner", SAME)
    assert reduce_facts(join, Cardinality(STATS)) is join


@pytest.mark.parametrize(("kind", "reduced"), [("right", "left"), ("left", "right")])
def test_the_side_whose_rows_are_padded_is_reduced(kind: JoinKind, reduced: str) -> None:
    join = Join(SALES, VISITS, "right", SAME) if kind == "right" else Join(VISITS, SALES, "left", SAME)
    after = reduce_facts(join, Cardinality(STATS))
    assert isinstance(getattr(after, reduced), Join)
    assert isinstance(getattr(after, kind), Project)


@settings(max_examples=300, deadline=None)
@given(relations())
def test_reduction_keeps_rows(database: object, relation: Relation) -> None:
    cardinality = Cardinality(HUGE)
    after = reduce_facts(relation, cardinality, 0.0)
    if after is not relation:
        assert after.columns == relation.columns
        assert rows(database, after) == rows(database, relation)  # type: ignore[arg-type]
        assert reduce_facts(after, cardinality, 0.0) == after
