"""DataFusion: a process that returns starts its text again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from .protocol import serve


class DataFusionAgain:
    """A session over the files, with as many partitions as CPUs, and a pool of memory that spills fairly."""

    name, version, dialect = "DataFusion", "", "postgres"

    def open(self, durable: Path, cpus: int, memory: int) -> None:
        import datafusion

        self.version = datafusion.__version__
        runtime = datafusion.RuntimeEnvBuilder().with_disk_manager_os().with_fair_spill_pool(memory)
        config = datafusion.SessionConfig().with_target_partitions(cpus)
        self.context = datafusion.SessionContext(config, runtime)

    def add(self, table: str, files: Sequence[str]) -> None:
        self.context.register_parquet(table, files[0] if len(files) == 1 else str(Path(files[0]).parent))

    def answer(self, text: str) -> pa.Table:
        return self.context.sql(text).to_arrow_table()


if __name__ == "__main__":
    serve(DataFusionAgain())
