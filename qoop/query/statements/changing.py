"""Changes of tables that statements have created: DuckDB computes the new rows from the old ones, which do not
change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from qoop.catalog import arrow_output
from qoop.catalog.errors import OutOfMemory, QueryError, SourceError
from qoop.catalog.sources.files import sql_name, sql_string
from qoop.catalog.sources.probe import describe, reason
from qoop.catalog.table import Columns
from qoop.query.statements.settings import Settings, opened

if TYPE_CHECKING:
    from qoop.query.result import Result
    from qoop.query.statements.databases.schemas import NameParts
    from qoop.query.statements.reading import ChangeTable, CreateEmpty

Rows = tuple[pa.Table, Columns]
"""Rows in Arrow's lossless form, and the names and DuckDB types of their columns."""

_ROWS = "qoop rows"
_LOST = """SELECT constraint_text FROM duckdb_constraints()
    UNION ALL SELECT 'DEFAULT ' || column_default FROM duckdb_columns()
    WHERE NOT internal AND column_default IS NOT NULL"""


def empty(statement: CreateEmpty, settings: Settings) -> Rows:
    """A table without rows. Raises QueryError for columns that DuckDB does not take, and for constraints and defaults,
    which a session does not store."""
    with _duckdb(settings) as connection:
        name = sql_name(statement.name[-1])
        connection.execute(f"CREATE TABLE {name} {statement.columns}")
        _check_kept(connection, statement.name[-1])
        return _read(connection, name)


def apply(
    statement: ChangeTable,
    name: NameParts,
    others: Mapping[str, NameParts],
    run: Callable[[str], Result],
    now: Result,
    settings: Settings,
    default: str | None = None,
) -> tuple[Rows, int]:
    """The rows of a table after a change, and the number of rows that changed.

    name: of the table, with its schema. others: the other tables that the change may read: names with databases and
    schemas, by their names in the session. run: runs a query. default: the schema of names without one.

    Raises QueryError for statements that DuckDB does not take, SourceError for files that it cannot read, OutOfMemory.
    """
    rows = None if statement.query is None else run(statement.query)
    read = {} if rows is not None else {parts: run(f"FROM {sql_name(other)}") for other, parts in others.items()}
    with _duckdb(settings, statement.files) as connection:
        _make_places(connection, [name, *read])
        for parts, found in {name: now, **read}.items():
            _fill(connection, _dotted(parts), found)
        if default is not None and default.lower() in {".".join(parts[:-1]).lower() for parts in (name, *read)}:
            connection.execute(f"SET search_path = {sql_string(f'{default},memory.main')}")
        if rows is not None:
            _fill(connection, sql_name(_ROWS), rows)
        change = statement.text if rows is None else f"{statement.head} FROM {sql_name(_ROWS)}"
        counted = connection.execute(change).fetchone()
        _check_kept(connection, name[-1])
        return _read(connection, _dotted(name)), 0 if statement.reshapes or counted is None else int(counted[0])


def _check_kept(connection: duckdb.DuckDBPyConnection, table: str) -> None:
    """Raise QueryError if columns have constraints or defaults, which a session does not store."""
    lost = sorted({text for (text,) in connection.execute(_LOST).fetchall()})
    if lost:
        raise QueryError(f"table {table} has columns with types alone: it cannot keep {', '.join(lost)}")


@contextmanager
def _duckdb(settings: Settings, files: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB, whose errors are converted to ours. files: whether it may open files."""
    try:
        with opened(settings, files) as connection:
            connection.execute("SET arrow_lossless_conversion = true")
            yield connection
    except duckdb.OutOfMemoryException as error:
        raise OutOfMemory(reason(error)) from error
    except duckdb.IOException as error:
        raise SourceError(reason(error)) from error
    except duckdb.Error as error:
        raise QueryError(reason(error)) from error


def _make_places(connection: duckdb.DuckDBPyConnection, names: Collection[NameParts]) -> None:
    """Create the databases and schemas of tables."""
    databases = {parts[:1] for parts in names if len(parts) > 2}
    for database in databases:
        connection.execute(f"ATTACH ':memory:' AS {_dotted(database)}")
    for schema in {parts[:-1] for parts in names if len(parts) > 1} - databases:
        connection.execute(f"CREATE SCHEMA {_dotted(schema)}")


def _dotted(parts: NameParts) -> str:
    return ".".join(map(sql_name, parts))


def _fill(connection: duckdb.DuckDBPyConnection, name: str, rows: Result) -> None:
    """Create a table of rows, with their DuckDB types, which Arrow does not represent in full. name: in SQL."""
    typed = zip(rows.unique_columns, rows.types, strict=True)
    columns = ", ".join(f"{sql_name(column)} {type_}" for column, type_ in typed)
    connection.execute(f"CREATE TABLE {name} ({columns})")
    connection.register("qoop input", rows.lossless())
    connection.execute(f'INSERT INTO {name} FROM "qoop input"')
    connection.unregister("qoop input")


def _read(connection: duckdb.DuckDBPyConnection, name: str) -> Rows:
    query = f"FROM {name}"
    columns = describe(connection, query)
    found = arrow_output.table(connection, query)
    return found, columns
