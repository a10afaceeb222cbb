"""The catalog's own DuckDB: it reads schemas and statistics, never rows of a query."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from qoop.catalog.errors import CatalogError, SourceError
from qoop.catalog.files import sql_name, sql_string
from qoop.catalog.table import Columns


class Probe:
    """One in-process DuckDB, opened on first use; every thread gets a cursor of its own for every use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._closed = False

    @contextmanager
    def cursor(self, what: str) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection for one use. Errors of DuckDB become SourceErrors that say what was being read."""
        with self._lock:
            if self._closed:
                raise CatalogError("the catalog was closed")
            if self._connection is None:
                self._connection = duckdb.connect(":memory:")
                self._connection.execute("SET preserve_insertion_order = false")
                self._connection.execute("SET enable_progress_bar = false")
            cursor = self._connection.cursor()
        try:
            yield cursor
        except duckdb.Error as error:
            raise SourceError(f"cannot read {what}: {reason(error)}") from error
        finally:
            cursor.close()

    def attach(self, alias: str, path: str) -> None:
        """Attach a DuckDB file for reading, once."""
        with self.cursor(path) as cursor:
            cursor.execute(f"ATTACH IF NOT EXISTS {sql_string(path)} AS {sql_name(alias)} (READ_ONLY)")

    def close(self) -> None:
        """Close DuckDB; the probe cannot be used again."""
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None


def describe(cursor: duckdb.DuckDBPyConnection, sql: str) -> Columns:
    """Names and types of the columns of a SELECT."""
    rows = cursor.execute(f"DESCRIBE {sql}").fetchall()
    return tuple((str(row[0]), str(row[1])) for row in rows)


def reason(error: duckdb.Error) -> str:
    """The first line of DuckDB's message, without the excerpt of our SQL that follows it."""
    return str(error).strip().partition("\n")[0]
