"""One output while it is made: in memory as long as that has space for it, then in a file.

A task hands over its rows batch by batch, so what it holds of its output is bounded whatever anybody estimated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from qoop.catalog.errors import DiskFull
from qoop.catalog.value import value
from qoop.engine.clock import Stopwatch
from qoop.engine.events import Committed
from qoop.engine.storage.partition import POOL
from qoop.engine.storage.segments import Spilling

_RUN = 32 << 20  # bytes that are written to the file at a time
_VECTOR, _LARGE = 2_048, 1 << 20
"""Rows for which DuckDB reserves memory, and bytes of so few rows that are not copied."""

Admit = Callable[[int, int], bool]
"""Takes the bytes of memory that came (or went, below 0) and their number now; returns True if they may stay."""


@value
class Made:
    """The output of a task, by partition. mapped: the rows lie in a file, and take no memory.

    sizes: what the rows of each partition take in memory, if that is known. slices: the durable outputs that it
    consists of, in place of tables. earlier_seconds: that other processes took for those that were there.
    """

    tables: tuple[pa.Table, ...]
    mapped: bool = False
    slices: Sequence[Committed] = ()
    earlier_seconds: float = 0.0
    sizes: tuple[int, ...] = ()

    @property
    def rows(self) -> tuple[int, ...]:
        """By partition."""
        return tuple(one.num_rows for one in self.tables) or _sums([one.rows for one in self.slices])

    @property
    def bytes(self) -> tuple[int, ...]:
        """By partition."""
        return self.sizes or tuple(one.nbytes for one in self.tables) or _sums([one.bytes for one in self.slices])


def _sums(each: Sequence[Sequence[int]]) -> tuple[int, ...]:
    return tuple(map(sum, zip(*each, strict=True)))


class Output(Protocol):
    """The output that a task's rows go to. `finish` or `close` ends it."""

    def add(self, pieces: Iterable[tuple[int, pa.RecordBatch]]) -> None:
        """Append rows to partitions of these numbers."""
        ...

    def finish(self) -> Made:
        """All of them."""
        ...

    def close(self) -> None:
        """No more rows come; what was not finished is gone."""
        ...


Begin = Callable[[pa.Schema, int], Output]
"""Makes an output with that schema and number of partitions."""


def fitted(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of a batch of DuckDB's in buffers of their size.

    For each column DuckDB reserves memory for a vector, which no size of the buffers shows: an answer of 7 rows and 168
    bytes takes 31 KB. A server keeps thousands of these. The copy takes 5 microseconds, and 20 with an ENUM.
    """
    if batch.num_rows >= _VECTOR or batch.nbytes > _LARGE:
        return batch
    try:
        return pa.ipc.read_record_batch(batch.serialize(memory_pool=POOL), batch.schema)
    except pa.ArrowKeyError:  # its dictionaries are not part of that
        file = pa.BufferOutputStream(memory_pool=POOL)
        with pa.ipc.new_stream(file, batch.schema) as writer:
            writer.write_batch(batch)
        return pa.ipc.open_stream(file.getvalue()).read_next_batch()


class InMemory:
    """An output that is never written."""

    def __init__(self, schema: pa.Schema, parts: int) -> None:
        self._schema = schema
        self._batches: list[list[pa.RecordBatch]] = [[] for _ in range(parts)]

    def add(self, pieces: Iterable[tuple[int, pa.RecordBatch]]) -> None:
        """Append rows to partitions of these numbers."""
        for number, batch in pieces:
            self._batches[number].append(batch)

    def finish(self) -> Made:
        """All of them."""
        return Made(tuple(pa.Table.from_batches(batches, self._schema) for batches in self._batches))

    def close(self) -> None:
        """Nothing is left behind."""


class Timed:
    """An output that tells a stopwatch how long handing over takes."""

    def __init__(self, output: Output, stopwatch: Stopwatch) -> None:
        self._output = output
        self._stopwatch = stopwatch

    def add(self, pieces: Iterable[tuple[int, pa.RecordBatch]]) -> None:
        """Append rows to partitions of these numbers."""
        with self._stopwatch:
            self._output.add(pieces)

    def finish(self) -> Made:
        """All of them."""
        with self._stopwatch:
            return self._output.finish()

    def close(self) -> None:
        """No more rows come; what was not finished is gone."""
        self._output.close()


class Growing:
    """An output that moves to a file once memory has no space for it. Used by one thread.

    folder: where the file is made. between: called from batch to batch while that is written; may raise to give up.
    """

    def __init__(
        self, schema: pa.Schema, parts: int, folder: Path, admit: Admit, between: Callable[[], None] = lambda: None
    ) -> None:
        self._schema = schema
        self._batches: list[list[pa.RecordBatch]] = [[] for _ in range(parts)]
        self._sizes = [0] * parts
        self._bytes = 0
        self._folder = folder
        self._admit = admit
        self._between = between
        self._file: Spilling | None = None

    def add(self, pieces: Iterable[tuple[int, pa.RecordBatch]]) -> None:
        """Append rows to partitions of these numbers. Raises DiskFull if the file cannot be written."""
        came = 0
        for number, batch in pieces:
            self._batches[number].append(batch)
            size = batch.nbytes
            self._sizes[number] += size
            came += size
        self._bytes += came
        stays = self._admit(came, self._bytes)
        if not stays or (self._file is not None and self._bytes >= _RUN):
            self._write()

    def finish(self) -> Made:
        """All of them. Raises DiskFull."""
        if self._file is None:
            if len(self._batches) == 1:  # else they were cut, which has copied the rows
                self._batches = [[fitted(batch) for batch in self._batches[0]]]
            tables = tuple(pa.Table.from_batches(batches, self._schema) for batches in self._batches)
            return Made(tables, sizes=tuple(self._sizes))
        self._write()
        with self._reported():
            return Made(self._file.finish(), mapped=True, sizes=tuple(self._sizes))

    def close(self) -> None:
        """No more rows come; what was not finished is gone."""
        self._forget()
        if self._file is not None:
            self._file.close()

    def _write(self) -> None:
        """Move what is in memory to the file."""
        with self._reported():
            self._file = self._file or Spilling(self._folder, self._schema, len(self._batches))
            for number, batches in enumerate(self._batches):
                if batches:
                    self._file.write(number, batches, self._between)
                    batches.clear()
        self._forget()

    def _forget(self) -> None:
        self._batches = [[] for _ in self._batches]
        if self._bytes:
            self._admit(-self._bytes, 0)
        self._bytes = 0

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise DiskFull(f"cannot spill to {self._folder}: {error.strerror or error}") from error
