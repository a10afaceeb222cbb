"""DuckDBs that the views of a session share: to open one takes 11 ms and some megabytes, a connection to one nothing.

Tables that several views read, such as dimensions, lie in one once. Definitions that change while statements are
prepared have DuckDB plan all of them again, so connections make none at each refresh.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from qoop.catalog.forks import survive_fork
from qoop.catalog.lexer import quoted
from qoop.catalog.opening import silence
from qoop.query.statements.settings import Settings, opened

if TYPE_CHECKING:
    import duckdb

    from qoop.catalog.table import Table


class SharedDuckDB:
    """A DuckDB for all connections with the same settings, opened when it is first needed. Thread-safe.

    config: see `opened`."""

    def __init__(self, **config: Any) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._opened: dict[Settings, tuple[duckdb.DuckDBPyConnection, Copies]] = {}

    def connection(self, settings: Settings) -> duckdb.DuckDBPyConnection:
        """Another connection, whose temporary tables are its own."""
        with self._lock:
            made = self._of(settings)[0].cursor()
        survive_fork(made)
        silence(made)
        made.execute("SET arrow_lossless_conversion = true")
        return made

    def copies(self, settings: Settings) -> Copies:
        """The copies of tables that all these connections can read."""
        with self._lock:
            return self._of(settings)[1]

    def close(self) -> None:
        """Release the memory, once the connections are closed as well."""
        with self._lock:
            for connection, _ in self._opened.values():
                connection.close()
            self._opened.clear()

    def _of(self, settings: Settings) -> tuple[duckdb.DuckDBPyConnection, Copies]:
        if settings not in self._opened:
            self._opened[settings] = opened(settings, threads=1, **self._config), Copies()
        return self._opened[settings]


@dataclass(slots=True)
class _Copy:
    """name: of the copy. columns: that it has. readers: that use it."""

    name: str
    columns: set[str] = field(default_factory=set)
    readers: set[object] = field(default_factory=set)


class Copies:
    """Columns of tables in the memory of one DuckDB, by name and version of the table; each stays as long as it has
    readers. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._copies: dict[tuple[str, str], _Copy] = {}
        self._numbers = itertools.count()

    def take(
        self,
        reader: object,
        connection: duckdb.DuckDBPyConnection,
        table: Table,
        columns: Collection[str],
        scan: Callable[[Collection[str]], str],
    ) -> str:
        """The name of a copy with these columns of a table, which is made through this connection where it is missing.

        scan: a query for some columns of the table. Raises duckdb.Error, CatalogError."""
        key = table.name.lower(), table.version
        with self._lock:
            copy = self._copies.get(key) or _Copy(quoted(f"{table.name}:{next(self._numbers)}"))
            if not copy.columns >= set(columns):
                copy.columns |= self._make(connection, copy, table, columns, scan)
                self._copies[key] = copy
            copy.readers.add(reader)
            return copy.name

    def _make(
        self,
        connection: duckdb.DuckDBPyConnection,
        copy: _Copy,
        table: Table,
        columns: Collection[str],
        scan: Callable[[Collection[str]], str],
    ) -> set[str]:
        """Make a copy with further columns; returns all. Its readers have the rows of its version at all times."""
        required = copy.columns.union(columns)
        connection.execute("BEGIN")
        try:
            connection.execute(f"CREATE OR REPLACE TABLE {copy.name} AS {scan(required)}")
            table.check()
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
        return required

    def leave(self, reader: object, connection: duckdb.DuckDBPyConnection, name: str, version: str) -> None:
        """A reader no longer uses its copy of a table."""
        with self._lock:
            copy = self._copies[name.lower(), version]
            copy.readers.discard(reader)
            if not copy.readers:
                del self._copies[name.lower(), version]
                connection.execute(f"DROP TABLE {copy.name}")
