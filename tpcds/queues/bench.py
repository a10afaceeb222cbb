"""No queue at the nodes, and all ways to queue, on the same jobs: the figures of `qoop bench queues`.

Every node reports every 3 s, as in the source, and a grant reaches its node after 1.5 s. So a slot without a queued
task is idle for about 3 s between two tasks, as measured there.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from statistics import fmean
from typing import Any

from qoop.adaptive.simulation import Fleet, SimulationOptions, simulate
from qoop.catalog.errors import ConfigError
from qoop.engine.backends.simulated_nodes import Heartbeats
from qoop.engine.node_queues.ordering import Ordering
from qoop.engine.node_queues.policy import NodeQueueing
from qoop.planner.plan import Resources
from qoop.tpcds.quantiles import ratio_of_sums
from qoop.tpcds.queues.measures import Measures, measured
from qoop.tpcds.queues.workload import Setting, drawn, simulated, truth

BEATS = Heartbeats(3.0, 1.5)
LENGTH, LONG, STARVED = 2, 10, 60.0
"""Of queues that are kept in order, where twice as many may wait; of those in the source's study of order. Seconds for
which a task may be passed over: a few times what a task takes, or all are starved and the order is that of coming."""


def ways() -> Mapping[str, NodeQueueing | None]:
    """By name: what is compared."""
    ordered = Ordering("shortest-job", STARVED)
    return {
        "none": None,
        "queued": NodeQueueing(LENGTH, ordered),
        "unordered": NodeQueueing(LONG, Ordering("fifo"), "length"),
        "unbounded": NodeQueueing(math.inf, ordered),
        "by-length": NodeQueueing(LENGTH, ordered, "length"),
        "at-random": NodeQueueing(LENGTH, ordered, "random"),
        "least-tasks": NodeQueueing(LENGTH, Ordering("least-tasks", STARVED)),
        "shortest-task": NodeQueueing(LENGTH, Ordering("shortest-task", STARVED)),
    }


def play(setting: Setting, queueing: NodeQueueing | None, seed: int) -> Measures:
    """One run."""
    jobs = drawn(setting, seed)
    fleet = Fleet.uniform(setting.machines, Resources(setting.slots, 64e9))
    simulated_jobs = [simulated(job, setting.noise, seed) for job in jobs]
    options = SimulationOptions(heartbeats=BEATS, queueing=queueing)
    run = simulate(fleet, simulated_jobs, truth(jobs, seed), options=options)
    return measured(run, jobs, setting)


@dataclass(frozen=True, slots=True)
class QueuesResult:
    """The measures of every way, seed by seed."""

    by_way: Mapping[str, tuple[Measures, ...]]

    def times(self, way: str, what: str) -> tuple[float, float, float]:
        """A measure without queues over that of a way, and its 95 % interval over the seeds."""
        pairs = zip(self.by_way["none"], self.by_way[way], strict=True)
        return ratio_of_sums([[(getattr(none, what), getattr(other, what)) for none, other in pairs]])


def run(setting: Setting, seeds: int, names: Sequence[str], progress: Callable[[str], None] = print) -> QueuesResult:
    """Run all of them, and "none", on the same jobs. Raises ConfigError for a way that does not exist."""
    known = ways()
    for name in names:
        if name not in known:
            raise ConfigError(f"no way {name!r} to queue; there are {', '.join(known)}")
    found: dict[str, tuple[Measures, ...]] = {}
    for name in dict.fromkeys(["none", *names]):
        found[name] = tuple(play(setting, known[name], seed) for seed in range(seeds))
        progress(line(name, QueuesResult(found)))
    return QueuesResult(found)


def line(way: str, done: QueuesResult) -> str:
    """The means of one way, and how many times shorter jobs take."""
    mean = {one.name: fmean(getattr(found, one.name) for found in done.by_way[way]) for one in fields(Measures)}
    text = (
        f"{way:>13}: short jobs {mean['short']:.1f} s, median {mean['usual']:.1f} s, p95 {mean['late']:.0f} s, "
        f"{mean['busy']:.0%} busy, {mean['waited']:.1f} s to begin, {mean['rate']:.2f} jobs a minute"
    )
    if way == "none":
        return text
    ratios = {what: done.times(way, what) for what in ("short", "usual")}
    return text + "".join(
        f"; {what} {ratio:.2f} x ({low:.2f} to {high:.2f})" for what, (ratio, low, high) in ratios.items()
    )


def to_json(done: QueuesResult) -> dict[str, Any]:
    """The figures, for programs."""
    return {way: [asdict(one) for one in measures] for way, measures in done.by_way.items()}


def add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], write: Callable[[Any, str | None], None]
) -> None:
    """Add `queues`. write: puts figures into a file, if one is named."""
    what = "Queues of granted tasks at the nodes of a cluster, against none"
    parser = commands.add_parser("queues", description=f"{what}.")
    parser.add_argument("--seeds", type=int, default=10, metavar="N", help="runs of each (10)")
    parser.add_argument("--mix", choices=["5-50", "hive"], default="5-50", help="which jobs (5-50)")
    parser.add_argument("--load", type=float, default=1.0, metavar="X", help="requested part of all slots (1)")
    parser.add_argument("--jobs", type=int, default=150, metavar="N", help="jobs of a run (150)")
    parser.add_argument("--ways", default="queued,unordered", metavar="A,B", help=f"of {', '.join(ways())}")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")

    def command(options: argparse.Namespace) -> int:
        if min(options.seeds, options.jobs) < 1 or options.load <= 0:
            raise ConfigError("--seeds and --jobs must be 1 or more, --load above 0")
        setting = Setting(jobs=options.jobs, load=options.load, mix=options.mix)
        done = run(setting, options.seeds, options.ways.split(","), lambda text: print(text, flush=True))
        write(to_json(done), options.json)
        return 0

    parser.set_defaults(run=command)
