"""A directory of checkpoints on a budget, shared by several users."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from waits import PATIENCE

from qoop.engine.events import CheckpointSaved, Committed
from qoop.engine.storage import users
from qoop.engine.storage.checkpoint import Store
from qoop.engine.storage.manifest import CheckpointDirectory, manifests
from qoop.engine.storage.retention import Retention
from qoop.engine.task import CheckpointKey

ROWS = pa.table({"a": pa.array(range(1250), pa.int64())})  # 10 KB


def key(number: int) -> CheckpointKey:
    return CheckpointKey(f"sig{number}", "layout", 0)


def facts(number: int, seconds: float = 1.0, times: int = 1) -> Committed:
    return Committed(key(number), (ROWS.num_rows,) * times, (ROWS.nbytes,) * times, seconds)


def held(root: Path) -> set[int]:
    return {int(saved.committed.key.signature[3:]) for saved in manifests(root)}


def size(root: Path) -> int:
    return sum(path.stat().st_size for path in root.iterdir() if path.suffix in (".json", ".arrow"))


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[int | None], CheckpointDirectory]]:
    directories: list[CheckpointDirectory] = []

    def another(budget: int | None = None) -> CheckpointDirectory:
        directories.append(CheckpointDirectory(tmp_path, budget))
        return directories[-1]

    yield another
    for directory in directories:
        directory.close()


Opened = Callable[[int | None], CheckpointDirectory]


def test_a_budget_is_kept_and_what_is_cheap_to_make_goes_first(opened: Opened, tmp_path: Path) -> None:
    directory = opened(100_000)
    for number in range(30):
        assert directory.save(facts(number, 10.0 if number < 4 else 0.1), [ROWS], needed=False)
        assert size(tmp_path) <= 105_000
    assert {0, 1, 2, 3, 29} <= held(tmp_path) and len(held(tmp_path)) > 6


def test_what_was_used_last_stays(opened: Opened, tmp_path: Path) -> None:
    directory = opened(100_000)
    for number in range(8):
        directory.save(facts(number), [ROWS], needed=False)
    for path in tmp_path.glob("*.json"):
        os.utime(path, (time.time() - 1000, time.time() - 1000))
    assert directory.find(key(3))
    directory.unpin([key(3)])
    for number in range(8, 12):
        directory.save(facts(number), [ROWS], needed=False)
    assert 3 in held(tmp_path) and not {0, 1, 2} <= held(tmp_path)


def test_nothing_is_removed_that_a_running_job_of_any_process_needs(opened: Opened, tmp_path: Path) -> None:
    mine, other = opened(100_000), opened(100_000)
    for number in range(4):
        assert mine.save(facts(number, 0.001), [ROWS])
        assert other.save(facts(10 + number, 0.001), [ROWS])
    for number in range(20, 25):
        mine.save(facts(number, 100.0), [ROWS], needed=False)
    assert held(tmp_path) >= {0, 1, 2, 3, 10, 11, 12, 13}
    assert mine.save(facts(30, times=3), [ROWS] * 3) is None  # there is no space, and none can be made
    other.unpin([key(10 + number) for number in range(4)])
    assert mine.save(facts(30, times=3), [ROWS] * 3) is not None
    assert held(tmp_path) >= {0, 1, 2, 3, 30} and size(tmp_path) <= 105_000


def test_what_the_dead_needed_may_go(opened: Opened, tmp_path: Path) -> None:
    dead = CheckpointDirectory(tmp_path)
    dead.save(facts(1), [ROWS])
    (log,) = tmp_path.glob("*.user")
    dead.close()
    log.write_text(f"+{next(tmp_path.glob('*.json')).stem}\n")  # as kill -9 would have left it
    living = opened(15_000)
    assert not log.exists()
    assert living.save(facts(2), [ROWS]) is not None and held(tmp_path) == {2}


def test_a_process_begins_by_reading_only_manifests_that_may_name_one_of_several_files(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = CheckpointDirectory(tmp_path)
    saved = [dead.save(facts(number), [ROWS]) for number in range(4)]
    dead.close()
    names = [one.path.name.partition(".")[0] for one in saved if one is not None]
    left = [f"{names[0]}.{'0' * 16}-9.arrow", f"{names[1]}.{'0' * 16}-9.json", f"{'f' * 32}.{'0' * 16}-1.arrow"]
    for name in left:
        (tmp_path / name).write_bytes(b"unfinished")
    read, data_of = set[str](), CheckpointDirectory._data_of

    def noted(directory: CheckpointDirectory, name: str) -> str | None:
        read.add(name)
        return data_of(directory, name)

    monkeypatch.setattr(CheckpointDirectory, "_data_of", noted)
    opened(None)
    assert not any((tmp_path / name).exists() for name in left)
    assert held(tmp_path) == {0, 1, 2, 3} and read == {*names[:2], "f" * 32}


def test_a_log_that_grows_is_written_again(opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "_LONG", 10)
    one, other = opened(None), opened(15_000)
    one.save(facts(1), [ROWS])
    for number in range(200):
        one.save(facts(1), [ROWS], needed=False) if number % 2 else one.find(key(1))
    one.find(key(1))
    assert max(path.stat().st_size for path in tmp_path.glob("*.user")) < 2000
    assert other.save(facts(2), [ROWS]) is None  # 1 is still known to be needed


def test_one_that_exists_is_not_written_again(opened: Opened, tmp_path: Path) -> None:
    one, other = opened(None), opened(None)
    first = one.save(facts(1), [ROWS])
    second = other.save(facts(1), [ROWS])
    assert first is not None and second is not None and first.path == second.path and first.path.exists()


def test_a_store_tells_what_was_written_and_what_found_no_space(tmp_path: Path) -> None:
    events: list[CheckpointSaved] = []
    (tmp_path / "spill").mkdir()
    store = Store(1 << 30, tmp_path / "spill", Retention(tmp_path / "kept", budget=35_000), events.append)
    for number in range(5):
        store.put(facts(number), "job", [ROWS], durable=True)
    store.flush()
    store.close()
    # The store writes two outputs at a time, so their events may come in another order.
    assert sorted(saved.kept for saved in events) == [False, False, True, True, True]
    assert all(saved.jobs == ("job",) and saved.behind >= 0 for saved in events)
    assert len(held(tmp_path / "kept")) == 3


def test_no_output_is_committed_while_an_older_one_waits_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save, may_save = CheckpointDirectory.save, threading.Semaphore(0)

    def slowly(self: CheckpointDirectory, *arguments: object, **more: object) -> object:
        assert may_save.acquire(timeout=PATIENCE)
        return save(self, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(CheckpointDirectory, "save", slowly)
    monkeypatch.setattr("qoop.engine.storage.write_behind.WAITING_SECONDS", 0.0)
    told: list[CheckpointSaved] = []
    store = Store(1 << 30, tmp_path, Retention(tmp_path / "kept"), told.append)
    with ThreadPoolExecutor(1) as pool:
        for number in range(4):
            put = pool.submit(store.put, facts(number), "job", [ROWS], durable=True)
            if number:
                with pytest.raises(TimeoutError):
                    put.result(0.05)  # the one before waits, so this is not committed until that is written
                may_save.release()
            put.result(PATIENCE)
            assert len(told) == number
    may_save.release()
    store.close()


def test_a_manifest_under_anothers_name_counts_as_none_and_costs_the_other_nothing(
    opened: Opened, tmp_path: Path
) -> None:
    directory = opened(None)
    one, other = directory.save(facts(1), [ROWS]), directory.save(facts(2), [ROWS])
    assert one is not None and other is not None
    name, its = (saved.path.name.partition(".")[0] for saved in (one, other))
    (tmp_path / f"{name}.json").write_bytes((tmp_path / f"{its}.json").read_bytes())
    again = opened(None)
    assert again.find(key(1)) is None
    made = again.save(facts(1), [ROWS])
    assert made is not None and made.committed.key == key(1)
    assert [again.find(key(number)) is not None and again.read(saved, 0).num_rows for number, saved in (
        (1, made), (2, other),
    )] == [ROWS.num_rows] * 2  # fmt: skip
