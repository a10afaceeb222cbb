"""Estimates: of one predicate, of joins, groups and sets; never NaN, and close to the truth on real data."""

from __future__ import annotations

import math
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qoop.catalog.statistics.stats import ColumnStats, TableStats
from qoop.planner.algebra.expr import (
    Call,
    Column,
    Expr,
    Literal,
    binary,
    cast,
    conjunction,
    disjunction,
    equals,
    is_null,
    negate,
)
from qoop.planner.algebra.relation import (
    Aggregate,
    Aggregation,
    Filter,
    Join,
    Limit,
    Project,
    Relation,
    Scan,
    SetOp,
    Window,
    WindowCall,
    walk,
)
from qoop.planner.estimate.cardinality import Cardinality

COLORS = (("red", 0.5), ("green", 0.2), ("blue", 0.1))
STATS = {
    "dates": TableStats(
        73_000, 1e6,
        {
            "id": ColumnStats(0, 73_000, 1, 73_000),
            "year": ColumnStats(0, 200, 1900, 2099),
            "month": ColumnStats(0, 12, 1, 12),
        },
        frozenset({frozenset({"id"})}),
    ),
    "sales": TableStats(
        1_000_000, 2e7,
        {
            "date": ColumnStats(100_000, 1825, 36_001, 37_825),
            "item": ColumnStats(0, 10_000, 1, 10_000, width=4),
            "ticket": ColumnStats(0, 100_000, 1, 100_000),
            "color": ColumnStats(0, 10, "amber", "yellow", COLORS, ("amber", "teal", "white", "yellow"), width=5.5),
        },
        frozenset({frozenset({"item", "ticket"})}),
    ),
    "returns": TableStats(
        100_000, 1e6, {"item": ColumnStats(0, 9000, 1, 10_000), "ticket": ColumnStats(0, 60_000, 1, 100_000)},
        frozenset({frozenset({"item", "ticket"})}),
    ),
    "items": TableStats(
        10_000, 1e6,
        {"id": ColumnStats(0, 10_000, 1, 10_000), "brand": ColumnStats(0, 100, 1, 100),
         "class": ColumnStats(0, 200, 1, 200), "price": ColumnStats(0, 1000, 0, 100)},
        frozenset({frozenset({"id"})}),
    ),
}  # fmt: skip


def scan(table: str, prefix: str = "") -> Scan:
    types = {"color": "VARCHAR"}
    fields = ((name, Column(f"{prefix}{table}_{name}", types.get(name, "INTEGER"))) for name in STATS[table].columns)
    return Scan(table, "v1", tuple(fields))


def column(relation: Relation, name: str) -> Column:
    return next(c for c in relation.columns if c.name == name)


def literal(value: object) -> Literal:
    return Literal(repr(value), "VARCHAR" if isinstance(value, str) else "INTEGER", value)


DATES, SALES, RETURNS, ITEMS = scan("dates"), scan("sales"), scan("returns"), scan("items")
YEAR, MONTH, DATE_ID = (column(DATES, f"dates_{name}") for name in ("year", "month", "id"))
DATE, ITEM, TICKET, COLOR = (column(SALES, f"sales_{name}") for name in ("date", "item", "ticket", "color"))
BRAND, CLASS, PRICE, ITEM_ID = (column(ITEMS, f"items_{name}") for name in ("brand", "class", "price", "id"))


def cardinality() -> Cardinality:
    return Cardinality(STATS)


def among(column: Expr, *values: object) -> Call:
    return Call("in", (column, *map(literal, values)), "", "BOOLEAN")


def like(column: Expr, pattern: str) -> Call:
    return Call("like", (column, literal(pattern)), "", "BOOLEAN")


def span(column: Expr, low: object, high: object) -> Call:
    return Call("between", (column, literal(low), literal(high)), "", "BOOLEAN")


@pytest.mark.parametrize(
    ("predicate", "relation", "expected"),
    [
        (equals(COLOR, literal("red")), SALES, 0.5),
        (equals(literal("red"), COLOR), SALES, 0.5),
        (equals(COLOR, literal("teal")), SALES, 0.2 / 7),
        (binary("<>", COLOR, literal("red")), SALES, 0.5),
        (among(COLOR, "red", "blue", "red"), SALES, 0.6),
        (negate(among(COLOR, "red", "blue")), SALES, 0.4),
        (disjunction((equals(COLOR, literal("red")), equals(COLOR, literal("blue")))), SALES, 0.6),
        (equals(YEAR, literal(2000)), DATES, 1 / 200),
        (span(YEAR, 1950, 1999), DATES, 0.25),
        (conjunction((binary(">=", YEAR, literal(1950)), binary("<=", YEAR, literal(1999)))), DATES, 0.25),
        (binary(">", YEAR, literal(2049)), DATES, 0.25),
        (binary(">", literal(1950), YEAR), DATES, 0.25),
        (conjunction((equals(YEAR, literal(2000)), equals(MONTH, literal(5)))), DATES, 1 / 2400),
        (is_null(DATE), SALES, 0.1),
        (negate(is_null(DATE)), SALES, 0.9),
        (like(COLOR, "red%"), SALES, 0.5),
        (like(COLOR, "%ee%"), SALES, 0.2),
        (like(COLOR, "w%"), SALES, 0.05),
        (binary("<", COLOR, literal("k")), SALES, 0.3 + 0.2 * 6 / 7 * 0.48 / 3),
        (span(cast(YEAR, "BIGINT"), 1950, 1999), DATES, 0.25),
        (span(binary("+", YEAR, literal(50), "INTEGER"), 2000, 2049), DATES, 0.25),
    ],
)  # fmt: skip
def test_fraction_of_rows(predicate: Expr, relation: Relation, expected: float) -> None:
    assert cardinality().selectivity(predicate, relation) == pytest.approx(expected, rel=0.15, abs=1e-5)


def test_what_follows_from_other_predicates_keeps_all_rows() -> None:
    """A reader's own filter on top of what all readers of a subplan ask."""
    dates = scan("dates")
    year = dates.columns[1]
    wanted = equals(year, literal(2001))
    either = disjunction((wanted, equals(year, literal(2002))))
    listed = Call("in", (year, literal(2001), literal(2002)), "({0} IN ({1}, {2}))", "BOOLEAN")
    estimate = Cardinality(STATS)
    alone = estimate.rows(Filter(dates, (wanted,)))
    for weaker in (either, listed, wanted, binary(">", year, literal(1990))):
        assert estimate.rows(Filter(dates, (weaker, wanted))) == alone


def test_alternatives_narrow_a_column_to_what_they_hold_together() -> None:
    """As TPC-DS asks for a year and the months around it; the months are left, for one alternative has them all."""
    before = conjunction((equals(YEAR, literal(1998)), equals(MONTH, literal(12))))
    after = conjunction((equals(YEAR, literal(2000)), equals(MONTH, literal(1))))
    found = Filter(DATES, (disjunction((equals(YEAR, literal(1999)), before, after)),))
    estimate = cardinality()
    assert estimate.distinct(found, [YEAR]) == pytest.approx(3.0, rel=0.01)
    assert estimate.distinct(found, [MONTH]) > 11.0
    early = Filter(found, (binary("<", YEAR, literal(1998)),))
    assert estimate.rows(early) < 0.01 * estimate.rows(found)
    open_ended = disjunction((equals(YEAR, literal(1999)), equals(MONTH, literal(1))))
    assert estimate.distinct(Filter(DATES, (open_ended,)), [YEAR]) > 100.0


def test_a_value_outside_the_range_keeps_next_to_nothing() -> None:
    estimate = cardinality()
    assert estimate.selectivity(equals(YEAR, literal(1500)), DATES) < 1e-4
    assert estimate.selectivity(binary(">", YEAR, literal(2500)), DATES) < 1e-4


def test_filters_that_cannot_be_independent_are_damped() -> None:
    both = (equals(BRAND, literal(5)), equals(CLASS, literal(7)))  # 100 x 200 combinations, 10 000 rows
    assert 1 / 20_000 < cardinality().selectivity(conjunction(both), ITEMS) < 1 / 200


@pytest.mark.parametrize(
    ("predicate", "fraction"),
    [
        (None, 0.9),
        (equals(MONTH, literal(5)), 0.9 / 12),  # a month holds in every year
        (equals(YEAR, literal(2000)), 0.9 / 5),  # a year is one of the five that have sales
        (conjunction((equals(YEAR, literal(2000)), equals(MONTH, literal(5)))), 0.9 / 60),
    ],
)
def test_foreign_key_keeps_the_fraction_of_keys_in_its_range(predicate: Expr | None, fraction: float) -> None:
    dates = DATES if predicate is None else Filter(DATES, (predicate,))
    join = Join(SALES, dates, "inner", (equals(DATE, DATE_ID),))
    assert cardinality().rows(join) == pytest.approx(1_000_000 * fraction, rel=0.1)


def test_composite_key_is_not_two_independent_conditions() -> None:
    on = tuple(equals(column(SALES, f"sales_{k}"), column(RETURNS, f"returns_{k}")) for k in ("item", "ticket"))
    estimate = cardinality()
    assert estimate.rows(Join(SALES, RETURNS, "inner", on)) == pytest.approx(100_000, rel=0.2)
    assert estimate.rows(Join(RETURNS, SALES, "semi", on)) == pytest.approx(100_000, rel=0.2)
    assert estimate.rows(Join(SALES, RETURNS, "semi", on)) == pytest.approx(100_000, rel=0.2)
    assert estimate.rows(Join(SALES, RETURNS, "anti", on)) == pytest.approx(900_000, rel=0.2)
    assert estimate.rows(Join(SALES, RETURNS, "left", on)) == pytest.approx(1_000_000, rel=0.2)


def test_distinct_values_thin_out_with_their_rows() -> None:
    estimate = cardinality()
    few = Filter(ITEMS, (equals(BRAND, literal(1)),))
    assert estimate.distinct(few, (ITEM_ID,)) == pytest.approx(100, rel=0.05)
    assert estimate.distinct(few, (BRAND,)) == pytest.approx(1, rel=0.05)
    joined = Join(SALES, few, "inner", (equals(ITEM, ITEM_ID),))
    assert estimate.rows(joined) == pytest.approx(10_000, rel=0.05)
    assert estimate.distinct(joined, (ITEM,)) == pytest.approx(100, rel=0.05)
    assert estimate.distinct(joined, (ITEM_ID, BRAND)) == pytest.approx(100, rel=0.05)


def test_groups_are_held_to_the_rows() -> None:
    estimate = cardinality()
    total = Aggregation(Column("n", "BIGINT"), Call("count_star", (), "count(*)", "BIGINT"))
    assert estimate.rows(Aggregate(SALES, (), (total,))) == 1
    assert estimate.rows(Aggregate(SALES, (COLOR,), (total,))) == pytest.approx(10, rel=0.1)
    assert estimate.rows(Aggregate(SALES, (ITEM, TICKET), (total,))) == pytest.approx(1_000_000, rel=0.1)
    rollup = Aggregate(ITEMS, (BRAND, CLASS), (total,), ((BRAND, CLASS), (BRAND,), ()))
    plain = Aggregate(ITEMS, (BRAND, CLASS), (total,))
    assert estimate.rows(rollup) == pytest.approx(estimate.rows(plain) + 101, rel=0.05)


def test_top_of_each_partition() -> None:
    rank = WindowCall(Column("r", "BIGINT"), Call("rank", (PRICE,), "rank()", "BIGINT"), (BRAND,))
    top = Filter(Window(ITEMS, (rank,)), (binary("<=", rank.column, literal(10)),))
    assert cardinality().rows(top) == pytest.approx(100 * 10, rel=0.2)


def test_set_operations_and_limits() -> None:
    estimate = cardinality()
    x = (Column("x", "INTEGER"),)
    items = Project(SALES, ((Column("a", "INTEGER"), ITEM),))
    returned = Project(RETURNS, ((Column("b", "INTEGER"), column(RETURNS, "returns_item")),))
    assert estimate.rows(SetOp("union", True, (items, returned), x)) == 1_100_000
    assert estimate.rows(SetOp("union", False, (items, returned), x)) == pytest.approx(10_000, rel=0.05)
    assert estimate.rows(SetOp("intersect", False, (items, returned), x)) == pytest.approx(9000, rel=0.05)
    assert estimate.rows(Limit(SALES, 10)) == 10
    assert estimate.rows(Limit(SALES, None, 999_995)) == 5


def test_columns_of_a_union_depend_on_each_other_as_in_its_branches() -> None:
    """Brand and class of an item are those of 10,000 items, and each of them may be sold at every ticket."""
    estimate = cardinality()
    sold = Join(SALES, ITEMS, "inner", (equals(ITEM, ITEM_ID),))
    columns = (ITEM_ID, BRAND, CLASS, TICKET)
    branches = [
        Project(sold, tuple((Column(f"{column}{number}", column.type), column) for column in columns))
        for number in range(2)
    ]
    item, brand, class_, ticket = united = tuple(Column(f"{column}_u", column.type) for column in columns)
    both, different = (SetOp("union", every, tuple(branches), united) for every in (True, False))
    for union in (both, different):
        of_items = estimate.distinct(union, (item, brand, class_))
        assert of_items == pytest.approx(estimate.distinct(sold, (ITEM_ID, BRAND, CLASS)), rel=0.1)
        assert estimate.distinct(union, (brand, class_, ticket)) > 500_000
    assert estimate.rows(different) <= 2 * estimate.distinct(sold, columns)


def test_widths_come_from_the_scan_through_renamings() -> None:
    estimate = cardinality()
    renamed = Project(SALES, ((Column("c", "VARCHAR"), COLOR), (Column("d", "DOUBLE"), literal(1))))
    assert estimate.bytes(renamed) == pytest.approx(1_000_000 * (5.5 + 8))


def test_unknown_tables_and_columns_have_estimates() -> None:
    stranger = Scan("stranger", "v1", (("a", Column("a", "INTEGER")),))
    join = Join(stranger, SALES, "inner", (equals(Column("a", "INTEGER"), ITEM),))
    assert 0 < cardinality().rows(join) < 1e13


numbers = st.one_of(st.just(0.0), st.floats(0, 1e12))


@given(numbers, numbers, numbers, numbers, numbers, st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_estimates_are_finite_whatever_the_statistics(
    rows: float, other: float, distinct: float, few: float, nulls: float, low: float, high: float
) -> None:
    stats = {
        "a": TableStats(rows, rows, {"x": ColumnStats(nulls, distinct, low, high)}),
        "b": TableStats(other, other, {"x": ColumnStats(0, few, high, low, ((low, 0.5), (high, 0.5)))}),
    }
    x, y = Column("x", "DOUBLE"), Column("y", "DOUBLE")
    a = Filter(Scan("a", "v", (("x", x),)), (binary(">", x, literal(3)),))
    b = Scan("b", "v", (("x", y),))
    estimate = Cardinality(stats)
    for kind in ("inner", "left", "right", "full", "semi", "anti"):
        join = Join(a, b, kind, (equals(x, y),))  # type: ignore[arg-type]
        for relation in (join, Filter(join, (equals(x, literal(3)),)), Aggregate(join, (x,), ())):
            assert math.isfinite(estimate.rows(relation)) and estimate.rows(relation) >= 0
            assert math.isfinite(estimate.distinct(relation, (x,)))


def test_estimates_are_close_on_real_data(tpcds_small: Path, benchmark_texts: None) -> None:
    """The q-error (Moerkotte, Neumann and Steidl, VLDB 2009) of filters, joins and groups of TPC-DS queries."""
    from qoop.catalog.catalog import Catalog
    from qoop.planner.exchange.sqlgen import to_sql
    from qoop.planner.join_order import reorder
    from qoop.planner.rules import apply_rules
    from qoop.planner.sql.bind import Binder
    from qoop.planner.sql.build import build
    from qoop.tpcds.queries import text

    connection, binder = duckdb.connect(), Binder()
    errors = []
    with Catalog.from_folder(tpcds_small) as catalog:
        for name in catalog.tables():
            folder = tpcds_small / name
            files = folder / "*.parquet" if folder.is_dir() else tpcds_small / f"{name}.parquet"
            connection.execute(f"CREATE TABLE {name} AS FROM read_parquet('{files}')")
            described = connection.execute(f"DESCRIBE {name}").fetchall()
            binder.add_table(name, "v1", tuple((column, type_) for column, type_, *_ in described))
        stats = {name: catalog.stats(name) for name in catalog.tables()}
        for number in (3, 7, 13, 15, 19, 25, 29, 42, 43, 48, 52, 55, 61, 65, 68, 79, 85, 90, 96, 98):
            estimate = Cardinality(stats)
            ordered = reorder(apply_rules(build(binder.bind(text(number)), binder.describe)), estimate)
            for node in walk(ordered):
                if isinstance(node, Filter | Join | Aggregate):
                    (count,) = connection.sql(f"SELECT count(*) FROM ({to_sql(node)})").fetchall()[0]
                    actual, expected = count + 1, estimate.rows(node) + 1
                    errors.append(max(expected / actual, actual / expected))
    errors.sort()
    assert len(errors) > 100
    assert errors[len(errors) // 2] <= 2
    assert errors[len(errors) * 9 // 10] <= 20
