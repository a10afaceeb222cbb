"""The session's catalog in DuckDB's form: ``information_schema``, ``duckdb_tables()``, ``PRAGMA table_info``.

A DuckDB with the session's tables, without their rows, and its views runs the query, so the columns are those of
DuckDB's own answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import duckdb
import pyarrow as pa

from qoop.catalog import arrow_output
from qoop.catalog.errors import BindError
from qoop.catalog.opening import open_duckdb
from qoop.catalog.table import Table
from qoop.catalog.value import value
from qoop.planner.algebra.expr import quote
from qoop.query.statements.macros.reading import Macro
from qoop.query.statements.views import View


@value
class CatalogContents:
    """The names of a session. places: the schemas of tables and views, by name, empty for main. schemas: those that
    statements have created."""

    tables: Mapping[str, Table]
    views: Sequence[View]
    macros: Sequence[Macro]
    places: Mapping[str, str]
    schemas: Sequence[str]

    def placed(self, name: str) -> str:
        """The name of a table or view in SQL."""
        schema = self.places[name]
        return f"{quote(schema)}.{quote(name[len(schema) + 1 :])}" if schema else quote(name)

    def create(self, connection: duckdb.DuckDBPyConnection) -> list[View]:
        """Make them in a DuckDB, tables without rows. Returns the views that DuckDB cannot define there: their tables
        are gone, or they read files by path."""
        for schema in sorted({*self.schemas, *self.places.values()} - {""}):
            connection.execute(f"CREATE SCHEMA {quote(schema)}")
        attached = {view.name: view.known for view in self.views if view.known}
        for name, columns in ({name: table.columns for name, table in self.tables.items()} | attached).items():
            declared = ", ".join(f"{quote(column)} {type_}" for column, type_ in columns)
            connection.execute(f"CREATE TABLE {self.placed(name)} ({declared})")
        left = [*self._definitions()]
        while left:
            later = [one for one in left if not _created(connection, one[0])]
            if len(later) == len(left):
                break
            left = later
        return [view for _, view in left if view is not None]

    def _definitions(self) -> Iterator[tuple[str, View | None]]:
        """Texts that make macros and views, in an order that repeated attempts find: each after those that it names."""
        for macro in self.macros:
            yield macro.definition(), None
        for view in (view for view in self.views if not view.known):
            yield f"CREATE VIEW {self.placed(view.name)}{view.columns} AS {view.text}", view


def ask_catalog(expression: str, contents: CatalogContents) -> pa.Table:
    """The rows of an expression over the catalog, as FROM has it. Raises BindError."""
    with open_duckdb(files=False, threads=1) as connection:
        connection.execute("SET arrow_lossless_conversion = true")
        contents.create(connection)
        connection.execute(_with_rows(contents.tables))
        try:
            return arrow_output.table(connection, f"FROM {expression}")
        except duckdb.Error as error:
            raise BindError(f"{expression}: {str(error).partition(chr(10))[0]}") from error


def _created(connection: duckdb.DuckDBPyConnection, definition: str) -> bool:
    try:
        connection.execute(definition)
    except duckdb.Error:
        return False
    return True


def _with_rows(tables: Mapping[str, Table]) -> str:
    """A definition of duckdb_tables() with the rows that tables have."""
    rows = ", ".join(f"({_literal(name)}, {table.rows})" for name, table in tables.items())
    known = f"(VALUES {rows})" if rows else "(SELECT NULL::VARCHAR, NULL::BIGINT WHERE false)"
    name = "CASE schema_name WHEN 'main' THEN table_name ELSE schema_name || '.' || table_name END"
    return (
        "CREATE TEMP MACRO duckdb_tables() AS TABLE SELECT listing.* REPLACE (coalesce(known.n, 0)::BIGINT AS "
        f"estimated_size) FROM system.main.duckdb_tables() AS listing LEFT JOIN {known} AS known(t, n) "
        f"ON known.t = {name}"
    )


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
