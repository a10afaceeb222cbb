"""IMPORT DATABASE: a folder exported by DuckDB or by a session becomes tables, views and macros.

A DuckDB in memory imports it; that one can open no other folder. The rows of its tables are then stored like those of
created tables.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from qoop.catalog import arrow_output
from qoop.catalog.duckdb_introspection import parsed
from qoop.catalog.errors import OutOfMemory, QueryError, SourceError
from qoop.catalog.opening import confine, open_duckdb
from qoop.catalog.sources.files import sql_name, sql_string
from qoop.catalog.sources.probe import describe, reason
from qoop.catalog.table import Columns
from qoop.catalog.value import value
from qoop.query.statements.databases.schemas import MAIN, OWN, CreateSchema, DropSchema
from qoop.query.statements.macros.reading import CreateMacro, DropMacro
from qoop.query.statements.reading import CreateView, Drop
from qoop.query.statements.statement import statements
from qoop.query.statements.words import Words

if TYPE_CHECKING:
    from qoop.query.result import Result
    from qoop.query.statements.changing import Rows
    from qoop.query.statements.databases.moves import Import
    from qoop.query.statements.databases.schemas import NameParts
    from qoop.query.statements.definitions import Definitions
    from qoop.query.statements.statement import Statement

_NEEDED = ("schema.sql", "load.sql")
_TABLES = """SELECT t.schema_name, t.table_name, string_agg(c.what, '; ' ORDER BY c.what) FROM duckdb_tables() AS t
    LEFT JOIN (
        SELECT table_oid, constraint_text AS what FROM duckdb_constraints()
        UNION ALL SELECT table_oid, column_name || ' DEFAULT ' || column_default FROM duckdb_columns()
        WHERE NOT internal AND column_default IS NOT NULL
        UNION ALL SELECT table_oid, 'INDEX ' || index_name FROM duckdb_indexes()
    ) AS c USING (table_oid) GROUP BY ALL ORDER BY ALL"""
_SEQUENCES = "SELECT sequence_name, 0, 'SEQUENCE' FROM duckdb_sequences() ORDER BY ALL"
_REPORT = (("name", "VARCHAR"), ("rows", "BIGINT"), ("left_out", "VARCHAR"))


def import_database(
    statement: Import,
    definitions: Definitions,
    execute: Callable[[Statement], object],
    made: Callable[[pa.Table, Columns], Result],
    memory: int,
) -> tuple[pa.Table, Columns]:
    """Import all tables, views and macros of a folder, or none of them.

    definitions: receive the tables. execute: runs a statement. made: makes a result of rows. memory: bytes that DuckDB
    may use.

    Returns each table, its number of rows and its parts that a session does not keep. Raises SourceError for a folder
    that was not exported, QueryError, CatalogError for a name that is taken, OutOfMemory.
    """
    names = definitions.names
    if names.schemas.default is not None:
        raise QueryError(f"USE {OWN} before IMPORT: names without a schema would be of {names.schemas.default}")
    schemas, others = _schemas_and_others(statement)
    done: list[Statement] = []
    with definitions.exclusive(), _opened(statement, memory) as database:
        tables = [_Imported(*row) for row in database.execute(_TABLES).fetchall()]
        names.check_free(".".join(table.parts) for table in tables)
        try:
            for schema in schemas:
                done += [DropSchema(schema.name)] * (schema.name not in names.schemas)
                execute(schema)
            found = []
            for table in tables:
                rows = table.rows(database)
                definitions.create_table(names.schemas.full(table.parts), made(*rows))
                done.append(Drop("TABLE", table.parts, exists=True))
                found.append((".".join(table.parts), rows[0].num_rows, table.left_out))
            for definition in others:
                execute(definition)
                done.append(_undo(definition))
        except BaseException:
            for undone in reversed(done):
                execute(undone)
            raise
        sequences = database.execute(_SEQUENCES).fetchall()
    return _report([*found, *sequences])


@value
class _Imported:
    """A table of the folder. left_out: its parts that a session does not keep."""

    schema: str
    name: str
    left_out: str | None

    @property
    def parts(self) -> NameParts:
        """The name as a session has it."""
        return (self.name,) if self.schema == MAIN else (self.schema, self.name)

    def rows(self, database: duckdb.DuckDBPyConnection) -> Rows:
        """Its rows; DuckDB's memory frees them."""
        place = f"{sql_name(self.schema)}.{sql_name(self.name)}"
        found = arrow_output.table(database, f"FROM {place}"), describe(database, f"FROM {place}")
        database.execute(f"TRUNCATE {place}")
        return found


def _schemas_and_others(statement: Import) -> tuple[list[CreateSchema], list[Statement]]:
    """The schemas of a folder, and the statements that make its macros and views, in order. Raises SourceError,
    QueryError."""
    schema = _folder(statement) / _NEEDED[0]
    try:
        texts = [one.query for one in parsed(schema.read_text())]
    except OSError as error:
        raise SourceError(f"cannot read {schema}: {error.strerror or error}") from error
    except (duckdb.Error, UnicodeDecodeError) as error:
        raise QueryError(f"cannot import {schema}: {str(error).partition(chr(10))[0]}") from error
    kept = [text for text in texts if _makes(text, "SCHEMA", "MACRO", "FUNCTION", "VIEW")]
    found = [one for text in kept for one in statements(text)]
    schemas = [replace(one, unless=True) for one in found if isinstance(one, CreateSchema)]
    return schemas, [one for one in found if not isinstance(one, CreateSchema)]


def _makes(text: str, *kinds: str) -> bool:
    words = Words(text)
    return words.take("CREATE") and any(map(words.take, kinds))


def _undo(made: Statement) -> Statement:
    """The statement that drops what a definition has made."""
    if isinstance(made, CreateView):
        return Drop("VIEW", made.name, exists=True)
    assert isinstance(made, CreateMacro)
    return DropMacro(made.macro.name, exists=True)


@contextmanager
def _opened(statement: Import, memory: int) -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB that has imported the folder. Its errors become ours."""
    folder = _folder(statement)
    try:
        with open_duckdb(memory_limit=f"{memory}B", temp_directory="") as connection:
            confine(connection, folders=[str(folder)])
            connection.execute(f"IMPORT DATABASE {sql_string(str(folder))}")
            connection.execute("SET arrow_lossless_conversion = true")
            yield connection
    except duckdb.OutOfMemoryException as error:
        raise OutOfMemory(reason(error)) from error
    except duckdb.Error as error:
        raise QueryError(f"cannot import {statement.path}: {reason(error)}") from error


def _folder(statement: Import) -> Path:
    """The folder of the statement. Raises SourceError if it is no exported database."""
    folder = Path(os.path.abspath(os.path.expanduser(statement.path)))
    missing = [name for name in _NEEDED if not (folder / name).is_file()]
    if missing:
        raise SourceError(
            f"{statement.path} is no folder of EXPORT DATABASE: there is no {' and no '.join(missing)} in it"
        )
    return folder


def _report(rows: Sequence[tuple[str, int, str | None]]) -> tuple[pa.Table, Columns]:
    types = (pa.string(), pa.int64(), pa.string())
    columns = list(zip(*rows, strict=True)) or [()] * len(_REPORT)
    arrays = [pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)]
    return pa.table({f"c{place}": array for place, array in enumerate(arrays)}), _REPORT
