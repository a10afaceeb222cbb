"""Checkpoints in a store that several machines share: commits, races, leases, eviction, damage."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from qoop.catalog.errors import CheckpointError, DiskFull
from qoop.catalog.stores.node_cache import NodeCache
from qoop.catalog.stores.objects import Object, Objects, open_objects
from qoop.engine.events import CheckpointSaved, Committed
from qoop.engine.storage.checkpoint import Store
from qoop.engine.storage.leases import SECONDS
from qoop.engine.storage.retention import Retention
from qoop.engine.storage.shared_store import SharedCheckpoints
from qoop.engine.storage.space import Space
from qoop.engine.task import CheckpointKey

ROWS = pa.table({"a": pa.array(range(1250), pa.int64())})  # 10 KB
Machine = Callable[..., SharedCheckpoints]
Wait = Callable[[], None]


def key(number: int, part: int = 0) -> CheckpointKey:
    return CheckpointKey(f"sig{number}", "layout", part)


def facts(number: int, seconds: float = 1.0, times: int = 1, part: int = 0) -> Committed:
    return Committed(key(number, part), (ROWS.num_rows,) * times, (ROWS.nbytes,) * times, seconds)


def data(objects: Objects) -> list[str]:
    return [item.name for item in objects.list() if item.name.endswith(".arrow")]


class Aging:
    """A store whose time passes when the test says so: what it holds then is older from then on."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._older: dict[str, float] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._objects, name)

    def age(self, seconds: float) -> None:
        for item in self._objects.list():
            self._older[item.name] = self._older.get(item.name, 0.0) + seconds

    def list(self, folder: str = "") -> list[Object]:
        found = self._objects.list(folder)
        return [replace(item, modified=item.modified - self._older.get(item.name, 0.0)) for item in found]

    def create(self, name: str, data: bytes) -> None:
        self._objects.create(name, data)
        self._older.pop(name, None)

    def replace(self, name: str, data: bytes, expected_tag: str | None = None) -> None:
        self._objects.replace(name, data, expected_tag)
        self._older.pop(name, None)

    def upload(self, name: str, path: Path) -> None:
        self._objects.upload(name, path)
        self._older.pop(name, None)

    def delete(self, names: Iterable[str]) -> None:
        self._objects.delete(names)

    def ranges(self, name: str, spans: Any, expected_tag: str | None = None) -> Any:
        return self._objects.ranges(name, spans, expected_tag)


@pytest.fixture
def objects(place: str) -> Aging:
    return Aging(open_objects(place))


@pytest.fixture
def machines() -> Iterator[list[SharedCheckpoints]]:
    made: list[SharedCheckpoints] = []
    yield made
    for one in made:
        one.close()


@pytest.fixture
def wait(objects: Aging, machines: list[SharedCheckpoints]) -> Wait:
    """Until leases that are not renewed have run out. Those that are would be renewed three times meanwhile."""

    def pass_by() -> None:
        objects.age(2 * SECONDS)
        for one in machines:
            one._space._checked = None  # that was long ago
            with one._leases._lock:
                if one._leases._reported is not None and not one._leases._closed.is_set():
                    one._leases._write()

    return pass_by


@pytest.fixture
def machine(objects: Aging, tmp_path: Path, machines: list[SharedCheckpoints]) -> Machine:
    """Makes machines, which have nothing in common but the store."""

    def another(budget: int | None = None) -> SharedCheckpoints:
        cache = NodeCache(tmp_path / f"node-{len(machines)}", 1 << 30)
        machines.append(SharedCheckpoints(objects, cache, budget))
        return machines[-1]

    return another


def cached_bytes(store: SharedCheckpoints) -> int:
    return sum(path.stat().st_size for path in store._cache.root.rglob("*") if path.is_file())


def test_what_one_machine_writes_another_reads_part_by_part(machine: Machine) -> None:
    here, there = machine(), machine()
    partitions = [ROWS, ROWS.slice(0, 10), ROWS.slice(0, 0)]
    written = Committed(key(1), (1250, 10, 0), (ROWS.nbytes, 80, 0), 2.0, width=1, finished=True)
    assert here.save(written, partitions) is not None
    saved = there.find(key(1))
    assert saved is not None and saved.committed == written and there.find(key(2)) is None
    assert cached_bytes(there) == 0
    assert there.read(saved, 1).equals(partitions[1])
    assert 0 < cached_bytes(there) < ROWS.nbytes, "one partition has come, not the file"
    there.fetch([(saved, None)])
    assert cached_bytes(there) > ROWS.nbytes
    assert [there.read(saved, number) for number in range(3)] == partitions


def test_of_two_that_write_one_output_the_first_to_commit_wins(machine: Machine, objects: Objects) -> None:
    machines, found = [machine() for _ in range(3)], []
    start = threading.Barrier(3)

    def write(which: int) -> None:
        start.wait()
        for number in range(8):
            found.append((number, machines[which].save(facts(number, seconds=which + 1.0), [ROWS])))

    threads = [threading.Thread(target=write, args=(which,)) for which in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 24
    for number in range(8):
        paths = {saved.path for other, saved in found if other == number and saved is not None}
        assert len(paths) == 1, "all were told of the one that won"
    assert len(data(objects)) == 8, "and the others left nothing"


def test_a_writer_that_dies_before_its_manifest_leaves_nothing_to_be_seen(
    machine: Machine, objects: Objects, monkeypatch: pytest.MonkeyPatch, wait: Wait
) -> None:
    dying, living = machine(), machine()

    class Killed(BaseException):
        pass

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(type(objects), "create", killed)
        patch.setattr(type(objects), "delete", killed)  # the dead clean nothing up
        with pytest.raises(Killed):
            dying.save(facts(1), [ROWS])
    assert len(data(objects)) == 1 and living.find(key(1)) is None
    wait()
    living.collect()
    assert len(data(objects)) == 1, "its lease holds: it might still commit"
    dying._leases._closed.set()  # it renews its lease no more
    wait()
    living.collect()
    assert data(objects) == []
    assert living.save(facts(1), [ROWS]) is not None


def test_what_a_living_process_needs_stays_whatever_the_budget(machine: Machine, wait: Wait) -> None:
    here, there = machine(budget=60_000), machine(budget=60_000)
    for number in range(4):
        assert here.save(facts(number), [ROWS], needed=False)
    assert there.find(key(0)) is not None and there.find(key(3)) is not None
    wait()  # none of them is new any more
    written = [there.save(facts(number), [ROWS], needed=False) is not None for number in range(10, 13)]
    assert written[0], "space was made"
    assert here.find(key(0)) is not None and here.find(key(3)) is not None
    assert here.find(key(1)) is None, "what nobody needs went"
    there.unpin([key(0), key(3)])


def test_a_lease_that_ran_out_protects_nothing(machine: Machine, wait: Wait) -> None:
    gone, living = machine(), machine(budget=25_000)
    assert gone.save(facts(1), [ROWS]) and gone.save(facts(2), [ROWS])
    gone._leases.need(["a name"])  # its lease is written, with all it needs
    wait()
    assert living.save(facts(3), [ROWS]) is None, "there is no space while it lives"
    gone._leases._closed.set()
    wait()
    assert living.save(facts(3), [ROWS]) is not None


def test_what_is_new_stays_before_its_lease_says_so(objects: Objects, tmp_path: Path) -> None:
    here = SharedCheckpoints(objects, NodeCache(tmp_path / "here", 1 << 30))
    assert here.save(facts(1), [ROWS])
    there = SharedCheckpoints(objects, NodeCache(tmp_path / "there", 1 << 30), budget=15_000)
    assert there.save(facts(2), [ROWS]) is None, "there is no space"
    assert here.find(key(1)) is not None
    here.close()
    there.close()


@pytest.mark.parametrize("place", ["folder"], indirect=True)  # times of S3 would take seconds
def test_what_is_cheap_to_make_goes_first(machine: Machine, wait: Wait) -> None:
    store = machine(budget=100_000)
    for number in range(8):
        assert store.save(facts(number, 10.0 if number < 4 else 0.1), [ROWS], needed=False)
    wait()
    for number in range(8, 11):
        assert store.save(facts(number), [ROWS], needed=False)
    assert all(store.find(key(number)) for number in range(4))
    assert not all(store.find(key(number)) for number in range(4, 8))


@pytest.mark.parametrize("place", ["folder"], indirect=True)  # times of S3 would take seconds
def test_space_is_made_by_what_nobody_needs(machine: Machine, wait: Wait) -> None:
    store, user = machine(budget=25_000), machine()
    for number in (1, 2):
        assert store.save(facts(number, number), [ROWS], needed=False)
    assert user.find(key(1)) is not None
    wait()
    assert store.save(facts(3), [ROWS], needed=False), "though 1 would be cheaper to make again"
    assert store.find(key(2)) is None and user.find(key(1)) is not None


@pytest.mark.parametrize("place", ["folder"], indirect=True)  # times of S3 would take seconds
def test_what_was_just_written_is_no_garbage_though_its_lease_is_gone(
    machine: Machine, objects: Objects, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process was held up for longer than its lease, and has a lease again in a third of its time."""
    held_up, living = machine(), machine()
    held_up._leases._closed.set()
    create = type(objects).create

    def collected(self: Objects, name: str, text: bytes) -> None:
        objects.delete([held_up._leases._name])
        living.collect()
        create(self, name, text)

    monkeypatch.setattr(type(objects), "create", collected)
    assert held_up.save(facts(1), [ROWS]) is not None
    assert living.find(key(1)) is not None


@pytest.mark.parametrize("place", ["folder"], indirect=True)  # times of S3 would take seconds
def test_who_finds_and_who_removes_never_both_go_on(
    machine: Machine, objects: Objects, monkeypatch: pytest.MonkeyPatch, wait: Wait
) -> None:
    """A checkpoint is asked for at the worst moment: after it was marked as gone, before leases are read again."""
    remover, user = machine(budget=25_000), machine()
    for number in (1, 2):
        assert remover.save(facts(number, number), [ROWS], needed=False)
    wait()
    seen, asked = [], type(remover._leases).living

    def in_between(leases: object) -> object:
        if any(item.name.endswith(".gone") for item in objects.list()):
            seen.append(user.find(key(1)))
        return asked(leases)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(type(remover._leases), "living", in_between)
        kept = remover.save(facts(3), [ROWS], needed=False)
    assert seen == [None], "the user saw the mark"
    assert kept is None, "and the remover saw the lease: both gave way"
    assert remover.find(key(1)) is not None
    remover.unpin([key(1)])
    wait()
    assert remover.save(facts(3), [ROWS], needed=False), "by now nobody wants it"
    assert remover.find(key(1)) is None and remover.find(key(2)) is not None


@pytest.mark.parametrize("place", ["folder"], indirect=True)  # times of S3 would take seconds
def test_a_removal_left_unfinished_is_finished(machine: Machine, objects: Objects, wait: Wait) -> None:
    store = machine()
    assert store.save(facts(1), [ROWS], needed=False)
    wait()
    [manifest] = [item.name for item in objects.list() if item.name.endswith(".json") and "users" not in item.name]
    objects.create(manifest.replace(".json", ".gone"), b"0123456789abcdef")
    assert store.find(key(1)) is None
    wait()
    store.collect()
    store.collect()
    assert store.save(facts(1), [ROWS]) is not None and store.find(key(1)) is not None


@pytest.mark.parametrize("damage", ["flipped", "short", "lost"])
def test_damaged_data_are_lost_and_made_again(machine: Machine, objects: Objects, tmp_path: Path, damage: str) -> None:
    here, there = machine(), machine()
    assert here.save(facts(1), [ROWS])
    saved = there.find(key(1))
    assert saved is not None
    [name] = data(objects)
    text = bytes(objects.ranges(name, [(0, objects.about(name).size)])[0])
    if damage == "lost":
        objects.delete([name])
    else:
        objects.replace(name, text[:5000] + b"\0?" + text[5002:] if damage == "flipped" else text[:5000])
    with pytest.raises(CheckpointError, match=f"checkpoint {key(1)}"):
        there.read(saved, 0)
    there.remove(saved)
    assert there.find(key(1)) is None
    assert there.save(facts(1), [ROWS]) is not None
    again = here.find(key(1))
    assert again is not None and here.read(again, 0).equals(ROWS)


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_damaged_file_on_the_machine_is_read_from_the_store_again(machine: Machine, partitions: int) -> None:
    store = machine()
    saved = store.save(facts(1, times=partitions), [ROWS] * partitions)
    assert saved is not None
    file = store._cache.find(saved.path.name)
    assert file is not None
    content = bytearray(file.read_bytes())
    content[5000] ^= 255
    file.write_bytes(bytes(content))
    assert store.read(saved, 0).equals(ROWS)


def test_what_cannot_be_read_for_the_moment_stays(
    place: str, objects: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    here = Store(1 << 30, tmp_path / "a", Retention(place))
    here.put(facts(1), "job", [ROWS], durable=True)
    here.close()
    monkeypatch.setenv("QOOP_CACHE_DIR", str(tmp_path / "another"))
    there = Store(1 << 30, tmp_path / "b", Retention(place))

    def fails(*_: object) -> None:
        raise OSError("503 Slow Down")

    with monkeypatch.context() as patch:
        patch.setattr(type(open_objects(place)), "ranges", fails)
        with pytest.raises(CheckpointError, match="503"):
            there.read(key(1), None)
    assert there.present([key(1)]) and there.read(key(1), None).equals(ROWS)
    there.close()


def test_a_checkpoint_whose_data_are_lost_is_made_again(machine: Machine, objects: Objects) -> None:
    here, there = machine(), machine()
    assert here.save(facts(1), [ROWS])
    objects.delete(data(objects))
    assert there.find(key(1)) is None
    saved = there.save(facts(1), [ROWS])
    assert saved is not None and here.find(key(1)) == saved


def test_what_is_not_believed_goes_even_if_it_cannot_be_set_aside(
    machine: Machine, objects: Objects, tmp_path: Path
) -> None:
    here = machine()
    saved = here.save(facts(1), [ROWS])
    assert saved is not None
    here.set_aside(saved, tmp_path / "no such folder")
    assert here.find(key(1)) is None and data(objects) == []


def test_what_is_uploaded_is_not_removed_from_the_machine_meanwhile(
    machine: Machine, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, upload = machine(), type(objects).upload

    def crowded(self: Objects, name: str, path: Path) -> None:
        NodeCache(here._cache.root, 5000).add_bytes("another", memoryview(bytes(5000)))  # another process's
        upload(self, name, path)

    monkeypatch.setattr(type(objects), "upload", crowded)
    assert here.save(facts(1), [ROWS]) is not None


def test_a_manifest_that_cannot_be_read_is_written_again(machine: Machine, objects: Objects) -> None:
    here = machine()
    assert here.save(facts(1), [ROWS], needed=False)
    [manifest] = [item.name for item in objects.list() if item.name.endswith("/0.json")]
    objects.replace(manifest, b'{"format": "another"}')
    assert here.find(key(1)) is None
    assert here.save(facts(1), [ROWS]) is not None and here.find(key(1)) is not None


def test_a_store_serves_another_of_another_machine(place: str, tmp_path: Path) -> None:
    told: list[CheckpointSaved] = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    here = Store(1 << 30, tmp_path / "a", Retention(place), told.append)
    there = Store(1 << 30, tmp_path / "b", Retention(place))
    for part in range(6):
        here.put(facts(1, times=2, part=part), "job", [ROWS, ROWS], durable=True)
    here.flush()
    assert len(told) == 6 and all(event.kept for event in told)
    keys = [key(1, part) for part in range(7)]
    assert [item.key for item in there.present(keys, "other")] == keys[:6]
    there.fetch([(one, 1) for one in keys[:6]])
    assert all(there.read(one, 1).equals(ROWS) for one in keys[:6])
    there.release("other", keys)
    with pytest.raises(CheckpointError, match="is not present"):
        there.read(key(9), None)
    here.close()
    there.close()


def test_a_place_that_cannot_be_written_is_told(bucket: str, tmp_path: Path) -> None:
    with pytest.raises(DiskFull, match="NoSuchBucket"):
        Store(1 << 30, tmp_path, Retention("s3://no-such-bucket/x"))
    (tmp_path / "file").write_text("")
    with pytest.raises(DiskFull, match="cannot write a checkpoint"):
        Store(1 << 30, tmp_path, Retention((tmp_path / "file" / "x").as_uri()))


STOPS = """
import os, signal, sys
from pathlib import Path
import pyarrow as pa
from qoop.catalog.stores import objects
from qoop.catalog.stores.node_cache import NodeCache
from qoop.engine.events import Committed
from qoop.engine.storage.leases import Leases
from qoop.engine.storage.shared_store import SharedCheckpoints
from qoop.engine.task import CheckpointKey
place, cache, where = sys.argv[1:]
rows = pa.table({"a": pa.array(range(1250), pa.int64())})
seen = []

def stops(function, times):
    def call(*arguments, **more):
        found = function(*arguments, **more)
        seen.append(1)
        if len(seen) == times:
            os.kill(os.getpid(), signal.SIGSTOP)
        return found
    return call

store = SharedCheckpoints(objects.open_objects(place), NodeCache(Path(cache), 1 << 30), 25_000, lease=0.5)
store._collecting.result()
if where == "writer":
    objects.Folder.upload = stops(objects.Folder.upload, 1)  # before there is a manifest
else:
    Leases.living = stops(Leases.living, 2)  # when all is marked and nobody wants it
print(store.save(Committed(CheckpointKey("sig9", "layout", 0), (1250,), (rows.nbytes,), 1.0), [rows], needed=False))
store.close()
"""


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """A process that is stopped while it saves number 9 to a folder with space for two, as a writer or as a remover."""
    processes: list[subprocess.Popen[str]] = []

    def begin(where: str) -> subprocess.Popen[str]:
        place, cache = (tmp_path / "shared").as_uri(), str(tmp_path / "stopped")
        command = [sys.executable, "-c", STOPS, place, cache, where]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        _, status = os.waitpid(processes[0].pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        time.sleep(0.6)  # its lease of 0.5 s runs out
        return processes[0]

    yield begin
    for process in processes:
        process.kill()
        process.communicate()


Stopped = Callable[[str], "subprocess.Popen[str]"]


@pytest.mark.parametrize("place", ["folder"], indirect=True)  # times of S3 would take seconds
def test_a_writer_that_was_held_up_does_not_take_what_is_lost_for_saved(
    machine: Machine, objects: Objects, stopped: Stopped, wait: Wait
) -> None:
    process, living = stopped("writer"), machine()
    assert len(data(objects)) == 1
    wait()
    living.collect()
    assert data(objects) == []
    process.send_signal(signal.SIGCONT)
    assert process.communicate(timeout=60)[0] == "None\n"
    assert [item.name for item in objects.list() if item.name.endswith("/0.json")] == []


@pytest.mark.parametrize("place", ["folder"], indirect=True)  # times of S3 would take seconds
def test_a_remover_that_was_held_up_leaves_what_was_made_since(
    machine: Machine, objects: Objects, stopped: Stopped, wait: Wait
) -> None:
    living = machine()
    for number in (1, 2):
        assert living.save(facts(number, number), [ROWS], needed=False)
    time.sleep(0.6)  # neither of them is new any more
    process = stopped("remover")
    assert any(item.name.endswith(".gone") for item in objects.list()) and living.find(key(1)) is None
    wait()
    living.collect()
    assert living.save(facts(1), [ROWS]) is not None
    process.send_signal(signal.SIGCONT)
    process.communicate(timeout=60)
    assert living.find(key(1)) is not None


@pytest.mark.parametrize("place", ["folder"], indirect=True)  # times of S3 would take seconds
def test_of_two_that_remove_the_first_does(
    machine: Machine, objects: Objects, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, look = machine(budget=25_000), Space._survey
    for number in (1, 2):
        assert one.save(facts(number, number), [ROWS], needed=False)
    wait()
    manifest = next(saved.path.with_name("0.gone").as_posix() for saved in one.find_all([key(1)]))
    one.unpin([key(1)])

    def overtaken(self: Space) -> object:
        found = look(self)
        objects.replace(manifest, b"0123456789abcdef")  # another remover's, which looked at the same time
        return found

    monkeypatch.setattr(Space, "_survey", overtaken)
    assert one.save(facts(3), [ROWS], needed=False) is None
    assert objects.read(manifest)[1] == b"0123456789abcdef" and len(data(objects)) == 2


@pytest.mark.parametrize("place", ["folder"], indirect=True)  # times of S3 would take seconds
def test_a_removal_that_failed_is_finished_by_the_same_process(
    machine: Machine, objects: Objects, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = machine(budget=25_000)
    store._collecting.result()
    for number in (1, 2):
        assert store.save(facts(number, number), [ROWS], needed=False)
    wait()

    def fails(_: object, names: Iterable[str]) -> None:
        if list(names):
            raise OSError("503 Slow Down")

    with monkeypatch.context() as patch:
        patch.setattr(type(objects), "delete", fails)
        with pytest.raises(DiskFull, match="503"):
            store.save(facts(3), [ROWS], needed=False)
    assert store.find(key(1)) is None, "it is marked"
    wait()
    store.collect()
    assert store.save(facts(1), [ROWS], needed=False) is not None and store.find(key(1)) is not None
