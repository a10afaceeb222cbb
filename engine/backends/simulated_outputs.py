"""The outputs of a simulation: which are committed, for which jobs, and where they lie."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from qoop.engine.events import Committed
from qoop.engine.exchanges.transfers import Piece
from qoop.engine.task import CheckpointKey, Content, JobId, MachineId, TaskSpec

Sizes = int | tuple[int, ...]
"""Bytes of the partitions of an output: of each, or of one after the other."""


class SimulatedOutputs:
    """Outputs without rows. An output is dropped when the last job that holds it releases it."""

    def __init__(self) -> None:
        self._committed: dict[CheckpointKey, tuple[Committed, set[JobId]]] = {}
        self._parts: dict[Content, int] = {}  # how many outputs of a stage are committed
        self._made: dict[CheckpointKey, tuple[MachineId, Sizes]] = {}

    def __iter__(self) -> Iterator[CheckpointKey]:
        return iter(self._committed)

    def commit(self, committed: Committed, job: JobId, machine: MachineId, sizes: Sizes) -> None:
        """A task has put this out; if it is there already, the job holds that."""
        key = committed.key
        known = self._committed.get(key)
        if known is not None:
            known[1].add(job)
            return
        self._committed[key] = committed, {job}
        self._parts[key.content] = self._parts.get(key.content, 0) + 1
        self._made[key] = machine, sizes

    def present(self, keys: Sequence[CheckpointKey], job: JobId | None) -> Sequence[Committed]:
        """Those that are there, which the job holds from now on."""
        found = [self._committed[key] for key in keys if key in self._committed]
        if job is not None:
            for _, jobs in found:
                jobs.add(job)
        return [committed for committed, _ in found]

    def release(self, job: JobId, keys: Sequence[CheckpointKey]) -> None:
        """The job holds these no more."""
        for key in keys:
            known = self._committed.get(key)
            if known is not None:
                known[1].discard(job)
                if not known[1]:
                    self.drop(key)

    def drop(self, key: CheckpointKey) -> None:
        """The output is gone."""
        if self._committed.pop(key, None) is not None:
            self._parts[key.content] -= 1
            self._made.pop(key, None)

    def clear(self) -> None:
        """All outputs are gone."""
        self._committed.clear()

    def missing(self, spec: TaskSpec) -> CheckpointKey | None:
        """An output that the attempt reads and that is not there."""
        for item in spec.inputs:
            if self._parts.get(item.keys[0].content, 0) < len(item.keys):
                return next(key for key in item.keys if key not in self._committed)
            if len(item.keys) == 1 and item.keys[0] not in self._committed:
                return item.keys[0]
        return None

    def pieces(self, spec: TaskSpec, machine: MachineId, senders: Container[MachineId]) -> list[Piece]:
        """All that an attempt on a machine reads from others: a piece a machine, and outputs that are read whole.

        senders: machines that send; what another one made is read from the store, and so is all where there are none.
        """
        parted: dict[MachineId | None, float] = {}
        pieces: list[Piece] = []
        for item in spec.inputs:
            for key in item.keys:
                made, size = self._made.get(key, (machine, 0))
                if made == machine and made in senders:
                    continue
                sender = made if made in senders else None
                if item.partition is not None:
                    here = size[item.partition] if isinstance(size, tuple) else size
                    parted[sender] = parted.get(sender, 0.0) + here
                elif whole := sum(self._committed[key][0].bytes):
                    pieces.append(Piece(sender, whole, key))
        names = sorted(parted, key=lambda name: (name is None, name or ""))
        return [Piece(name, parted[name]) for name in names if parted[name]] + pieces
