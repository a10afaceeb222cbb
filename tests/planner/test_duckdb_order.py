"""The order of joins in DuckDB's own plan: read from its EXPLAIN, and applied to a query's relation."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import permutations

import pytest
from planner_world import World

from qoop.planner.algebra.relation import Join, Relation, Scan, walk
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.join_order import reorder
from qoop.planner.join_order.duckdb_order import DuckDBOrder, KnownTable
from qoop.planner.planner import Planning, as_duckdb_reads

SALES = """
CREATE TABLE sales AS SELECT i % 400 AS day, i % 365 AS due, i % 50 AS item, i % 9 AS amount FROM range(20_000) r(i);
CREATE TABLE stock AS SELECT i % 400 AS stocked, i % 50 AS what, i % 20 AS number FROM range(30_000) r(i);
CREATE TABLE days AS SELECT i AS id, i // 7 AS week, i // 40 AS month FROM range(400) r(i);
CREATE TABLE items AS SELECT i AS sku, 'n' || i AS label FROM range(50) r(i);
CREATE TABLE returns AS SELECT i % 50 AS returned, i % 400 AS back FROM range(300) r(i);
"""

AS_WRITTEN = "SET disabled_optimizers = 'join_order,build_side_probe_side'"


@pytest.fixture(scope="module")
def world() -> World:
    return World(SALES)


def order_of(world: World, text: str) -> DuckDBOrder:
    [(_, explained)] = world.connection.execute(f"EXPLAIN (FORMAT JSON) {text}").fetchall()
    tables = {
        name: KnownTable(frozenset(table.column_names), float(table.num_rows)) for name, table in world.tables.items()
    }
    return DuckDBOrder(explained, tables)


def ordered(world: World, text: str) -> Relation:
    """The relation of a query with its joins as DuckDB has them."""
    bound = world.binder.bind(text)
    relation = as_duckdb_reads(bound, world.binder.describe)
    assert relation is not None
    return reorder(relation, Cardinality(world.stats), duckdb_order=order_of(world, text))


def written(relation: Relation) -> str:
    """The joins of a relation, the probe side first; a scan by its table and the columns that it reads."""
    if isinstance(relation, Join):
        return f"({written(relation.left)} {written(relation.right)})"
    if isinstance(relation, Scan):
        return relation.table
    return written(relation.inputs[0])


JOINED = {"stock": "what = item", "days": "day = id", "items": "item = sku", "returns": "returned = item"}


@pytest.mark.parametrize("names", list(permutations(JOINED))[::5])
def test_joins_stand_in_the_order_of_duckdb(world: World, names: tuple[str, ...]) -> None:
    joins = " ".join(f"JOIN {name} ON {JOINED[name]}" for name in names)
    world.connection.execute(AS_WRITTEN)
    found = written(ordered(world, f"SELECT sum(amount + number + week + length(label) + back) FROM sales {joins}"))
    expected = "sales"
    for name in names:
        expected = f"({expected} {name})"
    assert found == expected


WEEKS = """
SELECT sum(amount) FROM stock JOIN days d2 ON stocked = d2.id JOIN days d1 ON d1.week = d2.week
JOIN (sales JOIN days d3 ON due = d3.id) ON d1.id = day AND item = what AND number < amount
WHERE d1.month = 3 AND d3.month < 5
"""


def test_a_table_that_is_read_several_times_stands_where_its_columns_are_equated(world: World) -> None:
    world.connection.execute(AS_WRITTEN)
    relation = ordered(world, WEEKS)
    assert written(relation) == "(((stock days) days) (sales days))"
    equal = [sorted(str(one) for one in join.on) for join in walk(relation) if isinstance(join, Join)]
    top, second, first, right = equal
    assert len(top) == 3
    assert second[0].count("week") == 2
    assert "stocked" in first[0] and "id" in first[0]
    assert "due" in right[0]


def test_constants_tell_equal_sides_apart(world: World) -> None:
    world.connection.execute(AS_WRITTEN)
    text = """
    SELECT count(*) FROM (SELECT * FROM days WHERE month = 7) a JOIN (SELECT * FROM days WHERE month = 3) b
    ON a.week = b.week JOIN (SELECT * FROM days WHERE month = 5) c ON c.week = b.week
    """
    relation = ordered(world, text)
    filters = [str(node.predicates) for node in walk(relation) if type(node).__name__ == "Filter"]
    assert [next(n for n in "357" if f"= {n}" in text or f"'{n}'" in text) for text in filters] == ["7", "3", "5"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FROM sales LEFT JOIN returns ON item = returned AND day = back JOIN days ON day = id",
         "((sales returns) days)"),
        ("FROM sales JOIN days ON day = id WHERE item IN (SELECT returned FROM returns WHERE back < 9)",
         "((sales days) returns)"),
        ("FROM sales JOIN items ON item = sku, (SELECT max(id) AS last FROM days JOIN returns ON id = back) "
         "WHERE day = last", "((sales items) (days returns))"),
    ],
)  # fmt: skip
def test_outer_and_semi_joins_and_subqueries(world: World, text: str, expected: str) -> None:
    world.connection.execute(AS_WRITTEN)
    assert written(ordered(world, f"SELECT sum(amount) {text}")) == expected


def test_a_plan_of_other_joins_leaves_the_cheapest_order(world: World) -> None:
    world.connection.execute(AS_WRITTEN)
    bound = world.binder.bind(WEEKS)
    relation = as_duckdb_reads(bound, world.binder.describe)
    assert relation is not None
    other = order_of(world, "SELECT count(*) FROM sales JOIN days ON day = id")
    cheapest = reorder(relation, Cardinality(world.stats))
    assert written(reorder(relation, Cardinality(world.stats), duckdb_order=other)) == written(cheapest)


def test_a_bad_order_costs_more(world: World) -> None:
    text = "SELECT sum(amount) FROM stock JOIN sales ON what = item JOIN (FROM days WHERE week = 3) ON day = id"
    world.connection.execute(AS_WRITTEN)
    [(_, explained)] = world.connection.execute(f"EXPLAIN (FORMAT JSON) {text}").fetchall()
    bound = world.binder.bind(text)
    relation = as_duckdb_reads(bound, world.binder.describe)
    assert relation is not None
    planning = Planning(bound, relation, world.stats, {})
    assert planning.duckdb_seconds(relation, explained) > 5 * planning.duckdb_seconds(relation)


def test_outer_values_of_a_subquery_are_those_that_the_filters_leave(world: World) -> None:
    """A subquery that is correlated by an inequality reads the outer values first: not of all pairs of rows."""
    joined = "SELECT sum(amount) FROM sales, days, items WHERE day = id AND item = sku AND month = 3"
    exists = "EXISTS (SELECT * FROM stock WHERE what = item AND number <> amount)"

    def seconds(text: str) -> float:
        bound = world.binder.bind(text)
        relation = as_duckdb_reads(bound, world.binder.describe)
        assert relation is not None
        return Planning(bound, relation, world.stats, {}).duckdb_seconds(relation)

    alone = seconds(joined)
    assert alone < seconds(f"{joined} AND {exists}") < 50 * alone


def explained_as(kinds: str) -> str:
    """EXPLAIN of operators one below the other, as DuckDB 2 has them."""
    names = {"group": ("HASH_GROUP_BY", {}), "set": ("PERFECT_HASH_GROUP_BY", {}), "scan": ("READ_PARQUET", {})}
    node: list[object] = []
    for kind in reversed(kinds.split()):
        name, facts = names.get(kind, ("HASH_JOIN", {"Join Type": kind.upper()}))
        node = [{"name": name, "extra_info": facts, "children": node}]
    return json.dumps(node)


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ("group inner group scan", True),
        ("group inner inner set scan", True),
        ("inner group inner scan", False),
        ("group group inner scan", False),
        ("group anti group scan", False),  # EXCEPT
    ],
)
def test_groups_below_joins_are_read_from_explain(kinds: str, expected: bool) -> None:
    assert DuckDBOrder(explained_as(kinds), {}).groups_below_joins == expected


@pytest.mark.parametrize(
    ("text", "earlier"),
    [
        ("SELECT label, sum(amount) FROM sales JOIN items ON item = sku GROUP BY label", True),
        (
            """SELECT label, max(amount) FROM (SELECT item, sum(amount) AS amount FROM sales GROUP BY item)
            JOIN items ON item = sku GROUP BY label""",
            False,
        ),
    ],
)
def test_duckdb_groups_below_joins_where_its_plan_has_more_of_that_than_the_text(
    world: World, text: str, earlier: bool
) -> None:
    relation = as_duckdb_reads(world.binder.bind(text), world.binder.describe)
    assert relation is not None
    large = {name: replace(one, rows=1e5 * one.rows) for name, one in world.stats.items()}
    planning = Planning(world.binder.bind(text), relation, large, {})
    early, late = (planning.duckdb_seconds(relation, explained_as(f"group inner {rest}")) for rest in ("group", "scan"))
    assert early < 0.8 * late if earlier else early == late
