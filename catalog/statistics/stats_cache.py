"""Collected statistics by table version: in memory, and on disk for tables that other processes can see.

If files were added to a table, its statistics merge those of before with those of the added files
(`earlier_version.py`, `merging.py`).

One JSON file per version, written next to its place and renamed into it, so that a reader sees all or nothing.
Two processes that add columns at once may lose one's columns; they are then collected again.

Plans depend on statistics, such as which columns are keys. So a file is used only if it has the seal of the user's key
and valid values. Every other file counts as missing.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qoop.catalog.errors import ConfigError
from qoop.catalog.paths import cache_directory
from qoop.catalog.signed_json import opened, sealed
from qoop.catalog.statistics.stats import ColumnStats, Scalar, TableStats
from qoop.catalog.stores.whole_file import write_whole
from qoop.catalog.table import Table
from qoop.catalog.user_key import user_key

if TYPE_CHECKING:
    from qoop.catalog.statistics.earlier_version import EarlierVersions

# Raised when the meaning of the file, or the way statistics are collected, changes.
FORMAT = 4

Collect = Callable[[Sequence[str], TableStats | None], TableStats]


class StatsCache:
    """Statistics of the tables of a catalog; collects what is missing, once for all that ask.

    kind: the name of their folder.
    """

    def __init__(self, directory: str | os.PathLike[str] | None = None, kind: str = "statistics") -> None:
        self.kind = kind
        self._directory = (Path(directory) if directory is not None else cache_directory()) / kind
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._known: dict[str, TableStats] = {}
        self._loaded: set[str] = set()

    @cached_property
    def _earlier_versions(self) -> EarlierVersions:
        from qoop.catalog.statistics.earlier_version import EarlierVersions  # a query that is short collects nothing

        return EarlierVersions(self._directory / "places")

    def get(self, table: Table, columns: Sequence[str], collect: Collect) -> TableStats:
        """Statistics with at least these columns. `collect` is given the missing ones and what is known."""
        known = self._known.get(table.version)
        if known is not None and known.columns.keys() >= set(columns):
            return known
        with self._lock:
            lock = self._locks.setdefault(table.version, threading.Lock())
        with lock:
            known = self._known.get(table.version) or self._load(table)
            missing = [name for name in columns if known is None or name not in known.columns]
            if known is None or missing:
                known = collect(missing, known)
                self._save(table, known)
            self._known[table.version] = known
            return known

    def known(self, table: Table) -> TableStats | None:
        """The statistics that were collected of a table, by this process or by another before this one first looked."""
        known = self._known.get(table.version)
        if known is None and table.version not in self._loaded:
            self._loaded.add(table.version)
            known = self._load(table)
            if known is not None:
                known = self._known.setdefault(table.version, known)
        return known

    def before(self, table: Table) -> tuple[TableStats, Table] | None:
        """The statistics that were collected before files were added to a table, and the table of these files."""
        found = self._earlier_versions.of(table)
        if found is None:
            return None
        known = self._known.get(found.version) or self._load_version(found.version)
        return None if known is None else (known, found.added)

    def _path(self, version: str) -> Path:
        return self._directory / f"{version}.json"

    def _load(self, table: Table) -> TableStats | None:
        return self._load_version(table.version) if table.source.shared else None

    def _load_version(self, version: str) -> TableStats | None:
        try:
            return from_json(self._path(version).read_bytes(), version, user_key())
        except (OSError, ConfigError):
            return None  # not collected yet, or not readable: collecting again is always right

    def _save(self, table: Table, stats: TableStats) -> None:
        if not table.source.shared:
            return
        path = self._path(table.version)
        try:
            write_whole(path, to_json(stats, table.version, user_key()))
            self._earlier_versions.note(table)
        except (OSError, ConfigError) as error:
            warnings.warn(
                f"statistics cannot be kept in {path.parent} and will be collected again: {error}; "
                "set QOOP_CACHE_DIR to a folder that can be written",
                RuntimeWarning,
                stacklevel=2,
            )


def to_json(stats: TableStats, version: str, key: bytes) -> str:
    """Statistics of a version of a table as text, sealed with the key."""
    columns = {name: asdict(column) for name, column in stats.columns.items()}
    keys = sorted(sorted(unique) for unique in stats.keys)
    body = {"format": FORMAT, "table": version, "rows": stats.rows, "bytes": stats.bytes}
    return sealed({**body, "columns": columns, "keys": keys}, key)


def from_json(text: bytes, version: str, key: bytes) -> TableStats | None:
    """Statistics from text; None if it is damaged, of another format, key or table, or holds no statistics."""
    try:
        data = opened(text, key)
        if (data["format"], data["table"]) != (FORMAT, version):
            return None
        columns = {name: _column(item) for name, item in data["columns"].items()}
        keys = frozenset(frozenset(map(_text, _list(unique))) for unique in _list(data["keys"]))
        return TableStats(_amount(data["rows"]), _amount(data["bytes"]), columns, keys)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _column(item: Mapping[str, Any]) -> ColumnStats:
    """Statistics of a column. Raises as `from_json` catches it."""
    nulls, distinct, width, locality, run = (
        _amount(item[name]) for name in ("nulls", "distinct", "width", "locality", "run")
    )
    common = tuple((_scalar(value), _amount(fraction)) for value, fraction in _list(item["common"]))
    bounds = tuple(map(_scalar, _list(item["bounds"])))
    minimum, maximum = (None if item[name] is None else _scalar(item[name]) for name in ("minimum", "maximum"))
    ends = (end for end in (minimum, maximum) if end is not None)
    _of_one_type([*ends, *bounds, *(value for value, _ in common)])
    return ColumnStats(nulls, distinct, minimum, maximum, common, bounds, width, locality, run)


def _amount(value: object) -> float:
    number = _number(value)
    if number < 0:
        raise ValueError(f"{value!r} is less than 0")
    return number


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not isfinite(value):
        raise TypeError(f"{value!r} is no number")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is no list")
    return value


def _scalar(value: object) -> Scalar:
    return value if isinstance(value, str) else _number(value)


def _of_one_type(values: Iterable[Scalar]) -> None:
    """Values of a column are compared: texts and numbers cannot be."""
    if len({isinstance(value, str) for value in values}) > 1:
        raise TypeError("texts and numbers in one column")
