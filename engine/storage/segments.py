"""The data file of a checkpoint: one Arrow IPC stream per output partition, and an index of them.

Segments start at multiples of 64 bytes, so that what is mapped into memory is aligned and needs no copy.
Concatenated streams must never be read as one: a reader stops at the first end marker, silently. Therefore the
index, which says where each segment lies, how many rows it must yield and what its bytes sum up to.

Not compressed: LZ4 takes 0.5 to 1.4 ns of cpu a byte for every kind of column but constant ones, writing with its
checksum 0.5 ns without; and reading 300 MB then takes 0.65 s, where a memory map takes nothing. The checksum
(`Checksum`) takes 0.07 ns, where zlib's CRC-32 takes 0.25, and BLAKE2b 1.1. It finds damage, and can be met on purpose
by a writer of the file: where others can write to it and the user has chosen a key (`manifest`), SHA-256 (1.4 GB/s) is
taken besides, and compared instead. What is spilled has none.

A file that has a name is never mapped: cutting a mapped file short ends the process that touches the map (SIGBUS). It
is read; or it is copied, if it is large or this process has no memory for the rows that it wrote there. Only copies and
what is spilled are mapped, for their files have no name: no other process can reach them, and they are gone with the
process, however that ends.
"""

from __future__ import annotations

import contextlib
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa

from qoop.catalog.errors import CheckpointError, DiskFull
from qoop.catalog.stores.private import open_private
from qoop.catalog.value import value

if TYPE_CHECKING:
    from io import FileIO

    import numpy as np

ALIGNMENT = 64
"""Bytes: segments begin at multiples of it."""

_LARGE = 32 << 20  # bytes of a segment that is not read into memory, if it may be copied
_CHUNK = 1 << 20
"""Bytes that are written or copied at a time. A partition of a task is many small buffers, of which each write alone
takes 10 µs of Python: without a buffer writing takes 1.7 times the cpu."""


_LANES = 509
_ROW = 8 * _LANES
"""Words of 8 bytes in a row of `Checksum`, and its bytes: a block of a disk that takes the place of another one shifts
its words to other lanes."""


class Checksum:
    """The sum of the bytes that are added, in any pieces: rows of `_LANES` words are added up by place, and the CRC-32
    of that row, and of the bytes after the last whole one, is the checksum."""

    def __init__(self) -> None:
        self._lanes: np.ndarray[tuple[int], np.dtype[np.uint64]] | None = None
        self._rest = b""

    def add(self, data: bytes | memoryview | pa.Buffer) -> None:
        """Further bytes."""
        view = memoryview(data)
        missing = -len(self._rest) % _ROW
        self._rest = self._left(self._rest + view[:missing]) + self._left(view[missing:])

    @property
    def value(self) -> int:
        """The checksum of all bytes so far."""
        return zlib.crc32(self._rest, 0 if self._lanes is None else zlib.crc32(self._lanes.tobytes()))

    def _left(self, data: bytes | memoryview) -> bytes:
        """Add the whole rows; the bytes after them."""
        rows = len(data) // _ROW
        if rows:
            import numpy as np  # it takes 0.14 s of cpu to load, and short commands need it for nothing else

            lanes = np.frombuffer(data, "<u8", rows * _LANES).reshape(rows, _LANES).sum(axis=0, dtype="<u8")
            self._lanes = lanes if self._lanes is None else self._lanes + lanes
        return bytes(data[rows * _ROW :])


def checksum(data: bytes | memoryview | pa.Buffer) -> int:
    """Of these bytes.

    >>> checksum(b"some bytes") == checksum(b"some bytes") != checksum(b"some bytez")
    True
    """
    found = Checksum()
    found.add(data)
    return found.value


class Damaged(CheckpointError):
    """The data are gone, or not as they were written; other CheckpointErrors may pass."""


@value
class Segment:
    """The place of one partition in its file: `length` bytes from `offset`, that yield `rows` rows.

    bytes: what the rows take in memory. checksum: of the length bytes, by `Checksum`; 0 of what is spilled. sha256: of
    the same, in hexadecimal, where the file must withstand other writers; else empty.
    """

    offset: int
    length: int
    rows: int
    bytes: int
    checksum: int
    sha256: str = ""


class _Counting:
    """A file for pyarrow to write to that counts what passes. Buffers pass without a copy."""

    closed = False

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.length = 0

    def write(self, data: bytes | pa.Buffer) -> int:
        view = memoryview(data)
        self.length += view.nbytes
        write_all(self._stream, view)
        return len(data) if isinstance(data, bytes) else data.size

    def sums(self) -> tuple[int, str]:
        """The checksum of what has passed, and its SHA-256, as far as they were requested."""
        return 0, ""

    def flush(self) -> None:
        """Nothing is kept back."""

    def close(self) -> None:
        """The stream belongs to the caller."""


class _Summing(_Counting):
    """The same with checksums. strong: SHA-256, too."""

    def __init__(self, stream: BinaryIO, strong: bool) -> None:
        super().__init__(stream)
        self._sha256 = sha256() if strong else None
        self._checksum = Checksum()

    def write(self, data: bytes | pa.Buffer) -> int:
        self._checksum.add(data)
        if self._sha256 is not None:
            self._sha256.update(memoryview(data))
        return super().write(data)

    def sums(self) -> tuple[int, str]:
        return self._checksum.value, "" if self._sha256 is None else self._sha256.hexdigest()


def write_segments(
    stream: BinaryIO, partitions: Sequence[pa.Table], sizes: Sequence[int], strong: bool = False
) -> tuple[Segment, ...]:
    """Write the partitions to an unbuffered file that is empty. sizes: what each takes in memory. strong: sum with
    SHA-256, too. Raises OSError."""
    segments: list[Segment] = []
    offset = 0
    for table, size in zip(partitions, sizes, strict=True):
        segment, offset = append(stream, offset, table, size, strong)
        segments.append(segment)
    return tuple(segments)


def append(
    stream: BinaryIO,
    offset: int,
    table: pa.Table,
    size: int,
    strong: bool = False,
    between: Callable[[], None] = lambda: None,
    summed: bool = True,
) -> tuple[Segment, int]:
    """Write a segment at the end of a file, which is at `offset`; where it is, and where the file ends now.

    size: what the rows take in memory. pyarrow needs 3 µs for a column of a batch to compute it, which is as long as to
    write it. between: called from batch to batch; may raise to give up. summed: it has a checksum.
    """
    sink = _Summing(stream, strong) if summed else _Counting(stream)
    file = pa.BufferedOutputStream(pa.PythonFile(sink, mode="w"), _CHUNK)
    with file, pa.ipc.new_stream(file, table.schema) as writer:
        for batch in table.to_batches():
            between()
            writer.write_batch(batch)
    padding = -sink.length % ALIGNMENT
    write_all(stream, memoryview(bytes(padding)))
    segment = Segment(offset, sink.length, table.num_rows, size, *sink.sums())
    return segment, offset + sink.length + padding


def write_all(stream: BinaryIO, view: memoryview) -> None:
    """Write all bytes to an unbuffered file. Raises OSError."""
    while view.nbytes:  # an unbuffered file may take less than it is given
        view = view[stream.write(view) :]


def read_segment(path: Path, segment: Segment, folder: Path | None = None) -> pa.Table:
    """The rows of a segment, read into memory and compared with their checksum.

    folder: where a large one is copied to, into a file without a name that is mapped; it takes no memory then that the
    system could not have back. Raises DiskFull if there is no space for that.

    Raises Damaged if the file is missing, too short, or does not hold what the index says, CheckpointError if it cannot
    be read for another reason.
    """
    with _readable(path, segment.offset + segment.length) as file:
        if folder is not None and segment.length >= _LARGE:
            data = _copied(file, segment.offset, segment.length, folder)
        else:
            file.seek(segment.offset)
            data = file.read_buffer(segment.length)
        return _checked(segment, data, path)


def copied(path: Path, segments: Sequence[Segment], folder: Path) -> tuple[pa.Table, ...]:
    """The rows of all segments of a file, as `read_segment` reads a large one: each is compared with its checksum.

    Raises as that does.
    """
    end = max(one.offset + one.length for one in segments)
    with _readable(path, end) as file:
        data = _copied(file, 0, end, folder)
        return tuple(_checked(one, data.slice(one.offset, one.length), path) for one in segments)


@contextlib.contextmanager
def _readable(path: Path, end: int) -> Iterator[pa.NativeFile]:
    """The file, which has as many bytes. Raises as `read_segment` does."""
    try:
        with pa.OSFile(str(path)) as file:
            if file.size() < end:  # before memory is taken for what an index says
                raise Damaged(f"{path} is cut short: {file.size()} bytes")
            yield file
    except FileNotFoundError as error:
        raise Damaged(f"{path} is not there any more") from error
    except (OSError, pa.ArrowException) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error


def _copied(file: pa.NativeFile, offset: int, length: int, folder: Path) -> pa.Buffer:
    """These bytes of a file, in one of our own. Raises OSError as the file does, DiskFull as its copy does."""
    path = folder / f"{os.urandom(8).hex()}.arrow"
    try:
        with _reported(folder), open_private(path, "x") as copy:
            _copy(file, copy, offset, length)
        with pa.memory_map(str(path)) as mapped:
            return mapped.read_buffer()
    finally:
        path.unlink(missing_ok=True)


def _copy(file: pa.NativeFile, copy: FileIO, offset: int, length: int) -> None:
    """Append these bytes of a file to another: by the system where it can, at 0.3 ns of cpu a byte instead of 1.7."""
    if sys.platform != "linux":  # others send to sockets alone
        file.seek(offset)
        for start in range(0, length, _CHUNK):
            write_all(copy, memoryview(file.read(min(_CHUNK, length - start))))
        return
    end = offset + length
    while offset < end:
        sent = os.sendfile(copy.fileno(), file.fileno(), offset, end - offset)
        if not sent:  # the file is shorter now: its checksum says so
            return
        offset += sent


@contextlib.contextmanager
def _reported(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DiskFull(f"cannot spill to {folder}: {error.strerror or error}") from error


def spilled(
    folder: Path, partitions: Sequence[pa.Table], between: Callable[[], None] = lambda: None
) -> tuple[pa.Table, ...]:
    """The partitions as `Spilling` gives them. Raises as `append` does."""
    with contextlib.closing(Spilling(folder, partitions[0].schema, len(partitions))) as file:
        for number, table in enumerate(partitions):
            file.write(number, table.to_batches(), between)
        return file.finish()


class Spilling:
    """Partitions that are written to a file as they come, in runs of a segment each, and mapped from there at the end.
    The file has no name then: it takes space on the disk as long as the rows are held, and none in memory that
    the system could not have back.

    Raises OSError as the file does. `close` removes what was not finished.
    """

    def __init__(self, folder: Path, schema: pa.Schema, parts: int) -> None:
        self._path = folder / f"{os.urandom(8).hex()}.arrow"
        self._stream = open_private(self._path, "x")
        self._schema = schema
        self._runs: list[list[Segment]] = [[] for _ in range(parts)]
        self._end = 0

    def write(self, number: int, batches: Sequence[pa.RecordBatch], between: Callable[[], None]) -> None:
        """Add rows to a partition. between: called from batch to batch; may raise to give up."""
        rows = pa.Table.from_batches(batches, self._schema)
        run, self._end = append(self._stream, self._end, rows, 0, between=between, summed=False)
        self._runs[number].append(run)

    def finish(self) -> tuple[pa.Table, ...]:
        """The partitions."""
        if not self._end:
            return tuple(self._schema.empty_table() for _ in self._runs)
        with pa.memory_map(str(self._path)) as file:
            data = file.read_buffer()
        return tuple(self._mapped(runs, data) for runs in self._runs)

    def close(self) -> None:
        """Write no more."""
        self._stream.close()
        self._path.unlink(missing_ok=True)

    def _mapped(self, runs: Sequence[Segment], data: pa.Buffer) -> pa.Table:
        tables = [_rows(one, data.slice(one.offset, one.length), self._path) for one in runs]
        return pa.concat_tables(tables) if tables else self._schema.empty_table()


def _checked(segment: Segment, data: pa.Buffer, where: Path) -> pa.Table:
    check(segment, data, where)
    return _rows(segment, data, where)


def _rows(segment: Segment, data: pa.Buffer, where: Path) -> pa.Table:
    table = pa.ipc.open_stream(data).read_all()
    if table.num_rows != segment.rows:
        raise Damaged(f"{where} is corrupt: {table.num_rows} rows instead of {segment.rows}")
    return table


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of several outputs of a stage, without a copy.

    If some were made by a version that had wider decimals, all get these. To look for that at once takes 0.1 ms more.
    Raises ArrowInvalid for tables of other columns.
    """
    try:
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables)
    except pa.ArrowInvalid:
        if len({tuple(table.column_names) for table in tables}) > 1:  # else NULLs would take the place of a column
            raise
        return pa.concat_tables(tables, promote_options="permissive")


def check(segment: Segment, data: pa.Buffer | memoryview, where: Path | str) -> None:
    """Raise Damaged unless these bytes, which were found there, are those of the segment."""
    right = sha256(data).hexdigest() == segment.sha256 if segment.sha256 else checksum(data) == segment.checksum
    if not right:
        raise Damaged(f"{where} is corrupt: bytes from {segment.offset} do not match their checksum")
