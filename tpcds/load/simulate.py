"""One run: a policy, the arrivals of a seed at a load, on the paper's cluster, in virtual time."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from hashlib import blake2b
from pathlib import Path

from qoop.adaptive.schedulers.base import Scheduler
from qoop.adaptive.schedulers.described import made
from qoop.adaptive.schedulers.reserving import Reserving
from qoop.adaptive.schedulers.terms import Terms
from qoop.adaptive.simulation import Fleet, SimulatedJob, SimulatedRun, SimulationOptions, simulate
from qoop.engine.backends.outcomes import Outcome
from qoop.engine.task import TaskSpec
from qoop.planner.finish import Finish
from qoop.planner.packing import on_threads
from qoop.planner.plan import Plan, Resources, Stage
from qoop.tpcds.load.arrivals import TENANTS, Arrival, Queries, arrivals
from qoop.tpcds.load.measures import Played, Summary, summary
from qoop.tpcds.simulate.shared_cluster import COARSE, calibrated_plans, work_of
from qoop.tpcds.simulate.workload import workload

SPREAD = 1.0
"""The work of queries differs as the planner says, not by the power that the paper's shared cluster was fitted with:
one of the 99 would be a fifth of all work."""

SLOTS = COARSE.machines * COARSE.slots
LATEST = 400.0
"""Seconds: the most that a deadline allows a query that needs less."""

POLICIES: Mapping[str, str] = {
    "max-min by job": "MaxMin(tenants=False)",
    "max-min": "MaxMin()",
    "finish time": "FinishTime()",
    "DRF": "DRF()",
    "LAS": "LAS()",
    "SRSF": "SJF()",
    "Tetris": "Tetris()",
    "Carbyne": "Carbyne()",
    "EDF": "EDF()",
    "urgency": "Urgency()",
    "urgency over all": "Urgency(tenants=False)",
    "urgency without deadlines": "Urgency(tenants=False, deadline=0.0)",
    "urgency without priorities": "Urgency(tenants=False, alpha=0.0)",
}
"""SRSF (least remaining service first) is what :class:`~qoop.tpcds.schedulers.sjf.SJF` does."""


@dataclass(frozen=True)
class Item:
    """A run to simulate. hours: in which queries arrive. policy: of `POLICIES`, or the text of a scheduler.

    error: the largest part by which the tasks of a stage take more or less than estimated.
    most_jobs: the limit of running jobs; others queue.
    """

    directory: Path
    load: float
    seed: int
    policy: str
    hours: float = 1.0
    error: float = 0.0
    most_jobs: float = math.inf


def measure(item: Item) -> Mapping[str, object]:
    """The summary of a run, as JSON values. Raises ConfigError, SourceError."""
    return summarised(item).to_json()


def summarised(item: Item, scheduler: Scheduler | None = None) -> Summary:
    """Run all arrivals under the policy, or under another scheduler. Raises ConfigError, SourceError."""
    plans = plans_of(item.directory)
    found = _arrivals(item.directory, item.load, item.seed, item.hours)
    truth = Truth(item.seed, item.error)
    real = [truth.plan(f"job{number}", plans[one.query]) for number, one in enumerate(found, 1)]
    allowed = [_deadline(one, plan, item) for one, plan in zip(found, real, strict=True)]
    terms_of = [Terms(one.tenant, 1.0, one.priority, deadline) for one, deadline in zip(found, allowed, strict=True)]
    jobs = [
        SimulatedJob(one.name, one.at, plans[one.query], terms=terms)
        for one, terms in zip(found, terms_of, strict=True)
    ]
    ran = _simulated(item, jobs, truth, scheduler)
    played = [
        Played(one.tenant, one.at, job.ended, work_of(plan), allow, one.priority, partial(alone, plan))
        for one, job, plan, allow in zip(found, ran.jobs, real, allowed, strict=True)
    ]
    return summary(item.policy, item.load, item.seed, played, SLOTS)


def _simulated(item: Item, jobs: Sequence[SimulatedJob], truth: Truth, scheduler: Scheduler | None) -> SimulatedRun:
    policy = scheduler or made(POLICIES.get(item.policy, item.policy))
    fleet = Fleet.uniform(COARSE.machines, replace(COARSE.machine, network=0.0))
    return simulate(fleet, jobs, truth, Reserving(policy), options=SimulationOptions(most_jobs=item.most_jobs))


@cache
def plans_of(directory: Path) -> Mapping[int, Plan]:
    """The plans of the queries, by number. It takes half a minute, once."""
    return calibrated_plans(workload(directory, setting=COARSE), SPREAD)


@cache
def _arrivals(directory: Path, load: float, seed: int, hours: float) -> Sequence[Arrival]:
    work = {number: work_of(plan) for number, plan in plans_of(directory).items()}
    return arrivals(Queries(work), SLOTS, load, hours * 3600, seed)


def _deadline(arrival: Arrival, plan: Plan, item: Item) -> float:
    """max(1.1 × the time alone on the part of one tenant, U) seconds, as MLFS has them."""
    least = 1.1 * alone(plan, SLOTS / len(TENANTS))
    return max(least, random.Random(f"{item.seed} {arrival.name}").uniform(0.0, LATEST))


def alone(plan: Plan, slots: float) -> float:
    """Seconds of a plan alone on a number of slots, rounded."""
    whole = max(1, round(slots))
    return Finish(plan).seconds(Resources(whole, whole * COARSE.memory / COARSE.slots))


class Truth:
    """The time that tasks really take: as believed, but for a factor of each stage of each job."""

    def __init__(self, seed: int, error: float) -> None:
        self._seed = seed
        self._error = error
        self._factors: dict[tuple[str, str], float] = {}

    def __call__(self, spec: TaskSpec) -> Outcome:
        """The outcome of an attempt."""
        factor = self._factor(spec.attempt.task.job, spec.attempt.task.stage)
        return Outcome(factor * on_threads(spec.stage.estimate.task_seconds, spec.resources.cpu))

    def plan(self, job: str, plan: Plan) -> Plan:
        """The plan of a job, with tasks that take what they really do."""
        if not self._error:
            return plan

        def real(stage: Stage) -> Stage:
            seconds = stage.estimate.task_seconds * self._factor(job, stage.id)
            return replace(stage, estimate=replace(stage.estimate, task_seconds=seconds))

        return replace(plan, stages=tuple(map(real, plan.stages)))

    def _factor(self, job: str, stage: str) -> float:
        if not self._error:
            return 1.0
        found = self._factors.get((job, stage))
        if found is None:
            digest = blake2b(f"{self._seed} {job} {stage}".encode(), digest_size=8).digest()
            chance = int.from_bytes(digest, "big") / 2**64
            found = self._factors[job, stage] = 1.0 + self._error * (2.0 * chance - 1.0)
        return found
