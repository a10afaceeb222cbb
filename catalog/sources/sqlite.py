"""Tables of an SQLite file as a source, read by DuckDB's extension for them, with the types that it finds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b

import duckdb
import pyarrow as pa

from qoop.catalog.access import Places
from qoop.catalog.extensions import is_here
from qoop.catalog.sources.database import DatabaseSource, database_alias, stamp_with_log, tables_of
from qoop.catalog.sources.file_stamp import File, Stamp, check_content, content_digest, content_file
from qoop.catalog.sources.files import sql_name
from qoop.catalog.sources.pieces import Pieces, Runs
from qoop.catalog.sources.probe import attached, describe
from qoop.catalog.table import Columns, Range, Split, Table
from qoop.catalog.value import value

EXTENSION = "sqlite_scanner"

KIND = "sqlite"
"""The word for the digest of such a file among those of others."""


@value
class SqliteSource(DatabaseSource):
    """One table of an SQLite file; it is read whole, for not every table has row ids."""

    cuttable = False

    @staticmethod
    def read_stamp(path: str) -> Stamp:
        """The state of such a file."""
        return sqlite_stamp(path)

    def pieces(self) -> tuple[Range, ...]:
        """All of it."""
        return (Range("", 0, self.rows),) if self.rows else ()

    def check(self, split: Split | None) -> None:
        """Compare the content of the file, and of its log, with that registered."""
        check_content(self.file, KIND, sqlite_digest, sqlite_stamp)

    def scan(self, columns: Columns, split: Split | None) -> str | pa.Table:
        """SELECT from the attached table."""
        return self._select(columns) if split is None or split.ranges else f"{self._select(columns)} WHERE false"

    def scan_runs(self, columns: Columns, runs: Sequence[Runs]) -> str | pa.Table:
        """It has no pieces to choose among."""
        raise NotImplementedError

    def sample(self, columns: Columns, one_in: int) -> str | pa.Table:
        """Rows at random, from a fixed seed."""
        return f"{self._select(columns)} USING SAMPLE {100 / one_in:.6f}% (bernoulli, 0)"

    def places(self) -> Places:
        """The places that must be opened to read it."""
        return Places([self.file.path, *(f"{self.file.path}{ending}" for ending in ("-wal", "-shm", "-journal"))])


def open_sqlite(path: str) -> Sequence[tuple[Columns, SqliteSource]]:
    """All tables of an SQLite file; without the extension Python's own module reads them. Raises SourceError."""
    if not is_here(EXTENSION):
        from qoop.catalog.sources.sqlite_rows import tables_in

        return tables_in(path, content_file(path, KIND, sqlite_digest, sqlite_stamp))
    alias = database_alias(path)
    with attached(alias, path, [EXTENSION]) as cursor:
        file = content_file(path, KIND, sqlite_digest, sqlite_stamp)
        return [_open(cursor, alias, file, schema, table) for schema, table in tables_of(cursor, alias, path)]


def _open(
    cursor: duckdb.DuckDBPyConnection, alias: str, file: File, schema: str, table: str
) -> tuple[Columns, SqliteSource]:
    name = ".".join(map(sql_name, (alias, schema, table)))
    columns = describe(cursor, f"SELECT * FROM {name}")
    first = sql_name(columns[0][0])  # a count without a column asks for row ids, which not every table has
    [(rows,)] = cursor.execute(f"SELECT count({first} IS NULL) FROM {name}").fetchall()
    return columns, SqliteSource(file, 0, schema, table, rows, 0)


def extensions_for(table: Table) -> Sequence[str]:
    """The extensions of DuckDB that read a table's file."""
    source = table.source.base if isinstance(table.source, Pieces) else table.source
    return [EXTENSION] if isinstance(source, SqliteSource) and source.attach() is not None else []


def sqlite_digest(path: str) -> str:
    """Digest of all bytes of the file and of its write-ahead log."""
    digests = [content_digest(path)]
    with suppress(FileNotFoundError):
        os.stat(_log(path))
        digests.append(content_digest(_log(path)))
    return blake2b(repr(digests).encode(), digest_size=16).hexdigest()


def sqlite_stamp(path: str) -> Stamp:
    """The state of the file and of its write-ahead log."""
    return stamp_with_log(path, _log(path))


def _log(path: str) -> str:
    return path + "-wal"
