"""Rows leave DuckDB as they come, in either version."""

from __future__ import annotations

import duckdb
import pytest

from qoop.catalog import arrow_output
from qoop.catalog.opening import open_duckdb


def test_the_first_rows_come_before_the_last_are_made() -> None:
    with open_duckdb(threads=1, memory_limit="50MB", temp_directory="") as connection:
        endless = "SELECT i, i * i AS square FROM range(100_000_000_000) AS t(i)"
        with arrow_output.stream(connection, endless, 1000) as reader:
            assert reader.read_next_batch()["i"].to_pylist()[:3] == [0, 1, 2]


def test_all_rows() -> None:
    with open_duckdb(threads=1) as connection:
        assert arrow_output.table(connection, "SELECT 7 AS n UNION ALL SELECT 8").to_pydict() == {"n": [7, 8]}


STATEMENTS = [
    "SHOW TABLES", "DESCRIBE SELECT 1 AS a", "SUMMARIZE SELECT 1 AS a", "FROM range(3)", "VALUES (1), (2)",
    "WITH x AS (SELECT 1 AS a) FROM x;", "SELECT 1 AS a, 2 AS a -- all", "SELECT NULL", "SELECT 1 WHERE false",
    "SELECT {'a': 1} AS s, [1, NULL] AS l, 'x'::ENUM('x', 'y') AS e, 1::HUGEINT AS h", "PRAGMA version",
]  # fmt: skip


@pytest.mark.parametrize("text", STATEMENTS)
def test_rows_and_types_are_those_of_a_relation(text: str) -> None:
    with open_duckdb(threads=1) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS a")
        expected = connection.sql(text).to_arrow_table()
        assert arrow_output.table(connection, text).equals(expected)
        assert arrow_output.collected(connection, text, 100).equals(expected)
        assert arrow_output.stream(connection, text, 100).read_all().equals(expected)


@pytest.mark.parametrize(
    "text", ["FROM nothing", "SELECT 'a'::INTEGER", "SELEC 1", "SELECT error('late') FROM range(9)"]
)
def test_an_error_is_duckdbs_own(text: str) -> None:
    with open_duckdb(threads=1) as connection:
        with pytest.raises(duckdb.Error) as expected:
            connection.execute(text).fetchall()
        for form in (arrow_output.table, lambda *all: arrow_output.stream(*all, 100).read_all()):
            with pytest.raises(duckdb.Error) as raised:
                form(connection, text)
            assert type(raised.value) is type(expected.value)
            assert str(raised.value).splitlines()[0] == str(expected.value).splitlines()[0]
            assert connection.execute("SELECT 42").fetchall() == [(42,)]
