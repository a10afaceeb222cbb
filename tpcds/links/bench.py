"""All ways to pull rows from other machines on the same plans, in virtual time: `qoop bench exchanges`."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from qoop.adaptive.simulation import SimulatedJob, SimulatedRun, SimulationOptions, simulate
from qoop.catalog.errors import ConfigError, PlanError
from qoop.engine.exchanges.terms import Exchanges
from qoop.engine.node_queues.policy import NodeQueueing, usual
from qoop.planner.estimate.cost import DEFAULT
from qoop.planner.finish import Finish
from qoop.planner.plan import Resources
from qoop.tpcds.links.workload import MIXES, Cluster, Drawn, drawn
from qoop.tpcds.quantiles import ratio_of_sums
from qoop.tpcds.queries import parse_selection
from qoop.tpcds.simulate.ground_truth import SPREAD, Straggling, believed
from qoop.tpcds.simulate.workload import Setting, workload

LATENCY = 0.001
TODAY = "at-once"
TPCDS = "tpcds"


@dataclass(frozen=True, slots=True)
class Way:
    """A way to pull. queueing: tasks that wait at machines, whose inputs are fetched ahead."""

    terms: Exchanges
    queueing: NodeQueueing | None = None


def ways() -> Mapping[str, Way]:
    """By name: what is compared."""
    at_once = Exchanges(latency=LATENCY)
    return {
        "in-turn": Way(Exchanges(fan_in=math.inf, per_task=1, rotated=False, latency=LATENCY)),
        "one": Way(Exchanges(fan_in=1, rotated=False, latency=LATENCY)),
        TODAY: Way(at_once),
        "unbounded": Way(replace(at_once, fan_in=math.inf)),
        "at-once-ahead": Way(at_once, usual(2)),
    }


def play(case: Drawn, way: Way, cluster: Cluster) -> SimulatedRun:
    """One run. Raises PlanError if it does not end."""
    fleet, jobs = cluster.fleet(), [SimulatedJob(case.name, 0.0, case.plan)]
    options = SimulationOptions(queueing=way.queueing, exchanges=way.terms)
    run = simulate(fleet, jobs, case.truth, options=options)
    if run.jobs[0].error is not None or run.seconds == math.inf:
        raise PlanError(f"{case.name} does not end: {run.jobs[0].error}")
    return run


@dataclass(frozen=True, slots=True)
class ExchangesOptions:
    """kinds: of plans. seeds: of each. directory: TPC-DS at scale 1, queries: of it, for plans of TPC-DS."""

    kinds: tuple[str, ...]
    seeds: int
    names: tuple[str, ...]
    cluster: Cluster
    directory: Path | None = None
    queries: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ExchangesResult:
    """Seconds by kind and way, plan by plan; and those that the planner believes in."""

    seconds: Mapping[str, Mapping[str, tuple[float, ...]]]
    believed: Mapping[str, tuple[float, ...]]

    def times(self, kind: str, way: str, over: str = TODAY) -> tuple[float, float, float]:
        """The factor by which a way makes plans shorter than another does, with its 95 % interval over them.

        Each plan counts alike, however long it is.
        """
        pairs = zip(self.seconds[kind][over], self.seconds[kind][way], strict=True)
        return ratio_of_sums([[(other / own, 1.0) for other, own in pairs]])

    def off(self, kind: str, way: str) -> float:
        """The median error of what is believed."""
        pairs = zip(self.believed[kind], self.seconds[kind][way], strict=True)
        return median(abs(believed / real - 1) for believed, real in pairs)


def run(options: ExchangesOptions, progress: Callable[[str], None] = print) -> ExchangesResult:
    """Run all ways on the same plans. Raises ConfigError for a way or a kind that does not exist."""
    known = ways()
    for name in options.names:
        if name not in known:
            raise ConfigError(f"no way {name!r} to pull; there are {', '.join(known)}")
    seconds: dict[str, dict[str, tuple[float, ...]]] = {}
    beliefs: dict[str, tuple[float, ...]] = {}
    names = dict.fromkeys([TODAY, *options.names])
    for kind in options.kinds:
        cases = list(_cases(kind, options))
        beliefs[kind] = tuple(_believed(case, options.cluster) for case in cases)
        seconds[kind] = {}
        for name in names:
            seconds[kind][name] = tuple(play(case, known[name], options.cluster).seconds for case in cases)
            progress(line(kind, name, ExchangesResult(seconds, beliefs)))
    return ExchangesResult(seconds, beliefs)


def _believed(case: Drawn, cluster: Cluster) -> float:
    slots = cluster.machines * cluster.slots
    share = Resources(slots, 64e9 * cluster.machines, 0.0, cluster.link * cluster.machines)
    return Finish(case.plan, cluster.slots, DEFAULT.across_machines()).seconds(share)


def _cases(kind: str, options: ExchangesOptions) -> Iterator[Drawn]:
    if kind != TPCDS:
        yield from (drawn(kind, seed, options.cluster) for seed in range(options.seeds))
        return
    if options.directory is None:
        raise ConfigError("plans of TPC-DS need --directory with its data at scale 1")
    cluster = options.cluster
    setting = Setting(
        scale=100.0, pace=1.0, grain=1.0, machines=cluster.machines, slots=cluster.slots, memory=64e9,
        link=cluster.link, disk=500e6,
    )  # fmt: skip
    queries = workload(options.directory, options.queries, setting)
    for seed in range(options.seeds):
        number = options.queries[seed % len(options.queries)]
        query = queries[number]
        truth = Straggling(believed([query], setting), SPREAD, seed)
        yield Drawn(f"q{number}-{seed}", query.launch.plan, truth)


def line(kind: str, way: str, done: ExchangesResult) -> str:
    """The figures of one way."""
    mid = median(done.seconds[kind][way])
    text = f"{kind:>13} {way:>20}: median {mid:7.2f} s, believed within {done.off(kind, way):4.0%}"
    if way == TODAY:
        return text
    ratio, low, high = done.times(kind, way)
    return f"{text}, {ratio:.3f} x faster than {TODAY} ({low:.3f} to {high:.3f})"


def to_json(done: ExchangesResult) -> dict[str, Any]:
    """The figures, for programs."""
    return {"seconds": {kind: dict(by_way) for kind, by_way in done.seconds.items()}, "believed": dict(done.believed)}


def add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], write: Callable[[Any, str | None], None]
) -> None:
    """Add `exchanges`. write: puts figures into a file, if one is named."""
    what = "Ways to pull rows from other machines, on machines with links in virtual time"
    parser = commands.add_parser("exchanges", description=f"{what}.")
    parser.add_argument("--kinds", default=",".join(MIXES), metavar="A,B", help=f"of {', '.join((*MIXES, TPCDS))}")
    parser.add_argument("--ways", default=",".join(ways()), metavar="A,B", help=f"of {', '.join(ways())}")
    parser.add_argument("--seeds", type=int, default=10, metavar="N", help="plans of each kind (10)")
    parser.add_argument("--machines", type=int, default=20, metavar="N", help="how many, of two slots (20)")
    parser.add_argument("--slow", type=int, default=0, metavar="N", help="machines whose links have half the rate (0)")
    parser.add_argument("--directory", metavar="DIR", help="TPC-DS at scale 1, for its plans")
    parser.add_argument("--queries", default="4,11,64,72,78", metavar="SELECTION", help="of TPC-DS (4,11,64,72,78)")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")

    def command(options: argparse.Namespace) -> int:
        if min(options.seeds, options.machines - 1) < 1:
            raise ConfigError("--seeds must be 1 or more, --machines 2 or more")
        settings = ExchangesOptions(
            tuple(options.kinds.split(",")), options.seeds, tuple(options.ways.split(",")),
            Cluster(options.machines, slow=options.slow),
            Path(options.directory) if options.directory else None, tuple(parse_selection(options.queries)),
        )  # fmt: skip
        write(to_json(run(settings, lambda text: print(text, flush=True))), options.json)
        return 0

    parser.set_defaults(run=command)
