"""Tables of an SQLite file where DuckDB's extension for them is missing: Python's own module reads them into Arrow.

Types and values are those that the extension would give.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import date, datetime, timedelta
from urllib.parse import quote

import pyarrow as pa

from qoop.catalog.access import Places
from qoop.catalog.errors import SourceError
from qoop.catalog.sources.file_stamp import File
from qoop.catalog.sources.files import sql_name
from qoop.catalog.sources.sqlite import SqliteSource
from qoop.catalog.table import Columns, Split
from qoop.catalog.value import value

_BATCH = 10_000
_EPOCH = datetime(1970, 1, 1)

_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY 1"

_DECLARED = (
    ("int", "BIGINT"),
    ("bool", "BIGINT"),
    ("char", "VARCHAR"),
    ("clob", "VARCHAR"),
    ("text", "VARCHAR"),
    ("blob", "BLOB"),
    ("real", "DOUBLE"),
    ("floa", "DOUBLE"),
    ("doub", "DOUBLE"),
    ("numeric", "DOUBLE"),
    ("decimal", "DOUBLE"),
    ("time", "TIMESTAMP"),
)
"""Types by a part of the declared type, in the order of search."""


@value
class SqliteRows(SqliteSource):
    """One table of an SQLite file, whose rows come as Arrow."""

    def scan(self, columns: Columns, split: Split | None) -> str | pa.Table:
        """All rows, of the requested columns. Raises SourceError for values that are not of their type."""
        return self._read(columns) if split is None or split.ranges else _schema(columns).empty_table()

    def sample(self, columns: Columns, one_in: int) -> str | pa.Table:
        """Rows at equal distances."""
        rows = self._read(columns)
        return rows.take(pa.array(range(0, rows.num_rows, one_in), pa.int64()))

    def places(self) -> Places:
        """DuckDB opens nothing."""
        return Places()

    def attach(self) -> None:
        """Nothing to attach."""
        return

    def _read(self, columns: Columns) -> pa.Table:
        path, schema = self.file.path, _schema(columns)
        names = ", ".join(sql_name(name) for name, _ in columns)
        try:
            with closing(_connected(path)) as connection:
                rows = connection.execute(f"SELECT {names} FROM {sql_name(self.table)}")
                return pa.Table.from_batches(_batches(rows, columns, schema, self.table), schema)
        except sqlite3.Error as error:
            raise SourceError(f"cannot read table {self.table} of {path}: {error}") from error


def tables_in(path: str, file: File) -> list[tuple[Columns, SqliteRows]]:
    """All tables of an SQLite file. Raises SourceError."""
    try:
        with closing(_connected(path)) as connection:
            names = connection.execute(_TABLES).fetchall()
            if not names:
                raise SourceError(f"{path} holds no tables")
            return [_open(connection, file, name) for (name,) in names]
    except sqlite3.Error as error:
        raise SourceError(f"cannot read {path}: {error}") from error


def _open(connection: sqlite3.Connection, file: File, table: str) -> tuple[Columns, SqliteRows]:
    declared_columns = connection.execute(f"PRAGMA table_info({sql_name(table)})").fetchall()
    [(rows,)] = connection.execute(f"SELECT count(*) FROM {sql_name(table)}").fetchall()
    columns = tuple((name, type_of(declared)) for _, name, declared, *_ in declared_columns)
    return columns, SqliteRows(file, 0, "main", table, rows, 0)


def _connected(path: str) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)


def type_of(declared: str) -> str:
    """The type of a column that is declared so.

    >>> type_of("VARCHAR(20)"), type_of("UNSIGNED BIG INT"), type_of("date"), type_of("")
    ('VARCHAR', 'BIGINT', 'DATE', 'BLOB')
    """
    word = declared.lower().replace(" ", "")
    if word in ("", "date"):
        return "DATE" if word else "BLOB"
    return next((type_ for part, type_ in _DECLARED if part in word), "VARCHAR")


def _batches(rows: sqlite3.Cursor, columns: Columns, schema: pa.Schema, table: str) -> Iterator[pa.RecordBatch]:
    while found := rows.fetchmany(_BATCH):
        taken = zip(zip(*found, strict=True), columns, strict=True)
        arrays = [_array(values, name, type_, table) for values, (name, type_) in taken]
        yield pa.record_batch(arrays, schema)


def _array(values: Sequence[object], name: str, type_: str, table: str) -> pa.Array:
    arrow, convert = _READ[type_]
    try:
        taken = values if convert is None else [None if one is None else convert(one) for one in values]
        return pa.array(taken, arrow)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError, OverflowError) as error:
        raise SourceError(f"column {name} of {table} has a value that is no {type_}: {error}") from error


def _blob(found: object) -> bytes:
    return found if isinstance(found, bytes) else str(found).encode()


def _date(found: object) -> date:
    return date.fromisoformat(_text(found)[:10])


def _timestamp(found: object) -> datetime:
    if isinstance(found, int | float):
        return _EPOCH + timedelta(seconds=found)
    return datetime.fromisoformat(_text(found)).replace(tzinfo=None)


def _text(found: object) -> str:
    if not isinstance(found, str):
        raise TypeError(f"{found!r} is no text")
    return found


_READ: dict[str, tuple[pa.DataType, Callable[[object], object] | None]] = {
    "BIGINT": (pa.int64(), None),
    "DOUBLE": (pa.float64(), None),
    "VARCHAR": (pa.string(), None),
    "BLOB": (pa.binary(), _blob),
    "DATE": (pa.date32(), _date),
    "TIMESTAMP": (pa.timestamp("us"), _timestamp),
}


def _schema(columns: Columns) -> pa.Schema:
    return pa.schema([(name, _READ[type_][0]) for name, type_ in columns])
