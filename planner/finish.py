"""When a plan would be finished on a share of the resources: the completion time estimate (spec section 4).

The tasks that are left are simulated on the share as one machine that stays as it is for ever.  Which task goes
next is asked of :mod:`~qoop.planner.packing`, as the scheduler asks it, with the demands in the order in which
the engine offers them: longest estimated path to the end first.

Tasks of one stage are alike, so they are started, and end, in batches; the work is proportional to the batches,
not to the tasks.  List scheduling has anomalies (Graham, "Bounds on Multiprocessing Timing Anomalies", 1969): a
larger share may finish later, though with one kind of slot never more than twice as late.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush

from qoop.planner.cost import CostModel
from qoop.planner.packing import Room, best_fit_run, cap
from qoop.planner.plan import Plan, Resources, Stage, StageId

_COST = CostModel()
SPILL_BYTE = 2e-9
"""Seconds for a byte that a task would hold but its share has no room for: written to disk once and read once."""


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
    """The finish times of one plan: what does not depend on the share is worked out once."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        place = {stage.id: i for i, stage in enumerate(plan.stages)}
        self._sources = [
            tuple(dict.fromkeys((place[item.stage], item.mode == "forward") for item in stage.stage_inputs))
            for stage in plan.stages
        ]
        self._readers: list[list[tuple[int, bool]]] = [[] for _ in plan.stages]
        for i, sources in enumerate(self._sources):
            for source, forward in sources:
                self._readers[source].append((i, forward))
        self._moved = [_moved(stage, plan) for stage in plan.stages]
        self._order = self._ranked()

    def seconds(self, share: Resources, done: Done = NOTHING) -> float:
        """See :func:`finish_time`."""
        if share.cpu < 1:
            return float("inf")
        return _Simulation(self, share, done).run()

    def work(self) -> float:
        """Slot seconds of the whole plan, moving rows between stages included."""
        roomy = Resources(float("inf"), float("inf"))
        return sum(
            stage.width * stage.slots * _duration(stage, roomy, roomy, moved)
            for stage, moved in zip(self.plan.stages, self._moved, strict=True)
        )

    def _ranked(self) -> list[int]:
        """Stages in the order the engine offers them: the upward rank of HEFT, then plan order."""
        stages = self.plan.stages
        tails = [0.0] * len(stages)
        for i in reversed(range(len(stages))):
            tails[i] = stages[i].estimate.task_seconds + max((tails[j] for j, _ in self._readers[i]), default=0.0)
        return sorted(range(len(stages)), key=lambda i: (-tails[i], i))

    def needed(self, done: Done) -> list[int]:
        """By stage, how many of its tasks are still to be done: those that something unfinished reads."""
        left = [0] * len(self.plan.stages)
        for i in reversed(range(len(left))):
            stage = self.plan.stages[i]
            if stage is self.plan.root or any(left[reader] for reader, _ in self._readers[i]):
                left[i] = max(0, stage.width - done.parts.get(stage.id, 0))
        return left


class _Simulation:
    """List scheduling of what is left, batch by batch."""

    def __init__(self, finish: Finish, share: Resources, done: Done) -> None:
        self.finish, self.share, self.free, self.now = finish, share, share, 0.0
        stages = finish.plan.stages
        self.demands = [_demand(stage, share) for stage in stages]
        self.durations = [_duration(stage, self.demands[i], share, finish._moved[i]) for i, stage in enumerate(stages)]
        self.left = finish.needed(done)  # not yet ended
        self.waiting = list(self.left)  # not yet started
        self.ending: list[tuple[float, int, int]] = []  # (when, stage, tasks)
        for i, stage in enumerate(stages):
            for spent in done.running.get(stage.id, ())[: self.waiting[i]]:
                self.start(i, 1, max(0.0, self.durations[i] - spent))

    def run(self) -> float:
        root = len(self.left) - 1
        while self.left[root]:
            self.fill()
            self.advance()
        return self.now

    def fill(self) -> None:
        """Start tasks until nothing that is ready fits."""
        while True:
            ready = [(i, count) for i in self.finish._order if (count := self.ready(i)) > 0]
            if not ready:
                return
            room = Room(self.share, self.free)
            found = best_fit_run([self.demands[i] for i, _ in ready], room, [count for _, count in ready])
            if found is None:
                return
            stage, count = ready[found[0]][0], found[1]
            if len(ready) == 1 and not self.ending and ready[0][1] > count:
                self.skip_waves(stage, count)
            self.start(stage, count, self.durations[stage])

    def skip_waves(self, stage: int, width: int) -> None:
        """A lone stage goes on in equal waves until less than a wave is left, if nothing waits for single parts."""
        if any(forward for _, forward in self.finish._readers[stage]):
            return
        waves = (self.waiting[stage] - 1) // width
        self.now += waves * self.durations[stage]
        self.waiting[stage] -= waves * width
        self.left[stage] -= waves * width

    def ready(self, stage: int) -> int:
        """Tasks of the stage that could start now."""
        waiting = self.waiting[stage]
        if not waiting:
            return 0
        for source, forward in self.finish._sources[stage]:
            if not self.left[source]:
                continue
            if not forward:
                return 0
            waiting = min(waiting, self.waiting[stage] - self.left[source])
        return waiting

    def start(self, stage: int, tasks: int, seconds: float) -> None:
        tasks = min(tasks, self.waiting[stage])
        if not tasks:
            return
        demand = self.demands[stage]
        self.waiting[stage] -= tasks
        self.free = self.free - Resources(demand.cpu * tasks, demand.memory * tasks)
        heappush(self.ending, (self.now + seconds, stage, tasks))

    def advance(self) -> None:
        """To the next end of a batch, and of all that end with it."""
        self.now = self.ending[0][0]
        while self.ending and self.ending[0][0] <= self.now + 1e-12:
            _, stage, tasks = heappop(self.ending)
            demand = self.demands[stage]
            self.left[stage] -= tasks
            self.free = self.free + Resources(demand.cpu * tasks, demand.memory * tasks)
        if not self.ending:
            self.free = self.share  # sums of floats do not come back to where they were


def _moved(stage: Stage, plan: Plan) -> tuple[float, float]:
    """Bytes that one task of the stage reads from other stages, and that it writes."""
    read = 0.0
    for item in stage.stage_inputs:
        whole = plan.by_id[item.stage].estimate.bytes
        read += whole if item.mode == "all" else whole / stage.width
    return read, stage.estimate.bytes / stage.width


def _demand(stage: Stage, share: Resources) -> Resources:
    """Slots and memory of one task, at most all there is. A share that does not tell its memory has enough."""
    memory = stage.estimate.task_memory if share.memory > 0 else 0.0
    return cap(Resources(float(stage.slots), memory), (share,))


def _duration(stage: Stage, demand: Resources, share: Resources, moved: tuple[float, float]) -> float:
    """Seconds of one task with this room: its work, its way in and out, what does not fit, and starting it."""
    slots = max(1.0, min(demand.cpu, stage.slots))
    read, written = moved
    seconds = stage.estimate.task_seconds / slots + (read + written) * _COST.exchange_byte
    if share.network > 0:
        seconds += read * share.cpu / (share.network * slots)
    missing = stage.estimate.task_memory - demand.memory if share.memory > 0 else 0.0
    return seconds + _COST.task_overhead_seconds + max(0.0, missing) * SPILL_BYTE
