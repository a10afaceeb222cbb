"""``qoop run QUERY --until-done`` and ``qoop runs PLACE``: queries that survive their processes."""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from qoop.catalog.errors import BindError, ConfigError
from qoop.catalog.sizes import parse_bytes, parse_seconds, size, span
from qoop.catalog.user_key import chosen_key

if TYPE_CHECKING:
    from qoop.query.result import Result
    from qoop.session.session import Session
    from qoop.session.stops import Stops
    from qoop.session.until_done import Life, LifeOptions, Output

UNFINISHED = 75
"""The exit code EX_TEMPFAIL of sysexits.h: try again."""

RUN = "Run a query that survives its process: the same command goes on where the last one stopped"
RUNS = "List the unfinished queries of a folder of checkpoints; remove what is old"
_CODES = f"""exit codes:
  0    done; the answer was printed, or written whole to --out
  1    an error, in one message on stderr
  2    wrong usage
  {UNFINISHED}   stopped in time (SIGTERM, SIGUSR1, --for, --until, a notice): run the same command again
  130  interrupted; what is on disk is kept

A place that is full, gone or read-only costs a warning: the query goes on in memory, and a killed one starts again.
With QOOP_CHECKPOINT_FULL=error it is an error. Outputs of other versions are not used; a line says so."""
_TIME_OF_DAY = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")


class OpenSession(Protocol):
    """Opens the session of a command."""

    def __call__(self, options: argparse.Namespace, is_needed: Callable[[str], bool] | None = None) -> Session:
        """is_needed: true for the names of the tables of a folder to register; None: all."""
        ...


def add_run(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    open_session: OpenSession,
    show: Callable[[argparse.Namespace, Result], None],
    format: Callable[[str], str],
) -> argparse.ArgumentParser:
    """Add ``qoop run``, and return its parser, which still lacks the options of a session."""
    parser = commands.add_parser(
        "run", help=RUN, description=f"{RUN}.", epilog=_CODES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("query", metavar="QUERY|FILE", help="SQL, or a file that has it")
    parser.add_argument("paths", metavar="DIR", nargs="*", help="what --data takes, too")
    stop = "stop in time before the end of the process, with exit code 75; needs --checkpoints PLACE"
    parser.add_argument("--until-done", action="store_true", required=True, help=stop)
    ends = parser.add_mutually_exclusive_group()
    ends.add_argument("--for", dest="seconds", metavar="TIME", type=parse_seconds, help="the process may take, as 14m")
    ends.add_argument("--until", metavar="HH:MM", type=_time_of_day, help="the process may run, in local time")
    grace = "before an end, or after a signal, in which running tasks may end and outputs are written (5)"
    parser.add_argument("--grace", metavar="TIME", type=parse_seconds, default=5.0, help=grace)
    notices = "follow the notices of aws, gce or azure; auto: of the platform that the firmware names; none (auto)"
    parser.add_argument("--notices", metavar="CLOUD", default="auto", help=notices)
    out = "write the answer there, once and whole: .parquet, .csv, .json, or a table of QOOP_TABLES"
    parser.add_argument("--out", metavar="FILE|TABLE", help=out)
    parser.add_argument("--replace", action="store_true", help="--out may exist; it is replaced")
    parser.add_argument("--format", type=format, metavar="FORMAT", help="how to print the answer without --out (table)")
    parser.set_defaults(run=lambda options: _run(options, open_session, show))
    return parser


def add_runs(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``qoop runs``."""
    what = f"{RUNS}. Nothing that a living process needs is removed; kill PROCESS stops one in time."
    parser = commands.add_parser("runs", help=RUNS, description=what)
    parser.add_argument("place", metavar="PLACE", help="the folder of --checkpoints")
    older = "remove outputs without a use for so long, and records of runs that no process runs, such as 7d"
    parser.add_argument("--remove-older", metavar="TIME", type=parse_seconds, help=older)
    larger = "remove the outputs of the least worth until no more is left, such as 10GB"
    parser.add_argument("--shrink-to", metavar="SIZE", type=parse_bytes, help=larger)
    parser.set_defaults(run=_runs)


def _run(
    options: argparse.Namespace,
    open_session: OpenSession,
    show: Callable[[argparse.Namespace, Result], None],
) -> int:
    from qoop.session.stops import Stops, stopped_by_signals

    stops = Stops()
    with stopped_by_signals(stops, options.grace):  # before DuckDB is loaded, which a raised signal would crash
        return _run_until(stops, options, open_session, show)


def _run_until(
    stops: Stops,
    options: argparse.Namespace,
    open_session: OpenSession,
    show: Callable[[argparse.Namespace, Result], None],
) -> int:
    from qoop.adaptive.monitor.notices import source_named
    from qoop.interfaces.commands.loading import tables_named
    from qoop.query.statements.statement import Query
    from qoop.session.until_done import END_OF_TIME, LifeOptions, output_of

    text = _text(options.query)
    seconds = options.until if options.seconds is None else options.seconds
    if seconds is not None:
        stops.announce(END_OF_TIME, seconds)
    options.data = [*options.data, *options.paths]
    options.staged = True  # the one output of a single task would exist at its end alone
    named = tables_named([Query(text)])
    with _said_once() as say, closing(open_session(options, named)) as session:
        limits = LifeOptions(stops, options.grace, source_named(options.notices), say)
        output = output_of(options.out, options.replace)
        life = _lived(session, text, limits, output, options.data if named is not None else ())
    if life.result is not None and options.out is None:
        show(options, life.result)
    else:
        _say(life.message)
    return 0 if life.done else UNFINISHED


def _lived(session: Session, text: str, options: LifeOptions, output: Output | None, unnamed: Sequence[str]) -> Life:
    """As `run_life`. unnamed: places of tables that the text does not name; a BindError registers them for its
    message, and for names that the text computes."""
    from qoop.session.until_done import run_life

    try:
        return run_life(session, text, options, output)
    except BindError:
        if not unnamed:
            raise
        for path in unnamed:
            session.register_path(path)
        return run_life(session, text, options, output)


@contextmanager
def _said_once() -> Iterator[Callable[[str], object]]:
    """Yields a function that prints a line, unless it has printed it before. It prints warnings of outputs that are not
    saved, too: the status of the job may say the same."""
    from qoop.engine.storage.retention import NotSavedWarning

    lines: set[str] = set()

    def say(line: str) -> None:
        if line not in lines:
            lines.add(line)
            _say(line)

    def show(message: Warning | str, *place: Any, **more: Any) -> None:
        if isinstance(message, NotSavedWarning):
            say(message.sentence)
        else:
            shown(message, *place, **more)

    with warnings.catch_warnings():
        shown, warnings.showwarning = warnings.showwarning, show
        yield say


def _text(query: str) -> str:
    """The text to run. Raises ConfigError."""
    if not os.path.isfile(query):
        if query.endswith(".sql"):
            raise ConfigError(f"there is no file {query}")
        return query
    try:
        return Path(query).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read {query}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{query} is not UTF-8: see byte {error.start + 1}") from error


def _time_of_day(text: str) -> float:
    """Seconds until that time of day comes next."""
    from qoop.session.until_done import ends_at

    match = _TIME_OF_DAY.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time of day, such as 06:00")
    return ends_at(time.time(), int(match[1]), int(match[2]))


def _runs(options: argparse.Namespace) -> int:
    from qoop.engine.storage.manifest import CheckpointDirectory
    from qoop.query.drawing.terminal import shortened
    from qoop.session.lives import forget_old, unfinished_runs

    place, key = Path(options.place).expanduser(), chosen_key()
    if "://" in options.place or not place.is_dir():
        raise ConfigError(f"{options.place} is no folder of checkpoints on this machine")
    if options.remove_older is not None or options.shrink_to is not None:
        age = math.inf if options.remove_older is None else options.remove_older
        most = math.inf if options.shrink_to is None else options.shrink_to
        with closing(CheckpointDirectory(place, None, key)) as folder:
            _say(f"removed {size(folder.trim(age, most))} of outputs, {forget_old(place, key, age)} records")
    runs = unfinished_runs(place, key)
    for run in runs:
        far = f"{run.made} of {run.outputs} outputs, {size(run.bytes)}" if run.outputs else "progress not recorded"
        process = f" in process {run.process}" if run.process else ""
        state = f"running{process}" if run.living else "stopped"
        print(f"{state}  {far}, life {run.lives}, {span(run.age)} ago: {shortened(' '.join(run.text.split()), 60)}")
    if not runs:
        _say(f"no unfinished query in {place}")
    return 0


def _say(line: str) -> None:
    print(f"qoop: {line}", file=sys.stderr, flush=True)
