"""DuckDB: a process that returns starts its text again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

from .protocol import serve


class DuckDBAgain:
    """A database in memory, with a view of each table."""

    name, version, dialect, at_once = "DuckDB", duckdb.__version__, "duckdb", 4

    def open(self, durable: Path, cpus: int, memory: int) -> None:
        self.connection = duckdb.connect(config={"threads": cpus, "memory_limit": f"{memory}B"})

    def add(self, table: str, files: Sequence[str]) -> None:
        listed = ", ".join(f"'{file}'" for file in files)
        self.connection.execute(f'CREATE VIEW "{table}" AS FROM read_parquet([{listed}])')

    def answer(self, text: str) -> pa.Table:
        return self.connection.cursor().sql(text).to_arrow_table()

    def resize(self, cpus: int, memory: int) -> None:
        self.connection.cursor().execute(f"SET threads = {cpus}; SET memory_limit = '{memory}B'")


if __name__ == "__main__":
    serve(DuckDBAgain())
