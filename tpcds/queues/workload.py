"""Jobs of one map and one reduce phase, as the source has them.

Source: Rasley et al., "Efficient Queue Management for Cluster Scheduling", EuroSys 2016, section 6. The mix "5-50":
four jobs of five have tasks of 5 s, the others of 50 s. The mix "hive": task seconds of 22.9 in the mean with a long
tail, 57.9 map tasks a job in the mean. Here a job has one reduce task, as the root of a plan is one, and half as many
map tasks, as there are fewer machines. Within a stage tasks are alike; estimates are those of stages, and err.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from qoop.adaptive.simulation import SimulatedJob
from qoop.engine.backends.outcomes import Outcome
from qoop.engine.task import TaskSpec
from qoop.planner.plan import Estimate, Plan, Stage, StageInput

MEAN, LOG_MEAN, LOG_DEVIATION = 22.9, 2.678, 0.952
MAPS = 57.9
WITHIN = 0.3
"""The deviation of the logarithm of task seconds within a stage."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The cluster and its jobs. load: the requested part of the slots' time while jobs arrive. noise: the deviation of
    the logarithm of a stage's estimate. tasks: map tasks of a job, in the mean. mix: "5-50" or "hive"."""

    machines: int = 5
    slots: int = 10
    jobs: int = 150
    load: float = 1.0
    noise: float = 0.3
    tasks: float = MAPS / 2
    mix: str = "5-50"

    @property
    def mean(self) -> float:
        """Seconds of a task, in the mean."""
        return MEAN if self.mix == "hive" else 14.0

    @property
    def apart(self) -> float:
        """Seconds between jobs, in the mean."""
        return (self.tasks + 1) * self.mean / (self.machines * self.slots * self.load)


@dataclass(frozen=True, slots=True)
class Work:
    """A job. seconds: in the mean, of a map and of a reduce task."""

    name: str
    at: float
    width: int
    seconds: tuple[float, float]

    @property
    def total(self) -> float:
        """Slot seconds of all tasks."""
        return self.width * self.seconds[0] + self.seconds[1]


def drawn(setting: Setting, seed: int) -> list[Work]:
    """The jobs of a seed, in the order in which they come (Poisson)."""
    rng = random.Random(f"jobs {seed}")
    at, jobs = 0.0, []
    for number in range(setting.jobs):
        width = 1 + int(rng.expovariate(1 / (setting.tasks - 0.5)))
        if setting.mix == "hive":
            seconds = rng.lognormvariate(LOG_MEAN, LOG_DEVIATION), rng.lognormvariate(LOG_MEAN, LOG_DEVIATION)
        else:
            seconds = (5.0, 5.0) if rng.random() < 0.8 else (50.0, 50.0)
        jobs.append(Work(f"q{number}", at, width, seconds))
        at += rng.expovariate(1 / setting.apart)
    return jobs


def simulated(work: Work, noise: float, seed: int) -> SimulatedJob:
    """The job with its plan, whose estimates err."""
    rng = random.Random(f"estimates {seed} {work.name}")
    seconds = [mean * rng.lognormvariate(0.0, noise) for mean in work.seconds]
    scan, root = (Estimate(task_seconds=one, task_memory=0.0) for one in seconds)
    maps = Stage("map", "", (), (), work.width, f"{work.name}/map", estimate=scan)
    reads = (StageInput("i", "map", "all"),)
    reduce = Stage("reduce", "", reads, (), 1, f"{work.name}/reduce", estimate=root)
    return SimulatedJob(work.name, work.at, Plan((maps, reduce), ()))


def truth(jobs: list[Work], seed: int) -> Callable[[TaskSpec], Outcome]:
    """The seconds that tasks really take: the same under all schedulers."""
    by_name = {work.name: work for work in jobs}

    def outcome(spec: TaskSpec) -> Outcome:
        stage = spec.stage.id
        work = by_name[spec.stage.signature.split("/")[0]]
        rng = random.Random(f"task {seed} {work.name} {stage} {spec.attempt.task.part}")
        mean = work.seconds[stage == "reduce"]
        return Outcome(mean * rng.lognormvariate(-(WITHIN**2) / 2, WITHIN))

    return outcome
