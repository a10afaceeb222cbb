"""The command ``qoop bench load``."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from qoop.catalog.errors import ConfigError
from qoop.query.drawing.picture import write
from qoop.tpcds.load import measures, pictures, simulate
from qoop.tpcds.load.measures import Summary
from qoop.tpcds.queries import parse_names
from qoop.tpcds.suite import runner
from qoop.tpcds.suite.commands import Plan, add_running_options, folder_of, shown, tell_failed
from qoop.tpcds.suite.runner import Part

_LOADS = "0.6,0.9,1.2"
_MODULES = ("qoop.tpcds.load", "qoop.tpcds.simulate.shared_cluster")


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command; it sets `run`, a function of the parsed options that gives the exit code."""
    what = "Queries of several tenants on 600 slots, under every scheduler: times, fairness, deadlines"
    parser = commands.add_parser("load", description=f"{what}. In virtual time.")
    parser.add_argument("directory", metavar="DIR", help="where `qoop tpcds generate` made the tables, at scale 1")
    parser.add_argument("--loads", metavar="L,L", default=_LOADS, help="(0.6,0.9,1.2)")
    parser.add_argument("--seeds", type=int, default=10, metavar="N", help="runs of each, seeds 1 to N (10)")
    parser.add_argument("--policies", metavar="P,P", help=f"only these of {', '.join(simulate.POLICIES)}")
    parser.add_argument("--hours", type=float, default=1.0, metavar="H", help="in which queries arrive (1)")
    parser.add_argument(
        "--error", type=float, default=0.0, metavar="PART", help="by which estimates are off at most, such as 0.2 (0)"
    )
    parser.add_argument("--most-jobs", type=float, default=math.inf, metavar="N", help="at a time; others queue (all)")
    parser.add_argument("--out", metavar="FOLDER", help="write the pictures there")
    add_running_options(parser)
    parser.set_defaults(run=_load)


def _load(options: argparse.Namespace) -> int:
    directory, folder = Path(options.directory), folder_of(options)
    settings = Plan(directory, False, (), None, 1).simulated(*_MODULES)
    part = Part("load", settings, _items(options, directory), simulate.measure)
    if options.fresh:
        runner.forget(part.name, folder)
    with shown(part.name) as progress:
        found = runner.run(part, folder, runner.processes_for(options.processes), progress)
    tell_failed(found)
    known = [Summary.of(value) for value in found.values.values()]
    print("\n".join(measures.lines(known)))
    if options.json is not None:
        values = {"settings": dict(part.settings), "load": [asdict(one) for one in known]}
        write(json.dumps(values, indent=1) + "\n", options.json)
    _draw(known, options.out)
    return 1 if found.failed else 0


def _draw(known: Sequence[Summary], folder: str | None) -> None:
    if folder is None:
        return
    picture = pictures.over_load(known)
    write(picture.svg, Path(folder) / "load.svg")
    write(picture.png, Path(folder) / "load.png")
    for load in sorted({one.load for one in known}):
        write(pictures.fairness(known, load).svg, Path(folder) / f"fairness-{load:g}.svg")


def _items(options: argparse.Namespace, directory: Path) -> Mapping[str, simulate.Item]:
    """By load, seed and policy. Raises ConfigError."""
    policies = parse_names(options.policies, simulate.POLICIES, "policy")
    if options.seeds < 1:
        raise ConfigError("there must be a seed")
    if not options.hours > 0:
        raise ConfigError("there must be time in which queries arrive")
    more = options.hours, options.error, options.most_jobs
    return {
        "/".join(map(str, (load, seed, policy, *more))): simulate.Item(directory, load, seed, policy, *more)
        for seed in range(1, options.seeds + 1)
        for load in _loads(options)
        for policy in policies
    }


def _loads(options: argparse.Namespace) -> list[float]:
    """Raises ConfigError for what is no load."""
    try:
        loads = [float(text) for text in options.loads.split(",")]
    except ValueError as error:
        raise ConfigError(f"--loads must be numbers, such as 0.6,0.9, not {options.loads!r}") from error
    if not all(load > 0 for load in loads):
        raise ConfigError(f"--loads must be above 0, not {options.loads}")
    return loads
