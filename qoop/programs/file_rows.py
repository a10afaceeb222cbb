"""Rows of files that several views of a session read: a new file is read once for all of them.

To open a file and to plan a query over it takes longer than the sums over some thousand rows. So the rows that one view
reads stay in memory for a while, with the columns that all views of such a table read.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import pyarrow as pa

from qoop.catalog.sources.parquet import ParquetSource

if TYPE_CHECKING:
    from qoop.catalog.table import Columns, Table

_BYTES = 64 << 20

_PLAIN = re.compile(r"BOOLEAN|U?(TINY|SMALL|BIG)INT|U?INTEGER|DECIMAL\(\d+,\d+\)|VARCHAR|DATE|TIMESTAMP")
"""The types in which rows of Arrow compare as DuckDB's do."""


class FileRows:
    """The rows of the files that were read last. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: OrderedDict[str, pa.Table] = OrderedDict()  # by identity of the file
        self._bytes = 0
        self._read_by: dict[Columns, WeakKeyDictionary[object, set[str]]] = {}  # columns by reader, by those of tables

    def note(self, reader: object, columns: Columns, read: Iterable[str]) -> None:
        """A view reads these of the columns of a table, over and over."""
        with self._lock:
            self._read_by.setdefault(columns, WeakKeyDictionary()).setdefault(reader, set()).update(read)

    def serves(self, pieces: Table, columns: Sequence[str]) -> bool:
        """True if other views read such files, too, and these columns may be read by way of here."""
        source, types = pieces.source, dict(pieces.columns)
        if not isinstance(source, ParquetSource) or source.casts or source.partitions or source.is_remote:
            return False
        several = len(self._read_by.get(pieces.columns, ())) > 1
        return several and bool(columns) and all(_PLAIN.fullmatch(types[name]) for name in columns)

    def rows(self, pieces: Table, columns: Sequence[str], read: Callable[[str], pa.Table]) -> pa.Table:
        """These columns of the rows of files. read: runs a query.

        Raises CatalogError, and what `read` raises; for files that have changed, when they are read."""
        source = pieces.source
        assert isinstance(source, ParquetSource)
        identities = source.identities()
        with self._lock:
            found = {path: rows for path, one in identities.items() if (rows := self._known(one, columns)) is not None}
            requested = set(columns).union(*self._read_by[pieces.columns].values())
        left = source.only(identities.keys() - found.keys())
        if left.files:
            every = tuple(
                (name, type_) for name, type_ in pieces.columns if name in requested and _PLAIN.fullmatch(type_)
            )
            scan = left.scan(every, None)
            assert isinstance(scan, str)
            rows, at = read(scan), 0
            left.check(None)
            for path, count in left.file_rows().items():
                found[path] = rows.slice(at, count)
                at += count
            self._keep({identities[path]: found[path] for path in left.file_rows()})
        return pa.concat_tables([found[file.file.path].select(columns) for file in source.files])

    def _known(self, identity: str, columns: Sequence[str]) -> pa.Table | None:
        rows = self._rows.get(identity)
        if rows is None or not set(columns) <= set(rows.column_names):
            return None
        self._rows.move_to_end(identity)
        return rows

    def _keep(self, rows: dict[str, pa.Table]) -> None:
        with self._lock:
            for identity, one in rows.items():
                before = self._rows.pop(identity, None)
                self._bytes += one.nbytes - (0 if before is None else before.nbytes)
                self._rows[identity] = one
            while self._bytes > _BYTES:
                _, one = self._rows.popitem(last=False)
                self._bytes -= one.nbytes
