"""The storage of tables that statements create: in memory as pieces of Arrow, or in a folder (`folder.py`).

A change of a table replaces the pieces that it touches, and adds one. Small pieces at the end are packed.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from qoop.catalog import arrow_input
from qoop.catalog.errors import QueryError
from qoop.catalog.lexer import quoted
from qoop.catalog.sources.memory import CreatedArrow
from qoop.catalog.table import MOST_COMPACTIONS, Compaction, Table, table_version
from qoop.catalog.value import changed, value

_PART_OF_PATH = re.compile(r"""[/\\:*?"<>|\[\]=\x00-\x1f\x7f]""")
_OF_WINDOWS = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)", re.I)
_MOST_BYTES = 200  # file systems take 255, endings and drafts included

PIECE_ROWS, MOST_PIECES = 1 << 20, 64
"""The rows of a piece of a new table, and the number of pieces of a large one."""

PIECE_NAME = "qoop piece"
"""The column of `Storage.scan` that has the name of a row's piece."""

if TYPE_CHECKING:
    from qoop.catalog.table import Columns
    from qoop.query.result import Result


@value
class TableChange:
    """The effect of a statement on the pieces of a table.

    count: rows that changed. replaced: by name of a piece those that have its rows now, maybe none. added: others. The
    new ones are those of `Storage.put`.
    """

    count: int
    replaced: Mapping[str, tuple[str, ...]]
    added: tuple[str, ...]


@value
class PiecesScan:
    """A query of all rows of a table, each with the name of its piece. inputs: Arrow rows that it reads, by name."""

    sql: str
    inputs: Mapping[str, pa.Table] = field(default_factory=dict)


class Storage(Protocol):
    """The tables that statements have created. `store`, `put`, `change` and `drop` are called within `exclusive`."""

    def exclusive(self, name: str) -> AbstractContextManager[None]:
        """Within the block no other process changes the table. Raises CatalogError if that takes long, DiskFull."""
        ...

    def present(self, table: Table) -> Table:
        """The table as it is now."""
        ...

    def check_types(self, name: str, columns: Columns) -> None:
        """Raise QueryError if rows of these columns cannot be stored. A query that takes long checks them before."""
        ...

    def store(self, name: str, result: Result, note: str = "") -> Table:
        """A table of these rows, in place of an earlier one. note: a text that is kept with it.

        Raises DiskFull, and QueryError for a type that would change."""
        ...

    def put(self, table: Table, rows: Result) -> str:
        """The name of a piece of these rows, which no version has yet. Raises DiskFull."""
        ...

    def change(self, table: Table, change: TableChange) -> Table:
        """The table after a change. Raises DiskFull."""
        ...

    def rows(self, table: Table, piece: str) -> pa.Table:
        """The rows of a piece in Arrow's lossless form. Raises SourceError."""
        ...

    def scan(self, table: Table) -> PiecesScan:
        """All rows with the column `PIECE_NAME`."""
        ...

    def has(self, table: Table) -> bool:
        """True for a table that is here; False for one of the same name from elsewhere."""
        ...

    def drop(self, name: str) -> None:
        """Remove a table that is here."""
        ...

    def close(self) -> None:
        """Free what is open."""
        ...


class MemoryTables:
    """Created tables that live as long as the session. opened: makes a table of Arrow rows."""

    def __init__(self, opened: Callable[[str, object], Table]) -> None:
        self._opened = opened
        self._stored: dict[str, tuple[pa.Schema, Columns]] = {}  # by name: DuckDB takes a millisecond to name the types
        self._put: dict[str, pa.Table] = {}  # pieces of no version

    @contextmanager
    def exclusive(self, name: str) -> Iterator[None]:
        """No other process has the table. Afterwards, pieces of no version are forgotten."""
        try:
            yield
        finally:
            self._put.clear()

    def present(self, table: Table) -> Table:
        """See `Storage`."""
        return table

    def check_types(self, name: str, columns: Columns) -> None:
        """Raise QueryError for a type that Arrow would change."""
        within = [(column, type_) for column, type_ in of_types(columns, "ENUM(") if not _is_enum(type_)]
        refuse(name, tuple(within), "memory")

    def store(self, name: str, result: Result, note: str = "") -> Table:
        """See `Storage`."""
        self.check_types(name, columns_of(result))
        rows = _of_texts(result)
        schema, columns = self._stored.get(name, (None, ()))
        if schema is None or not schema.equals(rows.schema, check_metadata=True):
            columns = self._opened(name, rows).columns
            self._stored[name] = rows.schema, columns
        columns = _with_enums(columns, result)
        source = CreatedArrow.of_pieces({_id(): _of_texts(part) for part in cut(result)}, ())
        return Table(name, columns, table_version(source, columns), source, source.rows)

    def put(self, table: Table, rows: Result) -> str:
        """See `Storage`."""
        assert isinstance(table.source, CreatedArrow)
        made = _id()
        self._put[made] = _rows(rows, table.source.schema)
        return made

    def change(self, table: Table, change: TableChange) -> Table:
        """See `Storage`."""
        assert isinstance(table.source, CreatedArrow)
        known, pieces = {**table.source.by_id(), **self._put}, dict[str, pa.Table]()
        for id_ in table.source.by_id():
            pieces |= {one: known[one] for one in change.replaced.get(id_, (id_,))}
        pieces, compactions = _packed({id_: rows for id_, rows in pieces.items() if rows.num_rows}, table.source)
        pieces |= {id_: known[id_] for id_ in change.added}
        return self._of(pieces or {_id(): table.source.schema.empty_table()}, compactions, table)

    def _of(self, pieces: Mapping[str, pa.Table], compactions: tuple[Compaction, ...], like: Table) -> Table:
        source = CreatedArrow.of_pieces(pieces, compactions)
        version = table_version(source, like.columns)
        return changed(like, source=source, version=version, rows=source.rows, _splits={})

    def rows(self, table: Table, piece: str) -> pa.Table:
        """See `Storage`."""
        assert isinstance(table.source, CreatedArrow)
        return table.source.by_id()[piece]

    def scan(self, table: Table) -> PiecesScan:
        """See `Storage`."""
        assert isinstance(table.source, CreatedArrow)
        inputs = {f"{PIECE_NAME} {id_}": rows for id_, rows in table.source.by_id().items()}
        selects = (
            f"SELECT {typed(table.columns)}, '{id_}' AS {quoted(PIECE_NAME)} FROM ({_read(name, inputs[name].schema)})"
            for id_, name in zip(table.source.identities(), inputs, strict=True)
        )
        return PiecesScan(" UNION ALL ".join(selects), inputs)

    def has(self, table: Table) -> bool:
        """See `Storage`."""
        return isinstance(table.source, CreatedArrow)

    def drop(self, name: str) -> None:
        """Its memory goes with its last reader."""
        self._stored.pop(name, None)

    def close(self) -> None:
        """Nothing is open."""


def _id() -> str:
    """The name of another piece."""
    return uuid.uuid4().hex


def _read(name: str, schema: pa.Schema) -> str:
    """A query of Arrow rows that are registered under a name."""
    return arrow_input.scan(name, schema) or f"FROM {quoted(name)}"


def typed(columns: Columns) -> str:
    """The columns in SQL, with their types."""
    return ", ".join(f"{quoted(name)}::{type_} AS {quoted(name)}" for name, type_ in columns)


def _is_enum(type_: str) -> bool:
    return type_.startswith("ENUM(") and type_.endswith(")")


def _with_enums(columns: Columns, result: Result) -> Columns:
    """The columns of Arrow rows with the ENUMs that the result has."""
    found = {name: type_ for name, type_ in columns_of(result) if _is_enum(type_)}
    return tuple((name, found.get(name, type_)) for name, type_ in columns)


def _of_texts(result: Result) -> pa.Table:
    """The rows in Arrow's lossless form, with the texts of ENUMs: the dictionaries of pieces may differ."""
    rows = result.lossless()
    for index, column in enumerate(rows.schema):
        if pa.types.is_dictionary(column.type):
            rows = rows.set_column(index, column.name, rows.column(index).cast(column.type.value_type))
    return rows


def _rows(result: Result, schema: pa.Schema) -> pa.Table:
    rows = _of_texts(result)
    return rows if rows.schema.equals(schema) else rows.cast(schema)


def _packed(pieces: dict[str, pa.Table], before: CreatedArrow) -> tuple[dict[str, pa.Table], tuple[Compaction, ...]]:
    """The pieces with small ones at the end as one, and the compactions that are known then."""
    from qoop.catalog.sources.packing import first_packed  # only changes of tables pack

    first = first_packed([rows.nbytes for rows in pieces.values()])
    if first is None:
        return pieces, before.compactions
    ids = list(pieces)
    one, gone = _id(), tuple(ids[first:])
    rows = pa.concat_tables([pieces[id_] for id_ in gone]).combine_chunks()
    kept = {id_: pieces[id_] for id_ in ids[:first]}
    return {**kept, one: rows}, (*before.compactions, Compaction(gone, (one,)))[-MOST_COMPACTIONS:]


def cut(result: Result) -> list[Result]:
    """The rows as those of pieces, at least one."""
    rows = max(PIECE_ROWS, -(-len(result) // MOST_PIECES))
    return [result.slice(first, rows) for first in range(0, len(result), rows)] or [result]


def grouped(pieces: Mapping[str, int]) -> list[list[str]]:
    """Consecutive pieces, together of about `PIECE_ROWS` rows or less. pieces: the rows of each, by name.

    >>> grouped({"a": 9, "b": PIECE_ROWS, "c": 2, "d": 3})
    [['a'], ['b'], ['c', 'd']]
    """
    found, left = list[list[str]](), 0
    for piece, rows in pieces.items():
        if not found or left < rows:
            found.append([])
            left = PIECE_ROWS
        found[-1].append(piece)
        left -= rows
    return found


def fault_of_name(name: str) -> str | None:
    """The reason why a name is no valid file name on some system; None if it is valid on all."""
    if _PART_OF_PATH.search(name):
        return "holds characters that have a meaning in paths, globs or URLs"
    if name.startswith((".", "_", " ", "~")) or name.endswith((".", " ")):
        return "begins or ends with a character that hides a file or gets lost"
    if _OF_WINDOWS.fullmatch(name.partition(".")[0]):
        return "is the name of a device on Windows"
    if len(os.fsencode(name)) > _MOST_BYTES:
        return f"has more than {_MOST_BYTES} bytes"
    return None


def check_name(folder: Path, name: str) -> None:
    """Raise QueryError for a name that no table in the folder can have."""
    fault = fault_of_name(name)
    if fault is not None:
        shown = name if len(name) <= 60 else f"{name[:60]}…"
        raise QueryError(f"a table that is kept in {folder} cannot be called {shown!r}: it {fault}")


def of_types(columns: Columns, part: str) -> Columns:
    """The columns whose type contains `part`."""
    return tuple((column, type_) for column, type_ in columns if part in type_)


def columns_of(result: Result) -> Columns:
    """The columns of rows that are stored."""
    return tuple(zip(result.unique_columns, result.types, strict=True))


def refuse(name: str, columns: Columns, where: str) -> None:
    """Raise QueryError if there are columns that a storage would change."""
    if columns:
        changes = ", ".join(f"{column} of {type_}" for column, type_ in columns)
        raise QueryError(f"table {name} cannot be kept in {where}: it would change {changes}; cast it")
