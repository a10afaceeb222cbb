"""Packed outputs in a store: what is asked for, which copy is read, what goes when, and schedules of faults."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pack_faults
import pyarrow as pa
import pytest
from distant import Distant
from in_memory import InMemory
from pack_shuffle import ShuffleOptions, compared, line

from qoop.catalog.errors import CheckpointError
from qoop.catalog.stores.node_cache import NodeCache
from qoop.catalog.stores.objects import Objects, open_objects
from qoop.engine.events import Committed
from qoop.engine.storage import merging
from qoop.engine.storage.checkpoint import Store
from qoop.engine.storage.manifest import Saved, Unsaved
from qoop.engine.storage.packs import dump_pack, load_pack
from qoop.engine.storage.retention import Retention
from qoop.engine.storage.shared_store import SharedCheckpoints
from qoop.engine.storage.write_behind import WriteBehind
from qoop.engine.task import CheckpointKey

Machine = Callable[..., SharedCheckpoints]


def key(part: int, stage: str = "s") -> CheckpointKey:
    return CheckpointKey(stage * 32, "l" * 32, part)


def tables(part: int, partitions: int = 3) -> tuple[pa.Table, ...]:
    return tuple(pa.table({"a": pa.array(range(part, part + 40 * number), pa.int64())}) for number in range(partitions))


def unsaved(part: int, needed: bool = True, width: int = 0, stage: str = "s") -> Unsaved:
    made = tables(part)
    rows, sizes = tuple(one.num_rows for one in made), tuple(one.nbytes for one in made)
    return Unsaved(Committed(key(part, stage), rows, sizes, 1.0, width=width), made, needed)


@pytest.fixture
def counts() -> Counter[str]:
    return Counter()


@pytest.fixture
def objects(counts: Counter[str]) -> Distant:
    return Distant(InMemory(), 0.0, counts)


@pytest.fixture
def machine(objects: Distant, tmp_path: Path) -> Iterator[Machine]:
    machines: list[SharedCheckpoints] = []

    def another(**more: object) -> SharedCheckpoints:
        cache = NodeCache(tmp_path / f"node-{len(machines)}", 1 << 30)
        machines.append(SharedCheckpoints(objects, cache, **more))  # type: ignore[arg-type]
        machines[-1]._collecting.result()
        return machines[-1]

    yield another
    for one in machines:
        one.close()


def names(objects: Objects, end: str) -> list[str]:
    return [item.name for item in objects.list() if item.name.endswith(end) and "users/" not in item.name]


def rows(store: SharedCheckpoints, saved: Saved) -> tuple[pa.Table, ...]:
    return tuple(store.read(saved, number) for number in range(len(saved.segments)))


def test_many_outputs_are_two_requests_to_write_and_one_to_read(machine: Machine, counts: Counter[str]) -> None:
    here, there = machine(), machine()
    here.find_all([key(part) for part in range(20)])
    counts.clear()
    assert all(here.save_all([unsaved(part) for part in range(20)]))
    assert counts == {"put": 2}
    counts.clear()
    found = there.find_all([key(part) for part in range(25)])
    assert len(found) == 20 and counts == {"put": 1, "list": 1, "get": 1}
    counts.clear()
    there.fetch([(saved, 1) for saved in found])
    assert [there.read(saved, 1) for saved in found] == [tables(part)[1] for part in range(20)]
    assert counts == {"get": 1}
    there.fetch([(saved, number) for saved in found for number in (0, 2)])
    assert [rows(there, saved) for saved in found] == [tables(part) for part in range(20)]
    assert counts == {"get": 2}, "partitions that lie close together are one request"
    there.fetch([(found[0], None)])
    assert counts == {"get": 2}, "all of it is here"


def test_outputs_are_written_loose_where_that_is_asked_for_or_they_are_large(
    machine: Machine, objects: Distant, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(pack=False).save_all([unsaved(part) for part in range(3)])
    assert len(names(objects, ".arrow")) == 3
    monkeypatch.setattr(merging, "BLOCK", 100)
    machine().save_all([unsaved(part, stage="t") for part in range(3)])
    assert len(names(objects, ".arrow")) == 6


def test_small_files_become_one_which_is_read_and_the_others_go(
    machine: Machine, objects: Distant, counts: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "pays", lambda *_: True)
    here, early, late = machine(), machine(), machine()
    for start in range(0, 6, 2):
        here.save_all([unsaved(part, width=6) for part in range(start, start + 2)])
    here.save_all([unsaved(9, width=0)])
    here._merger.wait()
    assert not here._merger.failures
    before = early.find_all([key(part) for part in range(6)])
    assert len({saved.path for saved in before}) == 1, "the reader takes the largest"
    assert len(names(objects, ".arrow")) == 5, "nothing is removed while this process lives"
    here.close()
    assert len(names(objects, ".arrow")) == len(names(objects, ".json")) == 2
    counts.clear()
    found = late.find_all([key(part) for part in range(6)])
    late.fetch([(saved, 2) for saved in found])
    assert [rows(late, saved)[2] for saved in found] == [tables(part)[2] for part in range(6)]
    assert counts["get"] == 1 + 1 + 2, "the manifest, the partition, and two that were not asked for before"


def test_what_is_damaged_on_the_machine_is_not_merged(
    machine: Machine, objects: Distant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "pays", lambda *_: True)
    here, there = machine(), machine()
    [saved] = here.save_all([unsaved(0, width=2)])
    assert saved is not None
    file = here._cache.root / saved.path.name
    text = bytearray(file.read_bytes())
    text[saved.segments[2].offset + 100] ^= 255
    file.write_bytes(text)
    here.save_all([unsaved(1, width=2)])
    here._merger.wait()
    assert ["corrupt" in str(error) for error in here._merger.failures] == [True]
    here.close()
    assert [rows(there, one) for one in there.find_all([key(0), key(1)])] == [tables(0), tables(1)]


def test_what_is_not_believed_goes_from_all_places(
    machine: Machine, objects: Distant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "pays", lambda *_: True)
    here, there = machine(), machine()
    for part in range(3):
        here.save_all([unsaved(part, width=3)])
    here._merger.wait()
    [found] = there.find_all([key(1)])
    there.set_aside(found, tmp_path)
    assert [one.committed.key.part for one in here.find_all([key(part) for part in range(3)])] == [0, 2]
    assert len([*tmp_path.glob("*.json")]) == 2


def test_what_was_removed_before_it_is_merged_does_not_come_back(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "pays", lambda *_: True)
    here, there = machine(), machine()
    [first] = here.save_all([unsaved(0, width=3)])
    assert first is not None
    here.remove(first)
    here.save_all([unsaved(1, width=3)])
    here.save_all([unsaved(2, width=3)])
    here._merger.wait()
    assert [one.committed.key.part for one in there.find_all([key(part) for part in range(3)])] == [1, 2]


def test_who_found_the_original_goes_on_when_it_is_gone(
    machine: Machine, objects: Distant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "pays", lambda *_: True)
    here, reader = machine(), machine()
    here.save_all([unsaved(0, width=3)])
    here.save_all([unsaved(1, width=3)])
    found = reader.find_all([key(0), key(1)])
    here.save_all([unsaved(2, width=3)])
    here._merger.wait()
    here.close()
    assert len(names(objects, ".arrow")) == 1
    assert [rows(reader, saved) for saved in found] == [tables(0), tables(1)]


@pytest.mark.parametrize("damage", ["flipped", "short", "lost"])
def test_damage_costs_what_it_hit(machine: Machine, objects: Distant, damage: str) -> None:
    here, there, last = machine(), machine(), machine()
    [first, *_] = saved = here.save_all([unsaved(part) for part in range(4)])
    assert first is not None
    name = first.path.as_posix()
    text = bytearray(objects.ranges(name, [(0, objects.about(name).size)])[0])
    found = there.find_all([key(part) for part in range(4)])
    if damage == "lost":
        objects.delete([name])
    else:
        text[found[1].segments[1].offset + 50] ^= 255
        objects.replace(name, bytes(text if damage == "flipped" else text[: len(text) - 200]))
    lost = []
    for part, one in enumerate(found):
        try:
            assert rows(there, one) == tables(part)
        except CheckpointError:
            lost.append(part)
            there.remove(one)
    assert lost == {"flipped": [1], "short": [3], "lost": [0, 1, 2, 3]}[damage] or damage == "short"
    assert [one.committed.key.part for one in last.find_all([key(part) for part in range(4)])] == (
        [0, 2, 3] if damage == "flipped" else []
    )
    assert all(there.save_all([unsaved(part) for part in range(4)])) and len(saved) == 4
    assert [rows(last, one) for one in last.find_all([key(part) for part in range(4)])] == [*map(tables, range(4))]


def test_a_pack_stays_while_one_of_its_outputs_is_needed(machine: Machine, objects: Distant) -> None:
    here, reader = machine(lease=1000.0), machine(lease=1000.0)
    here.save_all([unsaved(part, needed=False) for part in range(4)])
    here.save_all([unsaved(part, needed=False, stage="t") for part in range(4)])
    [wanted] = reader.find_all([key(2)])
    objects._near.later = 10_000.0  # type: ignore[attr-defined]
    reader._leases._write()
    used = sum(item.size for item in objects.list() if "users/" not in item.name)
    tight = machine(budget=used + 2000, lease=1000.0)
    assert any(tight.save_all([unsaved(part, needed=False, stage="u") for part in range(4)]))
    assert reader.find_all([key(0, "t")]) == [], "what nobody needs went"
    assert rows(reader, wanted) == tables(2)
    assert len(reader.find_all([key(part) for part in range(4)])) == 4, "with all that is in its file"


def test_what_is_in_a_larger_pack_goes_first(
    machine: Machine, objects: Distant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "pays", lambda *_: True)
    here = machine(lease=1000.0)
    for part in range(4):
        here.save_all([unsaved(part, needed=False, width=4)])
    here._merger.wait()
    here._covered.clear()  # as if it had been killed
    assert len(names(objects, ".arrow")) == 5
    objects._near.later = 10_000.0  # type: ignore[attr-defined]
    used = sum(item.size for item in objects.list() if "users/" not in item.name)
    tight = machine(budget=used + 1000, lease=1000.0)
    tight.save_all([unsaved(0, needed=False, stage="u")])
    left = tight.find_all([key(part) for part in range(4)])
    assert len(left) == 4 and all(one.is_packed for one in left)
    assert len([name for name in names(objects, ".arrow") if "/pack-" not in name]) < 4


def test_a_half_written_pack_is_garbage(machine: Machine, objects: Distant) -> None:
    here = machine(lease=1000.0)
    [saved, _] = here.save_all([unsaved(0), unsaved(1)])
    assert saved is not None
    manifest = saved.path.as_posix().partition(".")[0] + ".json"
    objects.delete([manifest])
    assert machine(lease=1000.0).find_all([key(0)]) == []
    objects.delete([here._leases._name])
    objects._near.later = 10_000.0  # type: ignore[attr-defined]
    machine(lease=1000.0)
    assert names(objects, ".arrow") == []


def test_a_pack_bears_the_seal_of_the_key(machine: Machine, objects: Distant) -> None:
    ours, theirs = machine(key=b"ours" * 8), machine(key=b"them" * 8)
    assert all(theirs.save_all([unsaved(0), unsaved(1)]))
    assert ours.find_all([key(0), key(1)]) == []
    assert all(ours.save_all([unsaved(0), unsaved(1)]))
    found = ours.find_all([key(0), key(1)])
    assert [rows(ours, one) for one in found] == [tables(0), tables(1)]
    assert all(segment.sha256 for one in found for segment in one.segments)
    assert load_pack(dump_pack(found, b"k"), found[0].path.parent, b"k") == tuple(found)


def test_a_manifest_that_names_the_data_of_another_pack_is_not_believed(machine: Machine, objects: Distant) -> None:
    here = machine()
    saved = [one for one in here.save_all([unsaved(0), unsaved(1)]) if one is not None]
    folder = saved[0].path.parent.as_posix()
    objects.replace(f"{folder}/pack-0123456789abcdef-1.json", dump_pack(saved))
    objects.delete([saved[0].path.as_posix().partition(".")[0] + ".json"])
    assert machine().find_all([key(0), key(1)]) == []


def test_what_comes_while_a_stage_is_written_is_written_together() -> None:
    lock, wrote, go = threading.Condition(), list[list[int]](), threading.Event()

    class Output:
        jobs = frozenset[str]()
        bytes = 10

        def __init__(self, number: int) -> None:
            self.number = number

    def write(waited: object) -> None:
        outputs = [one for one, _ in waited]  # type: ignore[attr-defined]
        go.wait(60)
        wrote.append([one.number for one in outputs])
        with lock:
            for one in outputs:
                behind.done(one, None)

    behind: WriteBehind = WriteBehind(lock, 4, write, lambda _: "stage")  # type: ignore[type-arg]
    for number in range(30):
        output = Output(number)
        behind.reserve(output, 10_000, lambda: None)  # type: ignore[arg-type]
        behind.enqueue(output)  # type: ignore[arg-type]
        if number == 5:
            time.sleep(0.1)
    go.set()
    behind.flush()
    behind.close()
    assert sorted(number for group in wrote for number in group) == list(range(30))
    assert max(map(len, wrote)) >= 10, "those that came while others were written"
    assert len(wrote) <= 10


def test_a_store_says_of_each_output_when_it_is_there(tmp_path: Path) -> None:
    told: list[object] = []
    (tmp_path / "a").mkdir()
    store = Store(1 << 30, tmp_path / "a", Retention((tmp_path / "shared").as_uri()), told.append)
    for part in range(12):
        one = unsaved(part)
        store.put(one.committed, "job", one.partitions, durable=True)
    store.flush()
    assert {event.key.part for event in told} == set(range(12)) and all(event.kept for event in told)  # type: ignore[attr-defined]
    store.close()


def test_merging_pays_for_many_small_fragments_behind_a_latency_only() -> None:
    def files(number: int, partitions: int, bytes_: int) -> list[list[Saved]]:
        segments = load_pack_segments(partitions)
        facts = [Committed(key(part), (1,) * partitions, (bytes_,) * partitions, 1.0) for part in range(number)]
        return [[Saved(one, Path("x"), segments)] for one in facts]

    assert merging.pays(files(16, 200, 1000), 0.03)
    assert not merging.pays(files(16, 200, 1000), 0.00001), "a disk of one's own"
    assert not merging.pays(files(16, 1, 1000), 0.03), "one partition"
    assert not merging.pays(files(16, 200, 1 << 20), 0.03), "large ones"


def load_pack_segments(partitions: int) -> tuple[object, ...]:
    return (None,) * partitions


def test_the_requests_that_are_counted_are_those_of_s3(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication as Server

    seen: Counter[str] = Counter()
    answer, counts = Server.__call__, Counter[str]()

    def counting(self: Server, environ: dict[str, str], start: object) -> object:
        listing = "list-type" in environ.get("QUERY_STRING", "")
        seen["list" if listing else _KINDS[environ["REQUEST_METHOD"]]] += 1
        return answer(self, environ, start)

    monkeypatch.setattr(Server, "__call__", counting)
    objects = Distant(open_objects(f"{bucket}/x"), 0.0, counts)
    store = SharedCheckpoints(objects, NodeCache(tmp_path / "a", 1 << 30))
    store.save_all([unsaved(part) for part in range(8)])
    store.save_all([unsaved(8)])
    other = SharedCheckpoints(objects, NodeCache(tmp_path / "b", 1 << 30))
    found = other.find_all([key(part) for part in range(9)])
    other.fetch([(one, number) for one in found for number in (1, 2)])
    assert [other.read(one, 1) for one in found] == [tables(part)[1] for part in range(9)]
    other.remove(found[-1])
    store.close()
    other.close()
    assert seen == counts and counts["get"] >= 4 and counts["delete"] >= 2


_KINDS = {"PUT": "put", "GET": "get", "HEAD": "head", "POST": "delete", "DELETE": "delete"}


def test_packed_outputs_take_fewer_requests_and_hold_the_same_rows(tmp_path: Path) -> None:
    loose, packed = compared(ShuffleOptions(tmp_path, 16, 16, latency=0.004))
    assert loose.all_requests >= 2 * packed.all_requests > 0
    assert f"{packed.all_requests} requests" in line("packed", packed)


@pytest.mark.parametrize("place", range(20))
def test_faults_leave_the_rows_as_they_were(place: int, tmp_path: Path) -> None:
    pack_faults.run("tests", place, tmp_path)
