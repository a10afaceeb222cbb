"""``qoop resume PATH``: go on with a suspended job."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection
from contextlib import closing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qoop.query.job import Job
    from qoop.query.result import Result
    from qoop.session.session import Session

_WHAT = "Go on with a suspended job, with the plan that is best here and now"


def add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    open_session: Callable[[argparse.Namespace], Session],
    watch: Callable[[Job], object],
    show: Callable[[argparse.Namespace, Result], None],
    formats: Collection[str],
) -> argparse.ArgumentParser:
    """Add the command, and return its parser, which still lacks the options of a session.

    open_session, watch, show: the command line's functions for a session, a job's progress and its answer.
    """
    parser = commands.add_parser("resume", help=_WHAT, description=f"{_WHAT}.")
    parser.add_argument("path", metavar="PATH", help="the folder that Job.suspend wrote")
    parser.add_argument("--format", choices=sorted(formats), help="how to print the answer (table)")

    parser.add_argument(
        "--trust", action="store_true", help="believe its outputs although they are not sealed with your key"
    )

    def run(options: argparse.Namespace) -> int:
        with closing(open_session(options)) as session:
            job = session.resume(options.path, trust=options.trust)
            watch(job)
            show(options, job.result())
        return 0

    parser.set_defaults(run=run)
    return parser
