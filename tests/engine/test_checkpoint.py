"""The store: tiers, spilling, what lies on disk and what of it is believed."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest

from qoop.catalog.errors import CheckpointError, DiskFull
from qoop.engine.events import Committed
from qoop.engine.failures import Stopped
from qoop.engine.storage import manifest
from qoop.engine.storage.checkpoint import Store
from qoop.engine.storage.manifest import checkpoint_name
from qoop.engine.storage.retention import Retention
from qoop.engine.storage.segments import read_segment, write_segments
from qoop.engine.task import CheckpointKey

PLENTY = 1 << 30


def key(number: int) -> CheckpointKey:
    return CheckpointKey(f"sig{number}", "layout", number)


def tables(number: int, rows: int = 1000) -> tuple[pa.Table, ...]:
    """Three partitions, the second of them empty, with columns of fixed and of variable width."""
    whole = pa.table({"a": range(number, number + rows), "s": [f"row {i}" for i in range(rows)]})
    return whole.slice(0, rows // 3), whole.slice(0, 0), whole.slice(rows // 3)


def committed(number: int, parts: tuple[pa.Table, ...]) -> Committed:
    return Committed(key(number), tuple(t.num_rows for t in parts), tuple(t.nbytes for t in parts), 0.5)


def put(store: Store, number: int, job: str = "job", rows: int = 1000, durable: bool = False) -> tuple[pa.Table, ...]:
    parts = tables(number, rows)
    store.put(committed(number, parts), job, parts, durable)
    return parts


def files(path: Path) -> list[str]:
    return sorted(item.name for item in path.iterdir() if item.name != "lock" and item.suffix != ".user")


@pytest.fixture
def spill(tmp_path: Path) -> Path:
    path = tmp_path / "spill"
    path.mkdir()
    return path


@pytest.fixture
def store(spill: Path) -> Iterator[Store]:
    store = Store(PLENTY, spill)
    yield store
    store.close()


@pytest.fixture
def durable(tmp_path: Path) -> Path:
    return tmp_path / "durable"


def test_memory_is_shared_not_copied(store: Store, spill: Path) -> None:
    parts = put(store, 1)
    read = store.read(key(1), 0)
    assert read["a"].chunk(0).buffers()[1].address == parts[0]["a"].chunk(0).buffers()[1].address
    assert store.read(key(1), None).equals(pa.concat_tables(parts))
    assert files(spill) == []


def test_held_tells_the_facts(store: Store) -> None:
    parts = put(store, 1)
    assert store.present([key(2), key(1)]) == [committed(1, parts)]


def test_the_first_of_two_equal_outputs_stays(store: Store) -> None:
    first = put(store, 1)
    again = tables(1)
    assert store.put(committed(1, again), "other", again).key == key(1)
    assert store.read(key(1), 0)["a"].chunk(0).buffers()[1].address == first[0]["a"].chunk(0).buffers()[1].address
    store.release("job", [key(1)])
    assert store.present([key(1)])
    store.release("other", [key(1)])
    assert not store.present([key(1)]) and store.used == 0


def test_an_output_stays_while_any_job_needs_it(store: Store) -> None:
    put(store, 1)
    store.hold("reader", [key(1), key(99)])
    store.release("job", [key(1)])
    store.release("stranger", [key(1)])
    assert store.read(key(1), 2).num_rows
    store.release("reader", [key(1)])
    with pytest.raises(CheckpointError, match="not present"):
        store.read(key(1), 2)


def test_what_exceeds_the_budget_is_spilled_and_read_back(spill: Path) -> None:
    store = Store(100_000, spill)
    expected = {number: put(store, number, rows=2000) for number in range(6)}
    assert 0 < store.used <= 100_000 and store.used + store.spilled == sum(
        sum(committed(number, parts).bytes) for number, parts in expected.items()
    )
    for number, parts in expected.items():
        for partition, table in enumerate(parts):
            assert store.read(key(number), partition).equals(table)
        assert store.read(key(number), None).equals(pa.concat_tables(parts))
    store.release("job", [key(number) for number in range(6)])
    assert files(spill) == [] and store.used == store.spilled == 0
    store.close()


def test_the_least_recently_used_is_spilled(spill: Path) -> None:
    size = sum(committed(1, tables(1)).bytes)
    store = Store(int(2.5 * size), spill)
    old, new = put(store, 1), put(store, 2)
    store.read(key(1), None)
    put(store, 3)
    in_memory = [store.read(key(n), 0)["a"].chunk(0).buffers()[1].address for n in (1, 2)]
    assert in_memory[0] == old[0]["a"].chunk(0).buffers()[1].address
    assert in_memory[1] != new[0]["a"].chunk(0).buffers()[1].address
    store.close()


def test_spilled_data_is_mapped_not_copied(spill: Path) -> None:
    store = Store(0, spill)
    put(store, 1, rows=200_000)
    before = pa.total_allocated_bytes()
    table = store.read(key(1), 2)
    assert table.num_rows == 133_334 and pa.total_allocated_bytes() - before < 10_000
    assert table["a"].chunk(0).buffers()[1].address % 8 == 0
    assert files(spill) == []  # nobody can reach the file, and so cut it short
    store.close()


def test_durable_outputs_outlive_the_store(spill: Path, durable: Path) -> None:
    store = Store(PLENTY, spill, Retention(durable))
    parts = put(store, 1, durable=True)
    put(store, 2)
    store.release("job", [key(1)])
    store.close()
    assert len(files(durable)) == 2
    later = Store(PLENTY, spill, Retention(durable))
    assert later.present([key(1), key(2)]) == [committed(1, parts)]
    assert later.read(key(1), None).equals(pa.concat_tables(parts))
    assert later.read(key(1), 1).schema == parts[1].schema
    later.close()
    assert files(spill) == []


def test_durable_outputs_without_memory_lie_in_copies_that_no_writer_can_change(spill: Path, durable: Path) -> None:
    """Unless there is no space for a copy, or the file was damaged before."""
    store = Store(PLENTY, spill, Retention(durable))
    copied, damaged, full = (put(store, number, durable=True) for number in range(3))
    store.flush()
    whole = {number: next(durable.glob(f"{checkpoint_name(key(number))}.*.arrow")) for number in range(3)}
    os.truncate(whole[1], 100)
    store.budget = sum(table.nbytes for table in full)
    store.trim()
    os.truncate(whole[0], 0)
    assert store.spilled == sum(table.nbytes for table in [*copied, *damaged])
    assert files(spill) == []
    for number, parts in enumerate((copied, damaged)):
        assert [store.read(key(number), part) for part in range(3)] == list(parts)
    spill.rmdir()
    store.budget = 0
    store.trim()
    assert store.used == 0
    assert [store.read(key(2), part) for part in range(3)] == list(full)
    store.release("job", [key(number) for number in range(3)])
    assert not store.spilled
    store.close()


def test_without_a_directory_durable_means_nothing(store: Store, spill: Path) -> None:
    put(store, 1, durable=True)
    store.flush()
    assert files(spill) == []


@pytest.fixture
def saved(spill: Path, durable: Path) -> Path:
    """A directory with one durable checkpoint."""
    store = Store(PLENTY, spill, Retention(durable))
    put(store, 1, durable=True)
    store.close()
    return durable


def of_kind(directory: Path, ending: str) -> Path:
    (found,) = directory.glob(f"*.{ending}")
    return found


@pytest.mark.parametrize("place", [200, -400])
def test_a_flipped_byte_is_found_at_the_first_read(saved: Path, spill: Path, place: int) -> None:
    data = of_kind(saved, "arrow")
    content = bytearray(data.read_bytes())
    content[place] ^= 1
    data.write_bytes(content)
    store = Store(PLENTY, spill, Retention(saved))
    assert store.present([key(1)])
    with pytest.raises(CheckpointError, match="corrupt"):
        store.read(key(1), None)
    assert not store.present([key(1)])
    store.close()
    assert files(saved) == []


def test_data_that_was_cut_short_is_not_held(saved: Path, spill: Path) -> None:
    data = of_kind(saved, "arrow")
    os.truncate(data, data.stat().st_size // 2)
    store = Store(PLENTY, spill, Retention(saved))
    assert not store.present([key(1)])
    store.close()


@pytest.mark.parametrize("size", [0, 1, 100, -1])
def test_a_manifest_that_was_cut_short_is_not_believed(saved: Path, spill: Path, size: int) -> None:
    path = of_kind(saved, "json")
    content = path.read_bytes()
    path.write_bytes(content[:size])
    store = Store(PLENTY, spill, Retention(saved))
    assert not store.present([key(1)])
    store.close()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("version", 1),
        ("format", "other"),
        ("segments", [1]),
        ("key", {"signature": "sig1", "layout": "layout", "part": 2}),
    ],
)
def test_a_manifest_of_another_kind_is_not_believed(saved: Path, spill: Path, field: str, value: object) -> None:
    path = of_kind(saved, "json")
    path.write_text(json.dumps({**json.loads(path.read_text()), field: value}))
    store = Store(PLENTY, spill, Retention(saved))
    assert not store.present([key(1)])
    store.close()


def test_data_without_a_manifest_is_collected(saved: Path, spill: Path) -> None:
    garbage = saved / f"{'0' * 32}.{'1' * 16}-1.arrow"
    draft = saved / f"{'0' * 32}.{'1' * 16}-1.json"
    bystander = saved / "notes.arrow"
    for path in (garbage, draft, bystander):
        path.write_text("x")
    store = Store(PLENTY, spill, Retention(saved))
    assert not garbage.exists() and not draft.exists() and bystander.exists()
    assert store.present([key(1)])
    store.close()


def test_nothing_is_collected_under_a_living_writer(saved: Path, spill: Path) -> None:
    writer = Store(PLENTY, spill, Retention(saved))
    (user,) = saved.glob("*.user")
    half_written = saved / f"{'0' * 32}.{user.stem}-9.arrow"
    half_written.write_text("x")
    other = Store(PLENTY, spill, Retention(saved))
    assert half_written.exists()
    writer.close()
    third = Store(PLENTY, spill, Retention(saved))
    assert not half_written.exists()  # though another is at work
    third.close()
    other.close()
    assert not list(saved.glob("*.user"))


def test_written_again_leaves_one_file(saved: Path, spill: Path) -> None:
    store = Store(PLENTY, spill, Retention(saved))
    put(store, 1, durable=True)
    store.close()
    assert len(files(saved)) == 2


def test_a_directory_that_cannot_be_made(spill: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.warns(RuntimeWarning, match=r"file.*cannot be written"):
        store = Store(PLENTY, spill, Retention(tmp_path / "file" / "checkpoints"))
    parts = put(store, 1, durable=True)
    assert store.read(key(1), 0).equals(parts[0])
    store.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_permission(spill: Path, durable: Path) -> None:
    durable.mkdir(mode=0o555)
    with pytest.warns(RuntimeWarning, match="Permission denied"):
        Store(PLENTY, spill, Retention(durable)).close()


class Full:
    """Has the disk run full after that many bytes."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, module: ModuleType, available: int, writer: str = "write_segments"
    ) -> None:
        self.available, self.write = available, getattr(module, writer)
        monkeypatch.setattr(module, writer, self)

    def __call__(self, stream: object, *args: object, **more: object) -> object:
        return self.write(_Small(stream, self.available), *args, **more)


class _Small:
    def __init__(self, stream: object, available: int) -> None:
        self.stream, self.available = stream, available

    def write(self, data: bytes) -> int:
        if self.available <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written: int = self.stream.write(bytes(data)[: self.available])  # type: ignore[attr-defined]
        self.available -= written
        return written


def test_a_full_disk_is_told_and_leaves_nothing(spill: Path, durable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(PLENTY, spill, Retention(durable))
    full = Full(monkeypatch, manifest, 5000)
    with pytest.warns(RuntimeWarning, match="No space left") as told:
        parts = put(store, 1, durable=True)
        store.flush()
        assert files(durable) == []
        assert store.read(key(1), 0).equals(parts[0])  # still there for this process
        put(store, 2, durable=True)
        store.flush()
    assert len(told) == 1
    full.available = PLENTY
    put(store, 4, durable=True)
    store.close()
    assert len(files(durable)) == 2


def test_what_cannot_be_written_leaves_memory_for_the_spill(
    spill: Path, durable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(60_000, spill, Retention(durable))
    Full(monkeypatch, manifest, 5000)
    with pytest.warns(RuntimeWarning):
        parts = [put(store, number, durable=True) for number in range(9)]
        store.flush()
    store.trim()
    assert store.used <= 60_000
    assert [store.read(key(number), 0) for number in range(9)] == [one[0] for one in parts]
    store.close()


@pytest.mark.filterwarnings("error")
def test_a_warning_that_is_an_error_is_one_of_ours(spill: Path, durable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(PLENTY, spill, Retention(durable))
    Full(monkeypatch, manifest, 5000)
    put(store, 1, durable=True)
    with pytest.raises(DiskFull):
        store.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "qoop-writer"]


def test_a_full_spill_disk(spill: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from qoop.engine.storage import segments

    store = Store(60_000, spill)
    parts = put(store, 1)
    full = Full(monkeypatch, segments, 5000, "append")
    with pytest.raises(DiskFull, match="spill"):
        put(store, 2, rows=3000)
    assert files(spill) == [] and not store.present([key(2)])
    assert store.read(key(1), 0).equals(parts[0])
    full.available = PLENTY
    put(store, 2, rows=3000)
    assert store.read(key(2), None).num_rows == 3000
    store.close()


def test_a_put_can_be_stopped_while_it_spills(spill: Path) -> None:
    store = Store(0, spill)
    parts = tables(1)

    def stop() -> None:
        raise Stopped

    with pytest.raises(Stopped):
        store.put(committed(1, parts), "job", parts, between=stop)
    assert files(spill) == [] and store.used == 0 and not store.present([key(1)])
    store.close()


def test_a_put_waits_for_the_writer(spill: Path, durable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    may_write, writing = threading.Event(), threading.Event()

    def slowly(stream: object, *args: object, **more: object) -> object:
        writing.set()
        may_write.wait(60)
        return write_segments(stream, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(manifest, "write_segments", slowly)
    store = Store(100_000, spill, Retention(durable))  # half of it may wait
    put(store, 1, rows=2000, durable=True)
    writing.wait(60)
    parts = tables(3)

    def stop() -> None:
        raise Stopped

    with pytest.raises(Stopped):
        store.put(committed(3, parts), "job", parts, durable=True, between=stop)
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(put, store, 2, rows=2000, durable=True)
        time.sleep(0.15)
        assert not second.done()
        may_write.set()
        second.result(60)
    store.close()
    assert len(files(durable)) == 4


def test_many_threads_at_once(spill: Path, durable: Path) -> None:
    store = Store(300_000, spill, Retention(durable))

    def work(number: int) -> None:
        job = f"job{number % 5}"
        parts = put(store, number, job, rows=500 + number * 10, durable=number % 3 == 0)
        for _ in range(5):
            for partition in range(3):
                assert store.read(key(number), partition).equals(parts[partition])
        if number % 2:
            store.release(job, [key(number)])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(60)))
    store.flush()
    assert store.used <= 300_000
    for job in range(5):
        store.release(f"job{job}", [key(number) for number in range(60)])
    assert store.used == 0 and files(spill) == []
    store.close()
    assert len(files(durable)) == 40


def test_segments_are_read_apart(tmp_path: Path) -> None:
    parts = tables(1)
    path = tmp_path / "x.arrow"
    with path.open("wb", buffering=0) as stream:
        index = write_segments(stream, parts, [part.nbytes for part in parts])
    assert [segment.rows for segment in index] == [table.num_rows for table in parts]
    assert all(segment.offset % 64 == 0 for segment in index)
    assert [read_segment(path, segment) for segment in index] == list(parts)
