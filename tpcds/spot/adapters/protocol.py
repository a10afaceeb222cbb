"""The loop of an adapter: requests come as JSON lines on standard input, replies go to standard output.

`open` names the tables, the durable folder and the resources; the reply is `ready`. `run` brings a text, and a file
for the answer; the reply is `done` or `failed`. Further texts may come before that. `table` adds a table that an
earlier text made. `notice` and `resize` have no reply. An engine that takes no heed of them needs no method for them.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol, TextIO

import pyarrow as pa

Files = Mapping[str, Sequence[str]]
"""The Parquet files of each table."""


class Engine(Protocol):
    """An engine as an adapter presents it. name, version: for the page; dialect: sqlglot's name of its SQL.

    An engine that answers several texts at once says how many: `at_once`. One that can be resized while it runs has
    ``resize(cpus, memory)``, which another thread calls.
    """

    name: str
    version: str
    dialect: str

    def open(self, durable: Path, cpus: int, memory: int) -> None:
        """Be ready for tables. durable: the one folder that survives a loss; empty at the first start."""

    def add(self, table: str, files: Sequence[str]) -> None:
        """Let texts read Parquet files as a table."""

    def answer(self, text: str) -> pa.Table:
        """All rows of a text."""
        ...


def serve(engine: Engine) -> None:
    """Reply to requests until there are no more. Other output of the engine goes to standard error."""
    replies = _Replies(os.fdopen(os.dup(1), "w"))
    os.dup2(2, 1)
    texts: SimpleQueue[Mapping[str, Any] | None] = SimpleQueue()
    workers = [
        threading.Thread(target=_work, args=(engine, texts, replies)) for _ in range(getattr(engine, "at_once", 1))
    ]
    for worker in workers:
        worker.start()
    try:
        for line in sys.stdin:
            request = json.loads(line)
            if "open" in request:
                _open(engine, **request["open"])
                facts = {"engine": engine.name, "version": engine.version, "dialect": engine.dialect}
                replies.write({"ready": True, **facts})
            elif "table" in request:
                engine.add(request["table"]["name"], request["table"]["files"])
            elif "run" in request:
                texts.put(request["run"])
            elif "resize" in request and hasattr(engine, "resize"):
                engine.resize(**request["resize"])
    finally:
        for _ in workers:
            texts.put(None)


class _Replies:
    """Writes replies, a line each. Thread-safe."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._lock = stream, threading.Lock()

    def write(self, reply: Mapping[str, Any]) -> None:
        with self._lock:
            self._stream.write(json.dumps(reply) + "\n")
            self._stream.flush()


def _work(engine: Engine, texts: SimpleQueue[Mapping[str, Any] | None], replies: _Replies) -> None:
    """Answer texts, one after the other."""
    while (run := texts.get()) is not None:
        try:
            _write(Path(run["answer"]), engine.answer(run["text"]))
        except Exception as error:
            replies.write({"failed": run["task"], "error": f"{type(error).__name__}: {error}"[:500]})
        else:
            replies.write({"done": run["task"]})


def _open(engine: Engine, tables: Files, durable: str, cpus: int, memory: int) -> None:
    engine.open(Path(durable), cpus, memory)
    for table, files in tables.items():
        engine.add(table, files)


def _write(path: Path, table: pa.Table) -> None:
    """Write the rows as an Arrow file, or as Parquet if that is its ending, so that a loss leaves no part of it."""
    partial = path.with_suffix(".partial")
    if path.suffix == ".parquet":
        from pyarrow import parquet

        parquet.write_table(table, partial)
    else:
        with pa.ipc.new_file(partial, table.schema) as writer:
            writer.write_table(table)
    partial.rename(path)
