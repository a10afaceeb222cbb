"""Collected statistics, kept by table version in memory."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from qoop.catalog.stats import TableStats
from qoop.catalog.table import Table


class StatsCache:
    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, TableStats] = {}

    def get(self, table: Table, columns: Sequence[str], collect: Callable[[Sequence[str]], TableStats]) -> TableStats:
        with self._lock:
            known = self._known.get(table.version)
            missing = [name for name in columns if known is None or name not in known.columns]
            if known is None or missing:
                new = collect(missing)
                if known is not None:
                    new = replace(new, columns={**known.columns, **new.columns}, keys=known.keys | new.keys)
                self._known[table.version] = known = new
            return known
