"""The space that checkpoints take in a store that machines share, and the removal of those that are needed least.

`engine/storage/shared_store.py` has the rules by which a remover and a reader exclude each other.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from qoop.catalog.stores.objects import Object, Objects
from qoop.engine.storage.leases import Leases, Living
from qoop.engine.storage.listing import Manifests, Part, is_pack, match, name_of, packs_in, parts_of
from qoop.engine.storage.manifest import Saved
from qoop.engine.storage.pack_index import PackIndex
from qoop.engine.task import CheckpointKey

_FULL = 0.9  # fraction of the budget to which eviction frees space
_MANIFEST_BYTES = 1024


class Space:
    """Keeps the objects of a store within a budget of bytes; None: no limit. Thread-safe. Raises OSError as the store
    does. threads: for requests at the same time."""

    def __init__(
        self,
        objects: Objects,
        budget: int | None,
        leases: Leases,
        index: PackIndex,
        manifests: Manifests,
        threads: ThreadPoolExecutor,
    ) -> None:
        self._objects = objects
        self._budget = budget
        self._leases = leases
        self._index = index
        self._manifests = manifests
        self._map = threads.map
        self._lock = threading.Lock()
        self._used = 0
        self._checked: float | None = None  # when the store was listed last, by the monotonic clock

    def take(self, bytes_: int) -> bool:
        """Count bytes that will be written, and remove others for them. False if the budget has no space for them."""
        if self._budget is None:
            return True
        requested = bytes_ + _MANIFEST_BYTES
        with self._lock:
            old = self._checked is None or time.monotonic() - self._checked > self._leases.seconds / 2
            if old or self._used + requested > self._budget:
                parts = self._survey()
                if self._used + requested > self._budget:
                    living = self._leases.living()
                    self._collect(parts, living)
                    self._evict(parts, living, self._used + requested - int(_FULL * self._budget))
            if self._used + requested > self._budget:
                return False
            self._used += requested
            return True

    def collect(self) -> None:
        """Remove what dead users left unfinished. Raises OSError as the store does."""
        with self._lock:
            living = self._leases.living()
            self._collect(self._survey(), living)
            self._objects.delete(living.dead)

    def _survey(self) -> dict[str, Part]:
        """All parts there are; from now on it is known what they take."""
        parts = parts_of(self._objects.list())
        self._used = sum(part.bytes for part in parts.values())
        self._checked = time.monotonic()
        return parts

    def _collect(self, parts: Mapping[str, Part], living: Living) -> None:
        """Remove what no living process is at work on, and no manifest names."""
        for name, part in parts.items():
            if part.gone is not None and self._is_old(part.gone, living) and self._mine(part.gone, living):
                self._finish_removal(name, part)
            kept = self._named(name, part)
            garbage = [
                item
                for item in part.data
                if item.name != kept and match(item.name)["user"] not in living.users and self._is_old(item, living)
            ]
            self._remove(part, garbage)

    def _mine(self, gone: Object, living: Living) -> bool:
        """True if a removal was left unfinished: by this process, which does one at a time, or a dead one."""
        with contextlib.suppress(FileNotFoundError):
            user = self._objects.read(gone.name)[1].decode(errors="replace")
            return user == self._leases.own or user not in living.users
        return False

    def _finish_removal(self, name: str, part: Part) -> None:
        assert part.gone is not None
        if part.manifest is not None and part.manifest.modified < part.gone.modified:
            self._objects.delete([part.manifest.name])
            part.manifest = None
        self._objects.delete([part.gone.name])

    def _is_old(self, item: Object, living: Living) -> bool:
        return living.now - item.modified > self._leases.seconds

    def _named(self, name: str, part: Part) -> str | None:
        """The data that the manifest names; read only where there is a choice."""
        if part.manifest is None:
            return None
        if len(part.data) == 1:
            return part.data[0].name
        if is_pack(name):
            return next((one.path.as_posix() for one in self._index.ask(name)), None)
        saved = self._manifests.read(name)
        return None if saved is None else saved.path.as_posix()

    def _remove(self, part: Part, data: Sequence[Object]) -> None:
        self._objects.delete([item.name for item in data])
        self._used -= sum(item.size for item in data)
        part.data = [item for item in part.data if item not in data]

    def _evict(self, parts: Mapping[str, Part], living: Living, bytes_: int) -> None:
        """Remove at least that many bytes if it can be: first what a pack covers, then what is worth least."""
        packs = self._index.read(packs_in(parts), self._map)
        outputs = {name: {name_of(one.committed.key) for one in found} for name, found in packs.items()}
        twice = covered(parts, packs)
        free = [
            (name not in twice, part.worth(living.now), name)
            for name, part in parts.items()
            if part.manifest
            and part.is_there
            and outputs.get(name, {name}).isdisjoint(living.needed)
            and self._is_old(part.manifest, living)
        ]
        chosen: list[str] = []
        for _, _, name in sorted(free):
            if bytes_ <= 0:
                break
            chosen.append(name)
            bytes_ -= parts[name].bytes
        if not chosen:
            return
        began = time.monotonic()
        marked = [name for name, mine in zip(chosen, self._map(self._mark, chosen), strict=True) if mine]
        needed = self._leases.living().needed
        going = [name for name in marked if outputs.get(name, {name}).isdisjoint(needed)]
        if time.monotonic() - began > self._leases.seconds:
            going = []  # this process was held up: others may have removed them by now, and made some again
        self._objects.delete([f"{name}.json" for name in going])
        self._objects.delete([item.name for name in going for item in parts[name].data])
        self._objects.delete([f"{name}.gone" for name in marked])
        self._used -= sum(parts[name].bytes for name in going)

    def _mark(self, name: str) -> bool:
        """Mark a checkpoint as gone. False if another process just did, and removes it."""
        with contextlib.suppress(FileExistsError):
            self._objects.create(f"{name}.gone", self._leases.own.encode())
            return True
        return False


def covered(parts: Mapping[str, Part], packs: Mapping[str, Sequence[Saved]]) -> set[str]:
    """Parts and packs whose outputs are all in larger packs."""
    kept: set[CheckpointKey] = set()
    twice: set[str] = set()
    for name, outputs in sorted(packs.items(), key=lambda item: (-len(item[1]), item[0])):
        keys = {one.committed.key for one in outputs}
        if keys and keys <= kept:
            twice.add(name)
        elif outputs and parts[name].holds(outputs[0]):
            kept |= keys
    return twice | {name_of(key) for key in kept} & parts.keys()
