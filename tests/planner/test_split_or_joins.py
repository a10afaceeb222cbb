"""Joins by an OR of equalities keep DuckDB's rows as hash joins, in every kind of join."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import get_args

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planner_world import World, counted
from run_plan import run_plan

from qoop.planner.algebra.expr import Column, Expr, binary, conjunction, disjunction, equals, is_null
from qoop.planner.algebra.relation import Join, JoinKind, Relation, Scan, Shared, walk
from qoop.planner.arrange.split_or_joins import as_hash_joins
from qoop.planner.exchange.sqlgen import to_sql

A, B, C, D = (Column(name, "INTEGER") for name in "abcd")
LEFT, RIGHT = (Scan(name, "1", fields) for name, fields in (("t", (("a", A), ("b", B))), ("u", (("c", C), ("d", D)))))
KINDS = [kind for kind in get_args(JoinKind) if kind not in ("full", "mark")]
EQUALITIES: list[Expr] = [equals(A, C), equals(D, B), equals(A, binary("+", C, D, "INTEGER"))]
OF_ONE_SIDE: list[Expr] = [is_null(A), is_null(D), binary("<", B, A), binary(">", C, D)]
OF_BOTH: list[Expr] = [binary("<", A, D), binary("<>", B, C)]


@pytest.fixture(scope="module", params=["filled", "nothing on the right", "nothing on the left"])
def data(request: pytest.FixtureRequest) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t(a INT, b INT); CREATE TABLE u(c INT, d INT)")
        if request.param != "nothing on the left":
            connection.execute("INSERT INTO t VALUES (0,1),(1,1),(1,2),(NULL,0),(2,NULL),(3,3),(1,1),(NULL,NULL)")
        if request.param != "nothing on the right":
            connection.execute("INSERT INTO u VALUES (1,0),(1,1),(NULL,1),(2,2),(4,NULL),(1,1),(NULL,NULL)")
        yield connection


def rows(connection: duckdb.DuckDBPyConnection, relation: Relation) -> Counter[tuple[object, ...]]:
    return Counter(connection.execute(to_sql(relation)).fetchall())


equal_branches = st.builds(
    lambda one, more: conjunction((one, *more)),
    st.sampled_from(EQUALITIES),
    st.lists(st.sampled_from([*OF_ONE_SIDE, *OF_BOTH]), max_size=2, unique=True),
)
branches_of_one_side = st.lists(st.sampled_from(OF_ONE_SIDE), min_size=1, max_size=2, unique=True).map(conjunction)


@settings(max_examples=150, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    first=equal_branches,
    others=st.lists(st.one_of(equal_branches, equal_branches, branches_of_one_side), min_size=1, max_size=3),
    rest=st.lists(st.sampled_from([*EQUALITIES, *OF_ONE_SIDE, *OF_BOTH]), max_size=2, unique=True),
    last=st.booleans(),
)
def test_the_rows_are_those_of_the_join(
    data: duckdb.DuckDBPyConnection, kind: JoinKind, first: Expr, others: list[Expr], rest: list[Expr], last: bool
) -> None:
    branches = [*others, first] if last else [first, *others]
    join = Join(LEFT, RIGHT, kind, (disjunction(branches), *rest))
    split = as_hash_joins(join, "or_1")
    assert split is not None and split.columns == join.columns
    assert rows(data, split) == rows(data, join)


@pytest.mark.parametrize(
    "on",
    [
        (disjunction((equals(A, C), binary("<", A, D))),),  # the second branch tries all pairs
        (disjunction((is_null(A), is_null(C))),),
        (equals(A, C),),
        (disjunction([binary("and", equals(A, C), binary("<", B, D))] * 9),),
    ],
    ids=["inequality", "no equality", "no OR", "too many"],
)
def test_what_cannot_be_split_is_left_alone(on: tuple[Expr, ...]) -> None:
    assert as_hash_joins(Join(LEFT, RIGHT, "inner", on), "or_1") is None


SCRIPT = """
CREATE TABLE t AS SELECT i AS id, (i * 7 % 900)::INTEGER AS a, nullif(i * 11 % 800, 3)::INTEGER AS b,
(i % 3)::INTEGER AS c
FROM range(1000) r(i);
CREATE TABLE u AS SELECT (i * 13 % 1800)::INTEGER AS a, nullif(i * 5 % 1600, 9)::INTEGER AS b, (i % 4)::INTEGER AS c
FROM range(900) r(i);
"""
QUERIES = [
    "SELECT count(*), sum(id) FROM t JOIN u ON t.a = u.a OR t.b = u.b",
    "SELECT id, u.a FROM t LEFT JOIN u ON u.a = t.a OR t.b IS NULL",
    "SELECT t.id, u.b FROM u RIGHT JOIN t ON t.a = u.a OR t.b = u.b AND u.a > 20",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE t.a = u.a OR t.b = u.b)",
    "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE t.a = u.a OR t.b = u.b OR t.a = u.b)",
    "SELECT count(*), sum(id) FROM t JOIN u ON t.c = u.c AND (t.a = u.a OR u.a IS NULL)",
    "SELECT id FROM t, u WHERE t.a = u.b AND id > 5 OR t.b = u.a AND id < 900",
    "WITH w AS (SELECT t.id, u.a FROM t JOIN u ON t.a = u.a OR t.b = u.b) SELECT * FROM w x JOIN w y USING (id)",
]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize(("scale", "splits"), [(1000.0, True), (1.0, False)], ids=["millions", "a thousand"])
def test_a_plan_splits_the_join_where_all_pairs_would_take_long(query: str, scale: float, splits: bool) -> None:
    world = World(SCRIPT, scale)
    relation, plan = world.arranged(query)
    shared = {node.name for node in walk(relation) if isinstance(node, Shared)}
    assert any(name.startswith("or_") for name in shared) == splits
    answer = run_plan(plan, world.tables)
    expected = world.duckdb(query)
    assert expected.num_rows and counted(answer) == counted(expected)
