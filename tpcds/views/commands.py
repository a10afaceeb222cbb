"""The command ``qoop bench views``."""

from __future__ import annotations

import argparse
from statistics import fmean

from qoop.catalog.errors import ConfigError
from qoop.tpcds.views.allocation import POLICIES
from qoop.tpcds.views.simulate import Measures, play
from qoop.tpcds.views.workload import SLOTS, drawn


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command; it sets `run`, a function of the parsed options that gives the exit code."""
    what = "Continuous queries with goals of lag and quality, and a burst of others, under several policies"
    parser = commands.add_parser("views", description=f"{what}. On {SLOTS} simulated slots.")
    parser.add_argument("--bursts", metavar="S,S", default="10,100,400", help="seconds of the burst (10,100,400)")
    parser.add_argument("--seeds", type=int, default=2, metavar="N", help="runs of each, seeds 1 to N (2)")
    parser.set_defaults(run=_views)


def _views(options: argparse.Namespace) -> int:
    try:
        bursts = [float(text) for text in options.bursts.split(",")]
    except ValueError as error:
        raise ConfigError(f"--bursts must be seconds, such as 10,100, not {options.bursts!r}") from error
    if options.seeds < 1 or not all(burst > 0 for burst in bursts):
        raise ConfigError("there must be a seed, and bursts above 0 seconds")
    seeds = range(1, options.seeds + 1)
    for burst in bursts:
        print(f"a burst of {burst:.0f} s", flush=True)
        for policy in POLICIES:
            print(line(policy, [play(policy, *drawn(seed, burst)) for seed in seeds]), flush=True)
    _print_errors(seeds, bursts[0])
    return 0


def _print_errors(seeds: range, burst: float) -> None:
    """Demands that are misjudged, and slots that are gone for a minute."""
    print("a third of the demands half as large, a third twice", flush=True)
    for name, corrects in (("corrected", True), ("not corrected", False)):
        runs = [play("max-min", *drawn(seed, burst, misjudged=True), corrects=corrects) for seed in seeds]
        print(line(name, runs), flush=True)
    print("half of the slots gone for 60 s", flush=True)
    for policy in ("max-min", "fair"):
        runs = [play(policy, *drawn(seed, 300.0), dip=(300.0, 360.0)) for seed in seeds]
        print(f"{line(policy, runs)}, backlog gone after {max(one.backlog for one in runs):.0f} s", flush=True)


def line(name: str, runs: list[Measures]) -> str:
    """The means of runs."""
    mean = {what: fmean(getattr(one, what) for one in runs) for what in ("quality", "overdue", "cost", "worst")}
    return (
        f"{name:>15}: quality {mean['quality']:.3f}, overdue {mean['overdue']:.1%}, slots in use {mean['cost']:.0%}, "
        f"worst utility {mean['worst']:.2f}"
    )
