"""Leaves of few rows: the view's own DuckDB computes them, which costs less cpu than planning and starting a job."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from qoop.catalog import arrow_input, arrow_output
from qoop.catalog.errors import CatalogError
from qoop.catalog.lexer import quoted
from qoop.query.statements.settings import Settings, opened

if TYPE_CHECKING:
    from qoop.catalog.table import Table

MOST_ROWS = 400_000
"""Of all tables that a leaf reads: more rows are for a job, which can use all slots and be stopped."""

_MOST_SECONDS = 2.0
_MEMORY = "512MB"


class SmallLeaves:
    """Computes leaves in the caller's thread. Not thread-safe."""

    def __init__(self, settings: Settings) -> None:
        self._connection = opened(settings, files=True, threads=1, memory_limit=_MEMORY)
        self._connection.execute("SET arrow_lossless_conversion = true")
        self._versions: dict[str, str] = {}

    def close(self) -> None:
        """Release the memory."""
        self._connection.close()

    def rows(self, sql: str, tables: Mapping[str, Table]) -> pa.Table | None:
        """The rows of a query over these tables, by name; None: a job has to compute them, or to raise the error."""
        if sum(table.rows for table in tables.values()) > MOST_ROWS or any(map(_is_elsewhere, tables.values())):
            return None
        try:
            for name, table in tables.items():
                self._take(name, table)
            with self._limited():
                found = arrow_output.table(self._connection, sql)
            for table in tables.values():
                table.check()
        except (duckdb.Error, CatalogError):
            return None
        return found

    def _take(self, name: str, table: Table) -> None:
        if self._versions.get(name) == table.version:
            return
        scan = table.scan([column for column, _ in table.columns])
        if isinstance(scan, pa.Table):
            rows = f"{name}:rows"
            arrow_input.register(self._connection, rows, scan)
            scan = arrow_input.scan(rows, scan.schema) or f"FROM {quoted(rows)}"
        self._connection.execute(f"CREATE OR REPLACE VIEW {quoted(name)} AS {scan}")
        self._versions[name] = table.version

    @contextmanager
    def _limited(self) -> Iterator[None]:
        """Interrupt a query that takes long after all."""
        timer = threading.Timer(_MOST_SECONDS, self._connection.interrupt)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def _is_elsewhere(table: Table) -> bool:
    """True for rows that lie in a bucket, or in a database that has to be attached."""
    return bool(table.source.places().remote) or table.attach() is not None
