"""Collected statistics by table version: in memory, and on disk for tables that other processes can see.

One JSON file per version, written beside its place and renamed into it, so that a reader sees all or nothing.
Two processes that add columns at once may lose one's columns; they are then collected again.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from qoop.catalog.stats import ColumnStats, TableStats
from qoop.catalog.table import Table
from qoop.catalog.whole_file import write_whole

# Raised when the meaning of the file, or the way statistics are collected, changes.
FORMAT = 2

Collect = Callable[[Sequence[str], TableStats | None], TableStats]


class StatsCache:
    """Statistics of the tables of a catalog; collects what is missing, once, whoever asks first."""

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        self._directory = Path(directory) if directory is not None else default_directory()
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._known: dict[str, TableStats] = {}

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

    def _path(self, table: Table) -> Path:
        return self._directory / "statistics" / f"{table.version}.json"

    def _load(self, table: Table) -> TableStats | None:
        if not table.source.shared:
            return None
        try:
            text = self._path(table).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None  # not collected yet, or not readable: collecting again is always right
        return from_json(text)

    def _save(self, table: Table, stats: TableStats) -> None:
        if not table.source.shared:
            return
        path = self._path(table)
        try:
            write_whole(path, to_json(stats))
        except OSError as error:
            warnings.warn(
                f"statistics cannot be kept in {path.parent} and will be collected again: {error}; "
                "set QOOP_CACHE_DIR to a folder that can be written",
                RuntimeWarning,
                stacklevel=2,
            )


def default_directory() -> Path:
    """Where caches go: ``QOOP_CACHE_DIR``, else qoop's folder among the user's caches."""
    chosen = os.environ.get("QOOP_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "qoop"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "qoop" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "qoop"


def to_json(stats: TableStats) -> str:
    """Statistics as text."""
    columns = {name: asdict(column) for name, column in stats.columns.items()}
    keys = sorted(sorted(key) for key in stats.keys)
    return json.dumps(
        {"format": FORMAT, "rows": stats.rows, "bytes": stats.bytes, "columns": columns, "keys": keys}, allow_nan=False
    )


def from_json(text: str) -> TableStats | None:
    """Statistics from text; None if it is damaged or of another format."""
    try:
        data = json.loads(text)
        if data["format"] != FORMAT:
            return None
        columns = {name: _column(item) for name, item in data["columns"].items()}
        keys = frozenset(frozenset(key) for key in data["keys"])
        return TableStats(data["rows"], data["bytes"], columns, keys)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _column(item: dict[str, Any]) -> ColumnStats:
    common = tuple((value, fraction) for value, fraction in item.pop("common"))
    bounds = tuple(item.pop("bounds"))
    return ColumnStats(**item, common=common, bounds=bounds)
