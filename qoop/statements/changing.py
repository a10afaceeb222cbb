"""Changes of tables that texts have created: DuckDB makes the new rows from the old ones, which stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from qoop.catalog import arrow_output
from qoop.catalog.errors import OutOfMemory, QueryError
from qoop.catalog.opening import open_duckdb
from qoop.catalog.sources.files import sql_name
from qoop.catalog.sources.probe import describe, reason
from qoop.catalog.table import Columns
from qoop.statements.settings import Settings, set_statements

if TYPE_CHECKING:
    from qoop.result import Result
    from qoop.statements.reading import Change, CreateEmpty

Rows = tuple[pa.Table, Columns]
"""Rows in Arrow's lossless form, and the names and DuckDB types of their columns."""

_ROWS = "qoop rows"
_LOST = """SELECT constraint_text FROM duckdb_constraints()
    UNION ALL SELECT 'DEFAULT ' || column_default FROM duckdb_columns()
    WHERE NOT internal AND column_default IS NOT NULL"""


def empty(asked: CreateEmpty, settings: Settings) -> Rows:
    """A table without rows. Raises QueryError for columns that DuckDB does not take, and for what is more than their
    names and types: nothing would keep it."""
    with _duckdb(settings) as connection:
        connection.execute(f"CREATE TABLE {sql_name(asked.name)} {asked.columns}")
        lost = sorted({text for (text,) in connection.execute(_LOST).fetchall()})
        if lost:
            raise QueryError(f"table {asked.name} has columns with types alone: it cannot keep {', '.join(lost)}")
        return _read(connection, asked.name)


def apply(
    asked: Change, name: str, others: Collection[str], run: Callable[[str], Result], now: Result, settings: Settings
) -> tuple[Rows, int]:
    """The rows of a table after a change, and how many were changed.

    others: the tables that the change may read besides, by name as the text has it. run: answers a query.

    Raises QueryError for what DuckDB does not take, OutOfMemory.
    """
    rows = None if asked.query is None else run(asked.query)
    read = {} if rows is not None else {other: run(f"FROM {sql_name(other)}") for other in others}
    with _duckdb(settings) as connection:
        _fill(connection, name, now)
        for other, found in read.items():
            _fill(connection, other, found)
        if rows is not None:
            _fill(connection, _ROWS, rows)
        change = asked.text if rows is None else f"{asked.head} FROM {sql_name(_ROWS)}"
        counted = connection.execute(change).fetchone()
        return _read(connection, name), 0 if counted is None else int(counted[0])


@contextmanager
def _duckdb(settings: Settings) -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB that opens no file. Its errors become ours."""
    try:
        with open_duckdb(files=False) as connection:
            for statement in set_statements(settings):
                connection.execute(statement)
            connection.execute("SET arrow_lossless_conversion = true")
            yield connection
    except duckdb.OutOfMemoryException as error:
        raise OutOfMemory(reason(error)) from error
    except duckdb.Error as error:
        raise QueryError(reason(error)) from error


def _fill(connection: duckdb.DuckDBPyConnection, name: str, rows: Result) -> None:
    """Make a table of rows; Arrow alone does not tell all types."""
    typed = zip(rows.unique_columns, rows.types, strict=True)
    columns = ", ".join(f"{sql_name(column)} {type_}" for column, type_ in typed)
    connection.execute(f"CREATE TABLE {sql_name(name)} ({columns})")
    connection.register("qoop given", rows.lossless())
    connection.execute(f'INSERT INTO {sql_name(name)} FROM "qoop given"')
    connection.unregister("qoop given")


def _read(connection: duckdb.DuckDBPyConnection, name: str) -> Rows:
    query = f"FROM {sql_name(name)}"
    columns = describe(connection, query)
    found = arrow_output.table(connection, query)
    return found, columns
