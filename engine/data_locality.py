"""On which machine the input of a task lies, so that of equal tasks one is begun where it is near.

A scheduler sees one task of a stage, for all of the same kind ask for the same resources. The run itself chooses which
of them takes a grant, and moves no bytes if the machine holds what that task reads. It need not ask:

- of outputs the run has seen which machine made them;
- of a table in a store, each machine keeps the parts that it has read. Which machine reads which split is therefore
  settled once for all queries and sessions, by the highest hash of split and machine (rendezvous hashing: Thaler and
  Ravishankar, IEEE/ACM Transactions on Networking 6(1), 1998). When a machine comes or goes only its own splits move.
  A split is known by where in the table it begins, so halves of it begin at the same machine.

It is a preference: a machine with free resources and no task nearer to it takes any.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from heapq import nsmallest

from qoop.engine.events import Committed
from qoop.engine.frontier import Frontier, TaskNode
from qoop.engine.task import CheckpointKey, MachineId

_TASKS = 32  # of a stage that are compared; there may be thousands
_KEYS = 16  # that an input is made of at most: what is gathered from more lies everywhere


class DataLocality:
    """The places of the inputs of one run."""

    def __init__(self) -> None:
        self._machines: dict[MachineId, None] = {}
        self._made: dict[CheckpointKey, MachineId] = {}
        self._homes: dict[tuple[str, float], MachineId] = {}

    def machine(self, name: MachineId, there: bool) -> None:
        """A machine is there from now on, or is gone."""
        if there == (name in self._machines):
            return
        if there:
            self._machines[name] = None
        else:
            del self._machines[name]
            self._made = {key: machine for key, machine in self._made.items() if machine != name}
        self._homes.clear()

    def made(self, key: CheckpointKey, machine: MachineId) -> None:
        """An output was made there."""
        self._made[key] = machine

    def nearest(
        self, task: TaskNode, machine: MachineId, frontier: Frontier, facts: Mapping[CheckpointKey, Committed]
    ) -> TaskNode:
        """Of the ready tasks of the same stage one that reads a split of a table at its home, or else has the most
        bytes of input there; of equals the given one, then the first.

        facts: of the outputs that are present.
        """
        if len(self._machines) < 2:
            return task
        parts = nsmallest(_TASKS, {part for part in task.stage.ready_parts if task.stage.tasks[part].ready})
        tasks = [task, *(task.stage.tasks[part] for part in parts if part != task.part)]
        return max(tasks, key=lambda one: (self._splits(one, machine), self._bytes(one, machine, frontier, facts)))

    def _splits(self, task: TaskNode, machine: MachineId) -> int:
        """The number of tables whose split that the task reads is at home on the machine."""
        stage = task.stage.stage
        where = task.part / stage.width
        return sum(self._home(item.version, where) == machine for item in stage.table_inputs if item.split)

    def _home(self, version: str, where: float) -> MachineId:
        known = self._homes.get((version, where))
        if known is None:
            known = self._homes[version, where] = highest(f"{version}|{where:.6f}", self._machines)
        return known

    def _bytes(
        self, task: TaskNode, machine: MachineId, frontier: Frontier, facts: Mapping[CheckpointKey, Committed]
    ) -> int:
        return sum(
            bytes_of(facts[key], item.partition)
            for item in frontier.inputs(task)
            if len(item.keys) <= _KEYS
            for key in item.keys
            if self._made.get(key) == machine and key in facts
        )


def highest(text: str, machines: Iterable[MachineId]) -> MachineId:
    """The machine whose hash with the text is highest: the same in all sessions.

    >>> homes = [highest(f"split {number}", ["a", "b", "c"]) for number in range(300)]
    >>> all(70 < homes.count(machine) < 130 for machine in "abc")
    True
    >>> moved = [highest(f"split {number}", ["a", "b"]) for number in range(300)]
    >>> all(new == old for new, old in zip(moved, homes) if old != "c")
    True
    """
    return max(machines, key=lambda machine: (blake2b(f"{text}|{machine}".encode(), digest_size=8).digest(), machine))


def bytes_of(committed: Committed, partition: int | None) -> int:
    """The bytes of one partition of an output; of an output that is not divided, or with None, all."""
    sizes: Sequence[int] = committed.bytes
    return sum(sizes) if partition is None or partition >= len(sizes) else sizes[partition]
