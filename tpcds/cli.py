"""The commands ``qoop tpcds`` adds: ``generate`` and ``run``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from qoop.catalog.errors import ConfigError
from qoop.catalog.stores.whole_file import write_whole
from qoop.tpcds.bench import cold, report
from qoop.tpcds.bench import side_by_side as bench
from qoop.tpcds.data import Progress, generate
from qoop.tpcds.queries import SUITES, parse_selection
from qoop.tpcds.skew import Skew


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add the sub-commands; each sets `run`, a function of the parsed options that gives the exit code."""
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _add_generate(commands)
    _add_run(commands)


def _add_generate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    what = "Make the tables as Parquet; a broken-off run goes on"
    parser = commands.add_parser("generate", help=what, description=f"{what}.")
    parser.add_argument("directory", metavar="DIR", help="where; made if it is not there")
    parser.add_argument("--scale", type=float, default=1.0, metavar="N", help="about N GB of text, from 0.01 (1)")
    parser.add_argument("--skew", type=float, metavar="S", help="map foreign keys by Zipf's law of exponent S")
    parser.add_argument("--seed", type=int, metavar="N", help="of the skewed keys (0)")
    _add_suite(parser)
    parser.set_defaults(run=_generate)


def _add_run(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    what = "Run the queries, compare answers and times with DuckDB"
    parser = commands.add_parser("run", help=what, description=f"{what}.")
    parser.add_argument("directory", metavar="DIR", help="where `generate` made the tables")
    parser.add_argument("--queries", metavar="1,3,7-9", help="which ones (all)")
    parser.add_argument("--slots", type=int, metavar="N", help="our tasks and DuckDB's threads (the CPUs there are)")
    parser.add_argument("--memory", metavar="SIZE", help='for all our tasks together, such as "2GB"')
    parser.add_argument("--checkpoints", metavar="DIR", help="keep the outputs of all stages there")
    parser.add_argument("--check", action="store_true", help="compare the answer of every run, not only of the last")
    parser.add_argument("--json", metavar="FILE", help="write the report there")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="timed runs; the shortest counts (1)")
    when = parser.add_mutually_exclusive_group()
    when.add_argument("--first", action="store_true", help="no untimed run before: nothing was planned yet")
    cold = "each query in a new process with an empty cache, next to Python with DuckDB; compares times alone"
    when.add_argument("--cold", action="store_true", help=cold)
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="for one run of a query (none)")
    parser.add_argument("--staged", action="store_true", help="in stages only, never by DuckDB's own plan")
    _add_suite(parser)
    parser.set_defaults(run=_run)


def _add_suite(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--suite", choices=sorted(SUITES), default="tpcds", help="which benchmark (tpcds)")


def _generate(options: argparse.Namespace) -> int:
    if options.seed is not None and options.skew is None:
        raise ConfigError("--seed belongs to --skew, and there is none")
    skew = None if options.skew is None else Skew(options.skew, options.seed or 0)
    with _bar(TextColumn("{task.percentage:>3.0f}%"), TimeRemainingColumn()) as bar:
        task = bar.add_task("starting", total=None)

        def show(progress: Progress) -> None:
            bar.update(task, description=progress.table, completed=progress.done, total=progress.total)

        made = generate(options.scale, options.directory, show, suite=options.suite, skew=skew)
    kept = f", {len(made.kept)} were there" if made.kept else ""
    print(
        f"{len(made.made)} tables made in {made.seconds:.1f} s{kept}; {made.bytes / 1e6:.0f} MB in {options.directory}"
    )
    if made.without_texts:
        print(f"without the texts of the queries: {made.without_texts}", file=sys.stderr)
    return 0


def _run(options: argparse.Namespace) -> int:
    if options.repeat < 1:
        raise ConfigError(f"--repeat must be at least 1, not {options.repeat}")
    numbers = parse_selection(options.queries, options.suite)
    target = _target(options.json)
    if options.cold:
        return _run_cold(options, numbers, target)
    chosen = bench.SideBySideOptions(
        Path(options.directory), options.suite, numbers, options.slots, options.memory, options.checkpoints,
        options.repeat, options.check, options.first, options.timeout, options.staged,
    )  # fmt: skip
    done = _run_with_bar(chosen, len(numbers))
    print(report.totals(done))
    if target is not None:
        _write(target, json.dumps(done.json(), indent=1))
    return 0 if done.all_correct else 1


def _run_cold(options: argparse.Namespace, numbers: tuple[int, ...], target: Path | None) -> int:
    if options.checkpoints is not None or options.check:
        raise ConfigError("--cold runs without --checkpoints, and compares no answers: leave out --check")
    chosen = cold.ColdOptions(
        Path(options.directory), options.suite, numbers, options.slots, options.memory, options.repeat,
        options.timeout, options.staged,
    )  # fmt: skip
    print(cold.HEADER)
    done = cold.run(chosen, lambda one: print(cold.line(one), flush=True))
    print(cold.totals(done))
    if target is not None:
        _write(target, json.dumps(done.json(), indent=1))
    return 0 if done.all_answered else 1


def _run_with_bar(options: bench.SideBySideOptions, size: int) -> bench.BenchReport:
    """On a terminal a bar now and the lines at the end, else each line as soon as it is known."""
    lines: list[str] = []
    with _bar(MofNCompleteColumn(), TimeElapsedColumn()) as bar:
        task = bar.add_task("0 wrong", total=size)
        wrong = 0

        def show(one: bench.QueryReport) -> None:
            nonlocal wrong
            wrong += not one.correct
            lines.append(report.line(one))
            if bar.disable:
                print("\n".join(([report.HEADER] if len(lines) == 1 else []) + lines[-1:]), flush=True)
            bar.update(task, advance=1, description=f"query {one.query}, {wrong} wrong")

        done = bench.run(options, show)
    if not bar.disable:
        print("\n".join([report.HEADER, *lines]))
    return done


@contextmanager
def _bar(*columns: TextColumn | MofNCompleteColumn | TimeRemainingColumn | TimeElapsedColumn) -> Iterator[Bar]:
    """A progress bar on stderr, and only if that is a terminal."""
    console = Console(stderr=True)
    shown = TextColumn("{task.description:<24}"), BarColumn(), *columns
    with Bar(*shown, console=console, transient=True, disable=not console.is_terminal, redirect_stdout=False) as bar:
        yield bar


def _target(path: str | None) -> Path | None:
    """The path to write the report to; checked before the run, which may be long."""
    if path is None:
        return None
    target = Path(path)
    if target.is_dir() or not os.access(target.parent, os.W_OK):
        raise ConfigError(f"cannot write the report to {target}")
    return target


def _write(target: Path, content: str) -> None:
    try:
        write_whole(target, content + "\n")
    except OSError as error:
        print(content)
        raise ConfigError(f"cannot write the report to {target}: {error.strerror}") from error
