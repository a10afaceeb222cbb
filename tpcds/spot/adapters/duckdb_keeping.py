"""DuckDB that keeps the common table expressions that a text reads more than once, in a file that survives."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow as pa

from .duckdb_again import DuckDBAgain
from .protocol import serve
from .shared_steps import steps


class DuckDBKeeping(DuckDBAgain):
    """Each such expression is a table in the durable folder, which a process that returns finds."""

    name, at_once = "DuckDB that keeps", 1

    def open(self, durable: Path, cpus: int, memory: int) -> None:
        super().open(durable, cpus, memory)
        self.connection.execute(f"ATTACH '{durable / 'kept.duckdb'}' AS kept")

    def answer(self, text: str) -> pa.Table:
        found, cursor = steps(text), self.connection.cursor()
        for name, step in found.shared:
            table = f'kept."{hashlib.sha256(step.encode()).hexdigest()}"'
            cursor.execute(f"CREATE TABLE IF NOT EXISTS {table} AS {step}")
            cursor.execute(f'CREATE OR REPLACE TEMP VIEW "{name}" AS FROM {table}')
        return cursor.sql(found.last).to_arrow_table()


if __name__ == "__main__":
    serve(DuckDBKeeping())
