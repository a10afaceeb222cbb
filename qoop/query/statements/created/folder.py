"""Created tables in a folder: each is a folder of Parquet files, with a manifest (:mod:`qoop.catalog.sources.created`).

A table of an earlier version of qoop is a single file, ``t.parquet``. It becomes the first piece of its folder when
the table changes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from qoop.catalog import arrow_input, arrow_output
from qoop.catalog.catalog import Catalog
from qoop.catalog.errors import DiskFull, QueryError, SourceError
from qoop.catalog.interrupts import interruptibly
from qoop.catalog.opening import open_duckdb
from qoop.catalog.sources import created
from qoop.catalog.sources.created import Manifest
from qoop.catalog.sources.files import CREATED, hive_options, lake_of, sql_name, sql_path, sql_string
from qoop.catalog.sources.parquet import ParquetSource
from qoop.catalog.sources.probe import describe, reason
from qoop.catalog.table import FilesSource
from qoop.engine.storage.scratch import clean as clean_scratch
from qoop.query.statements.created.background import Packer
from qoop.query.statements.created.storage import (
    PIECE_NAME,
    PiecesScan,
    TableChange,
    check_name,
    columns_of,
    cut,
    fault_of_name,
    of_types,
    refuse,
    typed,
)

if TYPE_CHECKING:
    from qoop.catalog.table import Columns, Table
    from qoop.query.result import Result


_ZONED = "TIME WITH TIME ZONE"
"""A type that Parquet keeps in UTC."""

_DRAFTS = ".table"
"""The kind of the scratch folders in which earlier versions of qoop wrote tables."""


class FolderTables:
    """The created tables of a folder. opened: makes the table of a name at a place. Not thread-safe."""

    def __init__(self, folder: Path, opened: Callable[[str, object], Table]) -> None:
        self._folder = folder
        self._opened = opened
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._packer = Packer(folder)

    @contextmanager
    def exclusive(self, name: str) -> Iterator[None]:
        """See `Storage`. Afterwards, versions without readers are removed."""
        check_name(self._folder, name)
        folder = self._folder / name
        with ExitStack() as locked:
            with self._writing(name):
                locked.enter_context(created.exclusive(folder))
                self._adopt(name)
            try:
                yield
            finally:
                created.sweep(folder)

    @contextmanager
    def _writing(self, name: str) -> Iterator[None]:
        """Within the block the table is written. Raises DiskFull."""
        try:
            yield
        except OSError as error:
            raise DiskFull(f"table {name} cannot be kept in {self._folder}: {error.strerror or error}") from error

    def _adopt(self, name: str) -> None:
        """Make the file of a table of an earlier version its first piece."""
        file, folder = self._folder / f"{name}.parquet", self._folder / name
        if not file.is_file():
            return
        if lake_of(str(folder)) is None:
            piece = created.adopt_piece(folder, file)
            created.publish(folder, Manifest(self._described(folder / piece), (piece,)))
        elif not created.has_piece(folder, file):
            raise SourceError(f"{self._folder} holds table {name} twice: {file} and {folder}; remove one of them")
        file.unlink()

    def present(self, table: Table) -> Table:
        """See `Storage`."""
        return self._opened(table.name, str(self._folder / table.name))

    def check_types(self, name: str, columns: Columns) -> None:
        """See `Storage`."""
        cursor = self._cursor()
        try:
            check_types(cursor, name, columns)
        finally:
            cursor.close()

    def store(self, name: str, result: Result, note: str = "") -> Table:
        """See `Storage`."""
        folder, columns = self._folder / name, columns_of(result)
        refuse(name, of_types(columns, _ZONED), "Parquet")
        pieces = [self._write(folder, part) for part in cut(result)]
        found = dict(self._described(folder / pieces[0]))
        refuse(name, tuple(one for one in columns if found.get(one[0]) != one[1]), "Parquet")
        self._publish(folder, Manifest(columns, tuple(pieces), (), note))
        with self._writing(name):
            self._forget_namesakes(name)
        return self._opened(name, str(folder))

    def put(self, table: Table, rows: Result) -> str:
        """See `Storage`. `exclusive` removes pieces that no version has."""
        return self._write(self._folder / table.name, rows)

    def change(self, table: Table, change: TableChange) -> Table:
        """See `Storage`."""
        assert isinstance(table.source, FilesSource)
        folder = self._folder / table.name
        before = created.manifest_of(folder)
        rows = {os.path.basename(path): rows for path, rows in table.source.file_rows().items()}
        pieces: list[str] = []
        for piece in before.pieces:
            pieces += change.replaced.get(str(folder / piece), (piece,) if rows[piece] else ())
        pieces += change.added
        made = Manifest(table.columns, tuple(pieces) or (self._empty(folder, before),), before.compactions, before.note)
        self._publish(folder, made)
        self._packer.offer(table.name, made.pieces)
        return self._opened(table.name, str(folder))

    def _empty(self, folder: Path, before: Manifest) -> str:
        """The name of a piece without rows."""
        return self._piece(folder, f"{_all_rows(folder / before.pieces[0])} LIMIT 0")

    def rows(self, table: Table, piece: str) -> pa.Table:
        """See `Storage`."""
        assert isinstance(table.source, FilesSource)
        sql = table.source.only([piece]).scan(table.columns, None)
        assert isinstance(sql, str)
        cursor = self._cursor()
        try:
            return interruptibly(cursor, lambda: arrow_output.table(cursor, sql))
        except duckdb.Error as error:
            raise SourceError(f"cannot read {piece}: {reason(error)}") from error
        finally:
            cursor.close()

    def scan(self, table: Table) -> PiecesScan:
        """See `Storage`."""
        assert isinstance(table.source, FilesSource)
        files = ", ".join(map(sql_path, table.source.identities()))
        options = f"{hive_options(())}, filename = {sql_string(PIECE_NAME)}"
        columns = f"{typed(table.columns)}, {sql_name(PIECE_NAME)}"
        return PiecesScan(f"SELECT {columns} FROM read_parquet([{files}], {options})")

    def has(self, table: Table) -> bool:
        """See `Storage`."""
        source = table.source
        if fault_of_name(table.name) is not None or not isinstance(source, ParquetSource) or table.origin is None:
            return False
        place = os.path.abspath(self._folder / table.name)
        if source.log == CREATED:
            return table.origin.place == place
        return [file.file.path for file in source.files] == [f"{place}.parquet"]

    def drop(self, name: str) -> None:
        """See `Storage`."""
        self._publish(self._folder / name, None)

    def close(self) -> None:
        """See `Storage`."""
        self._packer.close()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _write(self, folder: Path, rows: Result) -> str:
        """The name of a piece of these rows."""
        answer, casts = rows.typed()
        return self._piece(folder, f"SELECT {', '.join(casts)} FROM answer", {"answer": answer})

    def _piece(self, folder: Path, select: str, rows: Mapping[str, pa.Table] = {}) -> str:
        """The name of a piece of the rows of a query. rows: that it reads. Raises DiskFull, QueryError."""
        with self._writing(folder.name):
            return created.write_piece(folder, lambda path: self._copy(select, path, rows))

    def _publish(self, folder: Path, manifest: Manifest | None) -> None:
        """As `created.publish`. Raises DiskFull, SourceError."""
        with self._writing(folder.name):
            created.publish(folder, manifest)

    def _copy(self, select: str, path: Path, rows: Mapping[str, pa.Table]) -> None:
        cursor = self._cursor()
        target = str(path).replace("'", "''")
        try:
            for name, table in rows.items():
                arrow_input.register(cursor, name, arrow_input.castable(table))
            interruptibly(cursor, lambda: cursor.execute(f"COPY ({select}) TO '{target}' (FORMAT parquet)"))
        except duckdb.IOException as error:
            raise DiskFull(f"cannot write {path}: {error}") from error
        except duckdb.Error as error:
            raise QueryError(f"cannot write {path}: {error}") from error
        finally:
            cursor.close()

    def _described(self, path: Path) -> Columns:
        """The columns of a file."""
        cursor = self._cursor()
        try:
            return describe(cursor, _all_rows(path))
        except duckdb.Error as error:
            raise SourceError(f"cannot read {path}: {reason(error)}") from error
        finally:
            cursor.close()

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        """A connection to the DuckDB that reads and writes pieces."""
        if self._connection is None:
            self._connection = open_duckdb()
            self._connection.execute("SET arrow_lossless_conversion = true")
        return self._connection.cursor()

    def _forget_namesakes(self, name: str) -> None:
        """Remove tables whose names differ from this one only in case: they are older versions of the table."""
        for entry in self._folder.iterdir():
            other = entry.stem if entry.suffix == ".parquet" else entry.name
            if other == name or other.lower() != name.lower() or entry.samefile(self._folder / name):
                continue
            if lake_of(str(entry)) == CREATED:
                self._publish(entry, None)
                created.sweep(entry)
            elif entry.suffix == ".parquet":
                entry.unlink(missing_ok=True)


def _all_rows(path: Path) -> str:
    """A query of the rows of a piece."""
    return f"SELECT * FROM read_parquet({sql_path(str(path))}, {hive_options(())})"


def check_types(cursor: duckdb.DuckDBPyConnection, name: str, columns: Columns) -> None:
    """Raise QueryError for types that Parquet would change: DuckDB writes and reads a file without rows."""
    refuse(name, of_types(columns, _ZONED), "Parquet")
    nulls = ", ".join(f"NULL::{type_} AS c{index}" for index, (_, type_) in enumerate(columns))
    with TemporaryDirectory() as folder:
        path = f"{folder}/empty.parquet"
        try:
            cursor.execute(f"COPY (SELECT {nulls} LIMIT 0) TO {sql_path(path)} (FORMAT parquet)")
            read = describe(cursor, f"SELECT * FROM read_parquet({sql_path(path)})")
        except duckdb.Error:  # not every type has a name that a cast takes; `store` checks the file with the rows
            return
    refuse(name, tuple(one for one, (_, type_) in zip(columns, read, strict=True) if one[1] != type_), "Parquet")


def is_table(path: Path) -> bool:
    """True for the folder of a created table, or one that an earlier version of qoop has written as a file."""
    return lake_of(str(path)) == CREATED or path.with_name(f"{path.name}.parquet").is_file()


def write_table(folder: Path, name: str, result: Result, check: Callable[[], object]) -> None:
    """Store rows as a table of the folder, in place of an earlier one. check: is called while no other process changes
    the table. Raises what it does, DiskFull, QueryError, CatalogError."""
    with Catalog() as catalog, closing(FolderTables(folder, catalog.opened)) as tables, tables.exclusive(name):
        check()
        tables.store(name, result)


def noted(folder: Path, name: str) -> str:
    """The note in the manifest of a table; empty: there is none, or no such table."""
    if lake_of(str(folder / name)) != CREATED:
        return ""
    try:
        return created.manifest_of(folder / name).note
    except SourceError:
        return ""  # the query that reads it says what is wrong


def clean(folder: Path) -> None:
    """Remove what killed processes have left."""
    clean_scratch(folder, _DRAFTS)
    created.clean(folder)


def has_views(folder: Path) -> bool:
    """True if some table has a note."""
    return any(noted(folder, path.name) for path in folder.glob("[!._]*/"))


def has_tables(folder: Path) -> bool:
    """True if the folder has the files of tables."""
    return any(folder.glob("[!._]*.parquet")) or any(lake_of(str(path)) == CREATED for path in folder.glob("[!._]*/"))
