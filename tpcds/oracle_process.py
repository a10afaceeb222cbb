"""The oracle in another process, so that its memory does not count as ours and a crash does not end ours.

Run as ``python -m qoop.tpcds.oracle_process DIR THREADS``. A request is a line of JSON ``{"text": …}``; the reply a
line ``{"seconds": …, "bytes": n}`` and n bytes of Arrow IPC stream, or a line ``{"error": …}``.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import duckdb
import pyarrow as pa

from qoop.catalog.errors import QoopError
from qoop.tpcds.oracle import Difference, Oracle, compare
from qoop.tpcds.ordering import ordering


class OracleError(QoopError):
    """DuckDB has no answer, or its process has ended."""


class OracleProcess:
    """DuckDB on the files of a folder in another process; times its answers. Use it as a context manager."""

    def __init__(self, directory: str | Path, threads: int) -> None:
        command = [sys.executable, "-m", "qoop.tpcds.oracle_process", str(directory), str(threads)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def answer(self, text: str) -> tuple[pa.Table, float]:
        """DuckDB's answer and the seconds it took, fetching Arrow included. Raises OracleError."""
        requests, replies = self._process.stdin, self._process.stdout
        assert requests is not None and replies is not None
        try:
            requests.write(json.dumps({"text": text}).encode() + b"\n")
            requests.flush()
            reply = json.loads(replies.readline())
        except (OSError, ValueError) as error:
            raise OracleError("the process of DuckDB has ended") from error
        if "error" in reply:
            raise OracleError(reply["error"])
        with pa.ipc.open_stream(replies.read(reply["bytes"])) as stream:
            return stream.read_all(), float(reply["seconds"])

    def judge(self, text: str, ours: pa.Table, theirs: pa.Table) -> Difference | None:
        """The reason why `ours` is not an answer to `text`, None if it is; `theirs` is DuckDB's. Raises OracleError."""
        order = ordering(text, theirs.column_names)
        return compare(ours, theirs, order=order, unlimited=lambda: self.answer(order.unlimited or "")[0])

    def close(self) -> None:
        """End the process, whatever it does; a second time does nothing."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def __enter__(self) -> OracleProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(oracle: Oracle, requests: IO[bytes], replies: IO[bytes]) -> None:
    """Answer requests until there are no more."""
    for line in requests:
        body = b""
        try:
            begun = time.perf_counter()
            table = oracle.answer(json.loads(line)["text"])
            seconds = time.perf_counter() - begun
            body = _stream(table)
            head: dict[str, object] = {"seconds": seconds, "bytes": len(body)}
        except duckdb.Error as error:
            head = {"error": str(error)}
        replies.write(json.dumps(head).encode() + b"\n" + body)
        replies.flush()


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches both processes; the other one ends this one
    with Oracle(sys.argv[1], threads=int(sys.argv[2])) as oracle:
        serve(oracle, sys.stdin.buffer, sys.stdout.buffer)
