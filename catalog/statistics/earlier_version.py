"""Earlier versions of tables that files were added to: their statistics remain valid for the files they describe.

Statistics describe one version of a table. For the table's place, the version and its files are recorded next to them.
If the place holds more files later, statistics are collected only of the added ones.
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
class VersionFiles:
    """A version of a table, and the digests of its files, sorted."""

    version: str
    files: tuple[str, ...]


@value
class EarlierVersion:
    """version: of the table before. added: the files added since, as a separate table."""

    version: str
    added: Table


class EarlierVersions:
    """By place, the last version with statistics. Thread-safe. folder: processes share it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._noted: dict[str, VersionFiles | None] = {}

    def note(self, table: Table) -> None:
        """Record that statistics of a table are stored. Raises OSError, ConfigError."""
        files = _files(table)
        if table.origin is None or not files:
            return
        place, noted = _place(table), VersionFiles(table.version, tuple(sorted(files.values())))
        with self._lock:
            if self._noted.get(place) == noted:
                return
            self._noted[place] = noted
        body = {"format": FORMAT, "table": noted.version, "files": noted.files}
        write_whole(self._path(place), sealed(body, user_key()))

    def of(self, table: Table) -> EarlierVersion | None:
        """The recorded version at the table's place, if the table has all of its files and others."""
        noted = None if table.origin is None else self._files_at(_place(table))
        if noted is None or noted.version == table.version:
            return None
        added = _added(_files(table), noted.files)
        return EarlierVersion(noted.version, _only(table, added)) if added else None

    def _files_at(self, place: str) -> VersionFiles | None:
        with self._lock:
            if place not in self._noted:
                self._noted[place] = self._load(place)
            return self._noted[place]

    def _load(self, place: str) -> VersionFiles | None:
        try:
            data = opened(self._path(place).read_bytes(), user_key())
            if data["format"] != FORMAT:
                return None
            return VersionFiles(str(data["table"]), tuple(map(str, data["files"])))
        except (OSError, ConfigError, ValueError, KeyError, TypeError):
            return None  # absent or unreadable: collecting again is always right

    def _path(self, place: str) -> Path:
        return self._folder / f"{place}.json"


def _files(table: Table) -> Mapping[str, str]:
    """By path, a digest of what a file adds to a table; empty for a table that is not made of files."""
    if not isinstance(table.source, FilesSource):
        return {}
    return {path: _digest(text) for path, text in table.source.identities().items()}


def _added(files: Mapping[str, str], before: Sequence[str]) -> Collection[str]:
    """The paths of added files; none if a file of before is gone. Files may have equal content.

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
