"""The completion time estimate: the end of a plan on a share of the resources (paper section 4).

The remaining tasks are simulated on the share as one machine, which stays constant or changes at known times
(:meth:`Finish.through`).  :mod:`~qoop.planner.packing` chooses the next task, as it does for the scheduler, from
demands in the order in which the engine offers them: longest estimated path to the end first.

A share of more slots than one machine has is spread over several. Rows that are read by partition cross the network,
except those already on the right machine; rows that all tasks read cross it once for each machine. A task has its slot
while its rows arrive, over links that all waiting tasks share (:mod:`~qoop.planner.shared_links`).

Tasks of one stage are alike, so they are started, and end, in batches; the work is proportional to the batches,
not to the tasks.  List scheduling has anomalies (Graham, "Bounds on Multiprocessing Timing Anomalies", 1969): a
larger share may finish later, though with one kind of slot never more than twice as late.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from heapq import heappop, heappush
from itertools import groupby, pairwise
from math import ceil, inf
from typing import NamedTuple

from qoop.catalog.value import value
from qoop.planner.estimate.cost import DEFAULT, SPILL_BYTE, CostModel, slowest
from qoop.planner.packing import Packer
from qoop.planner.plan import STORE_PER_KERNEL, Plan, Resources, Stage, StageId
from qoop.planner.shared_links import Batch, SharedLinks

ONE_MACHINE = 1 << 20
"""More slots than any share has: all of them are on one machine."""

OVERDUE = 0.5
"""Seconds that a task takes yet, for each that it has taken beyond its estimate."""

ROUNDS = 4
"""Into how many steps at least the rest of a stage is divided."""


@value
class Done:
    """The progress of a plan.

    parts: by stage how many of its tasks are done, or need not be. running: by stage the seconds that each task
    now running has spent. Tasks of a stage are taken for alike, so their numbers do not matter.
    slots: by stage those that the running tasks have to their end, where they cannot have as many as would be granted.
    """

    parts: Mapping[StageId, int] = field(default_factory=dict)
    running: Mapping[StageId, tuple[float, ...]] = field(default_factory=dict)
    slots: Mapping[StageId, float] = field(default_factory=dict)

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


class _Task(NamedTuple):
    """The facts about one task of a stage that do not depend on its share.

    seconds: of one thread. local: seconds of reading and writing on its machine, and of its start.
    wants: bytes that it would use if it could. everywhere, parted: bytes from other stages that every task reads, and
    that all tasks together read, one part each. output: bytes it puts out.
    """

    width: int
    slots: float
    seconds: float
    local: float
    memory: float
    wants: float
    everywhere: float
    parted: float
    output: float


class _Terms(NamedTuple):
    """A task of each stage on a share: slots and bytes of memory it is granted, how long it takes, and the bytes that
    it waits for before."""

    cpus: list[float]
    memories: list[float]
    seconds: list[float]
    arriving: list[float]


class Finish:
    """The finish times of one plan; parts that do not depend on the share are computed once.

    machine: slots of one machine; a share of more is spread over as few machines as have them.
    cost: the machine's constants.
    """

    def __init__(self, plan: Plan, machine: int = ONE_MACHINE, cost: CostModel = DEFAULT) -> None:
        self.plan = plan
        self.machine, self.cost = machine, cost
        place = {stage.id: i for i, stage in enumerate(plan.stages)}
        self.sources = [
            tuple(dict.fromkeys((place[item.stage], item.mode == "forward") for item in stage.stage_inputs))
            for stage in plan.stages
        ]
        self.readers: list[list[int]] = [[] for _ in plan.stages]
        for i, sources in enumerate(self.sources):
            for source, _ in sources:
                self.readers[source].append(i)
        self.whole = [[source for source, forward in sources if not forward] for sources in self.sources]
        self.forward = [[source for source, forward in sources if forward] for sources in self.sources]
        self.followed = {source for sources in self.forward for source in sources}
        self.place = place
        self.tasks = [_task(stage, plan, cost) for stage in plan.stages]
        self.outputs = sum(task.width * task.output for task in self.tasks)
        self.order = self._ranked()
        self._last: tuple[Resources, _Terms, Packer] | None = None

    def seconds(self, share: Resources, done: Done = NOTHING) -> float:
        """See :func:`finish_time`."""
        if share.cpu < 1:
            return inf
        return _Simulation(self, share, done).run()

    def through(self, course: Sequence[tuple[float, Resources]], done: Done = NOTHING) -> float:
        """Seconds until the plan is finished if it has each share from its time on.

        Running tasks continue as far as they fit; of the others, those with the least progress begin again.

        course: (seconds from now, share), in order of time, the first from 0 on.
        """
        for (since, share), (until, later) in pairwise(course):
            if share.cpu < 1:
                done = Done(done.parts)
                continue
            simulation = _Simulation(self, share, done, until - since)
            before = list(simulation.left)
            ended = simulation.run()
            if not simulation.left[-1]:
                return since + ended
            done = self._later(done, before, simulation, later)
        since, share = course[-1]
        return since + self.seconds(share, done)

    def _later(self, done: Done, before: list[int], simulation: _Simulation, share: Resources) -> Done:
        """The progress at the limit of a simulation, and the tasks that then run on another share."""
        left, running = simulation.going_on()
        spent: dict[StageId, tuple[float, ...]] = {}
        if share.cpu >= 1:
            terms, free = self.on(share)[0], share.cpu
            for over, stage, slots in sorted(running, reverse=True):
                fitting = min(slots, int(free / terms.cpus[stage] + 1e-9))
                free -= fitting * terms.cpus[stage]
                id = self.plan.stages[stage].id
                seconds = self.expected_wait(stage, share) + over * self.length(stage, terms, done.slots.get(id))
                spent[id] = spent.get(id, ()) + (seconds,) * fitting
        stuck = {id: number for id, number in done.slots.items() if id in spent}
        return Done(self._parts(done, before, left), spent, stuck)

    def length(self, stage: int, terms: _Terms, slots: float | None) -> float:
        """Seconds that a task of a stage works. slots: that it has, if they are others than the terms grant."""
        seconds = terms.seconds[stage]
        if slots is not None:
            work = self.tasks[stage].seconds
            seconds += self.cost.on_threads(work, slots) - self.cost.on_threads(work, terms.cpus[stage])
        return seconds

    def expected_wait(self, stage: int, share: Resources) -> float:
        """Seconds for which a task waits for its inputs if its own stage alone reads."""
        terms, packer = self.on(share)
        if not terms.arriving[stage]:
            return 0.0
        at_a_time = min(self.tasks[stage].width, packer.at_a_time[stage])
        return terms.arriving[stage] / self.link(share) * max(1.0, at_a_time / self.machines(share))

    def _parts(self, done: Done, before: Sequence[int], after: Sequence[int]) -> dict[StageId, int]:
        """By stage the tasks that are done, where those left have become fewer."""
        stages = zip(self.plan.stages, before, after, strict=True)
        return {stage.id: done.parts.get(stage.id, 0) + was - left for stage, was, left in stages}

    def after(self, share: Resources, seconds: float, done: Done = NOTHING) -> Done:
        """The progress after that time on the share, begun from `done`; tasks that then run count for nothing."""
        if share.cpu < 1:
            return Done(done.parts)
        simulation = _Simulation(self, share, done, seconds)
        before = list(simulation.left)
        simulation.run()
        return Done(self._parts(done, before, simulation.left))

    def at_least(self, share: Resources) -> float:
        """Seconds that the whole plan cannot do without: its longest path, and all of its work spread evenly.

        A stage on the path takes several rounds where the share does not fit all its tasks at once.
        """
        if share.cpu < 1:
            return inf
        (cpus, memories, durations, arriving), packer = self.on(share)
        ends: list[float] = []
        slot_seconds = byte_seconds = 0.0
        link = self.link(share)
        for i, seconds in enumerate(durations):
            width = self.tasks[i].width
            seconds += arriving[i] / link
            end = seconds * ceil(width / packer.at_a_time[i]) + max(
                [ends[source] for source in self.whole[i]], default=0.0
            )
            ends.append(max([end, *[ends[source] + seconds for source in self.forward[i]]]))
            slot_seconds += seconds * width * cpus[i]
            byte_seconds += seconds * width * memories[i]
        spread = byte_seconds / share.memory if share.memory > 0 else 0.0
        moved = sum(task.width * size for task, size in zip(self.tasks, arriving, strict=True))
        return max(ends[-1], slot_seconds / share.cpu, spread, moved / (link * self.machines(share)))

    def work(self) -> float:
        """Slot seconds of the whole plan, moving rows between stages included."""
        return sum(task.width * (task.seconds + task.slots * task.local) for task in self.tasks)

    def calling(self) -> float:
        """Of that, the seconds of functions of Python."""
        return sum(stage.width * call.seconds for stage in self.plan.stages for call in stage.estimate.calls)

    def thread_seconds(self) -> dict[StageId, float]:
        """By stage the seconds of all of its tasks, were each to run on one thread: the way in and out included."""
        return {
            stage.id: task.width * (task.seconds + task.local)
            for stage, task in zip(self.plan.stages, self.tasks, strict=True)
        }

    def machines(self, share: Resources) -> int:
        """Over how many machines the share is spread."""
        return ceil(share.cpu / self.machine) if share.cpu < inf else 1

    def link(self, share: Resources) -> float:
        """Bytes a second into each machine of the share; infinite if unknown."""
        return share.network / self.machines(share) if share.network > 0 else inf

    def on(self, share: Resources) -> tuple[_Terms, Packer]:
        """Terms and packing on a share; those of the last share are cached."""
        last = self._last
        if last is None or last[0] is not share:
            terms = self.terms(share)
            last = self._last = (share, terms, Packer(share.cpu, share.memory, terms.cpus, terms.memories))
        return last[1:]

    def terms(self, share: Resources) -> _Terms:
        """For each stage the resources of a task, and its seconds: work, the way in and out, spilling, starting.

        Outputs are kept for later plans, so those that do not fit the memory for them go to disk.

        A task gets no more than a machine has (:func:`~qoop.planner.packing.cap`); a share of unknown
        memory has enough.
        """
        machines = self.machines(share)
        most_cpu, most_memory = share.cpu / machines, share.memory / machines
        outputs, uneven = self.spilled(share), slowest(machines, self.cost.uneven)
        cpus, memories, durations, arriving = [], [], [], []
        for task in self.tasks:
            cpu = min(task.slots, most_cpu)
            memory = min(task.memory, most_memory)
            spilled = task.output * outputs
            if most_memory > 0 and task.wants > memory:
                spilled += task.wants - memory
            seconds = self.cost.on_threads(task.seconds, cpu) + task.local
            if spilled:
                seconds += spilled * _spill_byte(task, cpu, share, machines)
            cpus.append(cpu)
            memories.append(memory)
            durations.append(seconds)
            arriving.append(_arriving(task, machines) * uneven if machines > 1 and share.network > 0 else 0.0)
        return _Terms(cpus, memories, durations, arriving)

    def spilled(self, share: Resources) -> float:
        """The part of all outputs that the memory for them does not hold."""
        if not self.outputs or share.memory <= 0:
            return 0.0
        return max(0.0, 1.0 - STORE_PER_KERNEL * share.memory / self.outputs)

    def _ranked(self) -> list[int]:
        """Stages in the order the engine offers them: the upward rank of HEFT, then plan order."""
        tails = [0.0] * len(self.tasks)
        for i in reversed(range(len(tails))):
            tails[i] = self.tasks[i].seconds + max((tails[j] for j in self.readers[i]), default=0.0)
        return sorted(range(len(tails)), key=lambda i: (-tails[i], i))

    def needed(self, done: Done) -> list[int]:
        """By stage, how many of its tasks are still to be done: those that something unfinished reads."""
        if not done.parts:
            return [task.width for task in self.tasks]
        left = [0] * len(self.tasks)
        stages, root = self.plan.stages, len(left) - 1
        for i in range(root, -1, -1):
            if i == root or any(left[reader] for reader in self.readers[i]):
                left[i] = max(0, stages[i].width - done.parts.get(stages[i].id, 0))
        return left


def _task(stage: Stage, plan: Plan, cost: CostModel) -> _Task:
    wholes = [(item.mode == "all", plan.by_id[item.stage].estimate.bytes) for item in stage.stage_inputs]
    everywhere = sum(size for by_all, size in wholes if by_all)
    parted = sum(size for by_all, size in wholes if not by_all)
    estimate, width = stage.estimate, stage.width
    moving = cost.moving(everywhere + parted / width, estimate.bytes / width)
    return _Task(
        width, float(stage.slots), estimate.task_seconds, moving + cost.task_overhead_seconds,
        estimate.task_memory, max(estimate.task_memory, estimate.task_wants),
        everywhere, parted, estimate.bytes / width,
    )  # fmt: skip


def _spill_byte(task: _Task, cpu: float, share: Resources, machines: int) -> float:
    """The seconds for a byte that does not fit: the tasks of the stage that run on a machine share its disk."""
    if share.disk <= 0:
        return SPILL_BYTE
    at_a_time = min(task.width, share.cpu / cpu) / machines
    return max(SPILL_BYTE, at_a_time * machines / share.disk)


def _arriving(task: _Task, machines: int) -> float:
    """The bytes that one task waits for: its part of the inputs on other machines. Inputs of all tasks arrive once at
    each machine that runs any of them; one of its tasks waits."""
    elsewhere = (machines - 1) / machines
    return elsewhere * (task.everywhere * min(1.0, machines / task.width) + task.parted / task.width)


class _Simulation:
    """List scheduling of the remaining tasks, batch by batch.

    Of a stage with many more tasks than run at a time, each slot takes several in a row as one, fewer and fewer
    towards the end (guided self-scheduling: Polychronopoulos and Kuck, IEEE Transactions on Computers 1987), so the
    work grows with the logarithm of the number of tasks. Up to 2 × ROUNDS waves are simulated as they are.

    This is where planning spends much of its time, and a decision while a query runs most of it: amounts are plain
    floats in lists by stage.
    """

    def __init__(self, finish: Finish, share: Resources, done: Done, until: float = inf) -> None:
        self.finish, self.share, self.now, self.until = finish, share, 0.0, until
        self.lengths: dict[int, float] = {}  # of tasks that have other slots than they would be granted
        self.cpu, self.memory = share.cpu, share.memory  # free now
        (self.cpus, self.memories, self.durations, self.arriving), self.packer = finish.on(share)
        machines = finish.machines(share)
        self.links = SharedLinks(finish.link(share), machines)
        spread = finish.cost.spread if machines > 1 else 0.0
        widths = [task.width for task in finish.tasks]
        self.late = [(slowest(n, spread) - 1.0) * took for n, took in zip(widths, self.durations, strict=True)]
        self.left = finish.needed(done)  # not yet ended
        self.waiting = list(self.left)  # not yet started
        self.ending: list[tuple[float, int, int, int]] = []  # (when, stage, slots, tasks)
        for stage, spent in done.running.items():
            self.resume(finish.place[stage], spent, done.slots.get(stage))
        self.open = self.opened()

    def resume(self, stage: int, spent: Sequence[float], slots: float | None) -> None:
        """Tasks that run have the rest of their time left.

        One that is overdue takes half as long again as it is overdue: the longer an estimate has been wrong, the longer
        it will be. slots: that each has, if they are others than a task is granted now.
        """
        whole = self.durations[stage]
        if slots is not None:
            whole = self.lengths[stage] = self.finish.length(stage, self.finish.on(self.share)[0], slots)
        waits = self.finish.expected_wait(stage, self.share)
        for seconds, alike in groupby(spent[: self.waiting[stage]]):
            rest = whole + waits - seconds
            arriving = self.arriving[stage] * (1.0 - seconds / waits) if seconds < waits else 0.0
            self.start(stage, sum(1 for _ in alike), 1, min(rest, whole) if rest >= 0 else -OVERDUE * rest, arriving)

    def run(self) -> float:
        """The time when the last task ends, or the last one before `until`."""
        if self.share.cpu < 2.0 and self.idle() and self.until == inf and not any(self.arriving):
            return sum(tasks * seconds for tasks, seconds in zip(self.left, self.durations, strict=True))
        root = len(self.left) - 1
        while self.left[root]:
            if self.cpu >= 1.0:
                self.fill()
            arrives = self.links.ends()
            if min(arrives, self.ending[0][0] if self.ending else inf) > self.until:
                break
            if self.ending and self.ending[0][0] <= arrives:
                self.advance()
            else:
                self.arrive(arrives)
        return self.now

    def going_on(self) -> tuple[list[int], list[tuple[float, int, int]]]:
        """By stage the tasks that are left at the limit, and what runs then: (part that is over, stage, tasks).

        A slot that does several tasks in a row has done some of them. What waits for its inputs has not begun. Of one
        that is overdue the part is above 1, so that it has as long left as it has now (OVERDUE).
        """
        left, running = list(self.left), list[tuple[float, int, int]]()
        for when, stage, slots, tasks in self.ending:
            chunk = tasks // slots
            length = self.lengths.get(stage, self.durations[stage])
            rest = (when - self.until) / length if length > 0 else 0.0
            undone = min(chunk, max(1, ceil(rest)))
            left[stage] -= (chunk - undone) * slots
            overdue = 1.0 + rest / OVERDUE if chunk == 1 else 0.0
            running.append((undone - rest if rest <= undone else overdue, stage, slots))
        return left, running

    def idle(self) -> bool:
        """True if nothing runs, nor waits for its inputs."""
        return not self.ending and not self.links

    def opened(self) -> list[int]:
        """Stages with tasks to start that need not wait for the whole of another, the most urgent first."""
        left, waiting, whole = self.left, self.waiting, self.finish.whole
        return [i for i in self.finish.order if waiting[i] and not any(left[source] for source in whole[i])]

    def fill(self) -> None:
        """Start tasks until nothing that is ready fits."""
        alone = len(self.open) == 1 and self.idle() and self.until == inf
        offers = [offer for stage in self.open if (offer := self.offer(stage, alone)) is not None]
        while offers:
            if self.all_fit(offers):
                chosen = [(place, offer[2]) for place, offer in enumerate(offers)]
            else:
                found = self.packer.next([(stage, count) for stage, _, count in offers], self.cpu, self.memory)
                if found is None:
                    return
                chosen = [found]
            for place, slots in reversed(chosen):
                stage, chunk, _ = offers[place]
                self.start(stage, slots, chunk, chunk * self.durations[stage], chunk * self.arriving[stage])
                more = self.offer(stage)
                offers[place : place + 1] = [] if more is None else [more]

    def offer(self, stage: int, alone: bool = False) -> tuple[int, int, int] | None:
        """Of an open stage what could start now: (stage, tasks that go one after the other, slots that do as many).

        alone: nothing else can happen in the meantime.
        """
        ready, forward = self.waiting[stage], self.finish.forward[stage]
        if forward:
            ready -= max([self.left[source] for source in forward])
        if ready <= 0:
            return None
        rounds = 1 if alone and stage not in self.finish.followed else ROUNDS
        chunk = max(1, ready // (rounds * self.packer.at_a_time[stage]))
        return stage, chunk, ready // chunk

    def all_fit(self, offers: list[tuple[int, int, int]]) -> bool:
        """True if all of them fit at once, so that no choice is needed."""
        cpu = memory = 0.0
        for stage, _, count in offers:
            cpu += self.cpus[stage] * count
            memory += self.memories[stage] * count
        return cpu <= self.cpu and memory <= self.memory

    def start(self, stage: int, slots: int, chunk: int, seconds: float, arriving: float) -> None:
        """Let `slots` slots do `chunk` tasks each, one after the other: they wait for bytes, then they work."""
        self.waiting[stage] -= slots * chunk
        late = self.late[stage] if not self.waiting[stage] else 0.0
        if late and slots > 1:
            self.run_slots(stage, slots - 1, chunk, seconds, arriving)
            slots = 1
        self.run_slots(stage, slots, chunk, seconds + late, arriving)

    def run_slots(self, stage: int, slots: int, chunk: int, seconds: float, arriving: float) -> None:
        """Take up slots."""
        self.cpu -= self.cpus[stage] * slots
        self.memory -= self.memories[stage] * slots
        if arriving:
            self.links.join(Batch(stage, slots, slots * chunk, seconds), arriving, self.now)
        else:
            heappush(self.ending, (self.now + seconds, stage, slots, slots * chunk))

    def arrive(self, now: float) -> None:
        """To the moment when a batch has its inputs: it works from then on."""
        self.now = now
        for stage, slots, tasks, seconds in self.links.ended(now):
            heappush(self.ending, (now + seconds, stage, slots, tasks))

    def advance(self) -> None:
        """To the next end of a batch, and of all that end with it."""
        ending = self.ending
        self.now = now = ending[0][0]
        completed = False
        while ending and ending[0][0] <= now + 1e-12:
            _, stage, slots, tasks = heappop(ending)
            self.left[stage] -= tasks
            completed = completed or not self.left[stage]
            self.cpu += self.cpus[stage] * slots
            self.memory += self.memories[stage] * slots
        if self.idle():
            self.cpu, self.memory = self.share.cpu, self.share.memory  # sums of floats do not come back
        if completed:
            self.open = self.opened()
