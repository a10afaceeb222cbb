"""The time that each policy takes to decide what starts next, with a hundred jobs and a thousand ready tasks.

The cluster is the real one on simulated machines. Jobs have ten stages that are ready at the same time, so that each
asks for ten kinds of tasks; machines have slots for a part of them, and whenever one is free the policy is asked.
Seconds are of the thread, not of the clock, so that other work on the machine counts for little.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import mean, median, quantiles

from qoop.engine.backends.simulated import Outcome
from qoop.engine.events import Grant
from qoop.engine.task import JobId, MachineId, TaskSpec
from qoop.planner.packing import Available
from qoop.planner.plan import Estimate, Plan, Resources, Stage, StageInput
from qoop.schedulers.base import Request, Scheduler
from qoop.schedulers.described import named
from qoop.schedulers.terms import Terms
from qoop.simulation import Fleet, SimulatedJob, simulate

MACHINES, CAPACITY = 20, Resources(10, 40e9)
POLICIES = ("max_min", "finish_time", "urgency", "learned")
_COLUMNS = (("x", "INTEGER"),)
_TENANTS = 5
_TASKS = 12
"""Of each stage: more than are done while it is measured."""


@dataclass(frozen=True)
class Decisions:
    """The decisions of one policy. jobs, ready: those that it chose among, in the mean. Seconds of the thread:
    likely, seldom: the median and the 99th percentile of a decision; shares: of telling all jobs their shares."""

    policy: str
    number: int
    jobs: float
    ready: float
    likely: float
    seldom: float
    shares: float

    def __str__(self) -> str:
        return (
            f"{self.policy:12} {self.number:6,} decisions, {self.jobs:.0f} jobs with {self.ready:,.0f} ready tasks:"
            f" {1e3 * self.likely:6.2f} ms in the median, {1e3 * self.seldom:6.2f} ms at the 99th percentile;"
            f" shares {1e3 * self.shares:6.2f} ms"
        )


class _Timed(Scheduler):
    """The policy, with a stopwatch. After that number of decisions it decides nothing any more."""

    def __init__(self, policy: Scheduler, most: int) -> None:
        self._policy, self._most = policy, most
        self.decisions: list[float] = []
        self.shares: list[float] = []
        self.jobs: list[int] = []
        self.ready: list[int] = []

    def next_grant(
        self, requests: Sequence[Request], availability: Mapping[MachineId, Available], now: float = 0.0
    ) -> Grant | None:
        if len(self.decisions) >= self._most:
            return None
        began = time.thread_time()
        grant = self._policy.next_grant(requests, availability, now)
        self.decisions.append(time.thread_time() - began)
        self.jobs.append(len(requests))
        self.ready.append(sum(len(request.demands) for request in requests))
        return grant

    def fair_shares(self, requests: Sequence[Request], capacity: Resources, now: float = 0.0) -> dict[JobId, Resources]:
        began = time.thread_time()
        shares = self._policy.fair_shares(requests, capacity, now)
        self.shares.append(time.thread_time() - began)
        return shares


def run(
    policies: Sequence[str],
    jobs: int = 100,
    stages: int = 10,
    decisions: int = 1500,
    seed: int = 1,
    told: Callable[[Decisions], None] = lambda one: None,
) -> list[Decisions]:
    """The decisions of each policy, by name or by text. Raises ConfigError for one that there is not."""
    found = []
    for policy in policies:
        found.append(measured(policy, jobs, stages, decisions, seed))
        told(found[-1])
    return found


def measured(policy: str, jobs: int, stages: int, decisions: int, seed: int) -> Decisions:
    """The decisions of one policy. stages: of each job, that are ready at once."""
    timed, chance = _Timed(named(policy), decisions), random.Random(seed)
    batch = [_job(number, stages, random.Random(f"{seed} {number}")) for number in range(jobs)]

    def ground_truth(spec: TaskSpec) -> Outcome:
        return Outcome(spec.stage.estimate.task_seconds * chance.uniform(0.7, 1.3))

    simulate(Fleet.uniform(MACHINES, CAPACITY), batch, ground_truth, timed)
    seldom = quantiles(timed.decisions, n=100)[-1] if len(timed.decisions) > 1 else timed.decisions[0]
    return Decisions(
        policy, len(timed.decisions), mean(timed.jobs), mean(timed.ready), median(timed.decisions), seldom,
        median(timed.shares),
    )  # fmt: skip


def to_json(found: Sequence[Decisions]) -> dict[str, object]:
    """The figures as JSON values."""
    return {"decisions": [asdict(one) for one in found]}


def _job(number: int, stages: int, chance: random.Random) -> SimulatedJob:
    """All begin at once; one in three has a deadline."""
    scans = tuple(
        Stage(
            f"s{place}", "", (), _COLUMNS, _TASKS, f"job {number} {place}",
            estimate=Estimate(task_seconds=chance.uniform(1.0, 8.0), task_memory=chance.uniform(0.2e9, 4e9)),
        )
        for place in range(stages)
    )  # fmt: skip
    inputs = tuple(StageInput(stage.id, stage.id, "all") for stage in scans)
    root = Stage("root", "", inputs, _COLUMNS, 1, f"job {number} root")
    deadline = chance.uniform(60.0, 3600.0) if number % 3 == 0 else math.inf
    terms = Terms(f"tenant {number % _TENANTS}", priority=chance.uniform(1.0, 10.0), deadline=deadline)
    return SimulatedJob(f"job {number}", 0.0, Plan((*scans, root), _COLUMNS), terms=terms)
