"""The outputs that nodes hold for a session: where each is, and which jobs need it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from qoop.catalog.value import value
from qoop.engine.backends.ray.machines import Machine
from qoop.engine.backends.ray.peers import Place
from qoop.engine.events import Committed
from qoop.engine.task import CheckpointKey, JobId


@dataclass(slots=True)
class Output:
    """A committed output, the jobs that need it and which machine holds it (None: files alone do)."""

    committed: Committed
    machine: Machine | None
    jobs: set[JobId]
    saved: bool = False


class Outputs:
    """The committed outputs by key. Its owner's lock guards it."""

    def __init__(self) -> None:
        self._outputs: dict[CheckpointKey, Output] = {}

    def get(self, key: CheckpointKey) -> Output | None:
        return self._outputs.get(key)

    def facts(self, keys: Iterable[CheckpointKey]) -> dict[CheckpointKey, Committed]:
        """The facts of those of the keys that are known."""
        return {key: output.committed for key in keys if (output := self._outputs.get(key)) is not None}

    def retained(self, keys: Iterable[CheckpointKey]) -> dict[Machine, list[CheckpointKey]]:
        """Those of the keys that no job needs, by the machine that may still hold them."""
        found: dict[Machine, list[CheckpointKey]] = {}
        for key in keys:
            output = self._outputs.get(key)
            if output is not None and output.machine is not None and not output.jobs:
                found.setdefault(output.machine, []).append(key)
        return found

    def places(self, keys: Iterable[CheckpointKey], reader: Machine, files: Place) -> dict[Place, list[CheckpointKey]]:
        """The places from which a machine reads those that it does not hold. files: of those in files alone."""
        found: dict[Place, list[CheckpointKey]] = {}
        for key in keys:
            output = self._outputs.get(key)
            if output is not None and (output.machine is None or output.machine is not reader):
                place = files if output.machine is None else output.machine.place
                found.setdefault(place, []).append(key)
        return found

    def put(self, machine: Machine, job: JobId, committed: Committed) -> bool:
        """Note an output that a machine committed. False if another has it: the first place of an output is its
        place, since a non-deterministic stage may put out other rows again."""
        output = self._outputs.setdefault(committed.key, Output(committed, machine, set()))
        output.jobs.add(job)
        return output.machine is machine

    def adopt(self, committed: Committed, job: JobId) -> None:
        """Note an output that lies in files, unless it is known."""
        self._outputs.setdefault(committed.key, Output(committed, None, set())).jobs.add(job)

    def pin(self, keys: Iterable[CheckpointKey], job: JobId) -> None:
        """A job needs those of the keys that are known."""
        for key in keys:
            if key in self._outputs:
                self._outputs[key].jobs.add(job)

    def unpin(self, keys: Iterable[CheckpointKey], job: JobId, retain: bool) -> None:
        """A job needs these no more. retain: machines keep what no job needs."""
        for key in keys:
            output = self._outputs.get(key)
            if output is not None:
                output.jobs.discard(job)
                if not output.jobs and not (retain and output.machine is not None):
                    del self._outputs[key]

    def forget(self, keys: Iterable[CheckpointKey]) -> None:
        for key in keys:
            self._outputs.pop(key, None)

    def mark_saved(self, key: CheckpointKey) -> None:
        """The output is written to the directory of checkpoints."""
        if key in self._outputs:
            self._outputs[key].saved = True

    def on(self, machine: Machine) -> list[CheckpointKey]:
        """The outputs that a machine holds."""
        return [key for key, output in self._outputs.items() if output.machine is machine]

    def moved(self, machine: Machine, keys: Sequence[CheckpointKey], found: Collection[CheckpointKey]) -> Moved:
        """Have outputs that were on a machine read from files, where they are found there; the others are forgotten.
        What is elsewhere meanwhile is left as it is."""
        moved = Moved({}, [], [])
        for key in keys:
            output = self._outputs.get(key)
            if output is None:
                moved.released.extend([key] if key in found else [])
            elif output.machine is machine and key in found:
                output.machine = None
                moved.to_files[key] = frozenset(output.jobs)
            elif output.machine is machine:
                del self._outputs[key]
                moved.lost.append(key)
        return moved


@value
class Moved:
    """The fate of the outputs of a lost machine. to_files: read from files now, with the jobs that need them.

    released: in files, but no job needs them any more. lost: gone.
    """

    to_files: dict[CheckpointKey, frozenset[JobId]]
    released: list[CheckpointKey]
    lost: list[CheckpointKey]
