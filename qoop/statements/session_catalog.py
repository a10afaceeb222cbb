"""The session's catalog as DuckDB would tell it: ``information_schema``, ``duckdb_tables()``, ``PRAGMA table_info``.

A DuckDB with the session's tables, without their rows, and its views answers the question, so the columns are those of
DuckDB's own answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import duckdb
import pyarrow as pa

from qoop.catalog import arrow_output
from qoop.catalog.errors import BindError
from qoop.catalog.opening import open_duckdb
from qoop.catalog.table import Table
from qoop.planner.algebra.expr import quote
from qoop.statements.views import View


def ask_catalog(
    asked: str, tables: Mapping[str, Table], views: Sequence[View], places: Mapping[str, str], schemas: Iterable[str]
) -> pa.Table:
    """All that an expression in FROM tells of these tables and views. places: the schemas that they are in, by name,
    empty for main. schemas: that texts have created. Raises BindError."""
    with open_duckdb(files=False, threads=1) as connection:
        connection.execute("SET arrow_lossless_conversion = true")
        for schema in {*schemas, *places.values()} - {""}:
            connection.execute(f"CREATE SCHEMA {quote(schema)}")
        for name, table in tables.items():
            columns = ", ".join(f"{quote(column)} {type_}" for column, type_ in table.columns)
            connection.execute(f"CREATE TABLE {_placed(name, places[name])} ({columns})")
        _create_views(connection, views, places)
        connection.execute(_with_rows(tables))
        try:
            return arrow_output.table(connection, f"FROM {asked}")
        except duckdb.Error as error:
            raise BindError(f"{asked}: {str(error).partition(chr(10))[0]}") from error


def _placed(name: str, schema: str) -> str:
    """The name of a table or view in SQL."""
    return f"{quote(schema)}.{quote(name[len(schema) + 1 :])}" if schema else quote(name)


def _create_views(connection: duckdb.DuckDBPyConnection, views: Iterable[View], places: Mapping[str, str]) -> None:
    """Each after those that it names. One whose tables are gone, or that reads files by their path, has no columns
    here, and is left out."""
    left = list(views)
    while left:
        later = [view for view in left if not _created(connection, view, places[view.name])]
        if len(later) == len(left):
            return
        left = later


def _created(connection: duckdb.DuckDBPyConnection, view: View, schema: str) -> bool:
    name = _placed(view.name, schema)
    try:
        if view.default:  # names in its text are of that schema or database first
            connection.execute(f"SET search_path = {_literal(f'{quote(view.default)},main')}")
            name = name if schema else f"main.{name}"
        connection.execute(f"CREATE VIEW {name}{view.columns} AS {view.text}")
    except duckdb.Error:
        return False
    finally:
        if view.default:
            connection.execute("RESET search_path")
    return True


def _with_rows(tables: Mapping[str, Table]) -> str:
    """A definition of duckdb_tables() with the rows that tables have."""
    rows = ", ".join(f"({_literal(name)}, {table.rows})" for name, table in tables.items())
    known = f"(VALUES {rows})" if rows else "(SELECT NULL::VARCHAR, NULL::BIGINT WHERE false)"
    name = "CASE schema_name WHEN 'main' THEN table_name ELSE schema_name || '.' || table_name END"
    return (
        "CREATE TEMP MACRO duckdb_tables() AS TABLE SELECT told.* REPLACE (coalesce(known.n, 0)::BIGINT AS "
        f"estimated_size) FROM system.main.duckdb_tables() AS told LEFT JOIN {known} AS known(t, n) ON known.t = {name}"
    )


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
