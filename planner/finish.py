"""When a plan would be finished on a share of the resources: the completion time estimate (spec section 4).

The tasks that are left are simulated on the share as one machine that stays as it is for ever.  Which task goes
next is asked of :mod:`~qoop.planner.packing`, as the scheduler asks it, with the demands in the order in which
the engine offers them: longest estimated path to the end first.

A share of more slots than one machine has is spread over several: rows that are read by partition cross the network but
for those that happen to lie where they are needed, and rows that all tasks read cross it once for each machine.

Tasks of one stage are alike, so they are started, and end, in batches; the work is proportional to the batches,
not to the tasks.  List scheduling has anomalies (Graham, "Bounds on Multiprocessing Timing Anomalies", 1969): a
larger share may finish later, though with one kind of slot never more than twice as late.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import ceil, inf
from typing import NamedTuple

from qoop.planner.cost import CostModel
from qoop.planner.packing import Room, best_fit_run, cap
from qoop.planner.plan import Plan, Resources, Stage, StageId

_COST = CostModel()
SPILL_BYTE = 2e-9
"""Seconds for a byte that a task would hold but its share has no room for: written to disk once and read once."""


ONE_MACHINE = 1 << 20
"""More slots than any share has: all of them are on one machine."""

ROUNDS = 4
"""Into how many steps at least the rest of a stage is divided."""


@dataclass(frozen=True)
class Done:
    """How far a plan is.

    parts: by stage how many of its tasks are done, or need not be. running: by stage the seconds that each task
    now running has spent. Tasks of a stage are taken for alike, so their numbers do not matter.
    """

    parts: Mapping[StageId, int] = field(default_factory=dict)
    running: Mapping[StageId, tuple[float, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, parts: frozenset[tuple[StageId, int]]) -> Done:
        """From the (stage, part) that are done."""
        counts: dict[StageId, int] = {}
        for stage, _ in parts:
            counts[stage] = counts.get(stage, 0) + 1
        return cls(counts)


NOTHING = Done()


def finish_time(plan: Plan, done: Done | frozenset[tuple[StageId, int]], share: Resources) -> float:
    """Seconds until the plan is finished if it had just this share from now on; infinite without a whole slot."""
    return Finish(plan).seconds(share, done if isinstance(done, Done) else Done.of(done))


class Finish:
    """The finish times of one plan: what does not depend on the share is worked out once.

    machine: slots of one machine; a share of more is spread over as few machines as have them.
    """

    def __init__(self, plan: Plan, machine: int = ONE_MACHINE) -> None:
        self.plan = plan
        self.machine = machine
        place = {stage.id: i for i, stage in enumerate(plan.stages)}
        self.sources = [
            tuple(dict.fromkeys((place[item.stage], item.mode == "forward") for item in stage.stage_inputs))
            for stage in plan.stages
        ]
        self.readers: list[list[tuple[int, bool]]] = [[] for _ in plan.stages]
        for i, sources in enumerate(self.sources):
            for source, forward in sources:
                self.readers[source].append((i, forward))
        self.moved = [_moved(stage, plan) for stage in plan.stages]
        self.order = self._ranked()

    def seconds(self, share: Resources, done: Done = NOTHING) -> float:
        """See :func:`finish_time`."""
        if share.cpu < 1:
            return float("inf")
        return _Simulation(self, share, done).run()

    def at_least(self, share: Resources) -> float:
        """Seconds that the whole plan cannot do without: its longest path, and all of its work spread evenly."""
        if share.cpu < 1:
            return inf
        ends: list[float] = []
        slot_seconds = byte_seconds = 0.0
        for i, stage in enumerate(self.plan.stages):
            demand = self.demand(stage, share)
            seconds = self.duration(i, demand, share)
            ends.append(seconds + max((ends[source] for source, _ in self.sources[i]), default=0.0))
            slot_seconds += seconds * stage.width * demand.cpu
            byte_seconds += seconds * stage.width * demand.memory
        spread = byte_seconds / share.memory if share.memory > 0 else 0.0
        return max(ends[-1], slot_seconds / share.cpu, spread)

    def work(self) -> float:
        """Slot seconds of the whole plan, moving rows between stages included."""
        roomy = Resources(float("inf"), float("inf"))
        return sum(
            stage.width * stage.slots * self.duration(i, roomy, roomy) for i, stage in enumerate(self.plan.stages)
        )

    def machines(self, share: Resources) -> int:
        """Over how many machines the share is spread."""
        return ceil(share.cpu / self.machine) if share.cpu < inf else 1

    def demand(self, stage: Stage, share: Resources) -> Resources:
        """Slots and memory of one task, at most all a machine has. A share that does not tell its memory has enough."""
        machines = self.machines(share)
        memory = stage.estimate.task_memory if share.memory > 0 else 0.0
        machine = Resources(share.cpu / machines, share.memory / machines)
        return cap(Resources(float(stage.slots), memory), (machine,))

    def duration(self, place: int, demand: Resources, share: Resources) -> float:
        """Seconds of one task with this room: its work, its way in and out, what does not fit, and starting it."""
        stage, moved = self.plan.stages[place], self.moved[place]
        slots = max(1.0, min(demand.cpu, stage.slots))
        local = moved.everywhere + (moved.parted + moved.written) / stage.width
        seconds = stage.estimate.task_seconds / slots + local * _COST.exchange_byte
        missing = (
            max(stage.estimate.task_memory, stage.estimate.task_wants) - demand.memory if share.memory > 0 else 0.0
        )
        seconds += _COST.task_overhead_seconds + max(0.0, missing) * SPILL_BYTE
        return seconds + self.network_seconds(stage, moved, slots, share)

    def network_seconds(self, stage: Stage, moved: _Moved, slots: float, share: Resources) -> float:
        """What one task waits for the network: its machine's link brings in what the machine's tasks read.

        Tasks of a stage that take turns on their slots wait for their part of it only.
        """
        machines = self.machines(share)
        if share.network <= 0 or machines == 1:
            return 0.0
        readers = min(machines, stage.width)
        link = share.network / machines
        arriving = (moved.everywhere + moved.parted / readers) * (machines - 1) / machines
        return arriving / link / max(1.0, stage.width * slots / share.cpu)

    def _ranked(self) -> list[int]:
        """Stages in the order the engine offers them: the upward rank of HEFT, then plan order."""
        stages = self.plan.stages
        tails = [0.0] * len(stages)
        for i in reversed(range(len(stages))):
            tails[i] = stages[i].estimate.task_seconds + max((tails[j] for j, _ in self.readers[i]), default=0.0)
        return sorted(range(len(stages)), key=lambda i: (-tails[i], i))

    def needed(self, done: Done) -> list[int]:
        """By stage, how many of its tasks are still to be done: those that something unfinished reads."""
        left = [0] * len(self.plan.stages)
        for i in reversed(range(len(left))):
            stage = self.plan.stages[i]
            if stage is self.plan.root or any(left[reader] for reader, _ in self.readers[i]):
                left[i] = max(0, stage.width - done.parts.get(stage.id, 0))
        return left


class _Simulation:
    """List scheduling of what is left, batch by batch.

    Of a stage with many more tasks than run at a time, each slot takes several in a row as one, fewer and fewer
    towards the end (guided self-scheduling: Polychronopoulos and Kuck, IEEE Transactions on Computers 1987), so the
    work grows with the logarithm of the number of tasks. Up to 2 × ROUNDS waves are simulated as they are.
    """

    def __init__(self, finish: Finish, share: Resources, done: Done) -> None:
        self.finish, self.share, self.free, self.now = finish, share, share, 0.0
        stages = finish.plan.stages
        self.demands = [finish.demand(stage, share) for stage in stages]
        self.durations = [finish.duration(i, self.demands[i], share) for i in range(len(stages))]
        self.at_a_time = [_most_at_a_time(demand, share) for demand in self.demands]
        self.left = finish.needed(done)  # not yet ended
        self.waiting = list(self.left)  # not yet started
        self.ending: list[tuple[float, int, int, int]] = []  # (when, stage, slots, tasks)
        for i, stage in enumerate(stages):
            for spent in done.running.get(stage.id, ())[: self.waiting[i]]:
                self.start(i, 1, 1, max(0.0, self.durations[i] - spent))
        self.open = self.opened()

    def run(self) -> float:
        root = len(self.left) - 1
        while self.left[root]:
            if self.free.cpu >= 1.0:
                self.fill()
            self.advance()
        return self.now

    def opened(self) -> list[int]:
        """Stages with tasks to start that need not wait for the whole of another, the most urgent first."""
        left, sources = self.left, self.finish.sources
        return [
            i
            for i in self.finish.order
            if self.waiting[i] and all(forward or not left[source] for source, forward in sources[i])
        ]

    def fill(self) -> None:
        """Start tasks until nothing that is ready fits."""
        while self.open:
            stages, chunks, counts = [], [], []
            for i in self.open:
                ready = self.ready(i)
                if ready > 0:
                    chunk = max(1, ready // (self.rounds(i) * self.at_a_time[i]))
                    stages.append(i)
                    chunks.append(chunk)
                    counts.append(ready // chunk)
            found = best_fit_run([self.demands[i] for i in stages], Room(self.share, self.free), counts)
            if found is None:
                return
            stage, chunk = stages[found[0]], chunks[found[0]]
            self.start(stage, found[1], chunk, chunk * self.durations[stage])

    def rounds(self, stage: int) -> int:
        """Into how many steps to divide what is ready: one where nothing else can happen in the meantime."""
        alone = len(self.open) == 1 and not self.ending
        return 1 if alone and not any(forward for _, forward in self.finish.readers[stage]) else ROUNDS

    def ready(self, stage: int) -> int:
        """Tasks of an open stage that could start now."""
        waiting = self.waiting[stage]
        unfinished = [self.left[source] for source, forward in self.finish.sources[stage] if forward]
        return waiting - max(unfinished) if unfinished else waiting

    def start(self, stage: int, slots: int, chunk: int, seconds: float) -> None:
        """Let so many slots do `chunk` tasks each, one after the other."""
        demand = self.demands[stage]
        self.waiting[stage] -= slots * chunk
        self.free = self.free - Resources(demand.cpu * slots, demand.memory * slots)
        heappush(self.ending, (self.now + seconds, stage, slots, slots * chunk))

    def advance(self) -> None:
        """To the next end of a batch, and of all that end with it."""
        self.now = self.ending[0][0]
        completed = False
        while self.ending and self.ending[0][0] <= self.now + 1e-12:
            _, stage, slots, tasks = heappop(self.ending)
            demand = self.demands[stage]
            self.left[stage] -= tasks
            completed = completed or not self.left[stage]
            self.free = self.free + Resources(demand.cpu * slots, demand.memory * slots)
        if not self.ending:
            self.free = self.share  # sums of floats do not come back to where they were
        if completed:
            self.open = self.opened()


def _most_at_a_time(demand: Resources, share: Resources) -> int:
    """How many tasks of one stage the whole share has room for; at least one."""
    by_memory = share.memory / demand.memory if demand.memory > 0 else inf
    return max(1, int(min(share.cpu / demand.cpu, by_memory)))


class _Moved(NamedTuple):
    """Bytes that a stage reads of others and writes. everywhere: read by every task. parted: by one task each."""

    everywhere: float
    parted: float
    written: float


def _moved(stage: Stage, plan: Plan) -> _Moved:
    wholes = [(item.mode == "all", plan.by_id[item.stage].estimate.bytes) for item in stage.stage_inputs]
    everywhere = sum(size for by_all, size in wholes if by_all)
    return _Moved(everywhere, sum(size for by_all, size in wholes if not by_all), stage.estimate.bytes)
