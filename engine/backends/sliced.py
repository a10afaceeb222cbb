"""A task that is computed in slices, each of which is saved by itself: a process that ends in the middle of it loses
one slice, and the next process goes on with the others.

The slices of one task may have been made by processes that cut it more or less finely. A slice consists of two halves
(:class:`~qoop.engine.task.Slice`), so what is saved in any of these sizes serves.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from qoop.catalog.errors import QoopError
from qoop.engine.events import Committed
from qoop.engine.storage.growing import Made
from qoop.engine.task import MOST_SLICES, CheckpointKey, Slice, TaskSpec

if TYPE_CHECKING:
    from qoop.engine.storage.checkpoint import Store


class SlicedTask:
    """A task with `slicing`. store: has the slices. between: called between slices; may raise to give up. first: the
    process has made no output yet, so one that is killed before it makes any gets no further with slices of this size.
    """

    def __init__(self, spec: TaskSpec, store: Store, between: Callable[[], None], first: bool = False) -> None:
        assert spec.slicing is not None
        self._spec, self._store, self._between = spec, store, between
        self._patience = 0.0 if first else spec.slicing.seconds
        self._most = spec.slicing.most
        self._job = spec.attempt.task.job

    def made(self, compute: Callable[[TaskSpec], Made]) -> Made:
        """The output of the task, from the slices that are saved and those that are computed now. compute: the rows of
        a slice. Raises DiskFull, and what `compute` and `between` raise."""
        saved = self._saved()
        slices = list(_cover(Slice(), saved, self._most))
        if self._most == 1:
            with self._noted():
                return compute(self._spec)
        outputs = [saved[one] if one in saved else self._computed(one, compute) for one in slices]
        return Made((), slices=outputs, earlier_seconds=sum(saved[one].seconds for one in slices if one in saved))

    def _saved(self) -> Mapping[Slice, Committed]:
        """The slices that are saved. What is left is cut as finely at least, and finer than a size that took long and
        of which none was saved: the process was killed, or they take longer than it had."""
        sizes, level = list[Slice](), [Slice()]
        keys = dict[CheckpointKey, Slice]()
        while level[0].of < MOST_SLICES:
            sizes.append(level[0])
            level = [half for one in level for half in one.halves()]
            keys |= {one.key(self._spec.key): one for one in level}
        begun = {one.begun(self._spec.key): one.of for one in sizes}
        found = {one.key: one for one in self._store.present([*keys, *begun], self._job)}
        self._store.release(self._job, [key for key in found if key in begun])
        saved = {keys[key]: one for key, one in found.items() if key in keys}
        finest = max([one.of for one in saved], default=0)
        lost = max([of for key, of in begun.items() if key in found], default=0)
        self._most = max(self._most, finest, 2 * lost if lost > finest else 1)
        return saved

    @contextmanager
    def _noted(self) -> Iterator[None]:
        """Note that slices of the present size take long, once one has. Each process that is killed loses tasks: those
        that had just begun need not be cut."""
        failed = list[QoopError]()

        def note() -> None:
            try:
                self._note_length()
            except QoopError as error:
                failed.append(error)

        timer = threading.Timer(self._patience, note)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()  # a note that has begun ends before the task does
        for error in failed:
            raise error

    def _note_length(self) -> None:
        if self._most < MOST_SLICES:
            key = Slice(of=self._most).begun(self._spec.key)
            empty = Committed(key, (0,), (0,), 0.0, width=self._most, maker=self._job)
            self._store.put(empty, self._job, (pa.table({}),), True)
            self._store.release(self._job, [key])

    def _computed(self, one: Slice, compute: Callable[[TaskSpec], Made]) -> Committed:
        began = time.perf_counter()
        with self._noted():
            made = compute(replace(self._spec, slice=one))
        seconds, key = time.perf_counter() - began, one.key(self._spec.key)
        committed = Committed(key, made.rows, made.bytes, seconds, width=one.of, maker=self._job)
        return self._put(committed, made.tables, made.mapped)

    def _put(self, committed: Committed, tables: Sequence[pa.Table], mapped: bool = False) -> Committed:
        return self._store.put(committed, self._job, tables, True, self._between, mapped=mapped)


def _cover(whole: Slice, saved: Collection[Slice], most: int) -> Iterator[Slice]:
    """Slices that make up this one, as far as possible saved ones; the others are parts of `most`."""
    if whole.of >= most or whole in saved:
        yield whole
        return
    for half in whole.halves():
        yield from _cover(half, saved, most)
