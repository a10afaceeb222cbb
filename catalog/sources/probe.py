"""The catalog's own DuckDB: it reads schemas and statistics, never rows of a query."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import duckdb

from qoop.catalog.errors import CatalogError, SourceError
from qoop.catalog.opening import open_duckdb
from qoop.catalog.sources.files import sql_name, sql_string
from qoop.catalog.table import Columns


class Probe:
    """One in-process DuckDB, opened on first use; every use gets a new cursor."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._closed = False

    def check_open(self) -> None:
        """Raise CatalogError if it was closed."""
        if self._closed:
            raise CatalogError("the catalog was closed")

    @contextmanager
    def cursor(self, what: str) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection for one use. Errors of DuckDB become SourceErrors that name the place."""
        with self._lock:
            self.check_open()
            if self._connection is None:
                self._connection = open_duckdb()
            cursor = self._connection.cursor()
        with _explained(what):
            try:
                yield cursor
            finally:
                cursor.close()

    def close(self) -> None:
        """Close DuckDB; the probe cannot be used again."""
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None


@contextmanager
def attached(alias: str, path: str, needed: Sequence[str] = ()) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with a DuckDB file attached for reading, or another one. needed: the extensions that read it.

    A separate DuckDB, closed at the end: while the file is attached, no code in this process can write to it.
    """
    with _explained(path), open_duckdb() as connection:
        if needed:
            from qoop.catalog.extensions import load  # few files need any

            load(connection, needed)
        connection.execute(f"ATTACH {sql_string(path)} AS {sql_name(alias)} (READ_ONLY)")
        yield connection


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Turn errors of DuckDB into SourceErrors that name what was read."""
    try:
        yield
    except duckdb.Error as error:
        raise SourceError(f"cannot read {what}: {reason(error)}") from error


def describe(cursor: duckdb.DuckDBPyConnection, sql: str) -> Columns:
    """Names and types of the columns of a SELECT."""
    rows = cursor.execute(f"DESCRIBE {sql}").fetchall()
    return tuple((str(row[0]), str(row[1])) for row in rows)


def reason(error: duckdb.Error) -> str:
    """The first line of DuckDB's message, without the excerpt of our SQL that follows it."""
    text = str(error).strip().partition("\n")[0]
    if "Unique file handle conflict" in text:
        return "it is already open for writing in this process; close that connection first"
    return text
