"""Packing of small pieces by a thread: changes and queries of the table go on meanwhile."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import duckdb

from qoop.catalog.errors import QoopError
from qoop.catalog.opening import open_duckdb
from qoop.catalog.sources import created
from qoop.catalog.sources.files import CREATED, hive_options, lake_of, sql_path
from qoop.catalog.sources.packing import first_packed
from qoop.catalog.table import Compaction

_INTERRUPT_AGAIN = 0.01  # seconds: an interrupt before DuckDB has begun is lost
_log = logging.getLogger("qoop.session")


class Packer:
    """Packs the created tables of a folder, one after the other. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._names: list[str] = []  # of tables that may have pieces to pack
        self._thread: threading.Thread | None = None
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._closed = False

    def offer(self, name: str, pieces: Sequence[str]) -> None:
        """Pack a table soon, if it has enough small pieces. pieces: of its present version."""
        if _packed_from(self._folder / name, pieces) is None:
            return
        with self._lock:
            if name not in self._names and not self._closed:
                self._names.append(name)
            if self._thread is None and self._names:
                self._thread = threading.Thread(target=self._run, name="qoop-packing", daemon=True)
                self._thread.start()

    def wait(self) -> None:
        """Return when all tables are packed."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def close(self) -> None:
        """End at once; a table that is not packed stays as it is."""
        with self._lock:
            self._closed = True
            self._names.clear()
            thread = self._thread
        while thread is not None and thread.is_alive():
            connection = self._connection
            if connection is not None:
                with suppress(duckdb.ConnectionException):  # it has just been closed
                    connection.interrupt()
            thread.join(_INTERRUPT_AGAIN)

    def _run(self) -> None:
        while (name := self._next()) is not None:
            try:
                with open_duckdb(threads=1) as self._connection:
                    while not self._closed and _pack(self._connection, self._folder / name):
                        pass
            except (QoopError, OSError, duckdb.Error) as error:
                if not self._closed:
                    _log.warning("the small pieces of table %s stay apart: %s", name, error)
            finally:
                self._connection = None

    def _next(self) -> str | None:
        with self._lock:
            if self._names:
                return self._names.pop(0)
            self._thread = None
            return None


def _packed_from(folder: Path, pieces: Sequence[str]) -> int | None:
    """The first of the pieces that become one; None: all stay. The last one stays in any case: others may not know it
    yet, and would have to read what it is packed with again."""
    with suppress(FileNotFoundError):  # the table has changed since
        return first_packed([(folder / piece).stat().st_size for piece in pieces[:-1]])
    return None


def _pack(connection: duckdb.DuckDBPyConnection, folder: Path) -> bool:
    """Make small pieces of a table one, in a version with the same rows. False: there are none, or they have changed.

    Raises SourceError, TableChanged, OSError, duckdb.Error."""
    if lake_of(str(folder)) != CREATED:
        return False
    try:
        with created.version_in_use(folder) as before, created.draft_piece(folder) as draft:
            first = _packed_from(folder, before.pieces)
            if first is None:
                return False
            gone = before.pieces[first:-1]
            files = ", ".join(sql_path(str(folder / piece)) for piece in gone)
            rows = f"SELECT * FROM read_parquet([{files}], {hive_options(())})"
            target = str(draft).replace("'", "''")
            connection.execute(f"COPY ({rows}) TO '{target}' (FORMAT parquet)")
            return _replace(folder, gone, draft)
    finally:
        created.sweep_now(folder)


def _replace(folder: Path, gone: tuple[str, ...], draft: Path) -> bool:
    """Publish a version with a draft in place of pieces; False: the present version has not all of them."""
    with created.exclusive(folder):
        if lake_of(str(folder)) != CREATED:
            return False
        now = created.manifest_of(folder)
        first = now.pieces.index(gone[0]) if gone[0] in now.pieces else 0
        after = first + len(gone)
        if now.pieces[first:after] != gone:
            return False
        came = created.take_draft(folder, draft)
        compactions = (*now.compactions, Compaction(gone, (came,)))
        pieces = (*now.pieces[:first], came, *now.pieces[after:])
        created.publish(folder, replace(now, pieces=pieces, compactions=compactions))
        return True
