"""No progress bars of DuckDB's own: qoop reports the progress of a query."""

from __future__ import annotations

import contextlib

import duckdb


def silence(connection: duckdb.DuckDBPyConnection) -> None:
    """Switch the bar off that DuckDB shows on a terminal or in a notebook."""
    # A notebook without ipywidgets has no progress bar, and DuckDB refuses even to switch it off.
    with contextlib.suppress(duckdb.InvalidInputException):
        connection.execute("SET enable_progress_bar = false")


def count_progress(connection: duckdb.DuckDBPyConnection) -> None:
    """Have `query_progress` of a connection count, which it does only where the bar is on, without a bar."""
    with contextlib.suppress(duckdb.InvalidInputException):  # as above
        connection.execute("SET enable_progress_bar_print = false")
        connection.execute("SET enable_progress_bar = true")
