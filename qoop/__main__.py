"""The command line: ``qoop -c "select …" --data DIR``, ``qoop explain``, ``qoop tpcds …``.

Exit codes: 0 done; 1 an error of ours, told in one message on stderr; 2 wrong usage; 130 interrupted, and
128 + n after signal n, once what was begun is cleaned up.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from qoop import replay_command, resume_command
from qoop.catalog.errors import ConfigError, QoopError
from qoop.streams import (
    EndedBySignal,
    discard_output,
    ended_by_signals,
    one_line_warnings,
    output,
    read_input,
    uninterrupted,
)

if TYPE_CHECKING:
    from qoop.job import Job
    from qoop.result import Result
    from qoop.session import Session

_USAGE, _INTERRUPTED = 2, 130
_BENCH = "Compare with DuckDB, and plans with each other, while the resources change"
_PROFILE = "List, draw and convert capacity profiles: spot markets, logs of machines, CSV"
_TPCDS = "Make TPC-DS data, run its 99 queries, compare with DuckDB"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with ended_by_signals(), one_line_warnings():
            return _run(words)
    except QoopError as error:
        print("\n".join([f"qoop: {error}", *getattr(error, "__notes__", ())]), file=sys.stderr)
        return 1
    except EndedBySignal as ended:
        print(f"qoop: {ended}", file=sys.stderr)
        return ended.exit_code
    except KeyboardInterrupt:
        print("qoop: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:  # the reader had enough, as in `qoop … | head`
        discard_output()
        return 0


def _run(words: Sequence[str]) -> int:
    parser = _parser(words)
    options = parser.parse_args(words)
    with output():
        code: int = options.run(options) or 0
    return code


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="qoop", description="SQL on Parquet files and DuckDB databases, run as stages of tasks."
    )
    parser.add_argument("--version", action=_Version)
    _add_query_options(parser)
    parser.add_argument("--format", choices=sorted(_WRITERS), help="how to print the answer (table)")
    parser.set_defaults(run=lambda options: _query(parser, options))
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _add_explain(commands)
    _add_session_options(resume_command.add(commands, _session, _watch, _show, _WRITERS))
    replay_command.add(commands)
    _add_calibrate(commands)
    _add_group(commands, words, "profile", _PROFILE, "qoop.profiles.command")
    _add_group(commands, words, "tpcds", _TPCDS, "qoop.tpcds.cli")
    _add_group(commands, words, "bench", _BENCH, "qoop.tpcds.bench_cli")
    return parser


def _add_query_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-c", dest="text", metavar="SQL", help="the text to run (else standard input)")
    _add_session_options(parser)


def _add_session_options(parser: argparse.ArgumentParser) -> None:
    data = "a folder of <table>.parquet and <table>/*.parquet, or a DuckDB file; may be repeated"
    parser.add_argument("--data", metavar="DIR", action="append", default=[], help=data)
    parser.add_argument("--slots", type=int, metavar="N", help="tasks at a time (the CPUs there are)")
    parser.add_argument(
        "--memory", metavar="SIZE", help='for all tasks together, such as "2GB" (80 %% of what there is)'
    )
    parser.add_argument("--checkpoints", metavar="DIR", help="keep the outputs of all stages there")
    parser.add_argument("--trace", metavar="FILE", help="write what happens there, for `qoop replay`")


def _add_explain(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "explain",
        help="Print the plan of a query",
        description="Show how a query would be run, or was: its stages, and what they cost.",
    )
    _add_query_options(parser)
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--alternatives", action="store_true", help="all plans worth keeping, and which wins where")
    kinds.add_argument(
        "--analyze", action="store_true", help="run the query, and show what its stages turned out to be"
    )
    kinds.add_argument("--history", action="store_true", help="run the query, and tell what happened and was decided")
    kinds.add_argument("--diff", metavar="A,B", help="what two of the alternatives have in common")
    parser.add_argument("--format", choices=("text", "json", "svg", "html"), help="how to show it (text)")
    to = "write it there; the ending says how: .svg, .html, .json, or .png (with the extra plot)"
    parser.add_argument("-o", "--output", metavar="FILE", help=to)
    parser.set_defaults(run=lambda options: _explain(parser, options))


def _add_calibrate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    what = "Measure what rows and bytes cost on this machine; later sessions plan by it"
    parser = commands.add_parser("calibrate", help=what, description=f"{what}. Takes less than a minute.")
    parser.add_argument("--json", metavar="FILE", help="write the result there, not where sessions look for it")
    parser.set_defaults(run=_calibrate)


def _add_group(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    words: Sequence[str],
    name: str,
    what: str,
    module: str,
) -> None:
    """Add a command with commands of its own; their module is loaded only if they are asked for."""
    parser = commands.add_parser(name, help=what, description=f"{what}.")
    parser.set_defaults(run=lambda options: parser.error(f"a command is needed: see qoop {name} --help"))
    if words[:1] == [name]:
        import_module(module).add_commands(parser.add_subparsers(title="commands", metavar="COMMAND"))


def _query(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    if options.text is None and (sys.stdin is None or sys.stdin.isatty()):
        parser.print_help(sys.stderr)
        return _USAGE
    text = options.text if options.text is not None else read_input()
    with _session(options) as session:
        _show(options, session.sql(text, _watch))
    return 0


def _show(options: argparse.Namespace, result: Result) -> None:
    _WRITERS[options.format or "table"](result)


def _watch(job: Job) -> None:
    if sys.stderr.isatty():
        _show_bar(job)


def _explain(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    if options.text is None:
        parser.error("-c SQL is needed")
    form = options.format or _form_of(options.output)
    asked = {name: getattr(options, name) for name in ("alternatives", "analyze", "history", "diff")}
    with _session(options) as session:
        shown = session.explain(options.text, **asked, format=form)
    if options.output is None:
        print(shown)
    else:
        _write_explanation(shown, form, options.output)
    return 0


def _form_of(path: str | None) -> str:
    """As what a plan goes into a file of this name."""
    ending = os.path.splitext(path or "")[1].lower()
    return {".svg": "svg", ".png": "svg", ".html": "html", ".htm": "html", ".json": "json"}.get(ending, "text")


def _write_explanation(shown: str, form: str, path: str) -> None:
    if form == "svg":
        from qoop.picture import save

        save(shown, path, "qoop explain")
        return
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(shown + "\n")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error


def _calibrate(options: argparse.Namespace) -> int:
    from pathlib import Path

    from qoop.calibration import calibrate, calibration_path, report, save

    shown = sys.stderr.isatty()
    found = calibrate(told=lambda query: print(f"\r\033[K{query}", end="", file=sys.stderr) if shown else None)
    print("\r\033[K" if shown else "", end="", file=sys.stderr)
    path = calibration_path() if options.json is None else Path(options.json)
    save(found, path)
    print(report(found))
    print(f"kept in {path}")
    return 0


def _session(options: argparse.Namespace) -> Session:
    session: Session | None = None
    try:
        with uninterrupted():  # it ends with what was kept waiting
            from qoop.session import connect

            session = connect(options.slots, options.memory, options.checkpoints, trace=options.trace)
        for path in options.data:
            session.register_folder(path) if os.path.isdir(path) else session.register_database(path)
        return session
    except BaseException:
        if session is not None:
            session.close()
        raise


def _show_bar(job: Job) -> None:
    """Show on stderr how far a job is, if it takes its time."""
    if job.wait(0.5):
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(job.id, total=1.0)
        while not job.wait(0.1):
            progress = job.progress()
            done, total = (sum(stage.done for stage in progress.stages), sum(stage.total for stage in progress.stages))
            bar.update(task, completed=progress.fraction, description=f"{done} of {total} tasks")


def _write_table(result: Result) -> None:
    print(result)


def _write_csv(result: Result) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(result.columns)
    writer.writerows(result.text_rows())


def _write_json(result: Result) -> None:
    separator = "["
    for row in result.json_rows():
        print(separator, row, sep="", end="")
        separator = ",\n"
    print("]" if separator != "[" else "[]")


_WRITERS: dict[str, Callable[[Result], None]] = {"csv": _write_csv, "json": _write_json, "table": _write_table}


class _Version(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str, **_: object) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help="print the version")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        import duckdb

        import qoop

        print(f"qoop {qoop.__version__} on DuckDB {duckdb.__version__}")
        parser.exit()


if __name__ == "__main__":
    sys.exit(main())
