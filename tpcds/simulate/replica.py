"""A small real machine as the simulator sees it, and runs on it done again in virtual time.

What is known of the machine comes from runs with one slot, in which nothing disturbs anything (:class:`Solo`): the
processor seconds of each task, and the overhead between tasks.  :class:`Replica` says from that how any other run
goes: on two slots, with resources that come and go, with several jobs.  It also knows that

* a task on several threads obeys Amdahl's law (:func:`qoop.planner.packing.on_threads`), with the serial part that is
  found from runs on all slots;
* threads that work side by side share the memory bus and the interpreter, so each takes longer;
* where there are more threads than cores, they take turns (processor sharing): tasks, kernels that are being opened,
  and clients with a query in planning;
* a new kernel has to be opened, and reads the footers of each table's files before its first scan of it
  (:mod:`qoop.engine.backends.worker_pool`): at the start of a session, when slots come back, and when memory falls;
* an attempt ends some time after it is interrupted;
* what a task wants beyond its memory is written and read;
* decisions about the plan take the time that they took.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from statistics import median

from qoop.adaptive.replanning.adaptive import Adaptive
from qoop.adaptive.simulation import (
    Fleet,
    Kernels,
    MachineShared,
    SimulatedJob,
    SimulatedRun,
    SimulationOptions,
    simulate,
)
from qoop.catalog.errors import Revoked
from qoop.engine.backends.outcomes import Outcome
from qoop.engine.events import SlotsChanged
from qoop.engine.history import CapacityReported, Ended, Failed, Record
from qoop.engine.replay import JobReplay
from qoop.engine.task import TaskSpec
from qoop.planner.estimate.cost import SPILL_BYTE
from qoop.planner.packing import SERIAL_PART, on_threads
from qoop.planner.plan import Plan, Resources
from qoop.tpcds.simulate.ground_truth import TaskKey, share_of, task_key

MACHINE = "m"


@dataclass(frozen=True)
class Done:
    """One task: processor seconds of one thread, rows and bytes of its whole output."""

    seconds: float
    rows: int
    bytes: int


@dataclass(frozen=True)
class Solo:
    """One plan on one slot: its tasks by stage, in order of their parts, and its seconds in all."""

    tasks: Mapping[str, tuple[Done, ...]]
    seconds: float

    @property
    def working(self) -> float:
        """Processor seconds of all tasks."""
        return sum(task.seconds for parts in self.tasks.values() for task in parts)

    @property
    def overhead(self) -> float:
        """Seconds that the processor seconds of the tasks do not account for: starting them, committing them."""
        return max(0.0, self.seconds - self.working)

    @property
    def between(self) -> float:
        """The same for each task."""
        return self.overhead / max(1, sum(map(len, self.tasks.values())))


def solo(history: Sequence[Record]) -> Solo:
    """The tasks and seconds of a run on one slot, from its history."""
    parts: dict[str, dict[int, Done]] = {}
    for attempt, end in JobReplay.of(history).succeeded():
        if end.used:
            task, made = attempt.attempt.task, end.committed
            parts.setdefault(task.stage, {})[task.part] = Done(made.cpu_seconds, sum(made.rows), sum(made.bytes))
    tasks = {stage: tuple(done for _, done in sorted(found.items())) for stage, found in parts.items()}
    return Solo(tasks, ended(history))


def fastest(runs: Sequence[Solo]) -> Solo:
    """Of several runs of one plan the least seconds of each task, and the least overhead of a run.

    The overhead is that of one run: the seconds of the fastest run, less the least of each task, would contain what
    other programs cost the tasks of that run.
    """
    first = runs[0]
    tasks = {
        stage: tuple(
            replace(done, seconds=min(run.tasks[stage][part].seconds for run in runs))
            for part, done in enumerate(parts)
        )
        for stage, parts in first.tasks.items()
    }
    best = Solo(tasks, 0.0)
    return replace(best, seconds=best.working + min(run.overhead for run in runs))


def ended(history: Sequence[Record]) -> float:
    """Seconds from the beginning of a job to its end."""
    return next(record.at for record in reversed(history) if isinstance(record, Ended))


def interrupted(history: Sequence[Record]) -> tuple[float, ...]:
    """Seconds from the loss of resources to the end of each attempt that it cost."""
    found, since = [], 0.0
    for record in history:
        if isinstance(record, CapacityReported):
            since = record.at
        elif isinstance(record, Failed) and isinstance(record.error, Revoked):
            found.append(record.at - since)
    return tuple(found)


def tables_of(plan: Plan) -> frozenset[str]:
    """The tables that a plan scans."""
    return frozenset(item.table for stage in plan.stages for item in stage.table_inputs)


def resource_changes(history: Sequence[Record]) -> tuple[tuple[float, Resources], ...]:
    """The times after the job's beginning at which the machine's resources changed, with the resources from then on."""
    return tuple(
        (record.at, record.capacity)
        for record in history
        if isinstance(record, CapacityReported) and record.at > 0 and record.capacity is not None
    )


@dataclass(frozen=True)
class Replica:
    """A machine, and plans of which the tasks are known.

    available: at the start. between: overhead of each task in seconds. cores: of the machine, which may have more or
    fewer than slots; infinite: no thread waits for a core. kernels: their cost. side_by_side: the slowdown of a thread
    for each other that works. serial: the part of a task on one thread only. decision: the seconds of a decision.
    misestimate: the seconds of a task that was never measured, over its estimate.
    """

    available: Resources
    tasks: Mapping[TaskKey, tuple[Done, ...]]
    between: float
    cores: float = inf
    kernels: Kernels = field(default_factory=Kernels)
    side_by_side: float = 1.0
    serial: float = SERIAL_PART
    decision: float = 0.0
    misestimate: float = 1.0

    @classmethod
    def of(cls, available: Resources, runs: Sequence[tuple[Plan, Solo]]) -> Replica:
        """From runs with one slot."""
        tasks = {
            task_key(plan.by_id[stage]): parts for plan, run in runs for stage, parts in run.tasks.items()
        }  # fmt: skip
        measured = sum(run.working for _, run in runs)
        estimated = sum(stage.width * stage.estimate.task_seconds for plan, _ in runs for stage in plan.stages)
        between = median(run.between for _, run in runs)
        return cls(available, tasks, between, misestimate=measured / estimated if estimated else 1.0)

    def figures(self) -> dict[str, float]:
        """The figures of the machine by name; seconds of one thread, factors and parts."""
        kernels = self.kernels
        return {
            "cores": self.cores, "overhead of a task": self.between, "factor side by side": self.side_by_side,
            "serial part": self.serial, "seconds to open a kernel": kernels.opening,
            "to read a table's footers": kernels.reading, "to stop": kernels.stopping, "to decide": self.decision,
        }  # fmt: skip

    def outcome(self, spec: TaskSpec) -> Outcome:
        """The outcome of an attempt while it runs alone."""
        stage, available = spec.stage, spec.resources
        known, part = self.tasks.get(task_key(stage)), spec.attempt.task.part
        if known is not None and part < len(known):
            seconds, rows, size = known[part].seconds, known[part].rows, known[part].bytes
        else:
            seconds, estimate = stage.estimate.task_seconds * self.misestimate, stage.estimate
            rows, size = (share_of(total, stage.width, part) for total in (estimate.rows, estimate.bytes))
        spilled = max(0.0, stage.estimate.task_wants - available.memory) * SPILL_BYTE
        parts = stage.layout.parts
        return Outcome(
            on_threads(seconds, available.cpu, self.serial) + self.between + spilled,
            rows=round(rows / parts),
            bytes=round(size / parts),
        )

    def run(
        self,
        jobs: Sequence[tuple[float, Plan, Adaptive | None]],
        changes: Sequence[tuple[float, Resources]] = (),
        warm: bool = True,
        planning: float = 0.0,
    ) -> SimulatedRun:
        """Jobs, each from a second on, while the machine's resources change.

        warm: its kernels have read the tables before. planning: until then a client has the next queries planned, which
        keeps a core busy.
        """
        fleet = Fleet({MACHINE: self.available}).after(
            *((at, SlotsChanged(MACHINE, available)) for at, available in changes)
        )
        if planning:
            fleet = fleet.after((0.0, MachineShared(MACHINE, 1)), (planning, MachineShared(MACHINE, 0)))
        submitted = [SimulatedJob(f"j{n}", at, plan, adaptive) for n, (at, plan, adaptive) in enumerate(jobs)]
        read = frozenset().union(*(tables_of(plan) for _, plan, _ in jobs)) if warm else frozenset()
        options = SimulationOptions(
            decision_seconds=self.decision, crowding=self.crowding, kernels=replace(self.kernels, read=read),
            extra_slots=True,
        )  # fmt: skip
        return simulate(fleet, submitted, self.outcome, options=options)

    def crowding(self, threads: float) -> float:
        """The factor by which everything takes longer while `threads` threads work."""
        others = max(0.0, min(threads, self.cores) - 1.0)
        return (1.0 + (self.side_by_side - 1.0) * others) * max(1.0, threads / self.cores)

    def seconds(self, plan: Plan, warm: bool = True) -> float:
        """Of a plan alone on the machine as it is at the start."""
        return self.run([(0.0, plan, None)], warm=warm).seconds

    def fitted(self, runs: Sequence[tuple[Plan, float]]) -> Replica:
        """With what makes these runs, of single plans on warm kernels, come out best in the median: how much threads
        disturb each other, from plans whose tasks have one; then the serial part, from the others."""
        wide, narrow = ([run for run in runs if _wide(run[0]) is it] for it in (True, False))
        machine = _best((replace(self, side_by_side=1.0 + step / 50) for step in range(51)), narrow, self)
        return _best((replace(machine, serial=step / 20) for step in range(21)), wide, machine)


def _wide(plan: Plan) -> bool:
    return any(stage.slots > 1 for stage in plan.stages)


def _best(machines: Iterable[Replica], runs: Sequence[tuple[Plan, float]], usual: Replica) -> Replica:
    """The machine on which the runs come out with the least median error; the usual one if there are none."""
    if not runs:
        return usual
    return min(machines, key=lambda machine: median(abs(machine.seconds(plan) / real - 1.0) for plan, real in runs))
