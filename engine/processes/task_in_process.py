"""A task as it runs within a child process: the kernel of that process, and its rows on their way to the parent."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from qoop.catalog.errors import OutOfMemory
from qoop.engine.kernel import Kernel
from qoop.engine.memory import FreedMemory, anonymous_memory
from qoop.engine.processes.child import PARTITION, Reply
from qoop.engine.processes.isolated_task import CODEC, IsolatedTask, read_rows, read_task
from qoop.engine.storage.growing import Made
from qoop.engine.task import TaskSpec
from qoop.planner.plan import ISOLATED, Resources

_PIECE = 8 << 20  # bytes of a frame; the parent holds one at a time, outside of all limits
_MOST = 32 << 20  # bytes of a row

_FREE = 16 << 20  # bytes on top of those before the first task, from which on what is free goes back to the system

_kernels: list[Kernel] = []
_freed = FreedMemory()
_before: list[int] = []  # bytes that this process had before the first task


_versions: dict[str, str] = {}  # of the tables that the kernel has read


def prepare() -> None:
    """As `prepare` of the module that binds texts: the first task is read in 1.2 ms in place of 2.3."""
    CODEC.pair(IsolatedTask)


def run_task(reply: Reply, task: Any) -> None:
    """Run an isolated task and send its rows: each frame is the number of a partition, and an Arrow stream of a schema
    and one batch."""
    found = read_task(task)
    if not _kernels:
        spill = Path(found.spill) / str(os.getpid())
        shutil.rmtree(spill, ignore_errors=True)  # of a kernel that could not be opened, or of a process of this number
        spill.mkdir(parents=True)
        _before.append(anonymous_memory())
        _kernels.append(Kernel(spill / "kernel"))
    versions = {table.table: table.version for table in found.tables}
    if any(_versions.get(name, version) != version for name, version in versions.items()):
        _kernels[0].restart()  # DuckDB may have kept the footer of a file that has changed since
    _versions.update(versions)
    files, most = dict(found.outputs), _MOST if found.opaque == ISOLATED else math.inf
    spec = found.as_spec()
    with reply.answers(partial(_answer, reply, _kernels[0], spec)):
        _kernels[0].run(spec, lambda name: read_rows(files[name]), begin=lambda schema, _: _Sent(reply, schema, most))
    if anonymous_memory() > _before[0] + _FREE:
        _freed.give_back()  # so that the process is small enough for another call


def _answer(reply: Reply, kernel: Kernel, spec: TaskSpec, message: Any) -> Any:
    """The answer to a message about the task that runs: how far it is, or whether it has other resources now.

    message: None, or the slots, the bytes of memory, and the bytes on top of its limit that this process may have.
    """
    if message is None:
        return kernel.part_over()
    slots, memory, added = message
    reply.allow(added)
    try:
        return kernel.regrant(spec, Resources(cpu=slots, memory=memory))
    except duckdb.Error as error:
        return str(error)


class _Sent:
    """An output that goes to the parent. most: bytes of a row."""

    def __init__(self, reply: Reply, schema: pa.Schema, most: float) -> None:
        self._reply, self._schema, self._most = reply, schema, most
        self._send(0, None)

    def add(self, pieces: Iterable[tuple[int, pa.RecordBatch]]) -> None:
        for number, batch in pieces:
            self._add(number, batch)

    def _add(self, number: int, batch: pa.RecordBatch) -> None:
        """Send a batch, in halves while it is large: a slice of Arrow is written without what it leaves out."""
        if batch.nbytes <= _PIECE:
            self._send(number, batch)
        elif batch.num_rows > 1:
            half = batch.num_rows // 2
            self._add(number, batch.slice(0, half))
            self._add(number, batch.slice(half))
        elif batch.nbytes <= self._most:
            self._send(number, batch)
        else:
            most = f"one of a text like this has {_MOST / 1e6:.0f} MB at most"
            raise OutOfMemory(f"a row of the answer has {batch.nbytes / 1e6:,.0f} MB; {most}")

    def _send(self, number: int, batch: pa.RecordBatch | None) -> None:
        sink = pa.BufferOutputStream()
        sink.write(PARTITION.pack(number))
        with pa.ipc.new_stream(sink, self._schema) as writer:
            if batch is not None:
                writer.write_batch(batch)
        self._reply.send(memoryview(sink.getvalue()))

    def finish(self) -> Made:
        return Made(())

    def close(self) -> None:
        """All was sent."""
