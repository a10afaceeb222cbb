"""The resources that tasks ask for: by estimate, by experience, and by what the machines have."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace

from qoop.engine.events import Demand
from qoop.engine.frontier import Frontier, StageNode
from qoop.engine.task import Content, JobId, MachineId, Recipe, TaskId
from qoop.planner.packing import cap, least, on_threads
from qoop.planner.plan import Resources


class Demands:
    """The least resources of a task of each stage, given the machines there are. Memory is in whole bytes, so that sums
    and differences of grants are exact.

    least_memory: bytes that every task asks for, lowered where a machine's slots could not all have it. most_memory: of
    a machine that one task may have.
    `changes` counts how often the demands may have changed.
    """

    def __init__(self, least_memory: float, most_memory: float = math.inf) -> None:
        self._least_memory, self._most_memory = least_memory, most_memory
        self.changes = 0
        self._machines: dict[MachineId, Resources] = {}
        self._lasting: dict[MachineId, Resources] = {}  # of each what no notice takes away
        self._raised: dict[Content, float] = {}
        self._known: dict[StageNode, tuple[Resources, float]] = {}
        self._longest: dict[Content, float] = {}

    def machine(self, name: MachineId, capacity: Resources | None) -> None:
        """A machine has this capacity from now on; None: it is gone."""
        self._machines.pop(name, None)
        self._lasting.pop(name, None)
        if capacity is not None:
            self._machines[name] = self._lasting[name] = self._allowed(capacity)
        self.forget()

    def requested(self, node: StageNode) -> tuple[Resources, float]:
        """Slots and memory that one task of the stage asks for, never more than some empty machine has, and how long it
        should take: as the longest so far, by estimate if there is none. The same object as long as nothing changes."""
        known = self._known.get(node)
        if known is None:
            known = self._known[node] = self._demand(node)
        return known

    def seconds(self, node: StageNode) -> float:
        """The latter."""
        return self.requested(node)[1]

    def expect_less(self, name: MachineId, capacity: Resources) -> None:
        """The machine will have this capacity, whatever was announced of it before; what fits it only until then is no
        longer requested. If it will have no slot, its capacity until then is the most that can be requested."""
        now = self._machines.get(name)
        if now is not None:
            self._lasting[name] = least(self._allowed(capacity), now) if capacity.cpu >= 1 else now
            self.forget()

    def _allowed(self, capacity: Resources) -> Resources:
        """The part of a machine that one task may have."""
        return capacity if capacity.memory <= self._most_memory else replace(capacity, memory=self._most_memory)

    def took(self, node: StageNode, seconds: float) -> None:
        """A task of the stage has taken so long."""
        content = node.content
        if seconds > self._longest.get(content, -1.0):
            self._longest[content] = seconds
            if self._known.pop(node, None) is not None:
                self.changes += 1

    def raise_memory(self, node: StageNode, had: float) -> float | None:
        """A task failed with `had` bytes: ask for twice that, at most for all that it may have of the largest machine.

        Returns the new demand, None if the task has had all there is: should there be more later, it is requested.
        Where no machine has a slot, the future capacity is unknown. What was learnt outlives the plan.
        """
        whole = max((capacity.memory for capacity in self._lasting.values() if capacity.cpu >= 1), default=math.inf)
        content, all_of_it = node.content, had >= whole
        self._raised[content] = max(self._raised.get(content, 0.0), 2 * had if all_of_it else min(2 * had, whole))
        self.forget()
        return None if all_of_it else self._raised[content]

    @property
    def slots(self) -> float:
        """The slots of all machines together."""
        return sum(capacity.cpu for capacity in self._machines.values())

    @property
    def raised(self) -> Mapping[Content, float]:
        """Bytes that tasks are known to need, learnt from those that ran out of memory."""
        return self._raised

    def forget(self) -> None:
        """The demands so far are no longer right, or no longer needed."""
        self._known.clear()
        self.changes += 1

    def _demand(self, node: StageNode) -> tuple[Resources, float]:
        stage, content = node.stage, node.content
        memory = max(self._least(), stage.estimate.task_memory, self._raised.get(content, 0.0))
        slots = 1.0 if stage.begins_on_any else float(stage.slots)
        available = cap(Resources(slots, float(math.ceil(memory))), self._lasting.values())
        return available, self._longest.get(content, on_threads(stage.estimate.task_seconds, available.cpu))

    def _least(self) -> float:
        by_slot = [capacity.memory / capacity.cpu for capacity in self._lasting.values() if capacity.cpu >= 1]
        return float(math.floor(min(self._least_memory, *by_slot))) if by_slot else self._least_memory


class ReadyDemands:
    """The demands of a run's ready tasks, made again only where one has changed: a scheduler reads them often."""

    def __init__(self, job: JobId, demands: Demands) -> None:
        self._job = job
        self._demands = demands
        self._by_stage: dict[StageNode, tuple[int, tuple[Resources, float], Demand]] = {}
        self._now: tuple[Demand, ...] = ()
        self._version = (-1, -1, -1)  # of the frontier, the demands and what is exhausted

    def forget(self) -> None:
        """The plan has changed."""
        self._by_stage.clear()
        self._version = (-1, -1, -1)

    def of(self, frontier: Frontier, exhausted: Collection[Recipe]) -> tuple[Demand, ...]:
        """The next ready task of every stage that has one, but those that are exhausted."""
        version = frontier.changes, self._demands.changes, len(exhausted)
        if version != self._version:
            self._version = version
            stages = frontier.ready_stages()
            if exhausted:
                stages = [node for node in stages if node.recipe not in exhausted]
            self._now = tuple(map(self._demand, stages))
        return self._now

    def _demand(self, node: StageNode) -> Demand:
        part, needs = node.next_ready().part, self._demands.requested(node)
        known = self._by_stage.get(node)
        if known is None or known[0] != part or known[1] is not needs:
            demand = Demand(self._job, TaskId(self._job, node.stage.id, part), *needs)
            known = self._by_stage[node] = part, needs, demand
        return known[2]
