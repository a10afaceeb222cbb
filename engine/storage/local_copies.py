"""The parts of checkpoints of a store that stand on this machine (`catalog/stores/node_cache.py`)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from qoop.catalog.errors import CheckpointError
from qoop.catalog.stores.node_cache import NodeCache
from qoop.catalog.stores.objects import Objects
from qoop.engine.storage.manifest import Saved
from qoop.engine.storage.segments import Damaged, Segment, check, read_segment


class LocalCopies:
    """Reads partitions of outputs from this machine, and fetches them from the store."""

    def __init__(self, objects: Objects, cache: NodeCache) -> None:
        self._objects = objects
        self._cache = cache

    def read(self, saved: Saved, number: int, folder: Path | None) -> pa.Table:
        """The rows of one partition, fetched if it is not on this machine. Raises CheckpointError."""
        cached = self.find(saved, number)
        if cached is not None:
            try:
                return read_segment(*cached, folder)
            except CheckpointError:  # it has just gone, or is damaged: the store has it
                self._cache.drop(cached[0].name)
        self.fetch([saved], [number])
        cached = self.find(saved, number)
        if cached is None:
            raise CheckpointError(f"checkpoint {saved.committed.key}: no space for it in {self._cache.root}")
        try:
            return read_segment(*cached, folder)
        except CheckpointError as error:
            raise CheckpointError(f"checkpoint {saved.committed.key}: {error}") from error

    def find(self, saved: Saved, number: int) -> tuple[Path, Segment] | None:
        """The file on this machine that holds a segment, and where in it."""
        segment = saved.segments[number]
        whole = self._cache.find(saved.path.name)
        if whole is not None:
            return whole, segment
        piece = self._cache.find(f"{saved.path.name}.{number}")
        return None if piece is None else (piece, replace(segment, offset=segment.offset - saved.span(number)[0]))

    def fetch(self, outputs: Sequence[Saved], numbers: Sequence[int]) -> None:
        """Have partitions of outputs that lie in one file on this machine. Raises CheckpointError; Damaged if none of
        the outputs is as it was written."""
        saved = outputs[0]
        ranges = [saved.span(number) for number in numbers]
        names = [f"{saved.path.name}.{number}" for number in numbers]
        if len(numbers) == len(saved.segments):  # all of them lie side by side
            ranges, names, whole = [(0, saved.end)], [saved.path.name], True
        else:
            whole = False
        where = f"checkpoint {saved.committed.key} in {self._objects.url}"
        try:
            found = self._objects.ranges(saved.path.as_posix(), ranges)
        except FileNotFoundError as error:
            raise Damaged(f"{where} is lost: {error}") from error
        except OSError as error:
            raise CheckpointError(f"{where} cannot be read: {error}") from error
        starts = {number: 0 if whole else ranges[place][0] for place, number in enumerate(numbers)}
        data = {number: found[0 if whole else place] for place, number in enumerate(numbers)}
        self._check(outputs, starts, data, where)
        with reading(self._objects, f"checkpoint {saved.committed.key}"):
            for name, piece in zip(names, found, strict=True):
                self._cache.add_bytes(name, piece)

    def _check(
        self, outputs: Sequence[Saved], starts: Mapping[int, int], data: Mapping[int, memoryview], where: str
    ) -> None:
        """Raise Damaged if no output is whole in these data of partitions, which begin there in the file."""
        damage: Damaged | None = None
        for saved in outputs:
            try:
                for number, start in starts.items():
                    segment = saved.segments[number]
                    check(segment, data[number][segment.offset - start :][: segment.length], where)
                return  # a reader of another finds out about that
            except Damaged as error:
                damage = error
        if damage is not None:
            raise damage


@contextlib.contextmanager
def reading(objects: Objects, what: str) -> Iterator[None]:
    """Raise CheckpointError for what cannot be read."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(f"{what} in {objects.url}: {error.strerror or error}") from error
