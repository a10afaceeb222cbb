"""No bars of DuckDB's own: who runs a query is told of its progress by us."""

from __future__ import annotations

import contextlib

import duckdb


def silence(connection: duckdb.DuckDBPyConnection) -> None:
    """Switch the bar off that DuckDB shows on a terminal or in a notebook."""
    # In a notebook without ipywidgets there is none, and even switching it off is refused.
    with contextlib.suppress(duckdb.InvalidInputException):
        connection.execute("SET enable_progress_bar = false")
