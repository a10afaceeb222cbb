"""The commands ``qoop bench load`` and ``qoop bench learn``."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path

from qoop.catalog.errors import ConfigError
from qoop.drawing.picture import write
from qoop.tpcds.load import measures, pictures, playing, real
from qoop.tpcds.load.arrivals import MIXES
from qoop.tpcds.load.measures import Summary
from qoop.tpcds.queries import parse_selection
from qoop.tpcds.suite import runner
from qoop.tpcds.suite.commands import Plan, add_running_options, folder_of, shown, tell_failed
from qoop.tpcds.suite.runner import Part

_LOADS, SEEDS = "0.6,0.9,1.2", 10
_MODULES = ("qoop.tpcds.load", "qoop.tpcds.simulate.shared_cluster")


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command; it sets `run`, a function of the parsed options that gives the exit code."""
    what = "Queries of several tenants at several loads, under every scheduler: times, fairness, deadlines"
    how = "On 600 simulated slots, in virtual time; or, with --real, on this machine"
    parser = commands.add_parser("load", help=what, description=f"{what}. {how}.")
    parser.add_argument("--real", action="store_true", help="on this machine, one seed and load, next to DuckDB")
    parser.add_argument("--queries", default="1-99", metavar="1,3,7-9", help="to draw from, with --real (1-99)")
    parser.add_argument(
        "--seconds", type=float, default=60.0, metavar="S", help="in which they arrive, with --real (60)"
    )
    parser.add_argument("directory", metavar="DIR", help="where `qoop tpcds generate` made the tables, at scale 1")
    parser.add_argument("--loads", metavar="L,L", default=_LOADS, help="(0.6,0.9,1.2)")
    parser.add_argument("--seeds", type=int, default=SEEDS, metavar="N", help="runs of each, seeds 1 to N (10)")
    parser.add_argument("--policies", metavar="P,P", help=f"only these of {', '.join(playing.POLICIES)}")
    parser.add_argument("--hours", type=float, default=1.0, metavar="H", help="in which queries arrive (1)")
    parser.add_argument(
        "--error", type=float, default=0.0, metavar="PART", help="by which estimates are off at most, such as 0.2 (0)"
    )
    parser.add_argument("--most-jobs", type=float, default=math.inf, metavar="N", help="at a time; others queue (all)")
    permit = "of the queries that can grow, the part that may be answered in part while others queue (0)"
    parser.add_argument("--permit", type=float, default=0.0, metavar="PART", help=permit)
    mixes = f"of tenants: {', '.join(MIXES)} (usual)"
    parser.add_argument("--mix", choices=MIXES, default="usual", help=mixes)
    split = f"a tenant, such as ana1: what it gains by asking each query as {playing.PIECES} jobs"
    parser.add_argument("--split", default="", metavar="TENANT", help=split)
    parser.add_argument("--out", metavar="FOLDER", help="write the picture there")
    add_running_options(parser)
    parser.set_defaults(run=_load)


def add_learning(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command; it sets `run`."""
    what = "Learn the weights of the scheduler `learned`: imitate the heuristic, then improve in the simulator"
    parser = commands.add_parser("learn", help=what, description=f"{what}. Prints the weights.")
    parser.add_argument("directory", metavar="DIR", help="where `qoop tpcds generate` made the tables, at scale 1")
    parser.add_argument("--seeds", type=int, default=4, metavar="N", help="runs to judge weights by (4)")
    parser.add_argument("--rounds", type=int, default=12, metavar="N", help="of improvement (12)")
    parser.add_argument("--hours", type=float, default=0.2, metavar="H", help="in which queries arrive (0.2)")
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="at a time (2)")
    parser.set_defaults(run=_learn)


def _learn(options: argparse.Namespace) -> int:
    from qoop.tpcds.load import learning

    directory = Path(options.directory)
    playing.plans_of(directory)  # for all processes, which are forks
    seeds = range(learning.FIRST_SEED, learning.FIRST_SEED + options.seeds)
    items = [playing.Item(directory, (0.9, 1.2)[seed % 2], seed, "urgency", options.hours) for seed in seeds]
    weights = learning.imitated(items)
    print(f"imitated: {weights}", flush=True)
    with ProcessPoolExecutor(options.processes, get_context("fork")) as pool:
        print(learning.Learning(items, options.rounds).improved(weights, print, pool))
    return 0


def _load(options: argparse.Namespace) -> int:
    return _real(options) if options.real else _simulated(options)


def _real(options: argparse.Namespace) -> int:
    queries = tuple(parse_selection(options.queries))
    load = float(options.loads.split(",")[0]) if options.loads != _LOADS else 0.9
    asked = real.RealOptions(Path(options.directory), queries, load, options.seconds)
    known = real.run(asked, print)
    print("\n".join(measures.lines(known, asked.schedulers[0])))
    if options.json is not None:
        write(json.dumps({"load": [asdict(one) for one in known]}, indent=1) + "\n", options.json)
    return 0


def _simulated(options: argparse.Namespace) -> int:
    directory, folder = Path(options.directory), folder_of(options)
    settings = Plan(directory, False, (), None, 1).simulated(*_MODULES)
    part = Part("load", settings, _items(options, directory), playing.measure)
    if options.fresh:
        runner.forget(part.name, folder)
    with shown(part.name) as told:
        found = runner.run(part, folder, runner.processes_for(options.processes), told)
    tell_failed(found)
    known = [Summary.of(value) for value in found.values.values()]
    print("\n".join(measures.lines(known)))
    if options.split:
        print("\n".join(measures.split_lines(known, options.split, playing.TOGETHER, playing.APART)))
    if options.json is not None:
        values = {"settings": dict(part.settings), "load": [asdict(one) for one in known]}
        write(json.dumps(values, indent=1) + "\n", options.json)
    if options.out is not None:
        picture = pictures.over_load(known)
        write(picture.svg, Path(options.out) / "load.svg")
        write(picture.png, Path(options.out) / "load.png")
        for load in sorted({one.load for one in known}):
            write(pictures.fairness(known, load).svg, Path(options.out) / f"fairness-{load:g}.svg")
    return 1 if found.failed else 0


def _items(options: argparse.Namespace, directory: Path) -> Mapping[str, playing.Item]:
    """By load, seed and policy. Raises ConfigError."""
    policies = tuple(playing.POLICIES) if options.policies is None else _names(options.policies)
    try:
        loads = [float(text) for text in options.loads.split(",")]
    except ValueError as error:
        raise ConfigError(f"--loads must be numbers, such as 0.6,0.9, not {options.loads!r}") from error
    if not (options.seeds > 0 and options.hours > 0 and all(load > 0 for load in loads)):
        raise ConfigError("there must be a seed, time in which queries arrive, and loads above 0")
    tenants = [tenant.name for tenant in MIXES[options.mix]]
    if options.split and options.split not in tenants:
        raise ConfigError(f"there is no tenant {options.split!r}; there are {', '.join(tenants)}")
    more = options.hours, options.error, options.mix, options.most_jobs, options.permit, options.split
    return {
        "/".join(map(str, (load, seed, policy, *more, apart))): playing.Item(
            directory, load, seed, policy, *more, apart
        )
        for seed in range(1, options.seeds + 1)
        for load in loads
        for policy in policies
        for apart in ((False, True) if options.split else (False,))
    }


def _names(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(","))
    unknown = [name for name in names if name not in playing.POLICIES]
    if unknown:
        raise ConfigError(f"there is no policy {unknown[0]!r}; there are {', '.join(playing.POLICIES)}")
    return names
