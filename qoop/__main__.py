"""The command line: ``qoop DIR`` (a shell), ``qoop DIR -c "select …"``, ``qoop explain``, ``qoop serve``, ….

Exit codes: 0 done; 1 an error of ours, in one message on stderr; 2 wrong usage; 130 interrupted; 128 + n after signal
n. After a signal the process cleans up before it ends.
"""

from __future__ import annotations

import argparse
import atexit
import os
import re
import sys
import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

from qoop.catalog.errors import BindError, ConfigError, QoopError
from qoop.interfaces.commands.loading import loading_little
from qoop.interfaces.commands.words import OneLineParser, WrongUsage, fault, in_order, names_no_command, options_read
from qoop.query.drawing.formats import FORMATS, checked_format
from qoop.query.drawing.terminal import Terminal, between_words
from qoop.query.options import FLAGS, Flag
from qoop.query.streams import (
    EndedBySignal,
    discard_output,
    ended_by_signals,
    one_line_warnings,
    output,
    read_input,
    uninterrupted,
)

if TYPE_CHECKING:
    from qoop.query.job import Job
    from qoop.query.result import Result
    from qoop.query.statements.statement import Statement
    from qoop.session.session import Session

_USAGE, _INTERRUPTED = 2, 130
_COMMANDS = (
    "explain", "resume", "replay", "calibrate", "tpcds", "bench", "profile", "serve", "cluster", "page", "run", "runs"
)  # fmt: skip
"""The meaning of a first word even if there is a file of that name; that one is ./tpcds."""

_MAY_BE_COMMAND = re.compile(r"^\s*(?:\\|\.[a-z?])", re.M | re.I)
"""A line that may be a command of the shell, unless it is within a statement."""

_DATA = "a folder of <table>.parquet and <table>/*.parquet, a DuckDB file, or a Parquet, CSV or JSON file"
_BENCH = "Compare with DuckDB, and plans with each other, while the resources change"
_PROFILE = "List, draw and convert capacity profiles: spot markets, logs of machines, CSV"
_TPCDS = "Make TPC-DS data, run its 99 queries, compare with DuckDB"


def command() -> NoReturn:
    """Run the command of the process, and end it.

    It ends as forked processes of `multiprocessing` do: threads and exit handlers run to their ends, and the system
    frees all memory at once. Python would free each object, which takes 50 ms with DuckDB 2.0 and 5 with 1.5.
    """
    code = main()
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with ended_by_signals(), one_line_warnings():
            return _run(words, process_is_ours=arguments is None)
    except QoopError as error:
        message = "\n".join([f"qoop: {error}", *getattr(error, "__notes__", ())])
        if sys.stderr.isatty():
            message = between_words(message, Terminal.of(sys.stderr).width)
        print(message, file=sys.stderr)
        return _USAGE if isinstance(error, WrongUsage) else 1
    except EndedBySignal as ended:
        print(f"qoop: {ended}", file=sys.stderr)
        return ended.exit_code
    except KeyboardInterrupt:
        print("qoop: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:  # the reader had enough, as in `qoop … | head`
        discard_output()
        return 0


def _run(words: Sequence[str], process_is_ours: bool) -> int:
    wrong = fault(words, _COMMANDS)
    if wrong is not None:
        print(f"qoop: {wrong}", file=sys.stderr)
        return _USAGE
    words = in_order(words, _COMMANDS)
    with options_read():
        options = _parser(words).parse_args(words)
    options.process_is_ours = process_is_ours
    with output():
        code: int = options.run(options) or 0
    return code


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = OneLineParser(
        prog="qoop",
        usage="qoop [DIR ...] [-c SQL | -f FILE] [OPTION ...]\n       qoop COMMAND [DIR ...] [OPTION ...]",
        description=f"SQL on data of yours, run as stages of tasks. DIR is {_DATA}; several may stand side by side. "
        "Without -c and -f, and with a terminal to type at, it opens the shell.",
    )
    parser.add_argument("--version", action=_Version)
    _add_query_options(parser, "run")
    parser.add_argument("--format", type=_format, metavar="FORMAT", help=f"print answers as {', '.join(FORMATS)}")
    _add_page_option(parser)
    parser.set_defaults(run=lambda options: _query(parser, options))
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", prog="qoop")
    if not names_no_command(words):  # descriptions of all commands take several ms
        _add_commands(commands, words)
    return parser


def _add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser], words: Sequence[str]) -> None:
    from qoop.interfaces.commands import replay as replay_command
    from qoop.interfaces.commands import resume as resume_command

    _add_explain(commands)
    _add_session_options(resume_command.add(commands, _session, _watch, _show, FORMATS))
    replay_command.add(commands)
    _add_calibrate(commands)
    _add_cluster(commands, words)
    _add_serve(commands, words)
    _add_page(commands, words)
    _add_run(commands, words)
    _add_group(commands, words, "profile", _PROFILE, "qoop.interfaces.commands.profile")
    _add_group(commands, words, "tpcds", _TPCDS, "qoop.tpcds.cli")
    _add_group(commands, words, "bench", _BENCH, "qoop.tpcds.bench_cli")


def _add_query_options(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("-c", dest="text", metavar="SQL", help=f"the text to {what} (else -f, or standard input)")
    parser.add_argument("-f", dest="file", metavar="FILE", help="the text is in a file; -: standard input")
    _add_session_options(parser)


def _add_session_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", metavar="DIR", action="append", default=[], help=f"{_DATA}; DIR alone does, too")
    for name, flag in FLAGS.items():
        _add_option(parser, name, flag)


def _add_option(parser: argparse.ArgumentParser, name: str, flag: Flag) -> None:
    option, text = f"--{name.replace('_', '-')}", flag.help.replace("%", "%%")
    if flag.metavar is None:
        parser.add_argument(option, action="store_true", default=None, help=text)
    else:
        parser.add_argument(option, type=flag.type, metavar=flag.metavar, help=text)


def _add_explain(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "explain",
        help="Print the plan of a query",
        description="Show how a query would be run, or was: its stages, and what they cost.",
    )
    _add_query_options(parser, "explain")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--alternatives", action="store_true", help="all plans worth keeping, and which wins where")
    kinds.add_argument(
        "--analyze", action="store_true", help="run the query, and show the measured figures of its stages"
    )
    kinds.add_argument("--history", action="store_true", help="run the query, and print its events and decisions")
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


def _add_cluster(commands: argparse._SubParsersAction[argparse.ArgumentParser], words: Sequence[str]) -> None:
    """Add the command; its module is loaded only to run it."""
    if words[:1] == ["cluster"]:
        import_module("qoop.interfaces.commands.cluster").add(commands)
    else:
        commands.add_parser("cluster", help="Show the nodes of a Ray cluster, and the sessions that use them")


def _add_serve(commands: argparse._SubParsersAction[argparse.ArgumentParser], words: Sequence[str]) -> None:
    """Add the command; its module is loaded only to run it."""
    if words[:1] == ["serve"]:
        _add_session_options(import_module("qoop.interfaces.commands.serve").add(commands, _session))
    else:
        commands.add_parser("serve", help="Answer queries over HTTP and Flight SQL, for many clients")


def _add_page(commands: argparse._SubParsersAction[argparse.ArgumentParser], words: Sequence[str]) -> None:
    """Add the command; its module is loaded only to run it."""
    if words[:1] == ["page"]:
        import_module("qoop.interfaces.page.command").add(commands)
    else:
        commands.add_parser("page", help="Show a trace in the browser: go to any time of it")


def _add_run(commands: argparse._SubParsersAction[argparse.ArgumentParser], words: Sequence[str]) -> None:
    """Add ``run`` and ``runs``; their module is loaded only to run them."""
    if words[:1] in (["run"], ["runs"]):
        run = import_module("qoop.interfaces.commands.run")
        _add_session_options(run.add_run(commands, _session, _show, _format))
        run.add_runs(commands)
    else:
        commands.add_parser("run", help="Run a query that survives its process, until it is done")
        commands.add_parser("runs", help="List the unfinished queries of a folder of checkpoints; remove what is old")


def _add_page_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--page", action="store_true", help="show in a browser what runs; see docs/page.md")


def _add_group(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    words: Sequence[str],
    name: str,
    what: str,
    module: str,
) -> None:
    """Add a command with sub-commands; their module is loaded only for this command."""
    parser = commands.add_parser(name, help=what, description=f"{what}.")
    parser.set_defaults(run=lambda options: parser.error(f"a command is needed: see qoop {name} --help"))
    if words[:1] == [name]:
        import_module(module).add_commands(parser)


def _query(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    if not _has_text(parser, options):
        if sys.stdin is not None and sys.stdout.isatty():
            return _shell(options)
        parser.print_help(sys.stderr)
        return _USAGE
    text = _text(options)
    if _MAY_BE_COMMAND.search(text):
        return _script(options, text)
    with loading_little(alone=options.process_is_ours):
        from qoop.interfaces.commands.loading import tables_named
        from qoop.query.statements.statement import SetOption, statements

        parsed = statements(text)
        named = tables_named(parsed)
        opened = _session(options, named)
    with opened as session:
        _show_page(options, session)
        for statement in parsed:
            result = _executed(session, statement, options.data if named is not None else ())
            if not isinstance(statement, SetOption) and not result.says_done:
                _show(options, result)
        if options.process_is_ours:
            from qoop.catalog.opening import leave_open

            leave_open()
    return 0


def _script(options: argparse.Namespace, text: str) -> int:
    """Run a text that may contain commands of the shell, such as \\d."""
    from qoop.interfaces.repl.command import Quit
    from qoop.interfaces.repl.commands import run_command
    from qoop.interfaces.repl.shell import Shell

    with _session(options) as session:
        _show_page(options, session)
        shell = Shell(run_command, session, options.format or "table", _watch)
        try:
            shell.run_script(text)
        except Quit:
            return 0
        finally:
            shell.close_output()
    return 0


def _executed(session: Session, statement: Statement, unnamed: Sequence[str]) -> Result:
    """The answer. unnamed: places of tables that no statement names; a BindError registers them for its message."""
    try:
        return session.execute(statement, watch=_watch)
    except BindError:
        if not unnamed:
            raise
        for path in unnamed:
            session.register_path(path)
        return session.execute(statement, watch=_watch)


def _has_text(parser: argparse.ArgumentParser, options: argparse.Namespace) -> bool:
    """False if the text would have to come from a terminal."""
    if options.text is not None and options.file is not None:
        parser.error("give either -c or -f")
    typed = sys.stdin is None or sys.stdin.isatty()
    return options.text is not None or options.file is not None or not typed


def _text(options: argparse.Namespace) -> str:
    """The text to run or to explain. Raises ConfigError, ParseError."""
    if options.text is not None:
        return str(options.text)
    if options.file in (None, "-"):
        return read_input()
    try:
        with open(options.file, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise ConfigError(f"cannot read {options.file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{options.file} is not UTF-8: see byte {error.start + 1}") from error


def _shell(options: argparse.Namespace) -> int:
    for path in options.data:
        if "://" not in path and not os.path.exists(os.path.expanduser(path)):
            raise ConfigError(f"there is no {path}")
    from qoop.interfaces.repl.interactive import InteractiveShell

    def opened() -> Session:
        session = _watching(_session(options), options)
        try:
            _show_page(options, session)
        except ConfigError:
            session.close()
            raise
        return session

    return InteractiveShell(opened, options.format or "table").run()


def _show_page(options: argparse.Namespace, session: Session) -> None:
    """Show the session in the browser if `--page` was set. Raises ConfigError if that fails."""
    if options.page:
        print(f"the page is at {session.page(open=True).url}", file=sys.stderr, flush=True)


def _format(name: str) -> str:
    try:
        return checked_format(name)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _show(options: argparse.Namespace, result: Result) -> None:
    from qoop.query.drawing.formats import explanation, write

    explained = explanation(result) if options.format is None else None
    if explained is not None:
        print(explained)
    else:
        write(result, options.format or "table", sys.stdout)


def _watch(job: Job) -> None:
    """Wait for the end of a job; show on stderr its progress, and the outputs that it reuses of an earlier run."""
    if sys.stderr.isatty():
        _show_bar(job)
    else:
        _follow(job, 0.2, lambda line: print(line, file=sys.stderr, flush=True))


def _follow(job: Job, every: float, tell: Callable[[str], object], shown: Callable[[], object] = lambda: None) -> None:
    """Wait for a job's end; report reused outputs of an earlier run. shown: is called every `every` seconds."""
    from qoop.query.drawing.view import of_earlier_runs

    ended, reported = False, 0
    while not ended:
        ended, history = job.wait(every), job.history()
        for sentence in of_earlier_runs(history, reported):
            tell(f"qoop: {sentence}")
        reported = len(history)
        shown()


def _explain(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    if not _has_text(parser, options):
        parser.error("a query is needed: -c SQL, -f FILE or standard input")
    form = options.format or _form_of(options.output)
    kinds = {name: getattr(options, name) for name in ("alternatives", "analyze", "history", "diff")}
    text = _text(options)
    with _session(options) as session:
        shown = session.explain(text, **kinds, format=form)
    if options.output is None:
        print(shown)
    else:
        _write_explanation(shown, form, options.output)
    return 0


def _form_of(path: str | None) -> str:
    """The format of a plan in a file of this name."""
    ending = os.path.splitext(path or "")[1].lower()
    return {".svg": "svg", ".png": "svg", ".html": "html", ".htm": "html", ".json": "json"}.get(ending, "text")


def _write_explanation(shown: str, form: str, path: str) -> None:
    if form == "svg":
        from qoop.query.drawing.picture import save

        save(shown, path, "qoop explain")
        return
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(shown + "\n")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error


def _calibrate(options: argparse.Namespace) -> int:
    from pathlib import Path

    from qoop.interfaces.commands.calibration import calibrate, report, save
    from qoop.query.calibrated import calibration_path

    shown = sys.stderr.isatty()
    found = calibrate(progress=lambda query: print(f"\r\033[K{query}", end="", file=sys.stderr) if shown else None)
    print("\r\033[K" if shown else "", end="", file=sys.stderr)
    path = calibration_path() if options.json is None else Path(options.json)
    save(found, path)
    print(report(found))
    print(f"kept in {path}")
    return 0


def _session(options: argparse.Namespace, is_needed: Callable[[str], bool] | None = None) -> Session:
    session: Session | None = None
    try:
        with uninterrupted():  # raises delayed signals at its end
            from qoop.session.opening import connect

            with options_read():
                session = connect(local_frames=False, **{name: getattr(options, name) for name in FLAGS})
        for path in options.data:
            session.register_path(path, is_needed)
        return session
    except BaseException:
        if session is not None:
            session.close()
        raise


def _watching(session: Session, options: argparse.Namespace) -> Session:
    """The session, which follows the free capacity of the machine unless `watch_machine` is set. Slots of the command
    line stay."""
    from qoop.adaptive.monitor.machine import Machine

    config = session.config
    if config.watch_machine is None and config.ray is None and Machine.readable():
        if options.slots is not None:
            session.resize(slots=options.slots)
        session.set("watch_machine", True)
    return session


def _show_bar(job: Job) -> None:
    """Show the progress of a job on stderr, if it runs for longer than half a second."""
    if job.wait(0.5):
        _follow(job, 0.0, lambda line: print(line, file=sys.stderr))
        return
    from rich.console import Console
    from rich.progress import Progress

    from qoop.query.drawing.view import ends

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(job.id, total=1.0)

        def show() -> None:
            status = job.status()
            bar.update(task, completed=status.progress.fraction, description=ends(status.left) or job.id)

        _follow(job, 0.1, lambda line: bar.console.print(line, markup=False, highlight=False), show)


class _Version(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str, **_: object) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help="print the version")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from qoop.interfaces.commands.loading import version_text

        print(version_text())
        parser.exit()


if __name__ == "__main__":
    command()
