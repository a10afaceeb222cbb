"""The first ranks of partitions, with the rows that cannot have them left out before: DuckDB's rows, on any data."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qoop.planner.algebra.expr import Call, Column, Literal, binary
from qoop.planner.algebra.relation import Filter, Scan, Window, WindowCall
from qoop.planner.exchange.sqlgen import to_sql
from qoop.planner.exchange.top_ranks import top_ranks

G, V, ID, R = Column("g", "INTEGER"), Column("v", "DOUBLE"), Column("id", "INTEGER"), Column("r", "BIGINT")
ROWS = Scan("t", "1", (("g", G), ("v", V), ("id", ID)))

_values = st.one_of(st.none(), st.sampled_from([0.0, -1.5, 2.0, 2.5, 7.0, float("nan"), float("inf")]))
_rows = st.lists(st.tuples(st.one_of(st.none(), st.integers(0, 2)), _values), max_size=30)


@pytest.fixture(scope="module")
def oracle() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


def ranked(over: str, op: str = "rank") -> Window:
    args = (G, V, ID, *((Call("random", (), "random()", "DOUBLE"),) if "{3}" in over else ()))
    call = Call(op, args, f"{op}() OVER ({over})", "BIGINT")
    return Window(ROWS, (WindowCall(R, call, (G,) if "PARTITION" in over else ()),))


def first(window: Window, most: int) -> Filter:
    return Filter(window, (binary("<=", R, Literal(str(most), "BIGINT", most)),))


def answers(connection: duckdb.DuckDBPyConnection, query: Filter) -> list[str]:
    return sorted(map(repr, connection.execute(to_sql(query)).fetchall()))


def thinned(query: Filter) -> Filter:
    found = top_ranks(query)
    assert found is not None and found.thins and isinstance(query.input, Window)
    return Filter(Window(query.input.input, query.input.calls, found.most), query.predicates)


@pytest.mark.parametrize(
    ("over", "op"),
    [
        ("PARTITION BY {0} ORDER BY {1} DESC", "rank"),
        ("PARTITION BY {0} ORDER BY {1}", "rank"),
        ("ORDER BY {1} DESC NULLS LAST", "rank"),
        ("PARTITION BY {0} ORDER BY {1} ASC, {2}", "row_number"),
    ],
)
@settings(max_examples=50)
@given(rows=_rows, most=st.integers(1, 4))
def test_rows_are_those_of_all_ranks(
    over: str, op: str, oracle: duckdb.DuckDBPyConnection, rows: list[tuple[int | None, float | None]], most: int
) -> None:
    query = first(ranked(over, op), most)
    assert "len(" in to_sql(thinned(query))
    oracle.execute("CREATE OR REPLACE TABLE t (g INTEGER, v DOUBLE, id INTEGER)")
    if rows:
        oracle.executemany("INSERT INTO t VALUES (?, ?, ?)", [(g, v, i) for i, (g, v) in enumerate(rows)])
    assert answers(oracle, thinned(query)) == answers(oracle, query)


@pytest.mark.parametrize(
    ("over", "op"),
    [
        ("PARTITION BY {0} ORDER BY {1} DESC NULLS FIRST", "rank"),  # NULLs are ahead of the k-th value
        ("PARTITION BY {0} ORDER BY {1}", "dense_rank"),  # a rank up to k can have more than k rows ahead
        ("ORDER BY {3}", "rank"),  # which is another value each time
    ],
)
def test_others_are_ranked_as_a_whole(over: str, op: str) -> None:
    found = top_ranks(first(ranked(over, op), 3))
    assert found is not None and not found.thins
