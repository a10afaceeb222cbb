"""Semi, anti and mark joins by an inequality keep DuckDB's rows when they join with the ends of each key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planner_world import World, counted
from run_plan import run_plan

from qoop.planner.algebra.expr import Column, Expr, binary, equals, is_null
from qoop.planner.algebra.relation import Join, JoinKind, Relation, Scan, walk
from qoop.planner.arrange.extremes import by_extremes
from qoop.planner.exchange.sqlgen import to_sql

A, B, X, C, D, Y = (Column(name, "INTEGER") for name in "abxcdy")
LEFT = Scan("t", "1", (("a", A), ("b", B), ("x", X)))
RIGHT = Scan("u", "1", (("c", C), ("d", D), ("y", Y)))
KINDS: list[JoinKind] = ["semi", "anti", "mark"]
BOUNDS: list[Expr] = [
    binary(op, *pair) for op in ("<", "<=", ">", ">=", "<>") for pair in ((B, D), (D, B))
]  # fmt: skip
OTHERS: list[Expr] = [
    equals(A, C), equals(binary("+", X, A, "INTEGER"), C), is_null(Y), binary(">", C, D), binary("<", A, B),
]  # fmt: skip


@pytest.fixture(scope="module", params=["filled", "nothing on the right", "nothing on the left", "only NULL"])
def data(request: pytest.FixtureRequest) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t(a INT, b INT, x INT); CREATE TABLE u(c INT, d INT, y INT)")
        if request.param != "nothing on the left":
            connection.execute(
                "INSERT INTO t VALUES (0,1,1),(1,1,2),(1,2,NULL),(NULL,0,1),(2,NULL,2),(3,3,3),(1,1,2),(1,0,9),"
                "(NULL,NULL,NULL),(2,2,NULL),(0,5,0),(2,-1,1)"
            )
        if request.param == "only NULL":
            connection.execute("INSERT INTO u VALUES (1,NULL,NULL),(2,1,NULL)")
        elif request.param != "nothing on the right":
            connection.execute(
                "INSERT INTO u VALUES (1,0,2),(1,1,NULL),(NULL,1,1),(2,2,2),(4,NULL,9),(1,1,2),(0,1,3),(0,4,0),"
                "(NULL,NULL,NULL),(3,3,3),(1,7,5)"
            )
        yield connection


def rows(connection: duckdb.DuckDBPyConnection, relation: Relation) -> Counter[tuple[object, ...]]:
    return Counter(connection.execute(to_sql(relation)).fetchall())


@settings(max_examples=120, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    bound=st.sampled_from(BOUNDS),
    others=st.lists(st.sampled_from(OTHERS), max_size=3, unique=True),
    place=st.integers(0, 3),
)
def test_the_rows_are_those_of_the_join(
    data: duckdb.DuckDBPyConnection, kind: JoinKind, bound: Expr, others: list[Expr], place: int
) -> None:
    on = [*others[:place], bound, *others[place:]]
    mark = Column("m", "BOOLEAN") if kind == "mark" else None
    join = Join(LEFT, RIGHT, kind, (*([equals(X, Y)] if mark else []), *on), mark)
    found = by_extremes(join, "ends_1")
    assert found is not None and found.columns == join.columns
    assert rows(data, found) == rows(data, join)


@settings(max_examples=40, deadline=None)
@given(others=st.lists(st.sampled_from(OTHERS), min_size=1, max_size=3, unique=True))
def test_membership_without_an_inequality_has_three_values(data: duckdb.DuckDBPyConnection, others: list[Expr]) -> None:
    join = Join(LEFT, RIGHT, "mark", (equals(Y, X), *others), Column("m", "BOOLEAN"))
    found = by_extremes(join, "ends_1")
    assert found is not None and found.columns == join.columns
    assert rows(data, found) == rows(data, join)


@pytest.mark.parametrize(
    "on",
    [
        (equals(A, C),),
        (binary("<", A, D), binary("<", B, D)),
        (binary("<", binary("+", A, D, "INTEGER"), B),),
    ],
    ids=["no inequality", "two", "both sides in one argument"],
)
def test_other_joins_are_left_alone(on: tuple[Expr, ...]) -> None:
    assert by_extremes(Join(LEFT, RIGHT, "anti", on), "ends_1") is None


SCRIPT = """
CREATE TABLE t AS SELECT i AS id, nullif(i % 7, 5)::INTEGER AS k, nullif(i * 13 % 300, 11)::INTEGER AS at,
(i % 41)::INTEGER AS v FROM range(600) r(i);
CREATE TABLE u AS SELECT nullif(i % 6, 4)::INTEGER AS k, nullif(i * 7 % 290, 3)::INTEGER AS at,
CASE WHEN i % 90 > 0 THEN (i * 3 % 40)::INTEGER END AS v FROM range(500) r(i);
"""
QUERIES = [
    "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM t l WHERE l.k = t.k AND l.at > t.at)",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.at < t.at - 250 AND u.k = t.k)",
    "SELECT count(*), sum(id) FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.v <> t.v)",
    "SELECT id FROM t WHERE v IN (SELECT v FROM u WHERE u.at > t.at + 100)",
    "SELECT id FROM t WHERE v NOT IN (SELECT v FROM u WHERE u.k = t.k AND u.at > t.at + 100)",
    "SELECT id, v NOT IN (SELECT v FROM u WHERE u.at > t.at) AS x FROM t",
    "SELECT id FROM t WHERE v NOT IN (SELECT v FROM u WHERE u.k = t.id % 5)",
]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize(("scale", "taken"), [(1000.0, True), (1.0, False)], ids=["many rows", "few"])
def test_a_plan_joins_with_ends_where_pairs_would_take_long(query: str, scale: float, taken: bool) -> None:
    world = World(SCRIPT, scale)
    relation, plan = world.arranged(query)
    made = {column.name for node in walk(relation) for column in node.columns}
    assert any(name.startswith("ends_") for name in made) == taken
    expected = world.duckdb(query)
    assert expected.num_rows and counted(run_plan(plan, world.tables)) == counted(expected)
