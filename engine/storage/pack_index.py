"""The packs of a store that this process knows (`engine/storage/packs.py`), and which file it reads an output from."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path

from qoop.catalog.errors import CheckpointError
from qoop.catalog.stores.objects import Object, Objects
from qoop.engine.storage.listing import is_data_of
from qoop.engine.storage.manifest import Saved
from qoop.engine.storage.packs import dump_pack, load_pack
from qoop.engine.task import CheckpointKey

_KNOWN = 1000  # manifests that are remembered

Map = Callable[[Callable[[str], tuple[Saved, ...]], Iterable[str]], Iterable[tuple[Saved, ...]]]


class PackIndex:
    """The manifests of packs, each read once as long as it stays the same. Thread-safe. Raises OSError as the store
    does. key: manifests must bear its seal."""

    def __init__(self, objects: Objects, key: bytes | None) -> None:
        self._objects = objects
        self._key = key
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], tuple[Saved, ...]] = {}
        self._own: dict[tuple[str, int], tuple[Saved, ...]] = {}
        self._moved: dict[tuple[CheckpointKey, Path], Saved] = {}

    def read(self, manifests: Mapping[str, Object], many: Map = map) -> dict[str, tuple[Saved, ...]]:
        """The outputs that the packs of these names cover; none if one is gone or cannot be believed. many: maps in
        threads."""
        with self._lock:
            found = {
                name: self._known.get((name, known.tag), self._own.get((name, known.size)))
                for name, known in manifests.items()
            }
        unknown = [name for name, outputs in found.items() if outputs is None]
        found |= dict(zip(unknown, many(self.ask, unknown), strict=True))
        return {name: outputs or () for name, outputs in found.items()}

    def ask(self, name: str) -> tuple[Saved, ...]:
        """The outputs that a pack covers now."""
        try:
            known, text = self._objects.read(f"{name}.json")
        except FileNotFoundError:
            return ()
        try:
            outputs = load_pack(text, Path(name).parent, self._key)
        except CheckpointError:
            outputs = ()
        if not all(is_data_of(one.path.as_posix(), name) for one in outputs):
            outputs = ()
        self._know(name, known.tag, outputs)
        return outputs

    def wrote(self, outputs: tuple[Saved, ...], size: int) -> None:
        """This process wrote a pack: it need not be read while its manifest has that size. That shrinks if another
        process leaves an output out."""
        with self._lock:
            self._own[pack_of(outputs[0]), size] = outputs
            while len(self._own) > _KNOWN:
                del self._own[next(iter(self._own))]

    def _know(self, name: str, tag: str, outputs: tuple[Saved, ...]) -> None:
        with self._lock:
            self._known[name, tag] = outputs
            while len(self._known) > _KNOWN:
                del self._known[next(iter(self._known))]

    def leave_out(self, saved: Saved) -> None:
        """A pack covers an output no more: its data are damaged. The others stay; the last takes the pack with it."""
        name = pack_of(saved)
        with contextlib.suppress(FileNotFoundError, FileExistsError):  # another process is just doing it
            known = self._objects.about(f"{name}.json")
            covered = self.ask(name)
            left = [one for one in covered if one.committed.key != saved.committed.key]
            if not left or not self._is_there(saved):
                self._objects.delete([f"{name}.json"])
                self._objects.delete([saved.path.as_posix()])
            elif len(left) < len(covered):
                self._objects.replace(f"{name}.json", dump_pack(left, self._key), expected_tag=known.tag)

    def _is_there(self, saved: Saved) -> bool:
        try:
            return self._objects.about(saved.path.as_posix()).size >= saved.end
        except FileNotFoundError:
            return False

    # Where an output is read from

    def move(self, old: Iterable[Saved], new: Iterable[Saved]) -> None:
        """From now on these are read from another file."""
        places = {one.committed.key: one for one in new}
        with self._lock:
            for one in old:
                if one.committed.key in places:
                    self._moved[one.committed.key, one.path] = places[one.committed.key]

    def place(self, saved: Saved) -> Saved:
        """The output where it lies now."""
        if self._moved:
            with self._lock:
                for _ in range(len(self._moved)):
                    moved = self._moved.get((saved.committed.key, saved.path))
                    if moved is None:
                        break
                    saved = moved
        return saved

    def forget(self, keys: Iterable[CheckpointKey]) -> None:
        """This process reads these no more."""
        if self._moved:
            gone = set(keys)
            with self._lock:
                self._moved = {place: one for place, one in self._moved.items() if place[0] not in gone}


def pack_of(saved: Saved) -> str:
    """The name of the pack that holds an output."""
    folder, _, data = saved.path.as_posix().rpartition("/")
    return f"{folder}/{data.partition('.')[0]}"


def covers(packs: Iterable[tuple[Saved, ...]], requested: Collection[CheckpointKey]) -> dict[CheckpointKey, Saved]:
    """One place for each output that some pack holds, in as few packs as can easily be found: a reader of a partition
    asks for few ranges then."""
    useful = [[one for one in pack if one.committed.key in requested] for pack in packs]
    chosen: dict[CheckpointKey, Saved] = {}
    for pack in sorted(useful, key=lambda outputs: (-len(outputs), outputs[0].path.name if outputs else "")):
        for one in pack:
            chosen.setdefault(one.committed.key, one)
    return chosen


def files(outputs: Iterable[Saved]) -> Iterator[list[Saved]]:
    """The outputs by the file that holds them."""
    found: dict[Path, list[Saved]] = {}
    for one in outputs:
        found.setdefault(one.path, []).append(one)
    yield from found.values()
