"""Checkpoints in a store that several machines share (`catalog/stores/objects.py`): a folder, or a bucket of S3.

::

    PLACE/<content>/<part>.json                     the manifest (law 8); <content> digests signature and layout
    PLACE/<content>/<part>.<user>-<n>-<ms>.arrow    data, written by that user in n-th place; <ms> of work made them
    PLACE/<content>/<part>.gone                     it is being removed: as if there were no manifest
    PLACE/<content>/pack-<user>-<n>.…               the same three for a pack of many parts (`packs`)
    PLACE/users/<user>.json                         the lease of a process (`engine/storage/leases.py`)

Signatures, manifests, digests, segments and checksums are those of a directory (`engine/storage/manifest.py`). Instead
of file locks there are three rules:

- *First commit wins.* The manifest is written on condition that there is none. The second writer removes its data
  and takes what is there.
- *Nothing goes that a living process needs.* A reader writes the name of a checkpoint into its lease, and then checks
  that it is present. A remover first marks it as gone, and then checks that no lease names it. In whatever
  order that happens, at least one of the two sees the other (Dekker's way of mutual exclusion), and gives way. What
  was written less than a lease ago is left alone, too, so that a new output need not be in the lease at once.
- *Data without a manifest* are garbage once the lease of their writer has run out.

What waits to be written together is written as one pack (`save_all`), and small files become larger ones while
the query runs (`merging`). An output may thus lie in several places: a reader takes one of them, and another if that is
lost or damaged. A pack is needed while any of its outputs is. What a larger pack covers is removed when this
process ends, or when space is needed.

A budget is kept by each process as far as it knows: what others write within half a lease may come on top.

Parts that were read or written here stand on the machine (`catalog/stores/node_cache.py`).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from math import inf
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from qoop.catalog.errors import CheckpointError, DiskFull
from qoop.catalog.stores.node_cache import NodeCache
from qoop.catalog.stores.objects import Objects
from qoop.catalog.stores.private import write_private
from qoop.engine.events import Committed
from qoop.engine.storage.leases import SECONDS, Leases
from qoop.engine.storage.listing import Manifests, base, folder_of, is_pack, name_of, packs_in, parts_of
from qoop.engine.storage.local_copies import LocalCopies, reading
from qoop.engine.storage.manifest import Saved, Unsaved, dump_manifest
from qoop.engine.storage.merging import Merger, is_small
from qoop.engine.storage.pack_index import PackIndex, covers, files, pack_of
from qoop.engine.storage.packs import Index, dump_pack, merge, saved_in, write_pack
from qoop.engine.storage.segments import Damaged, Segment, write_segments
from qoop.engine.storage.space import Space, covered
from qoop.engine.task import CheckpointKey

_THREADS = 8
_TRIES = 5
_STAGES = 1000  # of which it is remembered what was there
_PAUSE = 0.1  # seconds between tries


class SharedCheckpoints:
    """The durable checkpoints of one store. Thread-safe.

    cache: where parts stand on this machine. budget: bytes that all objects together may take; None: no limit.
    lease: seconds for which the process counts as alive without a word of it. key: manifests must bear its seal; None:
        each writer to the store is trusted. pack: keep many outputs in one file where that saves requests.
    Raises DiskFull if the store cannot be written, CheckpointError if it cannot be read.
    """

    far = True
    writers = 4  # outputs to write at a time, since most of the time is spent waiting

    def __init__(
        self,
        objects: Objects,
        cache: NodeCache,
        budget: int | None = None,
        lease: float = SECONDS,
        key: bytes | None = None,
        pack: bool = True,
    ) -> None:
        self._key = key
        self._pack = pack
        self._index = PackIndex(objects, key)
        self._manifests = Manifests(objects, key)
        self._latency = 0.0  # seconds of a request; rises and falls with what was seen
        self._merger = Merger(self._merge, lambda: self._latency)
        self._listed: dict[str, tuple[float, frozenset[CheckpointKey]]] = {}
        self._removed: set[tuple[CheckpointKey, Path]] = set()  # outputs that are not to be merged
        self._covered: dict[Path, dict[CheckpointKey, Saved]] = {}  # by file: its outputs, which a larger pack holds
        self._objects = objects
        self._cache = cache
        self._leases = Leases(objects, lease)
        self._numbers = count(1)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="qoop-store")
        self._copies = LocalCopies(objects, cache)
        self._space = Space(objects, budget, self._leases, self._index, self._manifests, self._threads)
        self._lock = threading.Lock()  # guards _covered
        with self._writing():
            self._leases.begin()
        self._collecting = self._threads.submit(self._collect_quietly)

    def save(self, committed: Committed, partitions: Sequence[pa.Table], needed: bool = True) -> Saved | None:
        """Write data, then the manifest; the checkpoint exists once this returns. One that exists stays.

        needed: a running job of this process needs it, so that it is not removed before `unpin`.
        None: the budget has no space for it, or one of its key is just being removed. Raises DiskFull, and leaves
        nothing that is visible behind then.
        """
        name = name_of(committed.key)
        with self._writing():
            present = self._present([committed.key], name).get(committed.key)
            if present is None:
                if not self._space.take(sum(committed.bytes)):
                    return None
                present = self._write(name, committed, partitions)
            if needed and present is not None:
                self._leases.note([name])
            elif not needed:
                self.unpin([committed.key])
            return present

    def save_all(self, outputs: Sequence[Unsaved]) -> list[Saved | None]:
        """Commit outputs of one stage: as one pack if they are small and some, else one by one. As `save`."""
        if not self._pack or len(outputs) < 2 or not all(is_small(one.committed) for one in outputs):
            return [self.save(one.committed, one.partitions, one.needed) for one in outputs]
        with self._writing():
            present = self._present([one.committed.key for one in outputs])
            new = [one for one in outputs if one.committed.key not in present]
            if new and self._space.take(sum(sum(one.committed.bytes) for one in new)):
                present |= {one.committed.key: one for one in self._write_pack(new)}
            self._leases.note(name_of(one.committed.key) for one in outputs if one.needed)
            self.unpin([one.committed.key for one in outputs if not one.needed])
        return [present.get(one.committed.key) for one in outputs]

    def _present(self, keys: Sequence[CheckpointKey], name: str = "") -> dict[CheckpointKey, Saved]:
        """Those that are written already. The store is read again after a third of a lease: of two writers
        at once the first to commit still wins, and what a pack holds twice takes space twice, and nothing else."""
        folder, now = folder_of(keys[0]), time.monotonic()
        listed, known = self._listed.get(folder, (-inf, frozenset()))
        if self._pack and now - listed < self._leases.seconds / 3 and known.isdisjoint(keys):
            return {}
        if not self._pack and not self._manifests.exists(f"{name}.json"):
            return {}
        return {one.committed.key: one for one in self.find_all(keys)}

    def _write(self, name: str, committed: Committed, partitions: Sequence[pa.Table]) -> Saved | None:
        segments: list[Segment] = []
        data = self._data_name(name, committed.seconds)

        def write(stream: BinaryIO) -> None:
            segments.extend(write_segments(stream, partitions, committed.bytes, strong=self._key is not None))

        began = time.monotonic()
        with self._uploaded(data, write):
            saved = self._commit(name, Saved(committed, Path(data), tuple(segments)))
        if saved is None or saved.path != Path(data):
            self._cache.drop(base(data))
            self._objects.delete([data])
        elif self._was_lost([saved], began):
            return None
        else:
            self._wrote([saved])
        return saved

    def _wrote(self, saved: Sequence[Saved]) -> None:
        folder = folder_of(saved[0].committed.key)
        listed, known = self._listed.get(folder, (-inf, frozenset()))
        self._listed[folder] = listed, known.union(one.committed.key for one in saved)
        if self._pack:
            self._merger.add(saved)

    def _write_pack(self, outputs: Sequence[Unsaved]) -> Sequence[Saved]:
        """The outputs that were committed: all, or none."""
        facts, tables = [one.committed for one in outputs], [one.partitions for one in outputs]
        saved = self._new_pack(facts, lambda stream: write_pack(stream, tables, strong=self._key is not None))
        if saved:
            self._wrote(saved)
        return saved

    def _new_pack(self, outputs: Sequence[Committed], write: Callable[[BinaryIO], Index]) -> Sequence[Saved]:
        """Write data that hold all of the outputs, then their manifest. Nothing is left behind on any error."""
        name = f"{folder_of(outputs[0].key)}/pack-{self._leases.own}-{next(self._numbers)}"
        data = self._data_name(name, sum(one.seconds for one in outputs))
        index: list[tuple[Segment, ...]] = []
        began = time.monotonic()
        with self._uploaded(data, lambda stream: index.extend(write(stream)), f"{name}.json"):
            saved = saved_in(Path(data), outputs, tuple(index))
            text, begun = dump_pack(saved, self._key), time.monotonic()
            self._objects.replace(f"{name}.json", text)  # the name is unique
            self._note_latency(time.monotonic() - begun)
        if self._was_lost(saved, began):
            return ()
        self._index.wrote(saved, len(text))
        return saved

    def _note_latency(self, seconds: float) -> None:
        self._latency = seconds if not self._latency else 0.7 * self._latency + 0.3 * seconds

    def _data_name(self, name: str, seconds: float) -> str:
        return f"{name}.{self._leases.own}-{next(self._numbers)}-{int(seconds * 1000)}.arrow"

    @contextlib.contextmanager
    def _uploaded(self, data: str, write: Callable[[BinaryIO], object], *more: str) -> Iterator[None]:
        """Write data to this machine and to the store; they go again, and what is named more, if what follows fails."""
        try:
            self._cache.add(base(data), write, lambda path: self._objects.upload(data, path))
            yield
        except BaseException:
            with contextlib.suppress(OSError):
                self._objects.delete([*more, data])
            raise

    def _was_lost(self, saved: Sequence[Saved], began: float) -> bool:
        """True if this process was held up for so long that the data were taken for garbage. Then nothing remains."""
        if time.monotonic() - began <= self._leases.seconds / 2 or self._manifests.exists(saved[0].path.as_posix()):
            return False
        for one in saved:
            self.remove(one)
        return True

    def _commit(self, name: str, mine: Saved) -> Saved | None:
        """Make the manifest mine, or find whose it is. None: neither, for as long as this tried."""
        text = dump_manifest(mine.committed, mine.path.name, mine.segments, self._key)
        for _ in range(_TRIES):
            try:
                began = time.monotonic()
                self._objects.create(f"{name}.json", text)
                self._note_latency(time.monotonic() - began)
                return mine
            except FileExistsError:
                tag, other = self._manifests.read_tagged(name)
            if other is not None and other.path == mine.path:
                return mine  # a try that seemed to have failed had not
            found = self.find(mine.committed.key)
            if found is not None:
                return found
            going = self._manifests.exists(f"{name}.gone")
            if tag is not None and not going:  # it cannot be believed, or its data are lost
                with contextlib.suppress(FileExistsError, FileNotFoundError):
                    self._objects.replace(f"{name}.json", text, expected_tag=tag)
                    return mine
            time.sleep(_PAUSE)
        return None

    def find(self, key: CheckpointKey) -> Saved | None:
        """The checkpoint of that key, or None. It is not removed before `unpin`."""
        found = self.find_all([key])
        return found[0] if found else None

    def find_all(self, keys: Sequence[CheckpointKey]) -> list[Saved]:
        """Those of the keys that are there and can be believed. They are not removed before `unpin`."""
        names = {name_of(key): key for key in keys}
        if not names:
            return []
        with reading(self._objects, "checkpoints"):
            self._leases.need(names)
            folders = sorted({name.partition("/")[0] for name in names})
            parts = parts_of(item for found in self._threads.map(self._objects.list, folders) for item in found)
            packs = self._index.read(packs_in(parts), self._threads.map)
            whole = [outputs for name, outputs in packs.items() if outputs and parts[name].holds(outputs[0])]
            found = covers(whole, set(keys))
            there = [name for name, key in names.items() if key not in found and name in parts and parts[name].is_there]
            for name, saved in zip(there, self._threads.map(self._manifests.read, there), strict=True):
                if saved is not None and saved.committed.key == names[name] and parts[name].holds(saved):
                    found[names[name]] = saved
        self._note_listed(folders, found)
        self._leases.unpin(name for name, key in names.items() if key not in found)
        return [found[key] for key in names.values() if key in found]

    def _note_listed(self, folders: Sequence[str], found: Iterable[CheckpointKey]) -> None:
        """Remember what was there of these stages."""
        by_folder: dict[str, set[CheckpointKey]] = {folder: set() for folder in folders}
        for key in found:
            by_folder[folder_of(key)].add(key)
        now = time.monotonic()
        for folder, keys in by_folder.items():
            self._listed[folder] = now, self._listed.get(folder, (now, frozenset()))[1] | keys
        while len(self._listed) > _STAGES:
            self._listed.pop(next(iter(self._listed)), None)

    def read(self, saved: Saved, number: int, folder: Path | None = None) -> pa.Table:
        """The rows of one partition, copied to that folder if they are many. Raises DiskFull; CheckpointError, which
        names the key: Damaged if they are lost or damaged, and lie nowhere else."""
        here, tried = self._index.place(saved), set[Path]()
        while True:
            try:
                return self._copies.read(here, number, folder)
            except CheckpointError as error:
                tried.add(here.path)
                other = self._elsewhere(here, isinstance(error, Damaged)) if self._pack else None
                if other is None or other.path in tried:
                    raise
            self._index.move([here], [other])
            here = other

    def _elsewhere(self, saved: Saved, is_damaged: bool) -> Saved | None:
        """Another place of an output that cannot be read, if there is one."""
        key = saved.committed.key
        if is_damaged:
            self._set_right(saved)
            with self._lock:  # no larger pack holds it as it should
                for path in [path for path, keys in self._covered.items() if key in keys]:
                    del self._covered[path]
        return self.find(key)

    def fetch(self, requested: Sequence[tuple[Saved, int | None]]) -> None:
        """Have partitions (None: all) on this machine, many at a time: of each file those that lie side by side with
        one request. Those that fail, fail when they are read."""
        by_file: dict[Path, tuple[list[Saved], set[int]]] = {}
        for saved, number in requested:
            here = self._index.place(saved)
            outputs, numbers = by_file.setdefault(here.path, ([], set()))
            outputs.append(here)
            numbers.update(range(len(here.segments)) if number is None else (number,))
        tasks = []
        for outputs, numbers in by_file.values():
            missing = [one for one in sorted(numbers) if self._copies.find(outputs[0], one) is None]
            if missing:
                tasks.append(self._threads.submit(self._copies.fetch, outputs, missing))
        for task in tasks:
            with contextlib.suppress(CheckpointError):
                task.result()

    def unpin(self, keys: Sequence[CheckpointKey]) -> None:
        """No job of this process needs these any more; they stay until their space is needed."""
        self._leases.unpin(map(name_of, keys))
        self._index.forget(keys)

    def remove(self, saved: Saved) -> None:
        """Forget a checkpoint that proved unreadable; first the manifest, then the data."""
        for one in files([self._index.place(saved), saved]):
            self._removed.add((saved.committed.key, one[0].path))
            self._set_right(one[0])
        self._index.forget([saved.committed.key])
        self._leases.unpin([name_of(saved.committed.key)])

    def _set_right(self, saved: Saved) -> None:
        """No manifest names these data for this output any more."""
        name = name_of(saved.committed.key)
        with contextlib.suppress(OSError):
            if saved.is_packed:
                self._index.leave_out(saved)
                return
            present = self._manifests.read(name)
            if present is not None and present.path == saved.path:  # and not one made since
                self._objects.delete([f"{name}.json"])
            self._objects.delete([saved.path.as_posix()])

    def set_aside(self, saved: Saved, folder: Path) -> None:
        """Move a checkpoint that is not to be used any more to a folder of this machine, for people. It goes if it
        cannot be moved, and from all places where it lies."""
        with contextlib.suppress(OSError):
            name = pack_of(saved) if saved.is_packed else name_of(saved.committed.key)
            for object_ in (f"{name}.json", saved.path.as_posix()):
                write_private(folder / object_.replace("/", "-"), self._objects.read(object_)[1])
        self.remove(saved)
        other = self.find(saved.committed.key) if self._pack else None
        if other is not None and other.path != saved.path:
            self.set_aside(other, folder)

    def collect(self) -> None:
        """Remove what dead users left unfinished. Raises OSError as the store does."""
        self._space.collect()

    def close(self) -> None:
        """Let go of the store. Merging ends; what a larger pack covers goes."""
        self._merger.close()
        with contextlib.suppress(OSError):  # the packs are there: more than they take is not lost
            self._remove_covered()
        self._threads.shutdown(cancel_futures=True)
        self._leases.close()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise DiskFull(f"cannot write a checkpoint to {self._objects.url}: {error.strerror or error}") from error

    def _collect_quietly(self) -> None:
        with contextlib.suppress(OSError):  # the next read or write reports it
            self.collect()

    # Merging, while the query runs

    def _merge(self, sources: Sequence[Sequence[Saved]], between: Callable[[], None]) -> None:
        """Make one pack of several files, if all stand on this machine: reading them again is not worth it."""
        right = [[one for one in outputs if (one.committed.key, one.path) not in self._removed] for outputs in sources]
        found = [(self._cache.find(outputs[0].path.name), outputs) for outputs in right if outputs]
        here = [(path, outputs) for path, outputs in found if path is not None]
        outputs = [one for _, outputs in here for one in outputs]
        if len(here) < 2 or not self._space.take(sum(sum(one.committed.bytes) for one in outputs)):
            return
        files_ = [(path, tuple(one.segments for one in outputs)) for path, outputs in here]
        made = self._new_pack([one.committed for one in outputs], lambda stream: merge(stream, files_, between))
        if made:
            self._read_from(made, outputs)
            for path, _ in here:
                self._cache.drop(path.name)

    def _read_from(self, made: Sequence[Saved], sources: Sequence[Saved]) -> None:
        """From now on these are read from a pack that was made of them."""
        self._index.move(sources, made)
        with self._lock:
            self._covered |= {group[0].path: {one.committed.key: one for one in group} for group in files(sources)}
        for new, old in zip(made, sources, strict=True):
            if (old.committed.key, old.path) in self._removed:  # meanwhile
                self._set_right(new)

    def _remove_covered(self) -> None:
        """Remove what a larger pack holds, if that is still there as it was written: manifests are read again for that.
        A reader of what goes meanwhile finds the pack."""
        with self._lock:
            sources = [tuple(found.values()) for found in self._covered.values()]
        going = {pack_of(one[0]) if one[0].is_packed else name_of(one[0].committed.key): one for one in sources}
        folders = {name.partition("/")[0] for name in going}
        parts = parts_of(item for folder in folders for item in self._objects.list(folder))
        packs = {name: self._index.ask(name) for name in packs_in(parts) if name not in going}
        packs |= {name: found for name, found in going.items() if name in parts and is_pack(name)}
        names = sorted(covered(parts, packs) & going.keys())
        self._objects.delete([f"{name}.json" for name in names])
        self._objects.delete([going[name][0].path.as_posix() for name in names])
