"""The outputs that a store knows, by key and by what they mean."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

import pyarrow as pa

from qoop.engine.digest import Digest
from qoop.engine.events import Committed
from qoop.engine.storage.growing import Made
from qoop.engine.storage.guard import Origin, Side
from qoop.engine.storage.manifest import Saved
from qoop.engine.task import CheckpointKey, JobId, joined_key
from qoop.planner.plan import Signature

if TYPE_CHECKING:
    from typing import Self

    from qoop.engine.storage.retention import Checkpoints

_INDEX = "qoop slices"
"""The metadata that name the slices of an output: layout and part of each, in JSON."""

_OWN_BYTES = 4_096
"""The memory of an output besides its rows, about: an answer without rows takes some, too."""


@dataclass(eq=False)
class Entry:
    """One output. In memory (`tables`), spilled (`mapped`), in a file (`saved`), or both. `busy`: it is being written.

    origin: what made it; None if it must not be shared, or if it was found.
    unpinned: its file may be removed, for no job needed it. maker: the job whose task made it; empty if it was found.
    slices: the outputs that it consists of; empty: it is one by itself.
    """

    committed: Committed
    tables: tuple[pa.Table, ...] | None
    mapped: tuple[pa.Table, ...] | None = None
    saved: Saved | None = None
    durable: bool = False
    busy: bool = False
    origin: Origin | None = None
    unpinned: bool = False
    jobs: set[JobId] = field(default_factory=set)
    maker: JobId = ""
    slices: tuple[CheckpointKey, ...] = ()

    @property
    def bytes(self) -> int:
        return sum(self.committed.bytes)

    @property
    def is_far(self) -> bool:
        """It is nowhere but where durable outputs go, which may be another machine."""
        return self.tables is None and self.mapped is None and self.durable

    @classmethod
    def found(cls, saved: Saved) -> Self:
        """A durable output of another process."""
        return cls(saved.committed, None, saved=saved, durable=True)

    @property
    def index(self) -> tuple[Committed, tuple[pa.Table, ...]]:
        """The durable output that says of which slices it consists."""
        slices = json.dumps([(one.layout, one.part) for one in self.slices])  # a list as a column would load pandas
        table = pa.schema([], {_INDEX: slices}).empty_table()
        facts = replace(self.committed, key=joined_key(self.committed.key), rows=(0,), bytes=(0,), finished=False)
        return replace(facts, digest=None), (table,)

    def digested(self, digest: Callable[[], Digest]) -> Digest:
        """The digest of its rows, made if it has none yet."""
        found = self.committed.digest
        if found is None:
            found = digest()
            self.committed = replace(self.committed, digest=found)
        return found


def joined_in(directory: Checkpoints, keys: Sequence[CheckpointKey]) -> list[Entry]:
    """Those of the outputs that consist of slices, with these. Raises CheckpointError."""
    entries = list[Entry]()
    by_index = {joined_key(key): key for key in keys}
    for index in directory.find_all(list(by_index)):
        whole = by_index[index.committed.key]
        metadata = directory.read(index, 0).schema.metadata or {}
        slices = tuple(CheckpointKey(whole.signature, *one) for one in json.loads(metadata[_INDEX.encode()]))
        found = directory.find_all(slices)
        if len(found) == len(slices):
            made = Made((), slices=[one.committed for one in found])
            seconds = sum(one.committed.seconds for one in found)  # others if a slice was made again
            committed = replace(index.committed, key=whole, rows=made.rows, bytes=made.bytes, seconds=seconds)
            entries += [*map(Entry.found, found), Entry(committed, None, slices=slices)]
    return entries


def side_of(entries: Sequence[Entry], digested: Callable[[Entry], Digest]) -> Side:
    """Outputs of one layout, to be compared with others of their signature."""
    digest = reduce(add, map(digested, entries))
    return Side(tuple(entry.committed for entry in entries), digest, entries[0].origin)


class Entries:
    """Outputs, the least recently used first, with the bytes of those in memory. Its owner's lock guards it."""

    def __init__(self) -> None:
        self._entries: OrderedDict[CheckpointKey, Entry] = OrderedDict()
        self._by_signature: dict[Signature, dict[str, set[CheckpointKey]]] = {}
        self._idle: OrderedDict[CheckpointKey, int] = OrderedDict()  # bytes of what no job needed, the oldest first
        self._idle_bytes = 0
        self.used = 0

    def __contains__(self, key: CheckpointKey) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[CheckpointKey]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: CheckpointKey) -> Entry | None:
        return self._entries.get(key)

    def known(self, keys: Iterable[CheckpointKey]) -> list[Entry]:
        """Those of the outputs that are known, and the slices that they consist of."""
        found = [entry for key in keys if (entry := self._entries.get(key)) is not None]
        slices = [key for entry in found for key in entry.slices]
        return found + [entry for key in slices if (entry := self._entries.get(key)) is not None]

    def values(self) -> list[Entry]:
        return list(self._entries.values())

    def touch(self, key: CheckpointKey) -> None:
        """An output is used now."""
        self._entries.move_to_end(key)

    def insert(self, entry: Entry) -> None:
        key = entry.committed.key
        self._entries[key] = entry
        self._by_signature.setdefault(key.signature, {}).setdefault(key.layout, set()).add(key)
        self.used += entry.bytes if entry.tables is not None else 0

    def drop(self, entry: Entry) -> bool:
        """Forget an output. False if it is not known, or another is in its place."""
        key = entry.committed.key
        if self._entries.get(key) is not entry:
            return False
        self.leave_memory(entry)
        self._forget_idle(key)
        del self._entries[key]
        layouts = self._by_signature[key.signature]
        layouts[key.layout].discard(key)
        if not layouts[key.layout]:
            del layouts[key.layout]
        if not layouts:
            del self._by_signature[key.signature]
        return True

    def retire(self, entry: Entry) -> None:
        """No job needs an output in memory, and it stays for others."""
        key = entry.committed.key
        self._forget_idle(key)
        self._idle[key] = _OWN_BYTES + entry.bytes
        self._idle_bytes += self._idle[key]

    def drop_retired(self, most_bytes: int) -> None:
        """Forget what no job needs, the first retired first, until the rest takes no more than these bytes."""
        while self._idle_bytes > most_bytes:
            entry = self._entries[next(iter(self._idle))]
            if entry.jobs or entry.busy:  # a job uses it again, and retires it at its end
                self._forget_idle(entry.committed.key)
            else:
                self.drop(entry)

    def _forget_idle(self, key: CheckpointKey) -> None:
        self._idle_bytes -= self._idle.pop(key, 0)

    def leave_memory(self, entry: Entry) -> None:
        """The rows of an output are in memory no more, if they were."""
        if entry.tables is not None:
            entry.tables = None
            self.used -= entry.bytes

    def other_layout(self, entry: Entry) -> tuple[list[Entry], list[Entry]] | None:
        """All outputs of the layout of an entry, and of another layout of the same stage, if both are complete."""
        key, width = entry.committed.key, entry.committed.width
        layouts = self._by_signature.get(key.signature, {})
        if len(layouts) < 2 or len(layouts.get(key.layout, ())) < width:
            return None
        whole = {name: [self._entries[one] for one in keys] for name, keys in layouts.items()}
        mine = whole.pop(key.layout)
        for others in whole.values():
            if len(others) == others[0].committed.width and others[0].committed.finished:
                return mine, others
        return None

    def first_to_spill(self) -> Entry | None:
        """The least recently used output in memory that is not being written."""
        return next((one for one in self._entries.values() if one.tables is not None and not one.busy), None)
