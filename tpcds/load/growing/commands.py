"""The command ``qoop bench grow``."""

from __future__ import annotations

import argparse

from qoop.catalog.errors import ConfigError
from qoop.tpcds.load.growing import simulate
from qoop.tpcds.load.growing.simulate import Drawing


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command; it sets `run`, a function of the parsed options that gives the exit code."""
    what = "Growing answers at once, under several schedulers: times to 90 and 95 percent of the way to their goals"
    parser = commands.add_parser("grow", description=f"{what}. On 40 simulated slots.")
    parser.add_argument("--loads", metavar="L,L", default="0.9", help="(0.9)")
    parser.add_argument("--seeds", type=int, default=10, metavar="N", help="runs of each, seeds 1 to N (10)")
    parser.add_argument("--tenants", type=int, choices=(1, 2, 3), default=1, help="(1)")
    parser.add_argument(
        "--stop", type=float, default=0.5, metavar="PART", help="of the answers that end at their goal (0.5)"
    )
    parser.add_argument("--seconds", type=float, default=900.0, metavar="S", help="in which they arrive (900)")
    parser.set_defaults(run=_grow)


def _grow(options: argparse.Namespace) -> int:
    for line in simulate.compared([simulate.play(*one) for one in _drawings(options)]):
        print(line, flush=True)
    return 0


def _drawings(options: argparse.Namespace) -> list[tuple[str, Drawing]]:
    try:
        loads = [float(text) for text in options.loads.split(",")]
    except ValueError as error:
        raise ConfigError(f"--loads must be numbers, such as 0.6,0.9, not {options.loads!r}") from error
    if not (options.seeds > 0 and options.seconds > 0 and all(load > 0 for load in loads)):
        raise ConfigError("there must be a seed, time in which answers arrive, and loads above 0")
    return [
        (policy, Drawing(load, seed, options.seconds, options.tenants, options.stop))
        for load in loads
        for seed in range(1, options.seeds + 1)
        for policy in simulate.POLICIES
    ]
