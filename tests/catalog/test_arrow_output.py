"""Rows leave DuckDB as they come, in either version."""

from __future__ import annotations

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
