"""The commands ``qoop profile`` adds: ``list``, ``show``, ``draw``, ``convert`` and ``statistics``."""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from qoop.adaptive.profiles.aws import Choice
from qoop.adaptive.profiles.loading import FORMS, Reading, load
from qoop.adaptive.profiles.named import NAMED
from qoop.adaptive.profiles.profile import CapacityProfile
from qoop.adaptive.profiles.spot import Bidding, Size
from qoop.adaptive.profiles.summary import PERCENTS, Summary, summary
from qoop.adaptive.profiles.tables import to_csv
from qoop.adaptive.profiles.volatility import REGION_SECONDS, Volatility
from qoop.catalog.errors import ConfigError
from qoop.catalog.sizes import parse_bytes
from qoop.query.drawing.picture import save, write
from qoop.query.drawing.profiles import as_html, as_svg, as_text

_NAME = "NAME[:SEED]|FILE"


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add the sub-commands; each sets `run`, a function of the parsed options that gives the exit code."""
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    what = "The profiles known by name, and the forms of files"
    commands.add_parser("list", help=what, description=f"{what}.").set_defaults(run=_list)
    _add_show(commands)
    _add_draw(commands)
    _add_convert(commands)
    _add_statistics(commands)


def _add_show(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    what = "Draw a profile in the terminal, and print its figures"
    parser = commands.add_parser("show", help=what, description=f"{what}.")
    _add_common(parser)
    parser.add_argument("--width", type=int, metavar="N", help="columns (those of the terminal)")
    parser.set_defaults(run=_show)


def _add_draw(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    what = "Draw a profile into a file"
    parser = commands.add_parser("draw", help=what, description=f"{what}.")
    _add_common(parser)
    to = "write it there: .svg, .html, or .png (with the extra plot)"
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help=to)
    parser.set_defaults(run=_draw)


def _add_convert(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    what = "Turn a profile into CSV"
    parser = commands.add_parser("convert", help=what, description=f"{what}.")
    _add_common(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="write it there (standard output)")
    parser.set_defaults(run=_convert)


def _add_statistics(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    what = "Figures of one or several profiles, or of a named one over many seeds"
    parser = commands.add_parser("statistics", help=what, description=f"{what}.")
    _add_common(parser, several=True)
    parser.add_argument("--seeds", type=int, metavar="N", help="of each name the seeds 1 to N: mean ± deviation")
    parser.set_defaults(run=_statistics)


def _add_common(parser: argparse.ArgumentParser, several: bool = False) -> None:
    help_ = "see `qoop profile list`"
    parser.add_argument("profile", metavar=_NAME, nargs="+" if several else None, help=help_)
    parser.add_argument("--compress", type=float, default=1.0, metavar="N", help="let time pass so much faster (1)")
    parser.add_argument("--since", type=float, default=0.0, metavar="SECONDS", help="begin there (0)")
    where = parser.add_argument_group("files that count machines, or record prices")
    where.add_argument("--slots", type=float, default=30, metavar="N", help="of each machine (30)")
    where.add_argument("--memory", default="128GB", metavar="SIZE", help="of each machine (128GB)")
    where.add_argument("--zone", metavar="NAME", help="availability zone of the prices")
    where.add_argument("--instance", metavar="TYPE", help="type of instance of the prices")
    where.add_argument("--product", metavar="NAME", help="product of the prices, such as Linux/UNIX")
    where.add_argument("--budget", type=float, default=5.0, metavar="DOLLARS", help="to bid with, an hour (5)")


def _list(options: argparse.Namespace) -> int:
    width = max(len(one.name) for one in NAMED)
    print("by name, with :SEED for another one of the kind:")
    for one in NAMED:
        print(f"  {one.name:<{width}}  {one.what}")
    print("files:")
    for form in FORMS:
        print(f"  {form.what}")
    return 0


def _show(options: argparse.Namespace) -> int:
    profile = _loaded(options, options.profile)
    width = shutil.get_terminal_size().columns - 8 if options.width is None else options.width
    if width < 1:
        raise ConfigError(f"--width must be at least 1, not {width}")
    print(as_text(profile, width))
    print(summary(profile, _region_seconds(options)))
    return 0


def _draw(options: argparse.Namespace) -> int:
    profile, region = _loaded(options, options.profile), _region_seconds(options)
    if Path(options.output).suffix.lower() in (".html", ".htm"):
        write(as_html(profile, options.profile, region), options.output)
    else:
        save(as_svg(profile, options.profile, region), options.output)
    return 0


def _convert(options: argparse.Namespace) -> int:
    table = to_csv(_loaded(options, options.profile))
    sys.stdout.write(table) if options.output is None else write(table, options.output)
    return 0


def _statistics(options: argparse.Namespace) -> int:
    if options.seeds is None:
        names = list(options.profile)
    elif options.seeds >= 1:
        names = [f"{name}:{seed}" for name in options.profile for seed in range(1, options.seeds + 1)]
    else:
        raise ConfigError(f"--seeds must be at least 1, not {options.seeds}")
    found = [summary(_loaded(options, name), _region_seconds(options)) for name in names]
    if options.seeds is None:
        for name, one in zip(names, found, strict=True):
            print(f"{name}: {one}")
    else:
        for place, name in enumerate(options.profile):
            print(_over_seeds(name, found[place * options.seeds : (place + 1) * options.seeds]))
    return 0


def _over_seeds(name: str, found: Sequence[Summary]) -> str:
    lines = [f"{name}, seeds 1 to {len(found)}: mean ± standard deviation, least to most"]
    rows: dict[str, Sequence[float]] = {
        "least machines": [one.machines[0] for one in found],
        "most machines": [one.machines[1] for one in found],
        "mean slots": [one.mean_slots for one in found],
        **{f"events of {percent} %": [one.events[i] for one in found] for i, percent in enumerate(PERCENTS)},
        **{f"{kind} regions": [one.regions[i] for one in found] for i, kind in enumerate(Volatility)},
    }
    return "\n".join([*lines, *(f"  {what:<16}{_spread(values)}" for what, values in rows.items())])


def _spread(values: Sequence[float]) -> str:
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.fmean(values):7.1f} ± {deviation:5.1f}   {min(values):.4g} to {max(values):.4g}"


def _loaded(options: argparse.Namespace, name: str) -> CapacityProfile:
    reading = Reading(
        Size(options.slots, parse_bytes(options.memory)),
        Choice(options.zone, options.instance, options.product),
        Bidding(budget=options.budget),
    )
    return load(name, reading).since(options.since).compressed(options.compress)


def _region_seconds(options: argparse.Namespace) -> float:
    """Ten minutes of the original time, before compression."""
    return REGION_SECONDS / float(options.compress)
