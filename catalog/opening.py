"""The one way in which qoop opens a DuckDB."""

from __future__ import annotations

from typing import Any

import duckdb


def open_duckdb(**config: Any) -> duckdb.DuckDBPyConnection:
    """A DuckDB in memory, with these options, that reads no variable of Python.

    By default the client looks a name that it does not know up in the frames of its callers, which are ours: a query
    could read what belongs to the engine, and a name would mean one thing here and another on the next machine.

    >>> open_duckdb(threads=1).execute("SELECT current_setting('python_enable_replacements')").fetchone()
    (False,)
    """
    return duckdb.connect(":memory:", config={"python_enable_replacements": False, **config})
