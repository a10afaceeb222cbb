"""The loop of an adapter: requests come as JSON lines on standard input, replies go to standard output.

`open` names the tables, the durable folder and the resources; the reply is `ready`. `run` brings a text, and a file
for the answer; the reply is `done` or `failed`. `table` adds a table that an earlier text made. `notice` and `resize`
have no reply. An engine that takes no heed of them needs no method for them.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

Files = Mapping[str, Sequence[str]]
"""The Parquet files of each table."""


class Engine(Protocol):
    """An engine as an adapter presents it. name, version: for the page; dialect: sqlglot's name of its SQL."""

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
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        reply = _reply(engine, json.loads(line))
        if reply is not None:
            replies.write(json.dumps(reply) + "\n")
            replies.flush()


def _reply(engine: Engine, request: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if "open" in request:
        _open(engine, **request["open"])
        return {"ready": True, "engine": engine.name, "version": engine.version, "dialect": engine.dialect}
    if "table" in request:
        engine.add(request["table"]["name"], request["table"]["files"])
    if "run" not in request:
        return None
    run = request["run"]
    try:
        _write(Path(run["answer"]), engine.answer(run["text"]))
    except Exception as error:
        return {"failed": run["task"], "error": f"{type(error).__name__}: {error}"[:500]}
    return {"done": run["task"]}


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
