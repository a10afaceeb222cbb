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
from qoop.planner.plan import Plan, Resources, Stage, StageInput
from qoop.session.opening import connect
from qoop.tpcds.load.arrivals import MIXES, Arrival, Queries, arrivals
from qoop.tpcds.load.measures import Played, Summary, summary
from qoop.tpcds.queries import text
from qoop.tpcds.simulate.shared_cluster import COARSE, calibrated_plans, work_of
from qoop.tpcds.simulate.workload import workload

SPREAD = 1.0
"""The work of queries differs as the planner says, not by the power that the paper's shared cluster was fitted with:
one of the 99 would be a fifth of all work."""

SLOTS = COARSE.machines * COARSE.slots
LATEST = 400.0
"""Seconds: the most that a deadline allows a query that needs less."""

PIECES = 20
"""Into which queries of a tenant are split."""

TOGETHER, APART = ", in one job", f", in {PIECES} jobs"

READ = 0.25
"""The part of its tables that an answer within a few percent reads: the first three rounds, which double."""

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
"""SRSF (least remaining service first) is what :class:`~qoop.adaptive.schedulers.sjf.SJF` does."""


@dataclass(frozen=True)
class Item:
    """A run to simulate. hours: in which queries arrive. policy: of `POLICIES`, or the text of a scheduler.

    error: the largest part by which the tasks of a stage take more or less than estimated. mix: of `MIXES`.
    most_jobs: the limit of running jobs; others queue. permit: the part of the queries that can grow (docs/growing.md)
    and may end early while others queue. split: a tenant whose queries are cut in `PIECES`; apart: each piece is a job,
    else all are one job.
    """

    directory: Path
    load: float
    seed: int
    policy: str
    hours: float = 1.0
    error: float = 0.0
    mix: str = "usual"
    most_jobs: float = math.inf
    permit: float = 0.0
    split: str = ""
    apart: bool = False


def measure(item: Item) -> Mapping[str, object]:
    """The summary of a run, as JSON values. Raises ConfigError, SourceError."""
    return summarised(item).to_json()


def summarised(item: Item, scheduler: Scheduler | None = None) -> Summary:
    """Run all arrivals under the policy, or under another scheduler. Raises ConfigError, SourceError."""
    if item.split:
        return _split(item, scheduler)
    plans = plans_of(item.directory)
    found = _arrivals(item.directory, item.load, item.seed, item.hours, item.mix)
    truth = Truth(item.seed, item.error)
    real = [truth.plan(f"job{number}", plans[one.query]) for number, one in enumerate(found, 1)]
    allowed = [_deadline(one, plan, item) for one, plan in zip(found, real, strict=True)]
    light = [_permitted(one, plans, item) for one in found]
    terms_of = [Terms(one.tenant, 1.0, one.priority, deadline) for one, deadline in zip(found, allowed, strict=True)]
    jobs = [
        SimulatedJob(one.name, one.at, plans[one.query], terms=terms, lighter=less)
        for one, terms, less in zip(found, terms_of, light, strict=True)
    ]
    ran = _simulated(item, jobs, truth, scheduler)
    played = [
        Played(
            one.tenant, one.at, job.ended, work_of(plan), allow, one.priority, partial(alone, plan),
            work_of(plan) - work_of(job.plans[0]) if job.plans[0] is less else 0.0,
        )
        for one, job, plan, allow, less in zip(found, ran.jobs, real, allowed, light, strict=True)
    ]  # fmt: skip
    return summary(item.policy, item.load, item.seed, played, SLOTS)


def _simulated(item: Item, jobs: Sequence[SimulatedJob], truth: Truth, scheduler: Scheduler | None) -> SimulatedRun:
    policy = scheduler or made(POLICIES.get(item.policy, item.policy))
    fleet = Fleet.uniform(COARSE.machines, replace(COARSE.machine, network=0.0))
    return simulate(fleet, jobs, truth, Reserving(policy), options=SimulationOptions(most_jobs=item.most_jobs))


def _split(item: Item, scheduler: Scheduler | None) -> Summary:
    """A run in which the queries of one tenant are in pieces, each a job or all of a query one job.

    These are the same tasks, which wait for the same others: only the number of jobs differs. Estimates are true."""
    plans = plans_of(item.directory)
    found = _arrivals(item.directory, item.load, item.seed, item.hours, item.mix)
    own_plans: list[list[Plan]] = []
    for one in found:
        pieces = in_pieces(plans[one.query]) if one.tenant == item.split else [plans[one.query]]
        own_plans.append(pieces if item.apart else [side_by_side(pieces)])
    jobs = [
        SimulatedJob(f"{one.name} {place}", one.at, plan, terms=Terms(one.tenant, 1.0, one.priority))
        for one, own in zip(found, own_plans, strict=True)
        for place, plan in enumerate(own)
    ]
    ran = _simulated(replace(item, most_jobs=math.inf), jobs, Truth(item.seed, 0.0), scheduler)
    ends = iter([job.ended for job in ran.jobs])
    played = [
        Played(
            one.tenant, one.at, max(next(ends) for _ in own), work_of(plans[one.query]),
            _deadline(one, plans[one.query], item), one.priority, partial(alone, plans[one.query]),
        )
        for one, own in zip(found, own_plans, strict=True)
    ]  # fmt: skip
    return summary(f"{item.policy}{APART if item.apart else TOGETHER}", item.load, item.seed, played, SLOTS)


def in_pieces(plan: Plan) -> list[Plan]:
    """A plan as `PIECES` that do the same part of each of its stages."""

    def part(stage: Stage, piece: int) -> Stage:
        width = math.ceil(stage.width / PIECES)
        seconds = stage.estimate.task_seconds * stage.width / (width * PIECES)
        estimate = replace(stage.estimate, task_seconds=seconds)
        return replace(stage, width=width, estimate=estimate, signature=f"{stage.signature} {piece}")

    return [replace(plan, stages=tuple(part(stage, piece) for stage in plan.stages)) for piece in range(PIECES)]


def side_by_side(plans: Sequence[Plan]) -> Plan:
    """One plan of several of the same shape, which run next to each other."""
    if len(plans) == 1:
        return plans[0]

    def within(stage: Stage, place: int) -> Stage:
        inputs = tuple(replace(one, stage=f"{one.stage} {place}") for one in stage.stage_inputs)
        return replace(stage, id=f"{stage.id} {place}", inputs=inputs)

    root = plans[0].root
    ends = tuple(StageInput(f"i{place}", f"{root.id} {place}", "all") for place in range(len(plans)))
    estimate = replace(root.estimate, task_seconds=1e-3)
    last = replace(root, id="all", width=1, inputs=ends, estimate=estimate, signature=f"{root.signature} all")
    stages = [within(stage, place) for place, plan in enumerate(plans) for stage in plan.stages]
    return replace(plans[0], stages=(*stages, last))


@cache
def plans_of(directory: Path) -> Mapping[int, Plan]:
    """The plans of the queries, by number. It takes half a minute, once."""
    return calibrated_plans(workload(directory, setting=COARSE), SPREAD)


@cache
def _arrivals(directory: Path, load: float, seed: int, hours: float, mix: str) -> Sequence[Arrival]:
    work = {number: work_of(plan) for number, plan in plans_of(directory).items()}
    return arrivals(Queries(work), SLOTS, load, hours * 3600, seed, MIXES[mix])


def _deadline(arrival: Arrival, plan: Plan, item: Item) -> float:
    """max(1.1 × the time alone on the part of one tenant, U) seconds, as MLFS has them."""
    least = 1.1 * alone(plan, SLOTS / len(MIXES[item.mix]))
    return max(least, random.Random(f"{item.seed} {arrival.name}").uniform(0.0, LATEST))


def _permitted(arrival: Arrival, plans: Mapping[int, Plan], item: Item) -> Plan | None:
    """The plan of a query that may be answered in part; None if it may not."""
    permits = random.Random(f"{item.seed} permits {arrival.name}").random() < item.permit
    return _light(plans[arrival.query]) if permits and arrival.query in growing(item.directory) else None


@cache
def growing(directory: Path) -> frozenset[int]:
    """The queries of which an answer grows with bounds, so that it can end early: at the scale that is played none is
    over so soon that it would not grow."""
    with connect(slots=1, memory="1GB", checkpoints=None) as session:
        session.set("exact_within", 0)
        session.register_folder(directory)
        explained = {number: session.sql(f"EXPLAIN APPROXIMATE {text(number)}") for number in plans_of(directory)}
    return frozenset(number for number, answer in explained.items() if "With intervals:" in answer.fetchall()[0][1])


def _light(plan: Plan) -> Plan:
    """The plan with as many tasks less as it reads less of its tables."""

    def less(stage: Stage) -> Stage:
        width = max(1, round(stage.width * READ)) if not stage.stage_inputs else stage.width
        return replace(stage, width=width, signature=f"{stage.signature} in part")

    return replace(plan, stages=tuple(map(less, plan.stages)))


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
