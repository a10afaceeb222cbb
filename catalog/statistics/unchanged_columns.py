"""Earlier versions of tables that hold the same where a query reads them, so that its answer from then still holds.

Files are often written again with the same rows, or with other values in a few columns. Once the answer to a text has
served a second time, the columns that it reads of small tables get digests (`column_content`), in a thread of low
priority. If such a table has another version later, the same columns of that version are compared, and an answer is
named by the first version with the same content in them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping

from qoop.catalog.errors import CatalogError
from qoop.catalog.statistics.column_content import ROWS, column_digests, is_comparable
from qoop.catalog.table import Table

_TEXTS = 4096
_VERSIONS = 8
"""Versions of a table whose digests are stored."""

_Digests = dict[str, str]  # by column

Reads = Callable[[str, Mapping[str, tuple[str, ...]]], Mapping[str, frozenset[str]] | None]
"""Tells the columns that a text may read of tables, of which it gets the columns, by name in lower case; None: all."""


class UnchangedColumns:
    """The digests of one session. Thread-safe. background: does work later, such as to compute them."""

    def __init__(self, reads: Reads, background: Callable[[Callable[[], None]], object]) -> None:
        self._reads, self._background = reads, background
        self._lock = threading.Lock()
        self._served: set[str] = set()
        self._known: dict[str, OrderedDict[str, _Digests]] = {}  # by the name of the table and its version

    def note_served(self, answer: str, text: str, tables: Mapping[str, Table]) -> None:
        """The answer to a text has served again: what it reads of its tables is worth digests. answer: its name."""
        with self._lock:
            if answer in self._served:
                return
            if len(self._served) >= _TEXTS:
                self._served.clear()
            self._served.add(answer)
        if any(map(is_comparable, tables.values())):
            self._background(lambda: self._digest_all(text, tables))

    def first_versions(self, text: str, tables: Mapping[str, Table]) -> Mapping[str, str]:
        """The first known versions of tables that hold what the present ones do where the text reads them, by name;
        only of tables that have such an earlier one."""
        changed = {name: table for name, table in tables.items() if self._has_earlier(table)}
        read = self._reads(text, _columns(tables)) if changed else None
        if read is None:
            return {}
        found = {name: self._first_version(table, read[name.lower()]) for name, table in changed.items()}
        return {name: version for name, version in found.items() if version != tables[name].version}

    def _has_earlier(self, table: Table) -> bool:
        with self._lock:
            known = self._versions(table)
            return next(iter(known), table.version) != table.version and is_comparable(table)

    def _first_version(self, table: Table, columns: frozenset[str]) -> str:
        own = self._digests(table, columns)
        with self._lock:
            for version, digests in self._versions(table).items():
                if all(one in own and digests.get(one) == own[one] for one in (ROWS, *columns)):
                    return version
        return table.version

    def _versions(self, table: Table) -> OrderedDict[str, _Digests]:
        """Under the lock."""
        return self._known.get(table.name.lower(), OrderedDict())

    def _digest_all(self, text: str, tables: Mapping[str, Table]) -> None:
        read = self._reads(text, _columns(tables)) or {}
        for table in tables.values():
            if is_comparable(table) and table.name.lower() in read:
                self._digests(table, read[table.name.lower()])

    def _digests(self, table: Table, columns: frozenset[str]) -> _Digests:
        """The digests of these columns, at least; empty if the files of the table are other ones by now."""
        with self._lock:
            before = dict(self._versions(table).get(table.version, {}))
        missing = columns - before.keys()
        if before and not missing:
            return before
        try:
            found = before | column_digests(table, missing)
        except CatalogError:
            return {}
        with self._lock:
            versions = self._known[table.name.lower()] = self._versions(table)
            versions.setdefault(table.version, {}).update(found)
            if len(versions) > _VERSIONS:
                versions.popitem(last=False)
        return found


def _columns(tables: Mapping[str, Table]) -> Mapping[str, tuple[str, ...]]:
    return {name.lower(): tuple(column for column, _ in table.columns) for name, table in tables.items()}
