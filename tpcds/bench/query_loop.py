"""Queries one after another, in a process whose control group changes: qoop or DuckDB, each by its defaults.

Run as ``python -m qoop.tpcds.bench.query_loop KIND DIR ANSWERS`` by :mod:`qoop.tpcds.bench.resizes`, which writes the
texts by number and their order as a JSON line. Once the process is ready it writes a JSON line, then one for every
query that begins or ends; each carries the monotonic clock, which all processes of a machine share. The rows of query 7
are in ``ANSWERS/7.arrow`` until the next line is read.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

KINDS = ("qoop", "duckdb")


def run(kind: str, directory: Path, answers: Path, texts: Mapping[str, str], order: Sequence[int]) -> None:
    """Run these queries, in that order."""
    answer = _qoop(directory, texts.values()) if kind == "qoop" else _duckdb(directory)
    _write({"event": "ready"})
    for number in order:
        _write({"event": "begun", "query": number})
        cpu = time.process_time()
        try:
            table = answer(texts[str(number)])
        except Exception as error:
            _write({"event": "failed", "query": number, "error": f"{type(error).__name__}: {error}"[:500]})
            continue
        ended = {"event": "ended", "query": number, "at": time.monotonic(), "cpu": time.process_time() - cpu}
        with pa.ipc.new_file(answers / f"{number}.arrow", table.schema) as writer:
            writer.write_table(table)
        _write(ended)
        sys.stdin.readline()


def _qoop(directory: Path, texts: Iterable[str]) -> Callable[[str], pa.Table]:
    import qoop

    session = qoop.connect(reuse=False)
    session.register_folder(directory)
    for text in texts:
        session.prepare(text)  # statistics are collected once for a table, not once for a query
    return lambda text: session.sql(text).arrow()


def _duckdb(directory: Path) -> Callable[[str], pa.Table]:
    from qoop.tpcds.oracle import Oracle

    return Oracle(directory).answer


def _write(event: dict[str, Any]) -> None:
    print(json.dumps({"at": time.monotonic(), **event}), flush=True)


if __name__ == "__main__":
    kind, directory, answers = sys.argv[1:4]
    run(kind, Path(directory), Path(answers), **json.loads(sys.stdin.readline()))
