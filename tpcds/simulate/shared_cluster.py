"""The cluster that many TPC-DS jobs share, simulated once for the share of one job (figure 2.3).

Jobs are queries drawn from those of TPC-DS. They arrive 20 s apart in the mean (Poisson) on 20 machines of 30 slots,
under Tetris. Each has the launch plan of a session with the whole cluster. The real core runs them in virtual time.
`qoop.adaptive.profiles.shared` derives the share of a job from their arrivals and ends.

The paper gives the result: jobs take about 500 s in the mean, 78 % of them see at least one event of 10 %, 20 % at
least four. What they demand it does not tell; it is calibrated so that this comes out:

- all jobs' work by one factor, so that they request `LOAD` of the cluster's time, which sets the mean completion time;
- the work of a query relative to that of the others by a power, `SPREAD`: how much it varies sets how many jobs are too
  short to see anything, and how many see a lot;
- the fairness knob of Tetris, `FAIRNESS`;
- how often a job hears of its share, `qoop.adaptive.profiles.shared.STEP`: the less often, the fewer changes it sees.

``python -m qoop.tpcds.simulate.shared_cluster DIR -o FILE`` records the clusters. With the constants below the four
that are recorded have 2,181 jobs: 79 % see at least one event, 19 % at least four; they take 564 s in the mean (429 to
705 by cluster, half of them under 80 s: a few long ones wait for the many short ones, which Tetris prefers).

What a job sees follows from when jobs come and end. How finely their work is cut matters little for that, so tasks are
merged (`_merged`) to some hundred a job: a simulated hour then costs seconds.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median

from qoop.adaptive.profiles.shared import SLOTS, JobLifetimes, observable_jobs, part, seconds
from qoop.adaptive.simulation import Fleet, SimulatedJob, SimulatedRun, simulate
from qoop.catalog.errors import ConfigError
from qoop.planner.packing import on_threads
from qoop.planner.plan import Layout, Plan, Stage, StageInput
from qoop.query.drawing.picture import write
from qoop.tpcds.schedulers.tetris import Tetris
from qoop.tpcds.simulate.workload import PAPER, Setting, Workload, workload

APART = 20.0
LOAD, SPREAD, FAIRNESS = 0.7, 1.4, 0.75
COARSE = replace(PAPER, grain=1.0)
_MOST_SECONDS, _LEAST_SECONDS, _TASKS = 120.0, 4.0, 12


@dataclass(frozen=True)
class SharedClusterOptions:
    """hours: looked at, after `warm` hours in which the cluster fills; then jobs come for half an hour more."""

    directory: Path
    seeds: tuple[int, ...]
    hours: float = 3.0
    warm: float = 1.0
    setting: Setting = COARSE


def run(
    options: SharedClusterOptions, progress: Callable[[int, JobLifetimes], None] = lambda seed, lifetimes: None
) -> dict[int, JobLifetimes]:
    """Simulate the cluster once a seed. Raises ConfigError, SourceError."""
    if not (options.seeds and options.hours > 0 and options.warm >= 0):
        raise ConfigError("there must be a seed, and time to look at")
    found = workload(options.directory, setting=options.setting)
    plans = calibrated_plans(found)
    clusters = {}
    for seed in options.seeds:
        clusters[seed] = cluster(plans, seed, options)
        progress(seed, clusters[seed])
    return clusters


def cluster(plans: Mapping[int, Plan], seed: int, options: SharedClusterOptions) -> JobLifetimes:
    """The times when jobs with these plans come and end."""
    ran = simulated(plans, seed, options)
    begin, end = span(options)
    return JobLifetimes(tuple(job.at for job in ran.jobs), tuple(job.ended for job in ran.jobs), begin, end)


def span(options: SharedClusterOptions) -> tuple[float, float]:
    """The seconds from and until which the cluster is looked at."""
    return 3600 * options.warm, 3600 * (options.warm + options.hours)


def simulated(plans: Mapping[int, Plan], seed: int, options: SharedClusterOptions) -> SimulatedRun:
    """All jobs of the cluster, on the real core."""
    jobs = _arrivals(plans, seed, span(options)[1] + 1800)
    fleet = Fleet.uniform(options.setting.machines, replace(options.setting.machine, network=0.0))
    return simulate(fleet, jobs, scheduler=Tetris(fairness=FAIRNESS))


def _arrivals(plans: Mapping[int, Plan], seed: int, end: float) -> list[SimulatedJob]:
    chance = random.Random(seed)
    numbers, jobs = sorted(plans), list[SimulatedJob]()
    at = chance.expovariate(1 / APART)
    while at < end:
        jobs.append(SimulatedJob(f"job {len(jobs) + 1}", at, plans[chance.choice(numbers)]))
        at += chance.expovariate(1 / APART)
    return jobs


def calibrated_plans(found: Workload, spread: float = SPREAD) -> dict[int, Plan]:
    """The plans that the jobs of the cluster run."""
    return calibrated({number: _merged(query.launch.plan) for number, query in found.items()}, spread)


def calibrated(plans: Mapping[int, Plan], spread: float = SPREAD) -> dict[int, Plan]:
    """The plans with tasks of such length that the queries ask for `LOAD` of the slots, and differ by `spread`."""
    raised = {number: work_of(plan) ** (spread - 1) for number, plan in plans.items()}
    factor = LOAD * APART * SLOTS / fmean(work_of(plan) * raised[number] for number, plan in plans.items())
    return {number: _longer(plan, factor * raised[number]) for number, plan in plans.items()}


def work_of(plan: Plan) -> float:
    """Slot seconds."""
    return sum(stage.width * stage.estimate.task_seconds for stage in plan.stages)


def _longer(plan: Plan, factor: float) -> Plan:
    def longer(stage: Stage) -> Stage:
        return replace(stage, estimate=replace(stage.estimate, task_seconds=stage.estimate.task_seconds * factor))

    return replace(plan, stages=tuple(map(longer, plan.stages)))


def _merged(plan: Plan) -> Plan:
    """The same stages and work in fewer tasks, of one slot each.

    As many as leave a task no more than two minutes, and up to twelve for a stage that would have fewer, as long as
    they take four seconds or more.
    """

    def merged(stage: Stage) -> Stage:
        work = stage.width * stage.slots * on_threads(stage.estimate.task_seconds, stage.slots)
        tasks = max(round(work / _MOST_SECONDS), min(_TASKS, round(work / _LEAST_SECONDS)))
        width = max(1, min(stage.width, tasks))
        inputs = tuple(StageInput(item.name, item.stage, "all") for item in stage.stage_inputs)
        estimate = replace(stage.estimate, task_seconds=work / width)
        return replace(stage, width=width, slots=1, inputs=inputs, layout=Layout(), cut="", estimate=estimate)

    return replace(plan, stages=tuple(map(merged, plan.stages)))


def table(clusters: Mapping[int, JobLifetimes]) -> str:
    """The results of each cluster and of all, next to those of the paper."""
    lines = ["seed   jobs  mean s  median s  see >= 1  see >= 4"]
    counts = {seed: observable_jobs(lifetimes) for seed, lifetimes in clusters.items()}
    took = {seed: seconds(lifetimes) for seed, lifetimes in clusters.items()}
    lines += [_row(str(seed), took[seed], counts[seed]) for seed in clusters]
    every = [one for seed in clusters for one in took[seed]], [one for seed in clusters for one in counts[seed]]
    return "\n".join([*lines, _row("all", *every), "paper             500                78 %      20 %"])


def _row(name: str, took: list[float], counts: list[int]) -> str:
    one, four = (f"{100 * part(counts, least):.0f} %" for least in (1, 4))
    return f"{name:<5}{len(took):>6}{fmean(took):>8.0f}{median(took):>10.0f}{one:>10}{four:>10}"


def save(clusters: Mapping[int, JobLifetimes], path: Path) -> Path:
    """Record them, a line each. Raises ConfigError if the file cannot be written."""
    return write("".join(f"{lifetimes.to_json()}\n" for lifetimes in clusters.values()), path)


def main() -> None:
    parser = argparse.ArgumentParser(description="Simulate clusters that TPC-DS jobs share, and record when jobs end.")
    parser.add_argument("directory", metavar="DIR", type=Path, help="tables of TPC-DS at scale 1")
    parser.add_argument("--seeds", type=int, default=4, metavar="N", help="clusters: seeds 1 to N (4)")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="record when the jobs came and ended there")
    options = parser.parse_args()
    clusters = run(SharedClusterOptions(options.directory, tuple(range(1, options.seeds + 1))))
    print(table(clusters))
    if options.output is not None:
        save(clusters, options.output)


if __name__ == "__main__":
    main()
