"""Tables of a DuckDB file as a source, read through an ATTACH for reading only."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import blake2b

import duckdb
import pyarrow as pa

from qoop.catalog.access import Places
from qoop.catalog.errors import SourceError
from qoop.catalog.sources.file_stamp import File, Stamp, check_content, content_file, file_stamp, reading
from qoop.catalog.sources.files import hashed_row, sql_name
from qoop.catalog.sources.pieces import PIECE, Runs
from qoop.catalog.sources.probe import attached, describe
from qoop.catalog.table import Columns, Footer, Range, Split, Table, joined
from qoop.catalog.value import value

# Default rows of a DuckDB row group; a table that uses another size is merely cut less well.
_ROW_GROUP = 122_880
# Three header blocks open a DuckDB file; every block after them begins with the checksum of its content.
_HEADERS = 3 * 4096
_CHECKSUM = 8


@value
class DatabaseSource:
    """One table of a DuckDB file.

    row_ids: one more than the largest row id; row ids of deleted rows are missing below it.
    """

    file: File
    block_size: int
    schema: str
    table: str
    rows: int
    row_ids: int

    shared = True
    cuttable = True
    in_row_groups = False

    @property
    def alias(self) -> str:
        """The name under which the file is attached: the same wherever it is attached from."""
        return database_alias(self.file.path)

    @staticmethod
    def read_stamp(path: str) -> Stamp:
        """The state of such a file."""
        return database_stamp(path)

    def digest(self) -> str:
        """Digest of the file and the table's name in it."""
        return f"{self.file.digest}:{self.schema}:{self.table}"

    def pieces(self) -> tuple[Range, ...]:
        """Runs of row ids the size of a row group."""
        starts = range(0, self.row_ids, _ROW_GROUP)
        return tuple(Range("", start, min(_ROW_GROUP, self.row_ids - start)) for start in starts) if self.rows else ()

    def check(self, split: Split | None) -> None:
        """Compare the checksums in the file with those registered; any write to the file changes some."""
        digest = partial(database_digest, block_size=self.block_size)
        check_content(self.file, f"duckdb{self.block_size}", digest, database_stamp)

    def scan(self, columns: Columns, split: Split | None) -> str | pa.Table:
        """SELECT from the attached table; ranges become predicates on the row id, which prune row groups."""
        if split is None:
            return self._select(columns)
        if not split.ranges:
            return f"{self._select(columns)} WHERE false"
        select = self._select(columns)
        parts = (
            f"{select} WHERE rowid >= {item.first} AND rowid < {item.first + item.rows}"
            for item in joined(split.ranges)
        )
        return "\nUNION ALL ".join(parts)

    def scan_runs(self, columns: Columns, runs: Sequence[Runs]) -> str | pa.Table:
        """One SELECT, as it is one file."""
        [run] = runs
        return f"{self._select(columns, run.number('rowid'))} WHERE {run.holds('rowid')}"

    def sample(self, columns: Columns, one_in: int) -> str | pa.Table:
        """Rows whose hashed row id says so."""
        return f"{self._select(columns)} WHERE {hashed_row('rowid', one_in, self.rows)}"

    def extremes(self, names: Sequence[str]) -> Mapping[str, tuple[object, object]]:
        """None are known without a scan."""
        return {}

    def footers(self) -> Sequence[Footer]:
        """It has none."""
        return ()

    def places(self) -> Places:
        """The places that must be opened to read it."""
        return Places([self.file.path, f"{self.file.path}.wal"])

    def attach(self) -> tuple[str, str] | None:
        """The file and its alias."""
        return self.alias, self.file.path

    def _select(self, columns: Columns, number: str = "") -> str:
        """number: SQL for the column `PIECE`, if there is one."""
        names = ", ".join(f"{number} AS {PIECE}" if number and name == PIECE else sql_name(name) for name, _ in columns)
        table = ".".join(map(sql_name, (self.alias, self.schema, self.table)))
        return f"SELECT {names} FROM {table}"


def schema_of(table: Table) -> str:
    """The database and the schema that the name of a table begins with: ``schema`` where a DuckDB file was registered,
    ``database`` or ``database.schema`` where it was attached. Else empty."""
    source = table.source
    if not isinstance(source, DatabaseSource):
        return ""
    return table.name[: -len(source.table) - 1] if len(table.name) > len(source.table) else ""


def database_alias(path: str) -> str:
    """The name a DuckDB file is attached under."""
    return "file_" + blake2b(path.encode(), digest_size=6).hexdigest()


FileView = tuple[str, str, str]
"""A view of a DuckDB file: its schema, its name and the statement that makes it."""

_VIEWS = (
    "SELECT schema_name, view_name, sql FROM duckdb_views() WHERE database_name = ? AND NOT internal ORDER BY view_oid"
)


def open_tables(path: str) -> tuple[list[tuple[Columns, DatabaseSource]], list[FileView]]:
    """All tables of a DuckDB file, and its views. Raises SourceError."""
    with reading(path), open(path, "rb"):
        pass
    alias = database_alias(path)
    with attached(alias, path) as cursor:
        block_size = _block_size(cursor, alias)
        digest = partial(database_digest, block_size=block_size)
        file = content_file(path, f"duckdb{block_size}", digest, database_stamp)
        tables = [
            _open(cursor, alias, file, block_size, schema, table) for schema, table in tables_of(cursor, alias, path)
        ]
        return tables, cursor.execute(_VIEWS, [alias]).fetchall()


def tables_of(cursor: duckdb.DuckDBPyConnection, alias: str, path: str) -> list[tuple[str, str]]:
    """The schema and the name of every table of an attached file. Raises SourceError if there is none."""
    names = cursor.execute(
        "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = ? ORDER BY ALL", [alias]
    ).fetchall()
    if not names:
        raise SourceError(f"{path} holds no tables")
    return names


def _open(
    cursor: duckdb.DuckDBPyConnection, alias: str, file: File, block_size: int, schema: str, table: str
) -> tuple[Columns, DatabaseSource]:
    name = ".".join(map(sql_name, (alias, schema, table)))
    columns = describe(cursor, f"SELECT * FROM {name}")
    [(rows, row_ids)] = cursor.execute(f"SELECT count(*), coalesce(max(rowid) + 1, 0) FROM {name}").fetchall()
    return columns, DatabaseSource(file, block_size, schema, table, rows, row_ids)


def _block_size(cursor: duckdb.DuckDBPyConnection, alias: str) -> int:
    found = cursor.execute("SELECT block_size FROM pragma_database_size() WHERE database_name = ?", [alias]).fetchall()
    return int(found[0][0]) if found and found[0][0] else 1 << 18


def database_digest(path: str, block_size: int) -> str:
    """Digest of size, headers and the checksum of every block, and of the write-ahead log if there is one."""
    state = blake2b(digest_size=16)
    with open(path, "rb", buffering=0) as stream:
        size = stream.seek(0, os.SEEK_END)
        state.update(f"{size}:".encode() + os.pread(stream.fileno(), _HEADERS, 0))
        for start in range(_HEADERS, size, block_size):
            state.update(os.pread(stream.fileno(), _CHECKSUM, start))
    with suppress(FileNotFoundError), open(_log(path), "rb") as log:
        state.update(log.read())
    return state.hexdigest()


def database_stamp(path: str) -> Stamp:
    """The state of a DuckDB file and of its write-ahead log."""
    return stamp_with_log(path, _log(path))


def stamp_with_log(path: str, log: str) -> Stamp:
    """The state of a database's file and of its write-ahead log, whose content belongs to the tables."""
    with suppress(FileNotFoundError):
        return file_stamp(path) + file_stamp(log)
    return file_stamp(path)


def _log(path: str) -> str:
    return path + ".wal"
