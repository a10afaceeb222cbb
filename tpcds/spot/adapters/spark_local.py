"""Spark in one process, `local[CPUs]`: a process that returns starts its text again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from .protocol import serve


class SparkLocal:
    """A session with the memory of the machine for its driver, which runs the tasks, too."""

    name, version, dialect = "Spark", "", "spark"

    def open(self, durable: Path, cpus: int, memory: int) -> None:
        from pyspark.sql import SparkSession

        self.spark = (
            SparkSession.builder.master(f"local[{cpus}]")
            .config("spark.driver.memory", f"{memory >> 20}m")
            .config("spark.sql.shuffle.partitions", cpus)
            .config("spark.ui.enabled", "false")
            .getOrCreate()
        )
        self.version = self.spark.version

    def add(self, table: str, files: Sequence[str]) -> None:
        self.spark.read.parquet(*files).createOrReplaceTempView(table)

    def answer(self, text: str) -> pa.Table:
        return self.spark.sql(text).toArrow()


if __name__ == "__main__":
    serve(SparkLocal())
