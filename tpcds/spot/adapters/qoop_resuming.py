"""qoop in its default options: a process that returns goes on from the checkpoints in the durable folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa

import qoop

from .protocol import serve


class QoopResuming:
    """A session on the folder of the tables. Its caches are durable, too, and the key by which it knows its plans."""

    name, version, dialect, at_once = "qoop", version("qoop"), "duckdb", 4

    def open(self, durable: Path, cpus: int, memory: int) -> None:
        os.environ["QOOP_CACHE_DIR"] = str(durable / "cache")
        os.environ["XDG_CONFIG_HOME"] = str(durable / "config")
        self.session = qoop.connect(slots=cpus, memory=memory, checkpoints=str(durable / "checkpoints"))

    def add(self, table: str, files: Sequence[str]) -> None:
        self.session.register(table, files[0] if len(files) == 1 else Path(files[0]).parent)

    def answer(self, text: str) -> pa.Table:
        return self.session.submit(text, resume=True).result().arrow()

    def resize(self, cpus: int, memory: int) -> None:
        self.session.resize(slots=cpus, memory=memory)


if __name__ == "__main__":
    serve(QoopResuming())
