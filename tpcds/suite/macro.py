"""Many jobs on one cluster: schedulers and planners in combination (figure 2.16).

200 jobs, each a TPC-DS query drawn from the 50 with the most alternatives, arrive 80 s apart in the mean (Poisson) on
20 machines of 30 slots at scale 500. Seven combinations of a scheduler and a planner run the same arrivals, in virtual
time on the engine's own core. A control, our scheduler with plans that never change, separates what comes from the
scheduler from what comes from the planner.

Of each: the mean completion time, the makespan (from the first arrival to the last end), and Jain's index of fairness
over how many times longer a job takes for the others. That is its time with the whole cluster to itself, under the same
planner, divided by its time among the others, so that a poor plan does not count as unfairness.

:mod:`qoop.tpcds.simulate.ground_truth` says what happens to tasks, and the estimates of the plans what the planners
believe. The report also gives the load, the work that arrives per second of all slots: fairness and queueing depend on
it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from qoop.adaptive.replanning.adaptive import Adaptive
from qoop.adaptive.replanning.baselines import NEVER, AtLaunch, volcano
from qoop.adaptive.replanning.greedy import Greedy
from qoop.adaptive.schedulers.base import Scheduler
from qoop.adaptive.schedulers.max_min import MaxMin
from qoop.adaptive.schedulers.reserving import Reserving
from qoop.adaptive.simulation import Fleet, SimulatedJob, SimulatedRun, SimulationOptions, simulate
from qoop.catalog.errors import ExecutionError
from qoop.engine.backends.outcomes import Outcome
from qoop.engine.task import TaskSpec
from qoop.tpcds.schedulers.carbyne import Carbyne
from qoop.tpcds.schedulers.drf import DRF
from qoop.tpcds.schedulers.sjf import SJF
from qoop.tpcds.schedulers.tetris import Tetris
from qoop.tpcds.simulate.ground_truth import measured
from qoop.tpcds.simulate.workload import PAPER, Query, fifty, workload
from qoop.tpcds.suite.micro import DECISION_SECONDS

Planner = Literal["QOOP", "Volcano", "Clarinet"]

JOBS, APART = 200, 80.0


@dataclass(frozen=True)
class Combination:
    """The scheduler that shares the machines, and the planner that chooses the plans.

    control: none of the paper's, and out of the ranking.
    """

    name: str
    scheduler: Callable[[], Scheduler]
    planner: Planner
    control: bool = False


COMBINATIONS = {
    one.name: one
    for one in (
        Combination("QOOP", lambda: Reserving(MaxMin()), "QOOP"),
        Combination("DRF + Volcano", DRF, "Volcano"),
        Combination("Tetris + Volcano", Tetris, "Volcano"),
        Combination("SJF + Volcano", SJF, "Volcano"),
        Combination("Carbyne + Volcano", Carbyne, "Volcano"),
        Combination("DRF + Clarinet", DRF, "Clarinet"),
        Combination("Carbyne + Clarinet", Carbyne, "Clarinet"),
        Combination("Max-min + Clarinet", lambda: Reserving(MaxMin()), "Clarinet", control=True),
    )
}
"""Those of figure 2.16, and the control."""
CONTROLS = frozenset(name for name, one in COMBINATIONS.items() if one.control)


@dataclass(frozen=True)
class Setting:
    """The settings of the figures.

    directory: tables of scale 1. apart: mean seconds between arrivals. seeds: of arrivals and queries, one run each.
    """

    directory: str
    jobs: int = JOBS
    apart: float = APART
    seeds: tuple[int, ...] = (1, 2, 3)


@dataclass(frozen=True)
class Alone:
    """A query that has the cluster to itself."""

    setting: Setting
    planner: Planner
    query: int


@dataclass(frozen=True)
class Together:
    """All jobs of a seed under one combination."""

    setting: Setting
    combination: str
    seed: int


@dataclass(frozen=True)
class Arrival:
    """A job to come. at: seconds after the first."""

    name: str
    at: float
    query: int


def items(setting: Setting) -> dict[str, Alone | Together]:
    """The measurements by name; all of one seed before the next, so that a run which is broken off has something
    whole."""
    planners = dict.fromkeys(one.planner for one in COMBINATIONS.values())
    found: dict[str, Alone | Together] = {}
    for seed in setting.seeds:
        needed = sorted({one.query for one in arrivals(setting, seed)})
        found |= {_run_name(name, seed): Together(setting, name, seed) for name in COMBINATIONS}
        found |= {
            _alone_name(planner, query): Alone(setting, planner, query) for planner in planners for query in needed
        }
    return found


def whole_seeds(values: Mapping[str, Any]) -> tuple[int, ...]:
    """The seeds of which every combination has its figures; all that were measured, if there is no such."""
    seeds = {int(name.rpartition(" ")[2]) for name in values if ", seed " in name}
    whole = {one for one in seeds if len(figures(Setting("", seeds=(one,)), values)) == len(COMBINATIONS)}
    return tuple(sorted(whole or seeds))


def _run_name(combination: str, seed: int) -> str:
    return f"{combination}, seed {seed}"


def _alone_name(planner: str, query: int) -> str:
    return f"{planner} alone, query {query}"


def measure(item: Alone | Together) -> dict[str, Any]:
    """One item as a JSON value. Raises ConfigError, SourceError; ExecutionError if a job fails."""
    if isinstance(item, Alone):
        query = _queries(item.setting.directory)[item.query]
        job = _job(Arrival("alone", 0.0, item.query), query, item.planner)
        run = _simulated(item.setting.directory, [job], Reserving(MaxMin()))
        return {"seconds": run.jobs[0].seconds}
    combination = COMBINATIONS[item.combination]
    known = _queries(item.setting.directory)
    every = arrivals(item.setting, item.seed)
    jobs = [_job(one, known[one.query], combination.planner) for one in every]
    run = _simulated(item.setting.directory, jobs, combination.scheduler())
    rows = zip(every, run.jobs, strict=True)
    return {
        "mean": fmean(job.seconds for job in run.jobs),
        "makespan": run.seconds,
        "task_events": run.task_events,
        "jobs": [[one.query, one.at, job.seconds, job.switches] for one, job in rows],
    }


def arrivals(setting: Setting, seed: int) -> list[Arrival]:
    """The jobs of a seed: a Poisson process, queries drawn evenly."""
    chance = random.Random(seed)
    numbers = fifty(_queries(setting.directory))
    coming, at = [], 0.0
    for number in range(setting.jobs):
        coming.append(Arrival(f"j{number + 1}", at, chance.choice(numbers)))
        at += chance.expovariate(1.0 / setting.apart)
    return coming


@cache
def _queries(directory: str) -> Mapping[int, Query]:
    return workload(Path(directory))


@cache
def _ground_truth(directory: str) -> Callable[[TaskSpec], Outcome]:
    return measured(Path(directory), _queries(directory))


def _job(coming: Arrival, query: Query, planner: Planner) -> SimulatedJob:
    if planner == "Volcano":
        return SimulatedJob(coming.name, coming.at, volcano(query.candidates).plan)
    return SimulatedJob(coming.name, coming.at, query.launch.plan, _adaptive(query, planner))


def _adaptive(query: Query, planner: Planner) -> Adaptive:
    """Both choose by the share that the job has when it comes; then one of them never again."""
    if planner == "Clarinet":
        return query.adaptive(PAPER.whole, policy=AtLaunch(), triggers=NEVER)
    return query.adaptive(PAPER.whole, policy=AtLaunch(Greedy()))


def _simulated(directory: str, jobs: Sequence[SimulatedJob], scheduler: Scheduler) -> SimulatedRun:
    fleet = Fleet.uniform(PAPER.machines, PAPER.machine)
    options = SimulationOptions(decision_seconds=DECISION_SECONDS)
    run = simulate(fleet, jobs, _ground_truth(directory), scheduler, options=options)
    for job in run.jobs:
        if job.error is not None:
            raise ExecutionError(f"{job.name} failed in the simulation: {job.error}") from job.error
    return run


# What it comes to


@dataclass(frozen=True)
class Figures:
    """One combination, over all seeds: means.

    jain: over a job's time alone, under its own planner, divided by its time among the others.
    """

    combination: str
    mean: float
    jain: float
    makespan: float
    switches: float
    seeds: int


def jain(values: Sequence[float]) -> float:
    """Jain's index: 1 if all are equal, 1 / n if one has it all (Jain, Chiu and Hawe, DEC TR-301, 1984).

    >>> jain([1, 1, 1]), jain([1, 0])
    (1.0, 0.5)
    """
    return sum(values) ** 2 / (len(values) * sum(value * value for value in values))


def figures(setting: Setting, values: Mapping[str, Any]) -> list[Figures]:
    """The combinations of which the runs of all seeds and all times alone are there; means over other seeds than those
    of its rivals would not rank it."""
    return [found for name in COMBINATIONS if (found := _figures(name, setting, values)) is not None]


def _figures(name: str, setting: Setting, values: Mapping[str, Any]) -> Figures | None:
    runs = [run for seed in setting.seeds if (run := values.get(_run_name(name, seed))) is not None]
    queries = {query for run in runs for query, *_ in run["jobs"]}
    alone = _alone(queries, COMBINATIONS[name].planner, values)
    if not runs or len(runs) < len(setting.seeds) or len(alone) < len(queries):
        return None
    return Figures(
        name,
        fmean(run["mean"] for run in runs),
        fmean(jain([alone[query] / seconds for query, _, seconds, _ in run["jobs"]]) for run in runs),
        fmean(run["makespan"] for run in runs),
        fmean(switches for run in runs for *_, switches in run["jobs"]),
        len(runs),
    )


def _alone(queries: set[int], planner: str, values: Mapping[str, Any]) -> dict[int, float]:
    names = {query: _alone_name(planner, query) for query in queries}
    return {query: values[name]["seconds"] for query, name in names.items() if name in values}
