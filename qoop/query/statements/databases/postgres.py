"""PostgreSQL's tables in a session: each is a view on the rows that DuckDB's extension reads, at each query.

The extension reads a table within one transaction; two tables of a query are read in two transactions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from qoop.catalog.errors import SourceError
from qoop.catalog.extensions import load
from qoop.catalog.opening import open_duckdb
from qoop.catalog.sources.files import sql_string
from qoop.catalog.sources.probe import reason
from qoop.catalog.value import value

if TYPE_CHECKING:
    from qoop.catalog.table import Columns

EXTENSION = "postgres_scanner"
_PUBLIC = "public"
_COLUMNS = """
SELECT schema_name, table_name, list((column_name, data_type) ORDER BY column_index) FROM duckdb_columns()
WHERE database_name = 'scanned' AND schema_name NOT IN ('information_schema', 'pg_catalog') GROUP BY ALL ORDER BY ALL
"""


@value
class ForeignTable:
    """A table of such a database: its name in the session, the database and schema in that name, the query that reads
    it, and its columns."""

    name: str
    within: str
    text: str
    columns: Columns


def foreign_tables(place: str, database: str) -> list[ForeignTable]:
    """The tables and views of a database, under names that begin with that of the database.

    place: as libpq takes it. Raises SourceError; ConfigError where the extension is missing.
    """
    found = _columns(place, database)
    if not found:
        raise SourceError(f"the PostgreSQL database {database} holds no tables")
    return [_foreign(place, database, schema, table, columns) for schema, table, columns in found]


def _foreign(place: str, database: str, schema: str, table: str, columns: list[tuple[str, str]]) -> ForeignTable:
    within = database if schema == _PUBLIC else f"{database}.{schema}"
    text = f"FROM postgres_scan({', '.join(map(sql_string, (place, schema, table)))})"
    return ForeignTable(f"{within}.{table}", within, text, tuple(columns))


def _columns(place: str, database: str) -> list[tuple[str, str, list[tuple[str, str]]]]:
    with open_duckdb(threads=1) as connection:
        load(connection, [EXTENSION])
        try:
            connection.execute(f"ATTACH {sql_string(place)} AS scanned (TYPE postgres, READ_ONLY)")
            return connection.execute(_COLUMNS).fetchall()
        except duckdb.Error as error:  # the place may hold a password
            message = reason(error).replace(place, database)
            raise SourceError(f"cannot read the PostgreSQL database {database}: {message}") from None
