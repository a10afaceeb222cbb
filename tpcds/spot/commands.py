"""The command ``qoop bench spot``."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from qoop.catalog.errors import ConfigError
from qoop.catalog.sizes import parse_bytes
from qoop.tpcds.queries import parse_names, parse_selection

if TYPE_CHECKING:
    from qoop.tpcds.spot.bench import SpotOptions
    from qoop.tpcds.spot.entrants import Entrant

REPORT = "report"
_BAMBOO = ("bamboo-p3", "bamboo-g4dn", "bamboo-a100")


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command; it sets `run`, a function of the parsed options that gives the exit code."""
    what = "Engines on machines that come and go as recorded spot markets say: the cost of an answer"
    parser = commands.add_parser("spot", description=f"{what}. Goes on where it was broken off.")
    parser.add_argument(
        "places", metavar="DIR", nargs="+", help="where `qoop tpcds generate` made the tables; or: report FILE…"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--standard", action="store_true", help="all classes, three markets and pressures")
    form.add_argument("--full", action="store_true", help="the same with 20 windows, and with notice of 2 and 30 s")
    parser.add_argument("--engines", metavar="A,B", help="only these (qoop, duckdb and the others that are installed)")
    parser.add_argument("--adapter", action="append", default=[], metavar="CMD", help="your engine; may be repeated")
    parser.add_argument("--classes", metavar="A,B", help="long, batch, chain, load, resized")
    parser.add_argument("--queries", metavar="1,3,7-9", help="which ones")
    parser.add_argument("--markets", metavar="A,B", help="names of traces, files, or exponential")
    parser.add_argument("--traces", metavar="DIR", help="a folder that has the files of the traces (they are fetched)")
    parser.add_argument("--pressures", metavar="A,B", help="mean times between losses, in undisturbed times")
    parser.add_argument("--windows", type=int, metavar="N", help="of each market and pressure")
    parser.add_argument("--memory", default="8GB", metavar="SIZE", help="of the machine (8GB)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the windows (1)")
    parser.add_argument("--again", action="store_true", help="repeat the runs that other programs disturbed")
    parser.add_argument("--out", default="spotbench", metavar="DIR", help="for results.jsonl and page.html (spotbench)")
    parser.set_defaults(run=_spot)


def _spot(options: argparse.Namespace) -> int:
    if options.places[0] == REPORT:
        return _report([Path(place) for place in options.places[1:]], options)
    if len(options.places) != 1:
        raise ConfigError(f"one folder of tables, not {' '.join(options.places)}; or: report FILE…")
    return _run(options)


def _report(files: Sequence[Path], options: argparse.Namespace) -> int:
    """Check some files of results, and write their page."""
    from qoop.tpcds.spot import page

    if not files:
        raise ConfigError("report takes files of results, as `qoop bench spot DIR` writes them")
    out = Path(options.out)
    target = out if out.suffix == ".html" else out / "page.html"
    found = page.make(files, target, _traces(options))
    print("\n".join(page.lines(found)))
    print(f"the page is {target}")
    return 1 if any(one.problems or one.wrong for one in found) else 0


def _run(options: argparse.Namespace) -> int:
    from qoop.tpcds.spot import bench

    form = _form(options)
    path = bench.run(form, lambda line: print(line, flush=True))
    return _report([path], options)


def _traces(options: argparse.Namespace) -> Path | None:
    return None if options.traces is None else Path(options.traces)


def _form(options: argparse.Namespace) -> SpotOptions:
    """The quick, the standard or the full form, with what the options say otherwise. Raises ConfigError."""
    from qoop.tpcds.spot import bench, markets
    from qoop.tpcds.spot.tasks import CLASSES, LONG

    quick = not (options.standard or options.full)
    names = options.markets.split(",") if options.markets else _BAMBOO[: 1 if quick else 3]
    windows = (3 if quick else 20 if options.full else 5) if options.windows is None else options.windows
    if windows < 1:
        raise ConfigError(f"--windows must be at least 1, not {windows}")
    return bench.SpotOptions(
        Path(options.places[0]), Path(options.out), _entrants(options),
        [markets.market(name.strip(), _traces(options)) for name in names],
        _pressures(options.pressures or ("1" if quick else "4,1,0.25")), windows,
        parse_names(options.classes or (LONG if quick else None), CLASSES, "class"),
        parse_selection(options.queries) if options.queries else (), 4 if quick else 20,
        min(2, os.cpu_count() or 1), parse_bytes(options.memory), options.seed,
        (0.0, 2.0, 30.0) if options.full else (0.0,), again=options.again,
    )  # fmt: skip


def _entrants(options: argparse.Namespace) -> list[Entrant]:
    """The engines that are named, else those that are installed; the reference is always among them."""
    from qoop.tpcds.spot import entrants

    chosen = parse_names(options.engines, entrants.BUILT_IN, "engine")
    if options.engines is None:
        absent = [
            name for name in chosen if name not in ("qoop", entrants.REFERENCE) and not entrants.is_installed(name)
        ]
        if absent:
            print(f"not installed: {', '.join(absent)}; --engines installs the engines that it names", flush=True)
        chosen = tuple(name for name in chosen if name not in absent)
    names = dict.fromkeys((entrants.REFERENCE, *chosen))
    return [*map(entrants.built_in, names), *map(entrants.of_command, options.adapter)]


def _pressures(text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or not all(0 < one < math.inf for one in found):
        raise ConfigError(f"--pressures takes numbers above 0 with commas between, not {text!r}")
    return found
