"""The inputs of attempts in this process: from its store, and from other machines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from qoop.catalog.errors import CheckpointError
from qoop.engine.backends.local_attempt import LocalAttempt, LostInput
from qoop.engine.clock import Stopwatch
from qoop.engine.storage.checkpoint import Store
from qoop.engine.task import AttemptId, CheckpointKey, TaskSpec

if TYPE_CHECKING:
    from qoop.engine.backends.local_attempt import Ahead

Read = tuple[CheckpointKey, int | None]
"""An output, and which partition of it is to be read; None: all."""


class Elsewhere(Protocol):
    """The place of outputs that a machine has not made itself."""

    def fetch(self, spec: TaskSpec, requested: Sequence[Read], ahead: bool = False) -> Mapping[Read, pa.Table]:
        """Rows of outputs that a task reads and its machine does not hold, as far as they can be had. ahead: the task
        waits for its slot, so what others need comes first."""
        ...

    def hasten(self, attempt: AttemptId) -> None:
        """An attempt begins to wait for what is fetched ahead for it."""
        ...


class LocalInputs:
    """Reads what tasks need. elsewhere: the outputs that the store does not hold; None: there are no other machines."""

    def __init__(self, store: Store, elsewhere: Elsewhere | None) -> None:
        self._store = store
        self._elsewhere = elsewhere

    def ahead(self, spec: TaskSpec) -> Ahead | None:
        """The inputs of a waiting task on other machines, to be fetched in the background; None: there are none."""
        requested = dict.fromkeys(read for item in spec.inputs for read in item.reads)
        if self._elsewhere is None or not requested:
            return None
        from qoop.engine.backends.ahead import FetchedAhead  # at most machines nothing waits

        return FetchedAhead(partial(self._fetched, spec, list(requested), ahead=True))

    def reader(self, attempt: LocalAttempt, stopwatch: Stopwatch) -> Callable[[str], pa.Table]:
        """Reads the stage inputs of a task by name, as one table of as many chunks as there are pieces."""
        spec = attempt.spec
        reads = {item.name: item.reads for item in spec.inputs}

        def read(name: str) -> pa.Table:
            with stopwatch:
                return fetched(name)

        def fetched(name: str) -> pa.Table:
            if attempt.ahead is not None and self._elsewhere is not None:
                self._elsewhere.hasten(spec.attempt)
            ahead = attempt.ahead.take() if attempt.ahead is not None else {}
            found = {one: ahead[one] for one in reads[name] if one in ahead}
            found.update(self._fetched(spec, [one for one in reads[name] if one not in found]))
            self._store.fetch([one for one in reads[name] if one not in found])
            try:
                return pa.concat_tables([found[one] if one in found else self._store.read(*one) for one in reads[name]])
            except CheckpointError as error:
                lost = LostInput(str(error))
                lost.keys = self._unreadable(spec)
                raise lost from error

        return read

    def _fetched(self, spec: TaskSpec, requested: Sequence[Read], ahead: bool = False) -> Mapping[Read, pa.Table]:
        """The part of it that lies elsewhere."""
        if self._elsewhere is None:
            return {}
        return self._elsewhere.fetch(spec, [one for one in requested if not self._store.has(one[0])], ahead)

    def _unreadable(self, spec: TaskSpec) -> list[CheckpointKey]:
        """All that the task would miss, so that it fails once and not once for each."""
        requested = list(dict.fromkeys(read for item in spec.inputs for read in item.reads))
        found, lost = self._fetched(spec, requested), []
        for key, partition in (one for one in requested if one not in found):
            try:
                self._store.read(key, partition)
            except CheckpointError:
                lost.append(key)
        return lost
