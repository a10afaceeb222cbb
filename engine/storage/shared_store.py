"""Checkpoints in a store that several machines share (`catalog/stores/objects.py`): a folder, or a bucket of S3.

::

    PLACE/<content>/<part>.json                     the manifest (law 8); <content> digests signature and layout
    PLACE/<content>/<part>.<user>-<n>-<ms>.arrow    data, written by that user in n-th place; <ms> of work made them
    PLACE/<content>/<part>.gone                     it is being removed: as if there were no manifest
    PLACE/users/<user>.json                         the lease of a process (`engine/storage/leases.py`)

Signatures, manifests, digests, segments and checksums are those of a directory (`engine/storage/manifest.py`). Instead
of file locks there are three rules:

- *First commit wins.* The manifest is written on condition that there is none. Who comes second removes its own data
  and takes what is there.
- *Nothing goes that a living process needs.* Who wants a checkpoint writes into its lease that it does, and then looks
  whether it is there. Who removes one first marks it as gone, and then looks whether a lease names it. In whatever
  order that happens, at least one of the two sees the other (Dekker's way of mutual exclusion), and gives way. What
  was written less than a lease ago is left alone, too, so that a new output need not be in the lease at once.
- *Data without a manifest* are garbage once the lease of their writer has run out.

A budget is kept by each process as far as it knows: what others write within half a lease may come on top.

Parts that were read or written here stand on the machine (`catalog/stores/node_cache.py`).
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import count
from pathlib import Path

import pyarrow as pa

from qoop.catalog.errors import CheckpointError, DiskFull
from qoop.catalog.stores.node_cache import NodeCache
from qoop.catalog.stores.objects import Object, Objects
from qoop.catalog.stores.private import write_private
from qoop.engine.events import Committed
from qoop.engine.storage.leases import SECONDS, Leases, Living
from qoop.engine.storage.manifest import Saved, dump_manifest, load_manifest
from qoop.engine.storage.segments import Damaged, Segment, check, read_segment, write_segments
from qoop.engine.task import CheckpointKey

_THREADS = 8
_FULL = 0.9  # fraction of the budget to which eviction frees space
_MANIFEST_BYTES = 1024
_TRIES = 5
_PAUSE = 0.1  # seconds between tries
_OURS = re.compile(r"(?P<part>[0-9a-f]{32}/\d+)\.(?:(?P<kind>json|gone)|(?P<user>[0-9a-f]{16})-\d+-(?P<ms>\d+)\.arrow)")


@dataclass(slots=True)
class _Part:
    """The objects in the store for one part of an output."""

    manifest: Object | None = None
    gone: Object | None = None
    data: list[Object] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        return sum(item.size for item in self.data) + (self.manifest.size if self.manifest else 0)

    def worth(self, now: float) -> float:
        """Seconds it took to make, by byte and by second since it was written."""
        assert self.manifest is not None
        seconds = max((int(_match(item.name)["ms"]) for item in self.data), default=0) / 1000
        return seconds / max(1, self.bytes) / max(1.0, now - self.manifest.modified)


class SharedCheckpoints:
    """The durable checkpoints of one store. Thread-safe.

    cache: where parts stand on this machine. budget: bytes that all objects together may take; None: no limit.
    lease: seconds for which the process counts as alive without a word of it. key: manifests must bear its seal; None:
        who can write to the store is trusted.
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
    ) -> None:
        self._key = key
        self._objects = objects
        self._cache = cache
        self._budget = budget
        self._leases = Leases(objects, lease)
        self._numbers = count(1)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="qoop-store")
        self._available = threading.Lock()
        self._used = 0
        self._looked: float | None = None  # when the store was listed last, by the monotonic clock
        with self._writing():
            self._leases.begin()
        self._collecting = self._threads.submit(self._collect_quietly)

    def save(self, committed: Committed, partitions: Sequence[pa.Table], needed: bool = True) -> Saved | None:
        """Write data, then the manifest; the checkpoint exists once this returns. One that exists stays.

        needed: a running job of this process needs it, so that it is not removed before `unpin`.
        None: the budget has no space for it, or one of its key is just being removed. Raises DiskFull, and leaves
        nothing that is visible behind then.
        """
        name = _name(committed.key)
        with self._writing():
            present = self.find(committed.key) if self._exists(f"{name}.json") else None
            if present is None:
                if not self._take_space(sum(committed.bytes)):
                    return None
                present = self._write(name, committed, partitions)
            if needed and present is not None:
                self._leases.note([name])
            elif not needed:
                self.unpin([committed.key])
            return present

    def _write(self, name: str, committed: Committed, partitions: Sequence[pa.Table]) -> Saved | None:
        segments: list[Segment] = []
        data = f"{name}.{self._leases.own}-{next(self._numbers)}-{int(committed.seconds * 1000)}.arrow"
        began = time.monotonic()
        try:
            self._cache.add(
                _base(data),
                lambda stream: segments.extend(write_segments(stream, partitions, strong=self._key is not None)),
                lambda path: self._objects.upload(data, path),
            )
            saved = self._commit(name, Saved(committed, Path(data), tuple(segments)))
        except BaseException:
            with contextlib.suppress(OSError):
                self._objects.delete([data])
            raise
        if saved is None or saved.path != Path(data):
            self._cache.drop(_base(data))
            self._objects.delete([data])
        elif time.monotonic() - began > self._leases.seconds / 2 and not self._exists(data):
            self.remove(saved)  # this process was held up for so long that the data were taken for garbage
            return None
        return saved

    def _commit(self, name: str, mine: Saved) -> Saved | None:
        """Make the manifest mine, or find whose it is. None: neither, for as long as this tried."""
        text = dump_manifest(mine.committed, mine.path.name, mine.segments, self._key)
        for _ in range(_TRIES):
            try:
                self._objects.create(f"{name}.json", text)
                return mine
            except FileExistsError:
                tag, other = self._tagged_manifest(name)
            if other is not None and other.path == mine.path:
                return mine  # a try that seemed to have failed had not
            found = self.find(mine.committed.key)
            if found is not None:
                return found
            if tag is not None and not self._exists(f"{name}.gone"):  # it cannot be believed, or its data are lost
                with contextlib.suppress(FileExistsError, FileNotFoundError):
                    self._objects.replace(f"{name}.json", text, seen=tag)
                    return mine
            time.sleep(_PAUSE)
        return None

    def find(self, key: CheckpointKey) -> Saved | None:
        """The checkpoint of that key, or None. It is not removed before `unpin`."""
        found = self.find_all([key])
        return found[0] if found else None

    def find_all(self, keys: Sequence[CheckpointKey]) -> list[Saved]:
        """Those of the keys that are there and can be believed. They are not removed before `unpin`."""
        names = {_name(key): key for key in keys}
        if not names:
            return []
        with self._reading("checkpoints"):
            self._leases.need(names)
            folders = sorted({name.partition("/")[0] for name in names})
            parts = _parts(item for found in self._threads.map(self._objects.list, folders) for item in found)
            there = [name for name in names if (part := parts.get(name)) and part.manifest and not part.gone]
            found = dict(zip(there, self._threads.map(self._manifest, there), strict=True))
        good = {name: saved for name, saved in found.items() if _is_whole(saved, names[name], parts[name])}
        self._leases.unpin(names.keys() - good.keys())
        return [saved for saved in good.values() if saved is not None]

    def read(self, saved: Saved, number: int, folder: Path | None = None) -> pa.Table:
        """The rows of one partition, copied to that folder if they are many. Raises DiskFull; CheckpointError, which
        names the key: Damaged if they are lost or damaged."""
        cached = self._cached(saved, number)
        if cached is not None:
            try:
                return read_segment(*cached, folder)
            except CheckpointError:  # it has just gone, or is damaged: the store has it
                self._cache.drop(cached[0].name)
        self._fetch(saved, [number])
        cached = self._cached(saved, number)
        if cached is None:
            raise CheckpointError(f"checkpoint {saved.committed.key}: no space for it in {self._cache.root}")
        try:
            return read_segment(*cached, folder)
        except CheckpointError as error:
            raise CheckpointError(f"checkpoint {saved.committed.key}: {error}") from error

    def fetch(self, wanted: Sequence[tuple[Saved, int | None]]) -> None:
        """Have partitions (None: all) on this machine, many at a time. Those that fail, fail when they are read."""
        tasks = []
        for saved, number in wanted:
            numbers = range(len(saved.segments)) if number is None else (number,)
            missing = [number for number in numbers if self._cached(saved, number) is None]
            if missing:
                tasks.append(self._threads.submit(self._fetch, saved, missing))
        for task in tasks:
            with contextlib.suppress(CheckpointError):
                task.result()

    def local_bytes(self, saved: Saved) -> int:
        """Bytes of this output that stand on this machine."""
        return sum(
            segment.bytes for number, segment in enumerate(saved.segments) if self._cached(saved, number) is not None
        )

    def unpin(self, keys: Sequence[CheckpointKey]) -> None:
        """No job of this process needs these any more; they stay until their space is needed."""
        self._leases.unpin(map(_name, keys))

    def remove(self, saved: Saved) -> None:
        """Forget a checkpoint that proved unreadable; first the manifest, then the data."""
        name = _name(saved.committed.key)
        with contextlib.suppress(OSError):
            present = self._manifest(name)
            if present is not None and present.path == saved.path:  # and not one made since
                self._objects.delete([f"{name}.json"])
            self._objects.delete([saved.path.as_posix()])
        self._leases.unpin([name])

    def set_aside(self, saved: Saved, folder: Path) -> None:
        """Move a checkpoint that is not to be used any more to a folder of this machine, for people. It goes if it
        cannot be moved."""
        with contextlib.suppress(OSError):
            for object_ in (f"{_name(saved.committed.key)}.json", saved.path.as_posix()):
                write_private(folder / object_.replace("/", "-"), self._objects.read(object_)[1])
        self.remove(saved)

    def close(self) -> None:
        """Let go of the store."""
        self._threads.shutdown(cancel_futures=True)
        self._leases.close()

    def collect(self) -> None:
        """Remove what dead users left unfinished. Raises OSError as the store does."""
        with self._available:
            living = self._leases.living()
            self._collect(self._look(), living)
            self._objects.delete(living.dead)

    # What lies where

    def _cached(self, saved: Saved, number: int) -> tuple[Path, Segment] | None:
        """The file on this machine that holds a segment, and where in it."""
        whole = self._cache.find(saved.path.name)
        if whole is not None:
            return whole, saved.segments[number]
        piece = self._cache.find(f"{saved.path.name}.{number}")
        return None if piece is None else (piece, replace(saved.segments[number], offset=0))

    def _fetch(self, saved: Saved, numbers: Sequence[int]) -> None:
        segments = [saved.segments[number] for number in numbers]
        ranges = [(segment.offset, segment.length) for segment in segments]
        names = [f"{saved.path.name}.{number}" for number in numbers]
        if len(numbers) == len(saved.segments):  # all of them lie side by side
            ranges, names = [(0, segments[-1].offset + segments[-1].length)], [saved.path.name]
        where = f"checkpoint {saved.committed.key} in {self._objects.url}"
        try:
            found = self._objects.ranges(saved.path.as_posix(), ranges)
        except FileNotFoundError as error:
            raise Damaged(f"{where} is lost: {error}") from error
        except OSError as error:
            raise CheckpointError(f"{where} cannot be read: {error}") from error
        whole = len(found) < len(segments)
        for place, segment in enumerate(segments):
            check(segment, found[0][segment.offset :][: segment.length] if whole else found[place], where)
        with self._reading(f"checkpoint {saved.committed.key}"):
            for name, data in zip(names, found, strict=True):
                self._cache.add_bytes(name, data)

    def _exists(self, name: str) -> bool:
        try:
            self._objects.about(name)
        except FileNotFoundError:
            return False
        return True

    def _manifest(self, name: str) -> Saved | None:
        """The content of the manifest; None if there is none, or it cannot be believed."""
        return self._tagged_manifest(name)[1]

    def _tagged_manifest(self, name: str) -> tuple[str | None, Saved | None]:
        """The tag of the manifest, if there is one, and what it says, if it can be believed."""
        try:
            seen, text = self._objects.read(f"{name}.json")
        except FileNotFoundError:
            return None, None
        try:
            committed, data, segments = load_manifest(text, self._key)
        except CheckpointError:
            return seen.tag, None
        path = Path(name).parent / data
        match = _OURS.fullmatch(path.as_posix())
        return seen.tag, Saved(committed, path, segments) if match is not None and match["part"] == name else None

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise DiskFull(f"cannot write a checkpoint to {self._objects.url}: {error.strerror or error}") from error

    @contextlib.contextmanager
    def _reading(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise CheckpointError(f"{what} in {self._objects.url}: {error.strerror or error}") from error

    # Removing

    def _look(self) -> dict[str, _Part]:
        """All parts there are; from now on it is known what they take."""
        parts = _parts(self._objects.list())
        self._used = sum(part.bytes for part in parts.values())
        self._looked = time.monotonic()
        return parts

    def _take_space(self, bytes_: int) -> bool:
        if self._budget is None:
            return True
        wanted = bytes_ + _MANIFEST_BYTES
        with self._available:
            old = self._looked is None or time.monotonic() - self._looked > self._leases.seconds / 2
            if old or self._used + wanted > self._budget:
                parts = self._look()
                if self._used + wanted > self._budget:
                    living = self._leases.living()
                    self._collect(parts, living)
                    self._evict(parts, living, self._used + wanted - int(_FULL * self._budget))
            if self._used + wanted > self._budget:
                return False
            self._used += wanted
            return True

    def _collect_quietly(self) -> None:
        with contextlib.suppress(OSError):  # the next read or write reports it
            self.collect()

    def _collect(self, parts: Mapping[str, _Part], living: Living) -> None:
        """Remove what no living process is at work on, and nobody can find."""
        for name, part in parts.items():
            if part.gone is not None and self._is_old(part.gone, living) and self._mine(part.gone, living):
                self._finish_removal(name, part)
            kept = self._named(name, part)
            garbage = [
                item
                for item in part.data
                if item.name != kept and _match(item.name)["user"] not in living.users and self._is_old(item, living)
            ]
            self._remove(part, garbage)

    def _mine(self, gone: Object, living: Living) -> bool:
        """True if a removal was left unfinished: by this process, which does one at a time, or a dead one."""
        with contextlib.suppress(FileNotFoundError):
            user = self._objects.read(gone.name)[1].decode(errors="replace")
            return user == self._leases.own or user not in living.users
        return False

    def _finish_removal(self, name: str, part: _Part) -> None:
        assert part.gone is not None
        if part.manifest is not None and part.manifest.modified < part.gone.modified:
            self._objects.delete([part.manifest.name])
            part.manifest = None
        self._objects.delete([part.gone.name])

    def _is_old(self, item: Object, living: Living) -> bool:
        return living.now - item.modified > self._leases.seconds

    def _named(self, name: str, part: _Part) -> str | None:
        """The data that the manifest names; asked only where there is a choice."""
        if part.manifest is None:
            return None
        if len(part.data) == 1:
            return part.data[0].name
        saved = self._manifest(name)
        return None if saved is None else saved.path.as_posix()

    def _remove(self, part: _Part, data: Sequence[Object]) -> None:
        self._objects.delete([item.name for item in data])
        self._used -= sum(item.size for item in data)
        part.data = [item for item in part.data if item not in data]

    def _evict(self, parts: Mapping[str, _Part], living: Living, bytes_: int) -> None:
        """Remove at least that many bytes if it can be."""
        free = [
            (part.worth(living.now), name)
            for name, part in parts.items()
            if part.manifest and not part.gone and name not in living.needed and self._is_old(part.manifest, living)
        ]
        chosen: list[str] = []
        for _, name in sorted(free):
            if bytes_ <= 0:
                break
            chosen.append(name)
            bytes_ -= parts[name].bytes
        if not chosen:
            return
        began = time.monotonic()
        marked = [name for name, mine in zip(chosen, self._threads.map(self._mark, chosen), strict=True) if mine]
        needed = self._leases.living().needed
        going = [name for name in marked if name not in needed]
        if time.monotonic() - began > self._leases.seconds:
            going = []  # this process was held up: others may have removed them by now, and made some again
        self._objects.delete([f"{name}.json" for name in going])
        self._objects.delete([item.name for name in going for item in parts[name].data])
        self._objects.delete([f"{name}.gone" for name in marked])
        self._used -= sum(parts[name].bytes for name in going)

    def _mark(self, name: str) -> bool:
        """Mark a checkpoint as gone. False if somebody else just did, and removes it."""
        with contextlib.suppress(FileExistsError):
            self._objects.create(f"{name}.gone", self._leases.own.encode())
            return True
        return False


def _match(name: str) -> re.Match[str]:
    match = _OURS.fullmatch(name)
    assert match is not None  # other objects were left out
    return match


def _parts(objects: Iterable[Object]) -> dict[str, _Part]:
    parts: dict[str, _Part] = {}
    for item in objects:
        match = _OURS.fullmatch(item.name)
        if match is None:
            continue
        part = parts.setdefault(match["part"], _Part())
        if match["kind"] == "json":
            part.manifest = item
        elif match["kind"] == "gone":
            part.gone = item
        else:
            part.data.append(item)
    return parts


def _is_whole(saved: Saved | None, key: CheckpointKey, part: _Part) -> bool:
    if saved is None or saved.committed.key != key:
        return False
    end = max((segment.offset + segment.length for segment in saved.segments), default=0)
    return any(item.name == saved.path.as_posix() and item.size >= end for item in part.data)


def _name(key: CheckpointKey) -> str:
    content = blake2b(repr((key.signature, key.layout)).encode(), digest_size=16).hexdigest()
    return f"{content}/{key.part}"


def _base(name: str) -> str:
    return name.rpartition("/")[2]
