"""Aggregates computed from parts give what they give whole: grouped by their filters, or below joins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import duckdb
import pytest

from qoop.catalog.statistics.stats import ColumnStats, TableStats
from qoop.planner.algebra.relation import Aggregate, Filter, Join, Relation, Scan, walk
from qoop.planner.algebra.two_phase import two_phase
from qoop.planner.arrange.eager_aggregation import eager_aggregation
from qoop.planner.arrange.reduce_build_sides import reduce_build_sides
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.estimate.cost import CostModel
from qoop.planner.exchange.sqlgen import to_sql
from qoop.planner.identity.provenance import provenance
from qoop.planner.rules import apply_rules
from qoop.planner.rules.group_by_filters import group_by_filters
from qoop.planner.sql.bind import Binder
from qoop.planner.sql.build import build

COLUMNS = {
    "f": (("k", "INTEGER"), ("m", "INTEGER"), ("x", "INTEGER"), ("p", "DECIMAL(7,2)")),
    "d": (("k", "INTEGER"), ("name", "VARCHAR"), ("kind", "VARCHAR")),
}
# As if the fact were large: what is worth it is decided on these, what is right on the real rows.
STATS = {
    "f": TableStats(10e6, 200e6, {"k": ColumnStats(0, 1000), "m": ColumnStats(0, 12), "x": ColumnStats(0, 50)}),
    "d": TableStats(1000, 3e4, {"k": ColumnStats(0, 1000), "name": ColumnStats(0, 900, width=30)},
                    frozenset({frozenset({"k"})})),
}  # fmt: skip


@pytest.fixture(scope="module")
def data() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE f AS SELECT CASE WHEN i % 11 = 0 THEN NULL ELSE (i % 17)::INTEGER END AS k, "
        "(i % 12)::INTEGER AS m, CASE WHEN i % 7 = 0 THEN NULL ELSE (i % 50)::INTEGER END AS x, "
        "(i * 0.25)::DECIMAL(7,2) AS p FROM range(500) r(i)"
    )
    connection.execute(
        "CREATE TABLE d AS SELECT (i % 15)::INTEGER AS k, 'n' || (i % 6) AS name, 'k' || (i % 2) AS kind "
        "FROM range(20) r(i)"  # keys 0 to 4 twice: parts are joined as often as their rows would have been
    )
    yield connection
    connection.close()


def prepared(sql: str) -> Relation:
    binder = Binder()
    for table, columns in COLUMNS.items():
        binder.add_table(table, "v1", columns)
    try:
        return apply_rules(build(binder.bind(sql), binder.describe))
    finally:
        binder.close()


def rows(data: duckdb.DuckDBPyConnection, sql: str) -> Counter[str]:
    return Counter(map(repr, data.execute(sql).fetchall()))


def aggregates(relation: Relation) -> int:
    return sum(isinstance(node, Aggregate) for node in walk(relation))


MANY_FILTERS = "SELECT " + ", ".join(
    f"{call} FILTER (WHERE {condition})"
    for condition in ("m < 3", "m BETWEEN 2 AND 5", "x > 10", "x IS NULL", "p > 1e6")
    for call in ("count(*)", "sum(p)", "avg(x)", "min(x)", "count(x)", "avg(p)")
)


@pytest.mark.parametrize("source", ["f", "f WHERE k > 3", "f WHERE false", "f JOIN d USING (k)"])
def test_groups_of_equal_filters_give_every_aggregate(data: duckdb.DuckDBPyConnection, source: str) -> None:
    sql = f"{MANY_FILTERS}, count(*), max(p) FROM {source}"
    relation = prepared(sql)
    assert aggregates(relation) == 2
    expected = rows(data, sql)
    assert rows(data, to_sql(relation, cast=True)) == expected
    assert group_by_filters(relation) is relation


def test_few_or_distinct_filtered_aggregates_stay() -> None:
    assert aggregates(prepared("SELECT count(*) FILTER (WHERE m = 1), sum(x) FILTER (WHERE m = 2) FROM f")) == 1
    distinct = MANY_FILTERS.replace("count(x)", "count(DISTINCT x)")
    assert aggregates(prepared(f"{distinct} FROM f")) == 1


APART = ("m < 3", "m = 3 AND k > 2", "m > 3 AND m <= 5", "m IN (7, 8)", "m BETWEEN 9 AND 10 OR m >= 100")
DISTINCT_OF_EACH = ("count(DISTINCT x)", "sum(DISTINCT p)", "count(*)", "avg(p)", "max(x)", "min(DISTINCT x)")


@pytest.mark.parametrize("source", ["f", "f WHERE k > 3", "f WHERE false", "f JOIN d USING (k)"])
def test_filters_that_exclude_each_other_are_groups_of_their_own(data: duckdb.DuckDBPyConnection, source: str) -> None:
    calls = ", ".join(f"{call} FILTER (WHERE {one})" for one in APART for call in DISTINCT_OF_EACH)
    sql = f"SELECT {calls} FROM {source}"
    relation = prepared(sql)
    assert aggregates(relation) == 2
    assert rows(data, to_sql(relation, cast=True)) == rows(data, sql)
    assert group_by_filters(relation) is relation


@pytest.mark.parametrize("calls", [("count(DISTINCT x)", "avg(p)"), ("count(*)", "sum(p)")])
def test_one_pass_computes_what_several_subqueries_ask_of_parts(
    data: duckdb.DuckDBPyConnection, calls: tuple[str, ...]
) -> None:
    names = [
        ", ".join(f"{call} AS v{place}{number}" for number, call in enumerate(calls)) for place in range(len(APART))
    ]
    parts = [f"(SELECT {names[place]} FROM f WHERE {one} AND x > 1) q{place}" for place, one in enumerate(APART)]
    sql = f"SELECT * FROM {', '.join(parts)}"
    relation = prepared(sql)
    assert [node.table for node in walk(relation) if isinstance(node, Scan)] == ["f"]
    assert rows(data, to_sql(relation, cast=True)) == rows(data, sql)


def test_aggregates_are_computed_of_the_rows_alone_that_they_are_asked_of(data: duckdb.DuckDBPyConnection) -> None:
    """Of others they might overflow."""
    huge = "CASE WHEN {} THEN 1e38::HUGEINT ELSE x END"
    texts = [
        f"SELECT sum({huge.format('m = 9')}) FILTER (WHERE m = 1), count(DISTINCT x) FILTER (WHERE m = 2) FROM f",
        f"SELECT * FROM (SELECT sum({huge.format('m = 9')}) AS a FROM f WHERE m = 1) q, "
        "(SELECT count(DISTINCT x) AS b FROM f WHERE m = 9) r",
    ]
    for sql in texts:
        relation = prepared(sql)
        assert aggregates(relation) == 2
        assert rows(data, to_sql(relation, cast=True)) == rows(data, sql)


def test_constants_that_are_one_float_bound_no_rows(data: duckdb.DuckDBPyConnection) -> None:
    source = "(SELECT (1234567 + x % 3 / 8)::FLOAT AS price FROM f)"
    parts = (f"(SELECT count(*) AS v{i} FROM {source} WHERE price {one}) q{i}" for i, one in
             enumerate(("<= 1234567.12", "< 1234567.13")))  # fmt: skip
    sql = f"SELECT * FROM {', '.join(parts)}"
    assert rows(data, to_sql(prepared(sql), cast=True)) == rows(data, sql)


def test_distinct_values_of_parts_that_overlap_are_counted_one_by_one() -> None:
    parts = (f"(SELECT count(DISTINCT x) AS v{m} FROM f WHERE m > {m}) q{m}" for m in range(3))
    relation = prepared(f"SELECT * FROM {', '.join(parts)}")
    assert sum(isinstance(node, Scan) for node in walk(relation)) == 3


def test_what_any_of_several_parts_wants_is_compared_before_it_is_looked_at_closer() -> None:
    parts = (f"(SELECT count(*) AS v{m} FROM f WHERE m BETWEEN {m} AND {m} + x AND m <= {7 + m}) q{m}" for m in (2, 5))
    wanted = {str(p) for node in walk(prepared(f"SELECT * FROM {', '.join(parts)}")) if isinstance(node, Filter)
              for p in node.predicates}  # fmt: skip
    assert "(2 <= m)" in wanted and "(m <= 12)" in wanted


EARLY = [
    "SELECT d.name, sum(p), count(*), count(x), avg(p), min(x), max(x) FROM f JOIN d ON f.k = d.k GROUP BY d.name",
    "SELECT d.name, m, sum(p) FROM f JOIN d ON f.k = d.k GROUP BY d.name, m",
    "SELECT upper(d.name) AS u, sum(p + x) FROM f JOIN d ON f.k = d.k GROUP BY u HAVING sum(p + x) > 10",
    "SELECT d.name, sum(p) FILTER (WHERE x > 5), count(*) FILTER (WHERE m = 1) FROM d JOIN f ON f.k = d.k GROUP BY 1",
    "SELECT a.name, b.kind, avg(x) FROM f JOIN d a ON f.k = a.k JOIN d b ON f.m = b.k GROUP BY 1, 2",
    "SELECT d.name, sum(p) FROM f JOIN d ON f.k = d.k AND f.m <> d.k GROUP BY d.name",
    "SELECT d.name, sum(p), avg(x), grouping(d.name) FROM f JOIN d ON f.k = d.k GROUP BY ROLLUP (d.name)",
]
LATE = [
    "SELECT d.name, count(DISTINCT x) FROM f JOIN d ON f.k = d.k GROUP BY d.name",
    "SELECT d.name, stddev_samp(x) FROM f JOIN d ON f.k = d.k GROUP BY d.name",
    "SELECT d.name, sum(p) FROM f LEFT JOIN d ON f.k = d.k GROUP BY d.name",
    "SELECT d.name, sum(p), max(d.kind) FROM f JOIN d ON f.k = d.k GROUP BY d.name",
    "SELECT d.name, p, sum(x) FROM f JOIN d ON f.k = d.k GROUP BY d.name, p",
]


@pytest.mark.parametrize("sql", EARLY)
def test_groups_below_the_join_give_the_same_sums(data: duckdb.DuckDBPyConnection, sql: str) -> None:
    before = prepared(sql)
    after = eager_aggregation(before, Cardinality(STATS), CostModel())
    assert aggregates(after) == aggregates(before) + 1
    assert rows(data, to_sql(after, cast=True)) == rows(data, sql)
    assert provenance(after).signature == provenance(before).signature


GROUPED = "SELECT name, {} FROM (SELECT k, {} FROM f GROUP BY k{}) e {} d USING (k) {} GROUP BY name"
PLAIN = "SELECT name, {} FROM f JOIN d USING (k) GROUP BY name"


@pytest.mark.parametrize("function", ["sum(p)", "min(x)", "MAX(x)"])
def test_aggregates_of_groups_mean_what_aggregates_of_rows_do(data: duckdb.DuckDBPyConnection, function: str) -> None:
    one = GROUPED.format(function[:4].lower() + "v)", function + " AS v", "", "JOIN", "")
    assert rows(data, one) == rows(data, PLAIN.format(function))
    assert meaning(one) == meaning(PLAIN.format(function))


@pytest.mark.parametrize(
    "other",
    [
        GROUPED.format("sum(v)", "max(p) AS v", "", "JOIN", ""),
        GROUPED.format("max(v)", "sum(p) AS v", "", "JOIN", ""),
        GROUPED.format("avg(v)", "avg(p) AS v", "", "JOIN", ""),
        GROUPED.format("count(*)", "sum(p) AS v", "", "JOIN", ""),
        GROUPED.format("count(v)", "count(p) AS v", "", "JOIN", ""),
        GROUPED.format("sum(DISTINCT v)", "sum(p) AS v", "", "JOIN", ""),
        GROUPED.format("sum(v)", "sum(DISTINCT p) AS v", "", "JOIN", ""),
        GROUPED.format("sum(v) FILTER (WHERE v > 100)", "sum(p) AS v", "", "JOIN", ""),
        GROUPED.format("sum(v)", "sum(p) AS v", " HAVING sum(p) > 100", "JOIN", ""),
        GROUPED.format("sum(v)", "sum(p) AS v", "", "JOIN", "WHERE v > 100"),
        GROUPED.format("sum(v)", "sum(p) AS v", "", "RIGHT JOIN", ""),
    ],
)
def test_other_aggregates_of_groups_mean_something_else(data: duckdb.DuckDBPyConnection, other: str) -> None:
    plain = {meaning(PLAIN.format(f"{function}({column})")) for function in ("sum", "max", "avg", "count")
             for column in "px"}  # fmt: skip
    assert rows(data, other) and meaning(other) not in plain


def meaning(sql: str) -> str:
    return provenance(prepared(sql)).signature


def test_groups_in_two_phases_mean_what_they_do_in_one() -> None:
    functions = ["sum(p)", "sum(x)", "avg(p)", "avg(x)", "count(*)", "count(x)", "min(p)", "bool_or(x > 3)",
                 "sum(p) FILTER (WHERE x > 1)"]  # fmt: skip
    for function in functions:
        relation = prepared(f"SELECT k, m, {function} FROM f GROUP BY k, m")
        whole = next(node for node in walk(relation) if isinstance(node, Aggregate))
        phases = two_phase(whole)
        assert phases is not None
        final = phases.final(phases.partial(whole.input))
        assert provenance(final).signature == provenance(whole).signature, function


@pytest.mark.parametrize("sql", LATE)
def test_what_does_not_combine_or_does_not_pay_stays_above(sql: str) -> None:
    before = prepared(sql)
    assert eager_aggregation(before, Cardinality(STATS), CostModel()) is before


REDUCED = [
    "SELECT k, name FROM d WHERE name = 'n1' AND EXISTS (SELECT 1 FROM f WHERE f.k = d.k AND f.m > 3)",
    "SELECT k, name FROM d WHERE NOT EXISTS (SELECT 1 FROM f WHERE f.k = d.k AND f.x < d.k)",
    "SELECT k, name FROM d WHERE k IN (SELECT k FROM f WHERE m = 1) AND k NOT IN (SELECT 3) "
    "AND NOT EXISTS (SELECT 1 FROM f WHERE f.k + 1 = d.k AND f.m = 2)",
    "SELECT count(*) FROM d SEMI JOIN f ON d.k = f.k",
]


@pytest.mark.parametrize("sql", REDUCED)
def test_a_build_side_cut_to_the_keys_asked_for_gives_the_same_partners(
    data: duckdb.DuckDBPyConnection, sql: str
) -> None:
    before = prepared(sql)
    after = reduce_build_sides(before, Cardinality(STATS))

    def half_joins(relation: Relation) -> int:
        return sum(isinstance(node, Join) and node.kind in ("semi", "anti") for node in walk(relation))

    assert half_joins(after) > half_joins(before)
    expected = rows(data, sql)
    assert expected and rows(data, to_sql(after)) == expected


def test_a_build_side_is_left_whole_where_many_ask() -> None:
    before = prepared("SELECT k FROM f WHERE EXISTS (SELECT 1 FROM d WHERE d.k = f.k)")
    assert reduce_build_sides(before, Cardinality(STATS)) is before
