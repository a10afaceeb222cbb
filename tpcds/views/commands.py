"""The command ``qoop bench views``."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING

from qoop.catalog.errors import ConfigError
from qoop.tpcds.views.simulate import POLICIES, Measures, play
from qoop.tpcds.views.workload import SLOTS, drawn

if TYPE_CHECKING:
    from qoop.tpcds.views.load import LoadOptions
    from qoop.tpcds.views.recorded import RecordedCosts


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


def add_load_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command of real refreshes."""
    what = "Materialized views with lag goals while days of sales land: the part of the refreshes that is overdue"
    parser = commands.add_parser("fresh", description=f"{what}. The machine should do nothing else.")
    parser.add_argument("--data", metavar="DIR", required=True, help="a data set of TPC-DS")
    parser.add_argument("--days", metavar="DIR", required=True, help="where its sales by day lie, or are made")
    parser.add_argument("--views", type=int, default=24, metavar="N", help="(24)")
    parser.add_argument("--load", type=float, default=0.9, metavar="X", help="part of a thread's time (0.9)")
    parser.add_argument("--seconds", type=float, default=60.0, metavar="S", help="of each run (60)")
    parser.add_argument("--results", metavar="FILE", help="kept as they come; a broken-off run goes on from there")
    virtual = "instead: this many runs of each policy on a virtual clock, over the costs of refreshes in the results"
    parser.add_argument("--virtual", type=int, default=0, metavar="RUNS", help=virtual)
    hand = "instead: the cost of a refresh next to the same change by hand in DuckDB, while DAYS land"
    parser.add_argument("--by-hand", type=int, metavar="DAYS", help=hand)
    parser.add_argument("--there", type=float, default=0.8, metavar="P", help="part of the days at the start (0.8)")
    parser.set_defaults(run=_fresh)


def _fresh(options: argparse.Namespace) -> int:
    from qoop.programs.folder_lock import folder_lock
    from qoop.tpcds.views import load

    if options.views < 1 or min(options.load, options.seconds) <= 0 or not 0 < options.there < 1 or options.virtual < 0:
        raise ConfigError("--views must be 1 or more, --load and --seconds above 0, --there between 0 and 1")
    run = load.LoadOptions(Path(options.data), Path(options.days), options.views, options.seconds, there=options.there)
    with folder_lock(run.staged) as is_mine:
        if not is_mine:
            raise ConfigError(f"another process uses the days in {run.staged}")
        return _by_hand(run, options.by_hand) if options.by_hand is not None else _by_goals(options, run)


def _by_goals(options: argparse.Namespace, run: LoadOptions) -> int:
    from qoop.tpcds.results import Results
    from qoop.tpcds.views import load
    from qoop.tpcds.views.recorded import RecordedCosts, record
    from qoop.tpcds.views.virtual import offered

    settings = {name: getattr(options, name) for name in ("data", "views", "there")}
    results = Results(None if options.results is None else Path(options.results), settings)
    if results.get("costs") is None:
        results.put("costs", asdict(record(run)))
    costs = RecordedCosts(**results.get("costs"))
    targets = load.goals(options.views, offered(costs), options.load)
    print(
        f"{options.views} views with goals of {min(targets):.1f} to {max(targets):.1f} s; a refresh takes "
        f"{median(costs.typical()) * 1e3:.1f} ms of cpu in the median, "
        f"{median(one / full for one, full in zip(costs.typical(), costs.full, strict=True)):.1%} of a full one",
        flush=True,
    )
    if options.virtual:
        _on_a_virtual_clock(options, costs, targets)
        return 0
    for policy in load.POLICIES:
        name = f"{policy}, load {options.load}, {options.seconds} s"
        if results.get(name) is None:
            results.put(name, asdict(load.play(run, policy, targets)))
        found = load.LoadMeasures(**results.get(name))
        print(
            f"{policy:>8}: {found.overdue:.1%} of {found.refreshes} refreshes overdue, {found.cpu:.0%} of a core, "
            f"{found.session:.0%} by the session's threads, "
            f"{found.delayed:.0%} waiting for one, "
            f"{found.incremental} incremental, {found.wrong} wrong",
            flush=True,
        )
    return 0


def _on_a_virtual_clock(options: argparse.Namespace, costs: RecordedCosts, targets: list[float]) -> None:
    from qoop.tpcds.views import virtual

    for burst in (False, True):
        print("days land twice as fast in the middle third of the time" if burst else "days land evenly", flush=True)
        for policy in virtual.POLICIES:
            seeds = range(1, options.virtual + 1)
            runs = [virtual.play(costs, policy, targets, options.seconds, seed, burst) for seed in seeds]
            overdue = [one.overdue for one in runs]
            print(
                f"{policy:>8}: {fmean(overdue):.1%} of refreshes overdue ({min(overdue):.1%} to {max(overdue):.1%}), "
                f"{fmean(one.busy for one in runs):.0%} of a thread's time, "
                f"{fmean(one.a_day for one in runs) * 1e3:.1f} ms a day",
                flush=True,
            )


def _by_hand(run: LoadOptions, days: int) -> int:
    from qoop.tpcds.views.by_hand import compare, line

    if days < 1:
        raise ConfigError("--by-hand must be 1 day or more")
    for one in compare(run, days):
        print(line(one), flush=True)
    return 0
