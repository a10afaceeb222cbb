"""``qoop replay FILE``: print the events of a trace, and check that the same decisions follow from them."""

from __future__ import annotations

import argparse
from pathlib import Path

_WHAT = "Print the events of a trace, and replay it: do the same decisions follow?"


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "replay", help=_WHAT, description=f"{_WHAT} Exit code 1 if not; what differs first is shown."
    )
    parser.add_argument("path", metavar="FILE", help="a trace, as `trace=` or QOOP_TRACE has it written")
    parser.add_argument("--job", metavar="JOB", help="print this job only")
    parser.add_argument("--full", action="store_true", help="print every task")
    hysteresis = "decide with this hysteresis, and show what would first have been decided otherwise"
    parser.add_argument("--hysteresis", type=float, metavar="FRACTION", help=hysteresis)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from qoop.adaptive.replanning.greedy import Greedy
    from qoop.adaptive.retrace.reading import read_trace
    from qoop.adaptive.retrace.rerun import rerun, stories
    from qoop.programs.kinds import program_kinds

    recording = read_trace(Path(options.path))
    policy = None if options.hysteresis is None else Greedy.asking(options.hysteresis)
    found = rerun(recording, policy, program_kinds=program_kinds)
    for line in stories(found, options.job, options.full):
        print(line)
    for line in recording.remarks():
        print(line)
    print(found)
    return 0 if found.difference is None else 1
