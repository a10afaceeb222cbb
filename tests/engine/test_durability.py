"""Checkpoints when something goes wrong at a bad moment: full disks, other writers, stops, kills, damage."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from qoop.catalog.errors import CheckpointError, ConfigError, DiskFull, GuardMismatch
from qoop.engine.backends.local import LocalBackend
from qoop.engine.events import CheckpointSaved, Committed
from qoop.engine.storage import manifest, users, write_behind
from qoop.engine.storage.checkpoint import Store
from qoop.engine.storage.guard import Origin
from qoop.engine.storage.manifest import CheckpointDirectory, manifests
from qoop.engine.storage.retention import Retention
from qoop.engine.storage.scratch import Scratch
from qoop.engine.storage.segments import Damaged, write_segments
from qoop.engine.task import CheckpointKey
from qoop.planner.plan import Stage

ROWS = pa.table({"a": pa.array(range(1250), pa.int64())})  # 10 KB
PLENTY = 1 << 30


def key(number: int, layout: str = "layout") -> CheckpointKey:
    return CheckpointKey(f"sig{number}", layout, 0)


def facts(number: int) -> Committed:
    return Committed(key(number), (ROWS.num_rows,), (ROWS.nbytes,), 1.0)


def files(root: Path) -> list[str]:
    return sorted(path.suffix for path in root.iterdir() if path.suffix in (".json", ".arrow"))


class Gate:
    """Holds writers of data up until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.open = threading.Event(), threading.Event()
        monkeypatch.setattr(manifest, "write_segments", self)

    def __call__(self, stream: object, *arguments: object, **more: object) -> object:
        self.reached.set()
        assert self.open.wait(60)
        return write_segments(stream, *arguments, **more)  # type: ignore[arg-type]


class FullLogs:
    """Has no space for what users need, after that many bytes of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, available: int = 0) -> None:
        self.available = available
        self._write = os.write
        monkeypatch.setattr(users.os, "write", self)

    def __call__(self, file: int, data: bytes) -> int:
        if not self.available:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = self._write(file, data[: self.available])
        self.available -= written
        return written


# Two writers


def test_of_two_that_write_one_output_the_first_to_commit_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, quick = CheckpointDirectory(tmp_path), CheckpointDirectory(tmp_path)
    with monkeypatch.context() as patch, ThreadPoolExecutor(1) as pool:
        gate = Gate(patch)
        late = pool.submit(slow.save, facts(1), [ROWS])
        assert gate.reached.wait(60)
        patch.setattr(manifest, "write_segments", write_segments)
        first = quick.save(facts(1), [ROWS])
        gate.open.set()
        second = late.result(60)
    assert first is not None and second is not None and second.path == first.path
    assert files(tmp_path) == [".arrow", ".json"], "the other's data are gone"
    assert quick.read(first, 0).equals(ROWS)
    slow.close()
    quick.close()


def test_who_removes_what_is_damaged_leaves_what_was_made_since(tmp_path: Path) -> None:
    one, other = CheckpointDirectory(tmp_path), CheckpointDirectory(tmp_path)
    seen = one.save(facts(1), [ROWS])
    assert seen is not None
    other.remove(seen)
    again = other.save(facts(1), [ROWS])
    with pytest.raises(Damaged):
        one.read(seen, 0)
    one.remove(seen)
    assert again is not None and other.find(key(1)) == again
    assert other.read(again, 0).equals(ROWS)
    one.close()
    other.close()


# Disks


def test_a_disk_without_space_for_a_word_of_what_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[CheckpointSaved] = []
    store = Store(PLENTY, tmp_path, Retention(tmp_path / "kept"), told.append)
    with monkeypatch.context() as patch:
        gate = Gate(patch)
        store.put(facts(1), "job", [ROWS], durable=True)
        assert gate.reached.wait(60)
        FullLogs(patch)
        store.release("job", [key(1)])
        gate.open.set()
        store.put(facts(2), "job", [ROWS], durable=True)
        with pytest.warns(RuntimeWarning, match="No space left"):
            store.flush()
    store.put(facts(3), "job", [ROWS], durable=True)  # the writer lives on
    store.close()
    assert {saved.key.signature: saved.kept for saved in told} == {"sig1": True, "sig2": False, "sig3": True}
    assert len(files(tmp_path / "kept")) == 4


@pytest.mark.parametrize("available", [0, 20], ids=["none", "half a line"])
def test_what_is_needed_is_known_to_others_once_there_is_space_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, available: int
) -> None:
    writer = CheckpointDirectory(tmp_path)
    for number in range(3):
        writer.save(facts(number), [ROWS], needed=False)
    reader = CheckpointDirectory(tmp_path)
    assert reader.find(key(0)) is not None
    with monkeypatch.context() as patch:
        FullLogs(patch, available)
        with pytest.raises(CheckpointError, match="No space left"):
            reader.find(key(1))
    assert reader.find(key(1)) is not None
    cleaner = CheckpointDirectory(tmp_path, 35_000)
    cleaner.save(facts(9), [ROWS])
    assert {saved.committed.key for saved in manifests(tmp_path)} == {key(0), key(1), key(9)}
    for one in (writer, reader, cleaner):
        one.close()


def test_whatever_goes_wrong_leaves_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = CheckpointDirectory(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(manifest, "dump_manifest", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            directory.save(facts(1), [ROWS])
    assert files(tmp_path) == []
    directory.close()


def test_a_directory_that_goes_while_it_is_used(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    store = Store(PLENTY, tmp_path, Retention(kept))
    store.put(facts(1), "job", [ROWS], durable=True)
    store.flush()
    for path in kept.iterdir():
        path.unlink()
    kept.rmdir()
    assert store.present([key(1), key(2)]) == [facts(1)] and store.read(key(1), 0).equals(ROWS)
    with pytest.warns(RuntimeWarning, match="the folder is gone"):
        store.put(facts(2), "job", [ROWS], durable=True)
        store.flush()
    assert store.read(key(2), 0).equals(ROWS)
    store.close()


def test_a_store_that_cannot_be_opened_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spill, kept, open_files = tmp_path / "spill", tmp_path / "kept", len(os.listdir("/proc/self/fd"))
    with pytest.raises(ConfigError, match="is no store"):
        LocalBackend(1, 1 << 30, spill, Retention("ftp://nowhere"))

    def fails(_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(CheckpointDirectory, "_collect", fails)
    with pytest.warns(RuntimeWarning, match="Input/output error"):
        LocalBackend(1, 1 << 30, spill, Retention(kept)).close()
    assert list(spill.iterdir()) == [] and [path.name for path in kept.iterdir()] == ["lock"]
    assert len(os.listdir("/proc/self/fd")) <= open_files


def test_what_cannot_be_read_for_the_moment_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "kept"
    writer = Store(PLENTY, tmp_path, Retention(kept))
    writer.put(facts(1), "job", [ROWS], durable=True)
    writer.close()
    store = Store(PLENTY, tmp_path, Retention(kept))

    def fails(_: str) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(pa, "OSFile", fails)
        with pytest.raises(CheckpointError, match="Too many open files"):
            store.read(key(1), None)
    assert store.present([key(1)]) and store.read(key(1), None).equals(ROWS)
    store.close()


# What waits to be written


def test_no_more_may_be_lost_than_was_said_however_many_put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_behind, "WAITING_BYTES", 2 * ROWS.nbytes)
    gate, waiting, go_on = Gate(monkeypatch), threading.Semaphore(0), threading.Event()
    trim = Store.trim

    def slowly(self: Store, *arguments: object) -> None:  # between asking for space and being queued
        waiting.release()
        go_on.wait(60)
        trim(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Store, "trim", slowly)
    store = Store(PLENTY, tmp_path, Retention(tmp_path / "kept"))
    with ThreadPoolExecutor(4) as pool:
        puts = [pool.submit(store.put, facts(number), "job", [ROWS], durable=True) for number in range(4)]
        assert waiting.acquire(timeout=60) and waiting.acquire(timeout=60)
        assert not waiting.acquire(timeout=0.3), "two had space"
        go_on.set()
        gate.open.set()
        for put in puts:
            put.result(60)
    store.flush()
    store.close()
    assert len(files(tmp_path / "kept")) == 8


def test_memory_to_wait_is_given_back_whatever_becomes_of_an_output(tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def stop() -> None:
        raise Stop

    store = Store(ROWS.nbytes, tmp_path, Retention(tmp_path / "kept"))
    store.put(facts(0), "job", [ROWS])
    with pytest.raises(Stop):  # while 0 is spilled
        store.put(facts(1), "job", [ROWS], durable=True, between=stop)
    for _ in range(2):  # the second finds it there
        store.put(facts(2), "job", [ROWS], durable=True)
    store.flush()
    assert store._behind.waiting == 0
    store.close()


def differing(layout: str, values: list[int]) -> tuple[Committed, list[pa.Table], Origin]:
    """The only part of a stage, in a layout, and where it came from."""
    stage = Stage("s7", "SELECT a FROM t", (), (("a", "INTEGER"),), 1, "sig1", meaning="rows")
    rows = pa.table({"a": pa.array(values, pa.int32())})
    committed = Committed(key(1, layout), (len(values),), (rows.nbytes,), 0.1, width=1, finished=True)
    return committed, [rows], Origin(stage)


@pytest.mark.parametrize("moment", ["while it is written", "after that"])
def test_what_a_job_needed_may_go_once_it_was_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    store = Store(PLENTY, tmp_path, Retention(tmp_path / "kept", budget=15_000))
    gate = Gate(monkeypatch)
    store.put(facts(1), "job", [ROWS], durable=True)
    assert gate.reached.wait(60)
    if moment == "after that":
        gate.open.set()
        store.flush()
    store.release("job", [key(1)])
    gate.open.set()
    store.flush()
    store.put(facts(2), "job", [ROWS], durable=True)
    store.close()
    assert [saved.committed.key for saved in manifests(tmp_path / "kept")] == [key(2)]


def test_what_is_taken_up_again_from_memory_stays_in_its_file_as_well(tmp_path: Path) -> None:
    committed, rows, origin = differing("layout", list(range(2500)))
    store = Store(PLENTY, tmp_path, Retention(tmp_path / "kept", budget=15_000, retain=True))
    store.put(committed, "one", rows, durable=True, origin=origin)
    store.flush()
    store.release("one", [committed.key])
    assert store.present([committed.key], "another") == [committed]
    store.put(facts(2), "another", [ROWS], durable=True)  # there is no space for both
    store.close()
    assert [saved.committed.key for saved in manifests(tmp_path / "kept")] == [committed.key]


@pytest.mark.parametrize("moment", ["while it is written", "when no job needs it"])
def test_what_turned_out_wrong_is_not_there_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    kept, quarantine, told = tmp_path / "kept", tmp_path / "quarantine", list[CheckpointSaved]()
    quarantine.touch()  # nothing can be set aside in it
    store = Store(PLENTY, tmp_path, Retention(kept, retain=True, quarantine=quarantine), told.append)
    gate = Gate(monkeypatch)
    committed, rows, origin = differing("one", [1, 2, 3])
    store.put(committed, "job", rows, durable=True, origin=origin)
    if moment == "when no job needs it":
        gate.open.set()
        store.flush()
        store.release("job", [committed.key])
        assert files(kept) == [".arrow", ".json"]
    assert gate.reached.wait(60)
    committed, rows, origin = differing("other", [1, 2])
    with pytest.raises(GuardMismatch):
        store.put(committed, "job", rows, origin=origin)
    gate.open.set()
    store.close()
    assert files(kept) == []
    assert [saved.kept for saved in told] == [moment == "when no job needs it"]


# Processes

SAVES = """
import os, signal, sys
from pathlib import Path
import pyarrow as pa
from qoop.engine.events import Committed
from qoop.engine.storage.manifest import CheckpointDirectory
from qoop.engine.task import CheckpointKey
rows = pa.table({"a": pa.array(range(1250), pa.int64())})

def counted(function):
    def call(*arguments, **more):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **more)
    return call

def save(root):
    directory = CheckpointDirectory(root)
    for name in ("open", "write", "fsync", "rename", "unlink", "ftruncate"):
        setattr(os, name, counted(getattr(os, name)))
    Path.open, Path.rename, Path.unlink = map(counted, (Path.open, Path.rename, Path.unlink))
    directory.save(Committed(CheckpointKey("sig1", "layout", 0), (1250,), (rows.nbytes,), 1.0), [rows])

for left in range(100):
    child = os.fork()
    if not child:
        save(Path(sys.argv[1]) / f"{left:02}")
        os._exit(0)
    ended = os.waitpid(child, 0)[1]
    assert ended in (0, signal.SIGKILL)
    if not ended:
        break
"""


def test_a_kill_at_any_moment_leaves_a_checkpoint_whole_or_none(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", SAVES, str(tmp_path)], check=True, timeout=60)
    whole = []
    for root in sorted(tmp_path.iterdir()):
        directory = CheckpointDirectory(root)
        saved = directory.find(key(1))
        whole.append(saved is not None)
        assert saved is None or directory.read(saved, 0).equals(ROWS)
        assert files(root) == ([] if saved is None else [".arrow", ".json"]), "what is of no use went"
        directory.close()
    assert len(whole) > 5 and whole == sorted(whole) and not whole[0] and whole[-1]


def test_what_the_disk_does_not_take_is_no_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has its name by then: a process that is killed meanwhile loses nothing."""
    directory, visible = CheckpointDirectory(tmp_path), list[bool]()

    def fails(file: int) -> None:
        visible.append(any(tmp_path.glob("*.json")))
        raise OSError(errno.EIO, "input/output error")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", fails)
        with pytest.raises(DiskFull, match="input/output error"):
            directory.save(facts(1), [ROWS])
    assert visible == [True] and directory.find(key(1)) is None and files(tmp_path) == []
    assert directory.save(facts(1), [ROWS]) is not None
    directory.close()


SPILLS = """
import os, shutil, signal, sys
from pathlib import Path
from qoop.engine.storage.scratch import Scratch
left, remove, scratch = int(sys.argv[2]), os.unlink, Scratch(Path(sys.argv[1]))
(scratch.path / "kernel").mkdir()
for name in ("a.arrow", "z.arrow", "kernel/m.tmp"):
    (scratch.path / name).touch()

def counted(*arguments, **more):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return remove(*arguments, **more)

os.unlink = counted
scratch.close()
"""


def test_a_kill_while_a_temporary_directory_is_removed(tmp_path: Path) -> None:
    for calls in range(4):
        subprocess.run([sys.executable, "-c", SPILLS, str(tmp_path), str(calls)], check=False)
        assert len(list(tmp_path.iterdir())) == 1
        Scratch(tmp_path).close()
        assert list(tmp_path.iterdir()) == []


STOPS = """
import sys
from pathlib import Path
import pyarrow as pa
from qoop.engine.events import Committed
from qoop.engine.storage.manifest import CheckpointDirectory
from qoop.engine.task import CheckpointKey
rows = pa.table({"a": pa.array(range(1250), pa.int64())})
directory = CheckpointDirectory(Path(sys.argv[1]))
directory.save(Committed(CheckpointKey("sig1", "layout", 0), (1250,), (rows.nbytes,), 0.001), [rows])
print("saved", flush=True)
input()
print(directory.read(directory.find(CheckpointKey("sig1", "layout", 0)), 0).num_rows)
"""


def test_what_a_stopped_process_needs_is_there_when_it_goes_on(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STOPS, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "saved\n"
        process.send_signal(signal.SIGSTOP)
        directory = CheckpointDirectory(tmp_path, 25_000)
        for number in range(2, 8):
            directory.save(replace(facts(number), seconds=100.0), [ROWS], needed=False)
        assert directory.save(replace(facts(9), rows=(1250, 1250), bytes=(ROWS.nbytes,) * 2), [ROWS, ROWS]) is None
        process.send_signal(signal.SIGCONT)
        print(file=process.stdin, flush=True)
        assert process.stdout.readline() == "1250\n"
    assert directory.save(replace(facts(9), rows=(1250, 1250), bytes=(ROWS.nbytes,) * 2), [ROWS, ROWS]) is not None
    directory.close()
