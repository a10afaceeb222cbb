"""``qoop page FILE``: show a trace in the browser, at any time of it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from qoop.query.streams import wait_for_signal

WHAT = "Show a trace in the browser: go to any time of it"


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser("page", help=WHAT, description=f"{WHAT}. See docs/page.md.")
    parser.add_argument("path", metavar="FILE", type=Path, help="a trace, as `trace=` or QOOP_TRACE has it written")
    parser.add_argument("--port", type=int, default=0, metavar="N", help="to listen at (any that is free)")
    parser.add_argument("--no-browser", action="store_true", help="print the address, and open no browser")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from qoop.adaptive.retrace.reading import read_trace
    from qoop.session.pages import page_module

    with page_module().of_trace(read_trace(options.path), options.path.name, options.port) as page:
        print(f"{options.path} is shown at {page.url} until Ctrl-C", file=sys.stderr, flush=True)
        if not options.no_browser:
            page.show()
        try:
            wait_for_signal()
        except KeyboardInterrupt:
            return 0
    return 0
