"""Schedules of faults for packed outputs, drawn by chance: `make soak-packs RUNS=1000`.

    python tests/stores/pack_faults.py --runs 1000 --seed 7             # until one goes wrong
    python tests/stores/pack_faults.py --runs 1 --seed 7 --first 123    # that one alone

A writer puts outputs into a store, some of them together, while its merger makes larger files of them. It is killed
before or after a request, or a request fails. Then objects are lost or damaged. A reader that had found outputs before
that, another that comes later, and one that needs space go on. Whatever happens:

- the rows that are read are those that were written;
- what was committed is found and read, unless every file that held it was hit: no merge loses anything;
- what a living process needs is not removed;
- a reader makes again what is lost, and then everything is there.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
from in_memory import InMemory

from qoop.catalog.errors import CheckpointError, DiskFull
from qoop.catalog.stores.node_cache import NodeCache
from qoop.catalog.stores.objects import Object
from qoop.engine.events import Committed
from qoop.engine.storage import merging
from qoop.engine.storage.listing import is_pack
from qoop.engine.storage.manifest import Saved, Unsaved, load_manifest
from qoop.engine.storage.packs import load_pack
from qoop.engine.storage.segments import checksum
from qoop.engine.storage.shared_store import SharedCheckpoints
from qoop.engine.task import CheckpointKey

LEASE = 1000.0


class Process:
    """The store as one process reaches it, which is killed with its n-th request, or has one that fails."""

    def __init__(self, store: InMemory, dies: int | None = None, fails: int | None = None, acts: bool = False) -> None:
        self.url = store.url
        self.dies, self.fails = dies, fails
        self._store, self._acts = store, acts
        self._asked = 0
        self._lock = threading.Lock()

    def _ask(self, name: str, *arguments: object) -> object:
        with self._lock:
            self._asked += 1
            dead = self.dies is not None and self._asked >= self.dies
            failing = self._asked == self.fails
            acts = not dead or (self._acts and self._asked == self.dies)
        found = getattr(self._store, name)(*arguments) if acts and not (failing and not self._acts) else None
        if dead or failing:
            raise OSError("killed" if dead else "503 Slow Down")
        return found

    def create(self, name: str, data: bytes) -> None:
        self._ask("create", name, data)

    def replace(self, name: str, data: bytes, expected_tag: str | None = None) -> None:
        self._ask("replace", name, data, expected_tag)

    def upload(self, name: str, path: Path) -> None:
        self._ask("upload", name, path)

    def read(self, name: str) -> tuple[Object, bytes]:
        return self._ask("read", name)  # type: ignore[return-value]

    def ranges(self, name: str, spans: Sequence[tuple[int, int]], expected_tag: str | None = None) -> list[memoryview]:
        return self._ask("ranges", name, spans, expected_tag)  # type: ignore[return-value]

    def about(self, name: str) -> Object:
        return self._ask("about", name)  # type: ignore[return-value]

    def list(self, folder: str = "") -> list[Object]:
        return self._ask("list", folder)  # type: ignore[return-value]

    def delete(self, names: Iterable[str]) -> None:
        self._ask("delete", [*names])


class Schedule:
    """One schedule. merged: packs that the writer's merger made."""

    def __init__(self, seed: str, folder: Path) -> None:
        self.random = random.Random(seed)
        self.folder = folder
        self.store = InMemory()
        self.partitions = self.random.randint(1, 4)
        self.keys = [CheckpointKey("s" * 32, "l" * 32, part) for part in range(self.random.randint(2, 24))]
        self.tables = {key: self._output() for key in self.keys}
        self.committed: set[CheckpointKey] = set()
        self.merged = 0
        self.intact = True
        self._machines = 0

    def run(self) -> str:
        """Go through with it; what happened. Raises AssertionError."""
        draw = self.random
        process = self._writer()
        writer = self._machine(process)
        reader = None
        if writer is not None:
            self._write(writer)
            reader = self._machine(Process(self.store))
            assert reader is not None
            found = reader.find_all(self.keys)
            assert self.committed <= {one.committed.key for one in found}, "what was committed is found"
            writer._merger.wait()
            if draw.random() < 0.3:
                self._damage_under(writer, process)
            if draw.random() < 0.7:
                writer.close()
        if draw.random() < 0.5:
            for _ in range(draw.randint(1, 3)):
                self._damage()
        if reader is not None:
            self._read_all(reader, found)
            if draw.random() < 0.4:
                self._evict()
            reader.close()
        if writer is not None:
            process.dies = 0  # it does nothing more
            self.merged = len({one.path for one in writer._index._moved.values()})
            writer.close()
        self._make_again()
        return f"{len(self.committed)} committed, {self.merged} merged"

    def _writer(self) -> Process:
        draw = self.random
        kind = draw.choice(["none", "dies", "dies", "fails", "fails"])
        place = draw.randint(2, 60)
        return Process(
            self.store,
            dies=place if kind == "dies" else None,
            fails=place if kind == "fails" else None,
            acts=draw.random() < 0.5,
        )

    def _machine(self, objects: Process, budget: int | None = None) -> SharedCheckpoints | None:
        self._machines += 1
        try:
            return SharedCheckpoints(objects, NodeCache(self.folder / str(self._machines), 1 << 30), budget, LEASE)
        except DiskFull:
            return None  # it was killed before it began

    def _output(self) -> tuple[pa.Table, ...]:
        draw = self.random
        return tuple(
            pa.table({"a": pa.array([draw.getrandbits(40) for _ in range(draw.randint(0, 50))], pa.int64())})
            for _ in range(self.partitions)
        )

    def _unsaved(self, key: CheckpointKey, needed: bool = True) -> Unsaved:
        tables = self.tables[key]
        rows, sizes = tuple(one.num_rows for one in tables), tuple(one.nbytes for one in tables)
        return Unsaved(Committed(key, rows, sizes, 1.0, width=len(self.keys)), tables, needed)

    def _write(self, writer: SharedCheckpoints) -> None:
        left = [*self.keys]
        self.random.shuffle(left)
        while left:
            group = [left.pop() for _ in range(min(len(left), self.random.choice([1, 1, 2, 3, 8])))]
            try:
                saved = writer.save_all([self._unsaved(key) for key in group])
            except (DiskFull, CheckpointError):
                continue
            self.committed |= {one.committed.key for one in saved if one is not None}

    def _damage_under(self, writer: SharedCheckpoints, process: Process) -> None:
        """The writer itself finds that something is damaged: what it merged is not removed on the strength of that."""
        process.dies = process.fails = None
        self._damage()
        for file in writer._cache.root.glob("*"):
            file.unlink()
        self._read_all(writer, writer.find_all(self.keys))
        whole = self._whole()
        writer.close()
        assert self._whole() >= whole, "what was whole is there"

    def _damage(self) -> None:
        names = [item.name for item in self.store.list() if not item.name.startswith("users/")]
        if not names:
            return
        name = self.random.choice(names)
        self.intact = False
        text = bytearray(self.store.read(name)[1])
        how = self.random.choice(["lost", "short", "flipped"])
        if how == "lost" or not text:
            self.store.delete([name])
            return
        if how == "short":
            del text[self.random.randrange(len(text)) :]
        else:
            text[self.random.randrange(len(text))] ^= 255
        self.store.replace(name, bytes(text))

    def _whole(self) -> set[CheckpointKey]:
        """The outputs of which some file is as it was written."""
        found = set()
        for name in [item.name for item in self.store.list() if item.name.endswith(".json")]:
            if name.startswith("users/"):
                continue
            part, text = name.removesuffix(".json"), self.store.read(name)[1]
            try:
                if is_pack(part):
                    outputs: Sequence[Saved] = load_pack(text, Path(part).parent)
                else:
                    committed, data, segments = load_manifest(text)
                    outputs = [Saved(committed, Path(part).parent / data, segments)]
                bytes_ = memoryview(self.store.read(outputs[0].path.as_posix())[1])
            except (FileNotFoundError, CheckpointError):
                continue
            found |= {one.committed.key for one in outputs if len(bytes_) >= one.end and _is_whole(one, bytes_)}
        return found

    def _read_all(self, reader: SharedCheckpoints, found: Sequence[Saved]) -> None:
        """Read what was found; only what was hit may be missing."""
        numbers = [self.random.choice([None, self.random.randrange(self.partitions)]) for _ in found]
        if self.random.random() < 0.8:
            reader.fetch([*zip(found, numbers, strict=True)])
        whole = self._whole()
        for saved in found:
            key = saved.committed.key
            try:
                tables = [reader.read(saved, number) for number in range(self.partitions)]
            except CheckpointError:
                assert key not in whole, f"{key} was committed, is there and cannot be read"
                reader.remove(saved)
            else:
                assert tuple(tables) == self.tables[key], "the rows are those that were written"

    def _evict(self) -> None:
        """Somebody needs space, long after all that was written; a reader lives and needs some of it."""
        reader = self._machine(Process(self.store))
        assert reader is not None
        needed = [key for key in self.keys if self.random.random() < 0.3]
        kept = reader.find_all(needed)
        self.store.later += 10 * LEASE
        reader._leases._write()
        other = self._machine(Process(self.store), budget=self.random.randint(1000, 6000))
        assert other is not None
        rows = pa.table({"a": pa.array(range(100), pa.int64())})
        for number in range(3):
            key = CheckpointKey("o" * 32, "l" * 32, number)
            other.save_all([Unsaved(Committed(key, (100,), (rows.nbytes,), 1.0), (rows,), False)])
        other.close()
        whole = self._whole()
        assert not self.intact or set(needed) & self.committed <= whole, "what a living process needs is there"
        self._read_all(reader, kept)
        reader.close()

    def _make_again(self) -> None:
        """One that comes later finds what it can, makes the rest, and then another has everything."""
        maker, last = self._machine(Process(self.store)), self._machine(Process(self.store))
        assert maker is not None and last is not None
        for saved in maker.find_all(self.keys):
            try:
                assert (
                    tuple(maker.read(saved, number) for number in range(self.partitions))
                    == self.tables[saved.committed.key]
                )
            except CheckpointError:
                maker.remove(saved)
        missing = [key for key in self.keys if key not in {one.committed.key for one in maker.find_all(self.keys)}]
        for start in range(0, len(missing), 3):
            maker.save_all([self._unsaved(key) for key in missing[start : start + 3]])
        maker._merger.wait()
        maker.close()
        found = last.find_all(self.keys)
        assert {one.committed.key for one in found} == set(self.keys), "everything is there"
        for saved in found:
            tables = tuple(last.read(saved, number) for number in range(self.partitions))
            assert tables == self.tables[saved.committed.key]
        last.close()


def _is_whole(saved: Saved, data: memoryview) -> bool:
    return all(checksum(data[one.offset :][: one.length]) == one.checksum for one in saved.segments)


def run(seed: str, place: int, folder: Path) -> str:
    """One schedule, in a folder of its own. Raises AssertionError."""
    files = random.Random(f"{seed}-files-{place}").randint(2, 4)
    with patch.object(merging, "FILES", files), patch.object(merging, "pays", lambda *_: True):
        return Schedule(f"{seed}-{place}", folder / str(place)).run()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tests/stores/pack_faults.py")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**6)))
    parser.add_argument("--first", type=int, default=0, help="number of the first schedule (0)")
    options = parser.parse_args()
    print(f"{options.runs} schedules, seed {options.seed}", flush=True)
    began, committed, merged = time.monotonic(), 0, 0
    with tempfile.TemporaryDirectory(prefix="qoop-packs-") as folder:
        for place in range(options.first, options.first + options.runs):
            try:
                happened = run(options.seed, place, Path(folder)).split()
                committed, merged = committed + int(happened[0]), merged + int(happened[2])
            except BaseException:
                print(f"schedule {place} failed; again: --runs 1 --seed {options.seed} --first {place}", flush=True)
                raise
    print(
        f"none failed: {committed} outputs committed, {merged} packs merged of others, {time.monotonic() - began:.0f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
