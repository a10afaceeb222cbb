"""Instances of DuckDB as the engine opens them."""

from __future__ import annotations

from qoop.catalog.opening import open_duckdb


def test_no_instance_writes_a_progress_bar_where_rows_go() -> None:
    with open_duckdb(threads=1) as connection, connection.cursor() as cursor:
        for one in (connection, cursor):
            assert one.execute("SELECT current_setting('enable_progress_bar')").fetchall() == [(False,)]
