"""Polars with its streaming engine: a process that returns starts its text again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from .protocol import serve


class PolarsStreaming:
    """A SQL context over lazy scans. Polars has no limit of memory."""

    name, version, dialect = "Polars", "", "postgres"

    def open(self, durable: Path, cpus: int, memory: int) -> None:
        os.environ["POLARS_MAX_THREADS"] = str(cpus)  # read when polars is loaded
        import polars

        self.version = polars.__version__
        self.scan, self.context = polars.scan_parquet, polars.SQLContext()

    def add(self, table: str, files: Sequence[str]) -> None:
        self.context.register(table, self.scan(list(files)))

    def answer(self, text: str) -> pa.Table:
        return self.context.execute(text, eager=False).collect(engine="streaming").to_arrow()


if __name__ == "__main__":
    serve(PolarsStreaming())
