"""The number of task events a second that go through the engine's core: the real cluster, driver, runs and scheduler.

On simulated machines nothing is computed, so what is left is the core itself. A task event is the start of an attempt
or the report of its end: a task that succeeds at once makes two. Seconds are of the processor, not of the clock, so
that other work on the machine counts for little; those of a crowded cache remain.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

from qoop.adaptive.simulation import Fleet, SimulatedJob, simulate
from qoop.engine.backends.outcomes import Outcome
from qoop.engine.task import TaskSpec
from qoop.planner.plan import Estimate, Layout, Plan, Resources, Stage, StageId, StageInput

MACHINES, CAPACITY = 20, Resources(30, 128e9)
"""The paper's cluster (paper section 6): 600 containers."""

_COLUMNS = (("x", "INTEGER"),)
_SCANS = 1 / 3
"""Part of the stages of a plan that read tables."""


@dataclass(frozen=True)
class Speed:
    """One run. jobs: all there from the start. cpu_seconds: of the whole simulation. seconds: of virtual time."""

    jobs: int
    tasks: int
    events: int
    cpu_seconds: float
    seconds: float

    @property
    def events_per_second(self) -> float:
        return self.events / self.cpu_seconds

    def __str__(self) -> str:
        return (
            f"{self.jobs:4} jobs at once: {self.events:9,} task events in {self.cpu_seconds:6.2f} s of cpu,"
            f" {self.events_per_second:8,.0f} a second ({self.seconds:,.0f} s of the cluster's time)"
        )


def run(
    jobs: Sequence[int], tasks: int, seed: int = 1, progress: Callable[[Speed], None] = lambda speed: None
) -> list[Speed]:
    """The speed of one run for each number of jobs. tasks: of all jobs of a run together."""
    found = []
    for number in jobs:
        found.append(measured(number, max(1, tasks // number), seed))
        progress(found[-1])
    return found


def measured(jobs: int, tasks: int, seed: int) -> Speed:
    """The speed with that many jobs at once. tasks: of each job, about."""
    chance = random.Random(seed)
    plans = [plan_of(f"job {number}", tasks, random.Random(f"{seed} {number}")) for number in range(jobs)]
    batch = [SimulatedJob(f"job {number}", 0.0, plan) for number, plan in enumerate(plans)]

    def ground_truth(spec: TaskSpec) -> Outcome:
        return Outcome(spec.stage.estimate.task_seconds * chance.uniform(0.7, 1.3))

    begun = time.process_time()
    ran = simulate(Fleet.uniform(MACHINES, CAPACITY), batch, ground_truth)
    spent = time.process_time() - begun
    return Speed(jobs, sum(stage.width for plan in plans for stage in plan.stages), ran.task_events, spent, ran.seconds)


def to_json(found: Sequence[Speed]) -> dict[str, object]:
    """The figures as JSON values."""
    return {"speeds": [{**asdict(speed), "events_per_second": speed.events_per_second} for speed in found]}


def plan_of(name: str, tasks: int, chance: random.Random) -> Plan:
    """A plan of about that many tasks in 6 to 12 stages, joined to a tree by shuffles and broadcasts.

    Tasks take 1 to 8 s of one slot and 0.2 to 4 GB: more memory than a slot's part of a machine is not rare.
    """
    widths = _widths(tasks, chance)
    reads = list(_reads(len(widths), chance))
    readers = {source: (place, mode) for place, inputs in enumerate(reads) for source, mode in inputs}
    stages = []
    for place, width in enumerate(widths):
        reader, mode = readers.get(place, (None, "all"))
        parts = widths[reader] if reader is not None and mode == "partition" else 1
        inputs = tuple(StageInput(f"i{source}", _id(source), how) for source, how in reads[place])  # type: ignore[arg-type]
        estimate = Estimate(task_seconds=chance.uniform(1.0, 8.0), task_memory=chance.uniform(0.2e9, 4e9))
        layout = Layout(("x",) if parts > 1 else (), parts)
        stages.append(
            Stage(_id(place), "", inputs, _COLUMNS, width, f"{name} {place}", layout=layout, estimate=estimate)
        )
    tops = [place for place in range(len(widths)) if place not in readers]
    inputs = tuple(StageInput(f"i{place}", _id(place), "all") for place in tops)
    return Plan((*stages, Stage("root", "", inputs, _COLUMNS, 1, f"{name} root")), _COLUMNS)


def _id(place: int) -> StageId:
    return f"s{place}"


def _widths(tasks: int, chance: random.Random) -> list[int]:
    """Tasks of each stage: few large stages and many small ones."""
    parts = [chance.random() ** 2 for _ in range(chance.randint(6, 12))]
    return [max(1, round(tasks * part / sum(parts))) for part in parts]


def _reads(stages: int, chance: random.Random) -> Iterator[list[tuple[int, str]]]:
    """By stage the earlier stages it reads, and how; none is read twice."""
    unread: list[int] = []
    for place in range(stages):
        inputs: list[tuple[int, str]] = []
        if place >= stages * _SCANS:
            for _ in range(min(len(unread), chance.randint(1, 2))):
                source = unread.pop(chance.randrange(len(unread)))
                inputs.append((source, "all" if chance.random() < 0.3 else "partition"))
        unread.append(place)
        yield inputs
