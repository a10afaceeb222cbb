"""The tables that stood at a place before files were added, so that what was collected of them is not lost.

Statistics are of one version of a table. Next to them is noted, for the place of the table, which version and which
files they are of. Where the place holds other files besides, statistics of these alone are all that is missing.
"""

from __future__ import annotations

import threading
from collections import Counter
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from qoop.catalog.errors import ConfigError
from qoop.catalog.signed_json import opened, sealed
from qoop.catalog.stores.whole_file import write_whole
from qoop.catalog.table import FilesSource, Table, table_version
from qoop.catalog.user_key import user_key
from qoop.catalog.value import value

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

FORMAT = 1
"""Raised when a file means something else than before."""


@value
class Noted:
    """A version of a table, and its files, each known by what it holds, in order of that."""

    version: str
    files: tuple[str, ...]


@value
class Forerunner:
    """version: of the table before. added: the files that came since, as a table of their own."""

    version: str
    added: Table


class Forerunners:
    """By place the last version of which statistics were kept. Thread-safe. folder: where processes share them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._noted: dict[str, Noted | None] = {}

    def note(self, table: Table) -> None:
        """Statistics of a table are kept now. Raises OSError, ConfigError."""
        files = _files(table)
        if table.origin is None or not files:
            return
        place, noted = _place(table), Noted(table.version, tuple(sorted(files.values())))
        with self._lock:
            if self._noted.get(place) == noted:
                return
            self._noted[place] = noted
        body = {"format": FORMAT, "table": noted.version, "files": noted.files}
        write_whole(self._path(place), sealed(body, user_key()))

    def of(self, table: Table) -> Forerunner | None:
        """The table that stood at the place of another one, if all its files are there still, and more."""
        noted = None if table.origin is None else self._noted_at(_place(table))
        if noted is None or noted.version == table.version:
            return None
        added = _added(_files(table), noted.files)
        return Forerunner(noted.version, _only(table, added)) if added else None

    def _noted_at(self, place: str) -> Noted | None:
        with self._lock:
            if place not in self._noted:
                self._noted[place] = self._load(place)
            return self._noted[place]

    def _load(self, place: str) -> Noted | None:
        try:
            data = opened(self._path(place).read_bytes(), user_key())
            if data["format"] != FORMAT:
                return None
            return Noted(str(data["table"]), tuple(map(str, data["files"])))
        except (OSError, ConfigError, ValueError, KeyError, TypeError):
            return None  # none was kept, or it cannot be read: collecting again is always right

    def _path(self, place: str) -> Path:
        return self._folder / f"{place}.json"


def _files(table: Table) -> Mapping[str, str]:
    """By path a digest of what a file adds to a table; none for a table that is not made of files."""
    if not isinstance(table.source, FilesSource):
        return {}
    return {path: _digest(text) for path, text in table.source.identities().items()}


def _added(files: Mapping[str, str], before: Sequence[str]) -> Collection[str]:
    """The paths of the files that came to those of before; none if one of these is gone. Files may hold the same.

    >>> _added({"a": "1", "b": "2", "c": "2"}, ["2", "1"]), _added({"b": "2", "c": "2"}, ["1"])
    (['c'], [])
    """
    left = Counter(before)
    added = []
    for path, one in files.items():
        if left[one]:
            left[one] -= 1
        else:
            added.append(path)
    return [] if left.total() else added


def _only(table: Table, paths: Collection[str]) -> Table:
    assert isinstance(table.source, FilesSource)
    source = table.source.only(paths)
    return Table(table.name, table.columns, table_version(source, table.columns), source, source.rows)


def _place(table: Table) -> str:
    """The name of a table's place; other columns make another table of it."""
    return _digest(repr((table.origin, table.columns)))


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=16).hexdigest()
