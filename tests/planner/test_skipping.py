"""The part of a table that is read: sorted tables, ranges of keys that go with a filter, and what narrows nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from qoop.catalog.statistics.stats import ColumnStats, TableStats
from qoop.planner.algebra.expr import Column, Literal, binary, equals
from qoop.planner.algebra.relation import Filter, Join, Relation, Scan, Sort, SortKey
from qoop.planner.estimate import tree_cost
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.estimate.cost import CostModel
from qoop.planner.estimate.doubts import narrowing

DAY, OTHER, KEY, YEAR, MONTH = (Column(name, "INTEGER") for name in ("day", "other", "key", "year", "month"))
KEY2, YEAR2, MONTH2 = (Column(name, "INTEGER") for name in ("key_2", "year_2", "month_2"))
SORTED, ANYHOW = 1 / 16, 1.0


def column(distinct: float, low: float, high: float, locality: float) -> ColumnStats:
    low, high = float(low), float(high)
    bounds = tuple(low + (high - low) * i / 20 for i in range(21))
    return ColumnStats(0, distinct, low, high, bounds=bounds, locality=locality)


STATS = {
    "sales": TableStats(
        1e7, 8e7, {"day": column(2000, 4000, 6000, SORTED), "other": column(2000, 4000, 6000, ANYHOW)}
    ),
    "days": TableStats(
        10_000, 1e5,
        {
            "key": column(10_000, 0, 10_000, SORTED),
            "year": column(100, 0, 100, SORTED),
            "month": column(10, 1, 10, ANYHOW),
        },
        frozenset({frozenset({"key"})}),
    ),
}  # fmt: skip
SALES = Scan("sales", "1", (("day", DAY), ("other", OTHER)))
DAYS = Scan("days", "1", (("key", KEY), ("year", YEAR), ("month", MONTH)))


def below(column: Column, value: int) -> Relation:
    return Filter(DAYS, (binary("<", column, Literal(str(value), "INTEGER", value)),))


def part(right: Relation, mine: Column = DAY, kind: str = "inner", left: Relation = SALES) -> float:
    return Cardinality(STATS).part_read(Join(left, right, kind, (equals(mine, KEY),)))  # type: ignore[arg-type]


def test_a_range_of_keys_spares_most_of_a_sorted_table() -> None:
    """Five of a hundred years are a quarter of the twenty that the sales fall into."""
    assert part(below(YEAR, 5)) == pytest.approx(0.25 + 1 / 16, rel=0.1)
    assert part(below(YEAR, 5), kind="semi") == part(below(YEAR, 5))


@pytest.mark.parametrize(
    ("right", "mine", "kind"),
    [(DAYS, DAY, "inner"), (below(MONTH, 2), DAY, "inner"), (below(YEAR, 5), OTHER, "inner"),
     (below(YEAR, 5), DAY, "left"), (below(YEAR, 5), DAY, "anti")],
)  # fmt: skip
def test_what_narrows_no_range_or_needs_all_rows_spares_nothing(right: Relation, mine: Column, kind: str) -> None:
    assert part(right, mine, kind) == 1.0


def test_what_filters_a_table_that_equals_one_in_order_narrows_its_keys() -> None:
    """The weeks of five of a hundred years, by another copy of the days."""
    copies = ("key", KEY2), ("year", YEAR2), ("month", MONTH2)
    others = Scan("days", "1", copies)
    for equal, predicate, narrows in ((YEAR2, YEAR, True), (MONTH2, YEAR, False), (YEAR2, MONTH, False)):
        mine = YEAR if equal is YEAR2 else MONTH
        days = Join(below(predicate, 5), others, "inner", (equals(mine, equal),))
        found = Cardinality(STATS).part_read(Join(SALES, days, "inner", (equals(DAY, KEY2),)))
        assert found == (pytest.approx(0.25 + 1 / 16, rel=0.1) if narrows else 1.0)


def test_pilots_are_asked_for_the_order_of_small_tables_that_join_a_sorted_column() -> None:
    """`key`, by which days join the day of sales, and what joins days with days; nothing of what is known or large."""
    others = Scan("days", "1", (("key", KEY2), ("year", YEAR2)))
    days = Join(below(YEAR, 5), others, "inner", (equals(YEAR, YEAR2),))
    joined = Join(SALES, days, "inner", (equals(DAY, KEY2),))
    guessed = {name: replace(one, guessed=frozenset(one.columns)) for name, one in STATS.items()}
    assert narrowing(joined, guessed) == {"days": {"key", "year"}}
    assert narrowing(joined, STATS) == {}
    assert narrowing(Join(SALES, days, "inner", (equals(OTHER, KEY2),)), guessed) == {}
    assert narrowing(joined, guessed | {"days": replace(guessed["days"], rows=1e6)}) == {}


def test_rows_that_were_collected_in_between_were_read() -> None:
    assert part(below(YEAR, 5), left=Sort(SALES, (SortKey(DAY),))) == 1.0


def test_a_filter_spares_too() -> None:
    cardinality = Cardinality(STATS)
    for name, spared in ((DAY, True), (OTHER, False)):
        filtered = Filter(SALES, (binary("<", name, Literal("4200", "INTEGER", 4200)),))
        assert (cardinality.part_read(filtered) < 0.3) is spared


def test_what_is_spared_is_not_paid() -> None:
    model, cardinality = CostModel(), Cardinality(STATS)
    near, far = (Join(SALES, right, "inner", (equals(DAY, KEY),)) for right in (below(YEAR, 5), DAYS))
    assert tree_cost.spared_seconds(model, far, cardinality) == 0.0
    assert tree_cost.spared_seconds(model, near, cardinality) > 0.6 * tree_cost.own_seconds(model, SALES, cardinality)
    assert tree_cost.seconds(model, near, cardinality) < 0.5 * tree_cost.seconds(model, far, cardinality)
