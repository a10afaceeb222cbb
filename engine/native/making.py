"""Makes a copy of a Parquet file in DuckDB's own format."""

from __future__ import annotations

import contextlib
from pathlib import Path

import duckdb

from qoop.catalog.opening import as_value, open_duckdb
from qoop.catalog.sources.files import sql_name
from qoop.catalog.table import Table

_PIECE = 1 << 22  # bytes that are copied at a time


class Maker:
    """One DuckDB with one thread, to be closed after its last copy. memory: bytes that it may use."""

    def __init__(self, spill: Path, memory: int) -> None:
        self._connection = open_duckdb(threads=1, memory_limit=f"{memory}B", temp_directory=str(spill))
        self._stopped = False

    def make(self, table: Table, to: Path) -> None:
        """Copy all rows of a table, in their order, into a table of its name.

        Raises duckdb.Error and CatalogError if it cannot be read, has changed, or has types that are others there.
        """
        rows = f"made.{sql_name(table.name)}"
        source = table.scan([name for name, _ in table.columns])
        if not isinstance(source, str):
            raise duckdb.NotSupportedError(f"{table.name} is in memory")
        self._connection.execute(f"ATTACH {as_value(str(to))} AS made")
        try:
            self._connection.execute(f"CREATE TABLE {rows} AS {source}")
            described = self._connection.execute(f"DESCRIBE {rows}").fetchall()
            if tuple((str(name), str(type_)) for name, type_, *_ in described) != table.columns:
                raise duckdb.NotSupportedError(f"{table.name} has other types as a table of DuckDB")
        finally:
            self._connection.execute("DETACH made")
        table.check()

    def grow(self, copy: Path, name: str, further: Table, to: Path) -> None:
        """Copy a copy, with the rows of further files behind those of its table of that name. Raises as `make`, and
        OSError."""
        with copy.open("rb") as source, to.open("wb") as made:
            while not self._stopped and (piece := source.read(_PIECE)):
                made.write(piece)
        if self._stopped:
            raise duckdb.InterruptException("the session is closed")
        self._connection.execute(f"ATTACH {as_value(str(to))} AS made")
        try:
            rows = further.scan([column for column, _ in further.columns])
            self._connection.execute(f"INSERT INTO made.{sql_name(name)} {rows}")
        finally:
            self._connection.execute("DETACH made")
        further.check()

    def interrupt(self) -> None:
        """End what runs now; without effect if nothing does *yet*."""
        self._stopped = True
        with contextlib.suppress(duckdb.Error):  # it is closed by now
            self._connection.interrupt()

    def close(self) -> None:
        """Free its memory."""
        self._connection.close()
