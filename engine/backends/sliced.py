"""A task that is computed in slices, each of which is saved by itself: a process that ends in the middle of it loses
one slice, and the next process goes on with the others.

The slices of one task may have been made by processes that cut it more or less finely. A slice consists of two halves
(:class:`~qoop.engine.task.Slice`), so what is saved in any of these sizes serves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from qoop.catalog.errors import CheckpointError
from qoop.engine.events import Committed
from qoop.engine.storage.growing import Made
from qoop.engine.task import MOST_SLICES, CheckpointKey, Slice, TaskSpec

if TYPE_CHECKING:
    from qoop.engine.storage.checkpoint import Store


class SlicedTask:
    """A task with `slicing`. store: has the slices. between: called between slices; may raise to give up."""

    def __init__(self, spec: TaskSpec, store: Store, between: Callable[[], None]) -> None:
        assert spec.slicing is not None
        self._spec, self._store, self._between = spec, store, between
        self._most = spec.slicing.most
        self._job = spec.attempt.task.job

    def made(self, compute: Callable[[TaskSpec], Made]) -> Made:
        """The output of the task, from the slices that are saved and those that are computed now. compute: the rows of
        a slice. Raises DiskFull, and what `compute` and `between` raise."""
        saved = self._saved()
        most = max([self._most, *(one.of for one in saved)])
        if most == 1:
            return compute(self._spec)
        slices = list(_cover(Slice(), saved, most))
        outputs = [self._output(one, one in saved, compute) for one in slices]
        tables = tuple(pa.concat_tables(parts) for parts in zip(*(one.tables for one in outputs), strict=True))
        self._store.release(self._job, [one.key(self._spec.key) for one in slices])
        return Made(tables, all(one.mapped for one in outputs))

    def _saved(self) -> frozenset[Slice]:
        level, keys = [Slice()], dict[CheckpointKey, Slice]()
        while level[0].of < MOST_SLICES:
            level = [half for one in level for half in one.halves()]
            keys |= {one.key(self._spec.key): one for one in level}
        return frozenset(keys[found.key] for found in self._store.present(list(keys), self._job))

    def _output(self, one: Slice, saved: bool, compute: Callable[[TaskSpec], Made]) -> Made:
        key = one.key(self._spec.key)
        found = self._read(key) if saved else None
        return self._computed(one, key, compute) if found is None else found

    def _read(self, key: CheckpointKey) -> Made | None:
        """A saved slice; None: it cannot be read."""
        with suppress(CheckpointError):
            parts = range(self._spec.stage.layout.parts)
            return Made(tuple(self._store.read(key, part) for part in parts), mapped=True)
        return None

    def _computed(self, one: Slice, key: CheckpointKey, compute: Callable[[TaskSpec], Made]) -> Made:
        began = time.perf_counter()
        made = compute(replace(self._spec, slice=one))
        rows, sizes = zip(*((table.num_rows, table.nbytes) for table in made.tables), strict=True)
        committed = Committed(key, rows, sizes, time.perf_counter() - began, width=one.of, maker=self._job)
        self._store.put(committed, self._job, made.tables, True, self._between, mapped=made.mapped)
        return made


def _cover(whole: Slice, saved: frozenset[Slice], most: int) -> Iterator[Slice]:
    """Slices that make up this one, as far as possible saved ones; the others are parts of `most`."""
    if whole.of >= most or whole in saved:
        yield whole
        return
    for half in whole.halves():
        yield from _cover(half, saved, most)
