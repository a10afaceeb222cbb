"""Lists of a thousand values and more are taken in by DuckDB alone, and mean what they mean to it."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import qoop
from qoop.engine.memory import anonymous_memory
from qoop.planner.sql.sources import MOST_LISTED, tables_mentioned

Both = tuple[qoop.Session, duckdb.DuckDBPyConnection]
LISTED = 4 * MOST_LISTED
COLUMNS = ["small", "big", "price", "word", "day"]
TABLE = """SELECT i::TINYINT AS small, i * 1000003 AS big, (i / 4)::DECIMAL(9, 2) AS price, 'k' || i AS word,
    DATE '2020-01-01' + i::INT AS day FROM (SELECT CASE WHEN range % 7 = 3 THEN NULL ELSE range END AS i
    FROM range(120))"""


@pytest.fixture(scope="module")
def both() -> Iterator[Both]:
    with qoop.connect(slots=2, memory="500MB") as session, duckdb.connect() as oracle:
        oracle.execute(f"CREATE TABLE t AS {TABLE}")
        session.register("t", oracle.sql("FROM t").to_arrow_table())
        session.register('odd "name"', pa.table({"a": [1]}))
        yield session, oracle


def same(both: Both, text: str, values: Any = ()) -> None:
    session, oracle = both
    expected = oracle.execute(text, values).fetchall()
    assert session.sql(text, values).fetchall() == expected != []


def literal(column: str, number: int) -> str:
    match column:
        case "small" | "big":
            return str(number if column == "small" else number * 1000003)
        case "price":
            return f"{number}.25"
        case "word":
            return f"'k{number}'"
    return f"'2020-01-{number % 28 + 1:02}'"


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(COLUMNS),
    st.booleans(),
    st.lists(st.integers(0, 120) | st.none(), min_size=1, max_size=40),
)
def test_a_long_list_finds_what_it_finds_in_duckdb(
    both: Both, column: str, negated: bool, numbers: list[int | None]
) -> None:
    numbers *= MOST_LISTED // len(numbers) + 2
    listed = ", ".join("NULL" if number is None else literal(column, number) for number in numbers)
    is_in = f"{column} {'NOT ' * negated}IN ({listed})"
    same(both, f"SELECT count(*), min(word), max(big) FROM t WHERE {is_in}")
    same(both, f"SELECT {is_in} AS found, count(*) FROM t GROUP BY found ORDER BY found NULLS LAST")


@pytest.mark.parametrize("column", COLUMNS)
def test_rows_given_as_values(both: Both, column: str) -> None:
    rows = ", ".join(f"({literal(column, number % 50)}, {number})" for number in range(MOST_LISTED))
    same(both, f"SELECT count(*), sum(n) FROM (VALUES {rows}) v(k, n) JOIN t ON v.k = t.{column}")


def test_values_of_parameters(both: Both) -> None:
    numbers = list(range(0, 3 * MOST_LISTED, 3))
    same(both, "SELECT count(*), sum(small) FROM t WHERE small IN ?", [numbers])
    same(both, "SELECT count(*) FROM t WHERE word IN (SELECT unnest(?))", [[f"k{number}" for number in numbers]])
    same(both, f"SELECT count(*) FROM t WHERE big IN ({', '.join('?' * len(numbers))})", numbers)
    same(both, "SELECT sum(x) FROM (SELECT unnest(?) AS x)", [[2**31, -(2**63), *numbers]])


def test_explain_says_that_it_runs_whole(both: Both) -> None:
    numbers = ", ".join(map(str, range(MOST_LISTED + 2)))
    text = f"SELECT small FROM t WHERE small IN ({numbers})"
    assert "runs whole: the text lists more than 1000 values" in both[0].explain(text)
    assert "runs whole" not in both[0].explain("SELECT small FROM t WHERE small IN (1, 2, 3)")


def test_tables_are_found_by_any_way_to_write_them(both: Both) -> None:
    assert tables_mentioned('FROM "A ""b""", T', ['a "b"', "t", "u"]) == {'a "b"', "t"}
    numbers = ", ".join(map(str, range(MOST_LISTED + 2)))
    found = both[0].sql(f'SELECT count(*) FROM "Odd ""NAME""" AS o, main.T WHERE a IN ({numbers})')
    assert found.fetchall() == [(120,)]


def test_a_list_of_fifty_thousand_does_not_take_seconds(both: Both) -> None:
    numbers = ", ".join(map(str, range(50_000)))
    begun = time.process_time()
    same(both, f"SELECT count(*), sum(big) FROM t WHERE big IN ({numbers}) OR small IN (1, 2)")
    assert time.process_time() - begun < 4.0  # sqlglot alone would take 10


@pytest.mark.parametrize("staged", [False, True])
def test_texts_of_long_lists_are_not_kept(staged: bool) -> None:
    """The lexemes and the tree of a text take sixty times its size."""
    with qoop.connect(slots=1, memory="1GB", staged=staged) as session:

        def run(jobs: range) -> int:
            for number in jobs:
                text = f"SELECT [{', '.join(map(str, range(number, number + LISTED)))}] AS a"
                assert session.sql(text).fetchall() == [(list(range(number, number + LISTED)),)]
            gc.collect()
            return tracemalloc.get_traced_memory()[0]

        tracemalloc.start()
        try:
            before = run(range(1))
            grown = run(range(1, 3)) - before
        finally:
            tracemalloc.stop()
    assert grown / 2 < 10 * LISTED * 6


@pytest.mark.parametrize("staged", [False, True])
def test_memory_of_jobs_that_make_large_lists_is_flat(staged: bool) -> None:
    """Each answer takes 3 MB: fourteen of them, if they were kept, 45 MB."""
    with qoop.connect(slots=1, memory="1GB", staged=staged) as session:

        def run(jobs: range) -> int:
            for number in jobs:
                rows = session.sql(
                    f"SELECT k % 7 AS g, array_agg(k + {number}) AS l FROM range(400000) t(k) GROUP BY g"
                )
                assert rows.arrow().num_rows == 7
                del rows
            gc.collect()
            return anonymous_memory()

        before = run(range(4))
        assert run(range(4, 18)) - before < 30e6
