"""Files of outputs that others change while their rows are in use. Each in a process of its own: a map would end it."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from itertools import combinations, pairwise
from math import inf
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from qoop.catalog.errors import DiskFull
from qoop.engine.memory import anonymous_memory
from qoop.engine.storage.segments import Checksum, Damaged, checksum, joined, read_segment, write_segments

ROWS = pa.table({"a": range(100_000)})
WIDE = pa.decimal128(7, 2)

READS = """
import os, sys
from pathlib import Path
import pyarrow as pa, pyarrow.compute as pc
from qoop.engine.storage.checkpoint import Store
from qoop.engine.storage.retention import Retention
from qoop.engine.events import Committed
from qoop.engine.task import CheckpointKey
from qoop.catalog.errors import CheckpointError
folder = Path(sys.argv[1])
(folder / "spill").mkdir()
rows, key = pa.table({"a": range(100_000)}), CheckpointKey("sig", "layout", 0)
store = Store(0, folder / "spill", Retention(folder / "kept"))
store.put(Committed(key, (100_000,), (rows.nbytes,), 0.5), "job", [rows], durable=sys.argv[2] != "spilled")
store.flush()
store.trim()
if sys.argv[2] == "found":
    store = Store(0, folder / "spill", Retention(folder / "kept"))
table = store.read(key, 0)
for path in folder.rglob("*.arrow"):
    os.truncate(path, 0)
print(pc.sum(table["a"]).as_py())
try:
    print(pc.sum(store.read(key, 0)["a"]).as_py())
except CheckpointError as error:
    print(error)
"""


@pytest.mark.skipif(not hasattr(pa, "decimal32"), reason="this pyarrow has no narrow decimals")
def test_outputs_with_wider_decimals_of_an_earlier_version_are_read_with_others() -> None:
    narrow, wide = (pa.table({"a": pa.array(["1.25", None]).cast(type_)}) for type_ in (pa.decimal32(7, 2), WIDE))
    assert joined([narrow, narrow]).schema == narrow.schema
    assert joined([narrow, wide, narrow]).equals(pa.concat_tables([wide] * 3))
    with pytest.raises(pa.ArrowException):
        joined([narrow, ROWS.cast(pa.schema({"a": pa.string()}))])
    with pytest.raises(pa.ArrowInvalid):
        joined([narrow, narrow.rename_columns(["b"])])


@pytest.mark.parametrize("kind", ["spilled", "durable", "found"])
def test_rows_whose_file_is_cut_short_stay_or_are_an_error(tmp_path: Path, kind: str) -> None:
    done = subprocess.run([sys.executable, "-c", READS, str(tmp_path), kind], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "4999950000"
    assert second == "4999950000" if kind != "found" else "cut short" in second


def test_a_file_that_was_changed_after_it_was_read_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    with path.open("wb", buffering=0) as stream:
        [segment] = write_segments(stream, [ROWS], [ROWS.nbytes])
    assert read_segment(path, segment).equals(ROWS)
    with path.open("r+b") as stream:
        stream.seek(5000)
        stream.write(b"?")
    with pytest.raises(Damaged, match="checksum"):
        read_segment(path, segment)


def test_a_checksum_depends_on_every_byte_and_block_and_not_on_the_pieces() -> None:
    data = np.random.default_rng(1).bytes(100_001)
    right = checksum(data)
    for cuts in ([8, 4_072, 12_000], [1, 2, 3, 50_000], [4_071, 4_073, 99_999], [0, 0, 100_001]):
        pieces = Checksum()
        for begin, end in pairwise([0, *cuts, len(data)]):
            pieces.add(pa.py_buffer(data[begin:end]))
        assert pieces.value == right, cuts
    for place in (0, 4_071, 4_072, 50_000, 99_999, 100_000):
        assert checksum(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]) != right, place
    blocks = [data[begin : begin + 4_096] for begin in range(0, len(data), 4_096)]
    for one, other in combinations(range(len(blocks) - 1), 2):
        swapped = list(blocks)
        swapped[one], swapped[other] = blocks[other], blocks[one]
        assert checksum(b"".join(swapped)) != right, (one, other)
    assert len({checksum(data[:length]) for length in range(0, 9_000, 8)}) == 9_000 // 8


def test_many_rows_are_read_without_memory_of_their_own_and_outlive_their_file(tmp_path: Path) -> None:
    path, folder, rows = tmp_path / "x.arrow", tmp_path / "copies", pa.table({"a": np.arange(6_000_000)})
    folder.mkdir()
    with path.open("wb", buffering=0) as stream:
        segments = write_segments(stream, [ROWS, rows], [ROWS.nbytes, rows.nbytes])
    before = anonymous_memory()
    found = read_segment(path, segments[1], folder)
    assert anonymous_memory() < before + 20_000_000
    assert list(folder.iterdir()) == []
    path.write_bytes(b"")
    assert found.equals(rows)


def test_many_rows_that_were_changed_are_noticed_and_leave_nothing(tmp_path: Path) -> None:
    path, rows = tmp_path / "x.arrow", pa.table({"a": np.arange(6_000_000)})
    with path.open("wb", buffering=0) as stream:
        [segment] = write_segments(stream, [rows], [rows.nbytes])
    with path.open("r+b") as stream:
        stream.seek(40_000_000)
        stream.write(b"?")
    with pytest.raises(Damaged, match="checksum"):
        read_segment(path, segment, tmp_path)
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(DiskFull, match="nowhere"):
        read_segment(path, segment, tmp_path / "nowhere")


class Counting(io.RawIOBase):
    """A file that is full after some writes."""

    def __init__(self, space: float = inf) -> None:
        self.written: list[int] = []
        self.space = space

    def write(self, data: object) -> int:
        if len(self.written) >= self.space:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.written.append(memoryview(data).nbytes)  # type: ignore[arg-type]
        return self.written[-1]


MANY_BATCHES = pa.concat_tables(
    pa.table({f"c{column}": range(batch, batch + 100) for column in range(10)}) for batch in range(400)
)


def test_a_partition_of_many_small_batches_takes_few_writes() -> None:
    stream = Counting()
    [segment] = write_segments(stream, [MANY_BATCHES], [3_200_000])  # type: ignore[arg-type]
    assert (segment.rows, segment.bytes) == (40_000, 3_200_000) and sum(stream.written) >= segment.length > 3_200_000
    assert len(stream.written) < 10, "4,000 columns of batches, but a few large writes"


@pytest.mark.parametrize("space", [0, 1, 2])
def test_a_disk_that_becomes_full_in_the_middle_of_a_partition_is_an_error(space: int) -> None:
    with pytest.raises(OSError, match="No space left"):
        write_segments(Counting(space), [MANY_BATCHES], [0])  # type: ignore[arg-type]
