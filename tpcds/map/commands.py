"""The commands ``qoop bench map`` and ``qoop bench paper``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from qoop.query.drawing.picture import write
from qoop.tpcds.map import cells, classes, pictures, records, simulate
from qoop.tpcds.map.records import Record
from qoop.tpcds.queries import parse_names
from qoop.tpcds.simulate.workload import workload
from qoop.tpcds.suite import runner
from qoop.tpcds.suite.commands import Plan, add_options, folder_of, plan_of, shown, tell_failed
from qoop.tpcds.suite.runner import Part

QUICK_QUERIES = 2
_MODULES = ("qoop.tpcds.simulate.ground_truth", "qoop.tpcds.suite.micro", "qoop.tpcds.map")
"""Modules that the simulations rest on, besides the core."""


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-commands; each sets `run`, a function of the parsed options that gives the exit code."""
    what = (
        "Where changing plan pays: single queries through a grid of changes, against plans that are held and a ceiling"
    )
    parser = commands.add_parser("map", description=f"{what}. In virtual time.")
    add_options(parser)
    parser.add_argument("--out", metavar="FOLDER", help="write the pictures there")
    parser.set_defaults(run=_map)
    what = "The paper's setting, nearer to the paper: queries of several lengths that begin at random moments"
    parser = commands.add_parser("paper", description=f"{what}. In virtual time.")
    add_options(parser)
    parser.add_argument("--out", metavar="FOLDER", help="write the picture there")
    parser.add_argument("--lengths", metavar="A,C", help=f"only these of {', '.join(classes.LENGTHS)}")
    parser.add_argument("--classes", metavar="low,high", help=f"only these of {', '.join(classes.STARTS)}")
    parser.set_defaults(run=_paper)


def _map(options: argparse.Namespace) -> int:
    plan = plan_of(options)
    part = Part("map", _settings(plan), _items(plan), simulate.measure)
    return _measured(options, part)


def _paper(options: argparse.Namespace) -> int:
    plan = plan_of(options)
    every = classes.items(plan.directory, plan.seed, _queries(plan), plan.profile)
    lengths = parse_names(options.lengths, classes.LENGTHS, "length")
    names = parse_names(options.classes, classes.STARTS, "class")
    items = {name: one for name, one in every.items() if one.length in lengths and one.name in names}
    name = "paper" if plan.profile is None else f"paper-{Path(plan.profile).stem}"
    return _measured(options, Part(name, _settings(plan), items, classes.measure))


def _settings(plan: Plan) -> Mapping[str, object]:
    return plan.simulated(*_MODULES)


def _items(plan: Plan) -> Mapping[str, simulate.Item]:
    every = cells.rounds(_queries(plan))
    return {name: simulate.Item(plan.directory, plan.seed, cell, query) for name, (cell, query) in every.items()}


def _queries(plan: Plan) -> Sequence[int]:
    """The ten of the map, or two of them, the least and the most joins, if it is to be quick."""
    numbers = plan.queries or cells.sample(workload(plan.directory))
    return numbers[:: max(1, len(numbers) - 1)][:QUICK_QUERIES] if plan.quick else numbers


def _measured(options: argparse.Namespace, part: Part) -> int:
    folder = folder_of(options)
    if options.fresh:
        runner.forget(part.name, folder)
    with shown(part.name) as progress:
        found = runner.run(part, folder, runner.processes_for(options.processes), progress)
    tell_failed(found)
    known = [Record.of(value) for value in found.values.values()]
    print("\n".join([*records.lines(records.groups(known)), records.summary(known)]))
    if options.json is not None:
        values = {"settings": dict(part.settings), part.name: [asdict(one) for one in known]}
        write(json.dumps(values, indent=1) + "\n", options.json)
    if options.out is not None:
        pictures.draw(part.name, known, Path(options.out))
    return 1 if found.failed else 0
