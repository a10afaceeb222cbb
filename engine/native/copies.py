"""Copies of Parquet files in DuckDB's own format, which DuckDB's plans of whole queries read in their place.

To decode Parquet is about half of the work of such a plan: 16 queries of TPC-DS at scale 1 take 0.53 of the cpu over
copies (DuckDB 1.5.5). A copy is made once queries that read the file have taken a quarter of the time that making it
should take, in a thread of low priority, one file after the other. So a session in which few queries run makes none.

A copy has the rows of one file as it was registered, and serves no other version of it. A task checks the files
themselves after reading, as any other does. Files that were added since are read as Parquet, until queries have taken
so long that a second copy with all rows is worth it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import count, groupby
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from qoop.catalog.errors import CatalogError, DiskFull
from qoop.catalog.sources.files import sql_name
from qoop.catalog.sources.parquet import ParquetFile, ParquetSource
from qoop.catalog.table import Columns, Table
from qoop.catalog.value import value
from qoop.engine.storage.scratch import Scratch
from qoop.engine.task import TaskSpec

if TYPE_CHECKING:
    from qoop.engine.native.making import Maker
    from qoop.engine.native.worth import Worth

_log = logging.getLogger(__name__)

_MAKING = 18e-9
"""Seconds that a thread takes to copy a byte of Parquet: 6.8 s for the 373 MB of TPC-DS at scale 1."""

_WORTH = 0.25
"""The part of these that queries must have taken. An idle thread's time counts for less than that of an answer. In two
streams of 200 statements over TPC-DS at scale 1, with 5 and 45 % repeats, answers take 0.79 and 0.66 of DuckDB's time;
with twice this part 0.85 and 0.72, and as much cpu."""

_LEAST = 8 << 20
"""Bytes of all tables of a query that counts: less is read in a few milliseconds."""

_PART = 1 / 16
"""The least part of a table that a file must be to get a copy. Tables of many files have none, and the files that
appends and updates leave are small."""

_MOST_FILES = 64
"""Files of a table that are looked at for each of its queries."""

_GROWS_BY = 1 / 4
"""The part of a copied file that those added to its table may be together, to get a copy with it."""

_GROWING = 5e-9
"""Seconds of threads, for each byte of a table, that queries over a copy and such files take before: to copy a copy
takes 1 or 2 of these, and queries over one table take 0.8 of the cpu of those over two (19 queries of TPC-DS)."""

_MEMORY, _MAKER = 1 / 8, 1 / 16
"""Parts of the session's memory: for the bytes of all copies, which DuckDB comes to hold as far as its limit allows;
and for making one."""

_LEAST_MEMORY = 64 << 20
"""Bytes for making a copy; sessions with less make none."""

_NICE = 10
"""Added to the priority number of the thread that makes copies: of two cores that run tasks it gets a tenth of one."""

Identity = tuple[str, Columns, bool]
"""Identifies the rows of a file: its digest and hive values, the columns of the table, casts to their types."""


@value
class NativeScan:
    """SQL that reads a table, at least in part from copies. files: these, by the names that they are attached by.

    table: the name of the table in a copy that has all of its rows; empty: there is none."""

    sql: str
    files: Mapping[str, str]
    table: str = ""


@value
class _Copy:
    """files: whose rows it has, in that order. table: the name of the table in it."""

    files: tuple[Identity, ...]
    table: str
    name: str
    path: str
    bytes: int

    def scan(self, columns: str) -> str:
        """SQL that reads these columns."""
        return f"SELECT {columns} FROM {sql_name(self.name)}.{sql_name(self.table)}"


class NativeCopies:
    """The copies of one session. Thread-safe.

    parent: the place of their folder; None: where the system keeps temporary files. memory: of the session, in bytes;
    0: no copies are made.
    """

    def __init__(self, parent: Path | None, memory: int) -> None:
        self._parent = parent
        self._most, self._makers_memory = int(memory * _MEMORY), int(memory * _MAKER)
        self._lock = threading.Condition()
        self._copies: dict[str, _Copy] = {}  # by the path of the file
        self._grown: dict[str, _Copy] = {}  # of tables with further files, by the path of the first
        self._scans: dict[tuple[str, tuple[str, ...]], tuple[str, NativeScan | None]] = {}
        # by the name of a table and columns: of its last version
        self._spent: dict[str, float] = {}  # by path: seconds of threads for a byte of what queries read
        self._refused: set[tuple[Identity, ...]] = set()
        self._pending: deque[tuple[str, Table]] = deque()  # paths of first files, tables of all files of one copy
        self._numbers = count()
        self._scratch: Scratch | None = None
        self._maker: Maker | None = None  # that makes one now
        self._thread: threading.Thread | None = None
        self._closed = False
        if self._makers_memory < _LEAST_MEMORY:
            self._most = 0

    @cached_property
    def _worth(self) -> Worth:
        from qoop.engine.native.worth import Worth  # few sessions make copies

        return Worth()

    def scans(self, spec: TaskSpec) -> Mapping[str, NativeScan]:
        """The inputs of a task that copies serve, by name."""
        if not self._copies or not _may_read(spec):
            return {}
        with self._lock:
            if not self._worth.read_copies(spec.stage.sql):
                return {}
            found = {item.name: self._scan(spec.tables[item.table], item.columns) for item in spec.stage.table_inputs}
        return {name: scan for name, scan in found.items() if scan is not None}

    def note(self, spec: TaskSpec, seconds: float, native: Container[str]) -> None:
        """A task took that long. Files for whose queries that is enough by now will be copied. native: the inputs that
        it read from copies, at least in part."""
        if not self._most or not _may_read(spec):
            return
        inputs = [item for item in spec.stage.table_inputs if _is_copied(spec.tables[item.table])]
        tables = [spec.tables[item.table] for item in inputs]
        sizes = [sum(map(_size, _files(table))) for table in tables]
        if not sizes or sum(sizes) < _LEAST:
            return
        of_a_byte = seconds * max(1.0, spec.resources.cpu) / sum(sizes)
        with self._lock:
            by_copies = sum(size for item, size in zip(inputs, sizes, strict=True) if item.name in native)
            self._worth.add(spec.stage.sql, seconds, by_copies / sum(sizes))
            for table, size in zip(tables, sizes, strict=True):
                for file in (one for one in _files(table) if _size(one) >= size * _PART):
                    self._count(table, file, of_a_byte)
                self._count_growth(table, size, of_a_byte)
            if self._pending and self._thread is None:
                self._thread = threading.Thread(target=self._make_all, name="qoop-copies", daemon=True)
                with contextlib.suppress(RuntimeError):  # at the end of the interpreter
                    self._thread.start()
            self._lock.notify_all()

    def wait(self) -> None:
        """Wait until all that is to be copied by now is."""
        with self._lock:
            self._lock.wait_for(lambda: not self._pending)

    def give_up(self) -> None:
        """Read no copy any more, and make none: one could not be read."""
        with self._lock:
            self._most = 0
            self._copies, self._grown, self._scans = {}, {}, {}
            self._pending.clear()
            self._lock.notify_all()

    def close(self) -> None:
        """Remove all copies."""
        self._closed = True
        self.give_up()
        while (thread := self._thread) is not None and thread.is_alive():
            if (maker := self._maker) is not None:
                maker.interrupt()
            thread.join(0.005)
        if self._scratch is not None:
            self._scratch.close()

    def _count(self, table: Table, file: ParquetFile, seconds: float) -> None:
        """Count seconds for each byte of a file; under the lock."""
        path = file.file.path
        if self._current(table, file) is not None or _identities(table, [file]) in self._refused:
            return
        self._spent[path] = self._spent.get(path, 0.0) + seconds
        used = sum(one.bytes for one in self._copies.values()) + sum(_size_of(one) for _, one in self._pending)
        if self._spent[path] >= _WORTH * _MAKING and used + _size(file) <= self._most:
            self._ask(path, path, _only(table, path))

    def _count_growth(self, table: Table, size: int, seconds: float) -> None:
        """Count seconds for each byte of a table whose first file has a copy; under the lock."""
        first, *further = _files(table)
        path, files = first.file.path, _identities(table, _files(table))
        if not further or size > (1 + _GROWS_BY) * _size(first) or files in self._refused:
            return
        if self._current(table, first) is None or (path in self._grown and self._grown[path].files == files):
            return
        key = f"further than {path}"
        self._spent[key] = self._spent.get(key, 0.0) + seconds
        if self._spent[key] >= _GROWING:
            self._ask(key, path, table)

    def _ask(self, key: str, path: str, table: Table) -> None:
        del self._spent[key]
        if all(other != path for other, _ in self._pending):
            self._pending.append((path, table))

    def _current(self, table: Table, file: ParquetFile) -> _Copy | None:
        """The copy of one file as it is now."""
        found = self._copies.get(file.file.path)
        return found if found is not None and found.files == _identities(table, [file]) else None

    def _scan(self, table: Table, columns: tuple[str, ...]) -> NativeScan | None:
        """Under the lock."""
        version, scan = self._scans.get((table.name, columns), ("", None))
        if version != table.version:
            scan = self._written(table, columns) if _is_copied(table) else None
            self._scans[table.name, columns] = table.version, scan
        return scan

    def _written(self, table: Table, columns: tuple[str, ...]) -> NativeScan | None:
        """Under the lock."""
        files, names = _files(table), ", ".join(map(sql_name, columns))
        grown = self._grown.get(files[0].file.path)
        if grown is not None and grown.files == _identities(table, files):
            return NativeScan(grown.scan(names), {grown.name: grown.path}, grown.table)
        used = {one.file.path: copy for one in files if (copy := self._current(table, one)) is not None}
        if not used:
            return None
        parts: list[str] = []
        for copied, paths in groupby([one.file.path for one in files], used.__contains__):
            if copied:
                parts += [used[path].scan(names) for path in paths]
            else:
                parts.append(str(_only(table, *paths).scan(columns)))
        whole = used[files[0].file.path].table if len(files) == 1 else ""
        return NativeScan("\nUNION ALL ".join(parts), {one.name: one.path for one in used.values()}, whole)

    def _make_all(self) -> None:
        if sys.platform == "linux":
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        while (one := self._next()) is not None:
            path, table = one
            try:
                made = self._made(table)
            except (duckdb.Error, CatalogError, DiskFull, OSError) as error:
                _log.info("no copy of %s: %s", path, error)
                made = None
            self._add(path, table, made)

    def _next(self) -> tuple[str, Table] | None:
        """The files to copy next; None at the end of the session."""
        with self._lock:
            self._lock.wait_for(lambda: self._pending or self._closed)
            return None if self._closed else self._pending[0]

    def _made(self, table: Table) -> _Copy | None:
        """None: the copy of the first of several files is not there any more."""
        from qoop.engine.native.making import Maker

        self._scratch = self._scratch or Scratch(self._parent, "copies")
        name = f"qoop copy {next(self._numbers)}"
        to = self._scratch.path / f"{name}.duckdb"
        file, *further = _files(table)
        first = None  # the copy that is to grow
        if further:
            with self._lock:
                first = self._current(table, file)
            if first is None:
                return None
        with contextlib.closing(Maker(self._scratch.path / "spill", self._makers_memory)) as maker:
            self._maker = maker
            try:
                if first is not None:
                    added = _only(table, *(one.file.path for one in further))
                    maker.grow(Path(first.path), first.table, added, to)
                else:
                    maker.make(table, to)
            except BaseException:
                to.unlink(missing_ok=True)
                raise
            finally:
                self._maker = None
        in_it = table.name if first is None else first.table
        return _Copy(_identities(table, _files(table)), in_it, name, str(to), to.stat().st_size)

    def _add(self, path: str, table: Table, made: _Copy | None) -> None:
        """The files of a table were copied, in place of the copy of their earlier versions; None: they could not be."""
        with self._lock:
            if self._pending:
                self._pending.popleft()
            self._lock.notify_all()
            if made is None or not self._most:
                self._refused.add(_identities(table, _files(table)))
                return
            before = [self._grown.pop(path, None)]
            if len(made.files) > 1:
                self._grown[path] = made
            else:
                before.append(self._copies.get(path))
                self._copies[path] = made
            self._scans = {}
        for one in before:
            if one is not None:
                Path(one.path).unlink(missing_ok=True)  # an instance that has it open can still read it


def _may_read(spec: TaskSpec) -> bool:
    """True for a text that DuckDB plans, and which has the same answer wherever its rows come from."""
    return spec.stage.whole and spec.stage.shareable and not spec.locked


def _is_copied(table: Table) -> bool:
    """True for Parquet files of this machine, if they are few."""
    source = table.source
    return isinstance(source, ParquetSource) and 0 < len(source.files) <= _MOST_FILES and not source.is_remote


def _files(table: Table) -> Sequence[ParquetFile]:
    assert isinstance(table.source, ParquetSource)
    return table.source.files


def _size(file: ParquetFile) -> int:
    return file.file.stamp[0]


def _size_of(table: Table) -> int:
    return sum(map(_size, _files(table)))


def _identities(table: Table, files: Sequence[ParquetFile]) -> tuple[Identity, ...]:
    """Of some files of a table."""
    assert isinstance(table.source, ParquetSource)
    known = table.source.identities()
    return tuple([(known[one.file.path], table.columns, table.source.casts) for one in files])


def _only(table: Table, *paths: str) -> Table:
    """Some files of a table."""
    assert isinstance(table.source, ParquetSource)
    source = table.source.only(paths)
    return replace(table, source=source, rows=source.rows, _splits={})
