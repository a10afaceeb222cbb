"""A small real machine as the simulator sees it, and runs on it done again in virtual time.

What is known of the machine comes from runs with one slot, in which nothing disturbs anything (:class:`Solo`): the
processor seconds of each task, and what passes between tasks beside them.  :class:`Replica` says from that how any
other run goes: on two slots, with room that comes and goes, with several jobs.  What it knows beside:

* a task on several threads obeys Amdahl's law (:func:`qoop.planner.packing.on_threads`);
* tasks that run side by side share the memory bus and the interpreter, so each takes longer (`crowding`);
* what a task wants beyond its memory is written and read;
* decisions about the plan take the time that they took.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from qoop.adaptive import Adaptive
from qoop.engine.backends.simulated import Outcome
from qoop.engine.events import SlotsChanged
from qoop.engine.history import CapacityTold, Ended, Record, Succeeded
from qoop.engine.task import TaskSpec
from qoop.planner.finish import SPILL_BYTE
from qoop.planner.packing import on_threads
from qoop.planner.plan import Plan, Resources
from qoop.simulation import Fleet, SimulatedJob, SimulatedRun, simulate
from qoop.tpcds.truth import TaskKey, share_of, task_key

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
    def between(self) -> float:
        """Seconds for each task that its processor seconds do not account for: starting it, committing it."""
        tasks = [task for parts in self.tasks.values() for task in parts]
        return max(0.0, self.seconds - sum(task.seconds for task in tasks)) / max(1, len(tasks))


def solo(history: Sequence[Record]) -> Solo:
    """What a run on one slot tells."""
    parts: dict[str, dict[int, Done]] = {}
    for record in history:
        if isinstance(record, Succeeded) and record.used:
            task, made = record.attempt.task, record.committed
            parts.setdefault(task.stage, {})[task.part] = Done(made.cpu_seconds, sum(made.rows), sum(made.bytes))
    tasks = {stage: tuple(done for _, done in sorted(found.items())) for stage, found in parts.items()}
    return Solo(tasks, ended(history))


def fastest(runs: Sequence[Solo]) -> Solo:
    """Of several runs of one plan the least seconds of each task, and in all."""
    first = runs[0]
    tasks = {
        stage: tuple(
            replace(done, seconds=min(run.tasks[stage][part].seconds for run in runs))
            for part, done in enumerate(parts)
        )
        for stage, parts in first.tasks.items()
    }
    return Solo(tasks, min(run.seconds for run in runs))


def ended(history: Sequence[Record]) -> float:
    """Seconds from the beginning of a job to its end."""
    return next(record.at for record in reversed(history) if isinstance(record, Ended))


def room_changes(history: Sequence[Record]) -> tuple[tuple[float, Resources], ...]:
    """When the machine had how much from then on, after the job had begun."""
    return tuple(
        (record.at, record.capacity)
        for record in history
        if isinstance(record, CapacityTold) and record.at > 0 and record.capacity is not None
    )


@dataclass(frozen=True)
class Replica:
    """A machine, and plans of which the tasks are known.

    room: at the start. between: seconds that each task takes beside its work. side_by_side: how many times as long a
    task takes while another one runs. decision: seconds that a decision takes. surprise: how many times its estimate a
    task takes that was never measured.
    """

    room: Resources
    tasks: Mapping[TaskKey, tuple[Done, ...]]
    between: float
    side_by_side: float = 1.0
    decision: float = 0.0
    surprise: float = 1.0

    @classmethod
    def of(cls, room: Resources, runs: Sequence[tuple[Plan, Solo]]) -> Replica:
        """From runs with one slot."""
        tasks = {
            task_key(plan.by_id[stage]): parts for plan, run in runs for stage, parts in run.tasks.items()
        }  # fmt: skip
        measured = sum(done.seconds for _, run in runs for parts in run.tasks.values() for done in parts)
        estimated = sum(stage.width * stage.estimate.task_seconds for plan, _ in runs for stage in plan.stages)
        between = median(run.between for _, run in runs)
        return cls(room, tasks, between, surprise=measured / estimated if estimated else 1.0)

    def outcome(self, spec: TaskSpec) -> Outcome:
        """What an attempt comes to while it runs alone."""
        stage, room = spec.stage, spec.resources
        known, part = self.tasks.get(task_key(stage)), spec.attempt.task.part
        if known is not None and part < len(known):
            seconds, rows, size = known[part].seconds, known[part].rows, known[part].bytes
        else:
            seconds, estimate = stage.estimate.task_seconds * self.surprise, stage.estimate
            rows, size = (share_of(total, stage.width, part) for total in (estimate.rows, estimate.bytes))
        spilled = max(0.0, stage.estimate.task_wants - room.memory) * SPILL_BYTE
        parts = stage.layout.parts
        return Outcome(
            on_threads(seconds, room.cpu) + self.between + spilled, rows=round(rows / parts), bytes=round(size / parts)
        )

    def run(
        self,
        jobs: Sequence[tuple[float, Plan, Adaptive | None]],
        changes: Sequence[tuple[float, Resources]] = (),
    ) -> SimulatedRun:
        """Jobs, each from a second on, while the machine's room changes."""
        fleet = Fleet({MACHINE: self.room}).after(*((at, SlotsChanged(MACHINE, room)) for at, room in changes))
        submitted = [SimulatedJob(f"j{n}", at, plan, adaptive) for n, (at, plan, adaptive) in enumerate(jobs)]
        return simulate(
            fleet, submitted, self.outcome, decision_seconds=self.decision,
            crowding=lambda tasks: 1.0 + (self.side_by_side - 1.0) * max(0, tasks - 1),
        )  # fmt: skip

    def seconds(self, plan: Plan) -> float:
        """Of a plan alone on the machine as it is at the start."""
        return self.run([(0.0, plan, None)]).seconds

    def fitted(self, runs: Sequence[tuple[Plan, float]]) -> Replica:
        """With the crowding by which these runs of single plans, nothing changing, come out best in the median."""
        if not runs:
            return self

        def error(side_by_side: float) -> float:
            machine = replace(self, side_by_side=side_by_side)
            return median(abs(machine.seconds(plan) / real - 1.0) for plan, real in runs)

        best = min((1.0 + step / 50 for step in range(51)), key=error)
        return replace(self, side_by_side=best)
