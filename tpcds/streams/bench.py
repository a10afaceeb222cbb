"""``qoop bench streams``: statements of which a part repeats, on one session of qoop and one connection of DuckDB.

Both answer each statement on the same files at that moment, in turn; which comes first alternates. Every answer of qoop
is compared with DuckDB's: one from before a change of a table is a wrong one. Changes of tables are not timed.
"""

from __future__ import annotations

import argparse
import math
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import duckdb
import pyarrow as pa

from qoop.catalog.errors import ConfigError, QoopError
from qoop.engine.backends.local import LocalBackend
from qoop.engine.notices import Continued
from qoop.query.job import Job
from qoop.session.opening import connect
from qoop.session.session import Session
from qoop.tpcds.oracle import Oracle
from qoop.tpcds.queries import parse_selection, texts
from qoop.tpcds.results import Results
from qoop.tpcds.streams.constants import Constants
from qoop.tpcds.streams.tables import ChangingTables
from qoop.tpcds.streams.workload import DECILES, Statement, repetition, statements

_HEADER = "stream repeats statements  answers there    qoop s  DuckDB s   ratio  qoop cpu DuckDB cpu   ratio  wrong"


@dataclass(frozen=True, slots=True)
class StreamsOptions:
    """queries: the templates; none: all 99. streams: how many, spread over the deciles of repetition. statements: of
    each. slots, memory: of both sides. reuse: qoop keeps outputs for later statements."""

    directory: Path
    queries: tuple[int, ...] = ()
    streams: int = DECILES
    statements: int = 200
    slots: int = 2
    memory: str = "4GB"
    reuse: bool = True
    results: Path | None = None

    @property
    def numbers(self) -> Sequence[int]:
        """The deciles of the streams.

        >>> StreamsOptions(Path(), streams=3).numbers
        [0, 4, 9]
        """
        if self.streams == 1:
            return [DECILES - 1]
        return [place * (DECILES - 1) // (self.streams - 1) for place in range(self.streams)]


@dataclass(frozen=True, slots=True)
class Taken:
    """The seconds of one statement on both sides. there: the whole answer was there."""

    kind: str
    qoop: float
    duckdb: float
    qoop_cpu: float
    duckdb_cpu: float
    there: bool


@dataclass(frozen=True)
class StreamResult:
    """A stream. errors: wrong answers, and statements without one."""

    stream: int
    taken: Sequence[Taken]
    errors: Sequence[str] = ()

    @classmethod
    def of(cls, kept: dict[str, Any]) -> StreamResult:
        """From JSON values."""
        return cls(kept["stream"], [Taken(**one) for one in kept["taken"]], kept["errors"])

    def sum(self, part: str) -> float:
        """The sum of a figure of all statements."""
        return sum(float(getattr(one, part)) for one in self.taken)

    def ratio(self, part: str = "") -> float:
        """Seconds of qoop over those of DuckDB. part: "_cpu": of cpu seconds."""
        theirs = self.sum(f"duckdb{part}")
        return self.sum(f"qoop{part}") / theirs if theirs else math.nan

    def line(self) -> str:
        there = sum(one.there for one in self.taken)
        return (
            f"{self.stream:6d} {repetition(self.stream):7.0%} {len(self.taken):10d} {there:14d} "
            f"{self.sum('qoop'):9.2f} {self.sum('duckdb'):9.2f} {self.ratio():7.2f} {self.sum('qoop_cpu'):9.2f} "
            f"{self.sum('duckdb_cpu'):10.2f} {self.ratio('_cpu'):7.2f} {len(self.errors):6d}"
        )


def run(options: StreamsOptions, progress: Callable[[str], None] = print) -> list[StreamResult]:
    """Run the streams that are not in the results yet. Raises ConfigError or SourceError if it cannot begin."""
    settings = {
        name: value for name, value in asdict(options).items() if name not in ("directory", "streams", "results")
    }
    results = Results(options.results, settings)
    known = texts(directory=options.directory)
    templates = {number: known[number] for number in options.queries or known}
    with Oracle(options.directory) as oracle, oracle.cursor() as connection:
        constants = Constants.of(connection)
    progress(_HEADER)
    done = []
    for number in options.numbers:
        kept = results.get(f"stream {number}")
        drawn = () if kept is not None else statements(templates, constants, number, options.statements)
        one = StreamResult.of(kept) if kept is not None else _stream(options, number, drawn)
        results.put(f"stream {number}", asdict(one))
        progress(one.line())
        for error in one.errors:
            progress(f"       {error}")
        done.append(one)
    return done


def _stream(options: StreamsOptions, number: int, drawn: Sequence[Statement]) -> StreamResult:
    with tempfile.TemporaryDirectory(prefix="qoop-streams-", dir=options.directory.resolve().parent) as folder:
        tables = ChangingTables(options.directory, Path(folder))
        with (
            Oracle(folder, options.slots, options.memory) as oracle,
            connect(slots=options.slots, memory=options.memory, reuse=options.reuse) as session,
        ):
            session.register_folder(folder)
            return _Stream(number, tables, oracle, session).result(drawn)


class _Stream:
    """One stream on both sides."""

    def __init__(self, number: int, tables: ChangingTables, oracle: Oracle, session: Session) -> None:
        self._number, self._tables, self._oracle, self._session = number, tables, oracle, session
        self._chance = random.Random(number)
        self._taken: list[Taken] = []
        self._errors: list[str] = []

    def result(self, drawn: Sequence[Statement]) -> StreamResult:
        changes = 0
        for place, one in enumerate(drawn):
            if one.kind == "change":
                self._tables.change(changes, self._chance)
                self._oracle.read_again(self._tables.folder)
                changes += 1
            else:
                self._answer(place, one)
        return StreamResult(self._number, self._taken, self._errors)

    def _answer(self, place: int, one: Statement) -> None:
        jobs: list[Job] = []
        sides: dict[str, Callable[[], pa.Table]] = {
            "qoop": lambda: self._session.sql(one.text, watch=jobs.append).arrow(),
            "duckdb": lambda: self._oracle.answer(one.text),
        }
        answers: dict[str, pa.Table] = {}
        seconds: dict[str, tuple[float, float]] = {}
        try:
            for side in ("qoop", "duckdb") if place % 2 else ("duckdb", "qoop"):
                wall, cpu = time.perf_counter(), time.process_time()
                answers[side] = sides[side]()
                taken = time.perf_counter() - wall
                if side == "qoop":
                    self._wait_for_later_work()
                seconds[side] = (taken, time.process_time() - cpu)
            difference = str(self._oracle.judge(one.text, answers["qoop"], answers["duckdb"]) or "")
        except (QoopError, duckdb.Error) as error:
            difference = f"{type(error).__name__}: {error}".splitlines()[0]
        if difference:
            self._errors.append(f"statement {place + 1}, {one.kind} of query {one.template}: {difference}")
        if len(seconds) < len(sides):
            return
        (ours, our_cpu), (theirs, their_cpu) = seconds["qoop"], seconds["duckdb"]
        self._taken.append(Taken(one.kind, ours, theirs, our_cpu, their_cpu, any(map(_was_there, jobs))))

    def _wait_for_later_work(self) -> None:
        """The work of a session after its answer counts, too."""
        self._session.cluster.wait_for_planner()
        if isinstance(self._session.backend, LocalBackend):
            self._session.backend.copies.wait()


def _was_there(job: Job) -> bool:
    return any(isinstance(record, Continued) and record.left == 0 for record in job.history())


def table(done: Sequence[StreamResult]) -> str:
    """The mean of the streams' ratios, and the ratios by kind of statement."""
    good = [one for one in done if one.taken]
    if not good:
        return "\nno statement could be measured"
    lines = ["", f"mean of {len(good)} streams: {fmean(one.ratio() for one in good):.2f} of DuckDB's seconds, "
             f"{fmean(one.ratio('_cpu') for one in good):.2f} of its cpu seconds"]  # fmt: skip
    taken = [one for stream in good for one in stream.taken]
    for kind in ("new", "constants", "repeat"):
        some = [one for one in taken if one.kind == kind]
        if some:
            seconds = sum(one.qoop for one in some) / sum(one.duckdb for one in some)
            there = [one.qoop for one in some if one.there]
            mean = f", of which {len(there)} were there, in {1e3 * fmean(there):.1f} ms each" if there else ""
            lines.append(f"  {kind:9} {len(some):5d} statements: {seconds:.2f}{mean}")
    wrong = sum(len(one.errors) for one in done)
    return "\n".join([*lines, f"wrong answers and errors: {wrong}"])


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    what = "Statements of which a part repeats, while tables change: qoop with what it has kept, DuckDB"
    parser = commands.add_parser("streams", description=f"{what}.")
    usual = StreamsOptions(Path())
    parser.add_argument("directory", metavar="DIR", help="where `qoop tpcds generate` made the tables")
    parser.add_argument("--queries", metavar="1,3,7-9", help="the templates (all)")
    parser.add_argument("--streams", type=int, default=usual.streams, metavar="N", help=f"1 to {DECILES} ({DECILES})")
    parser.add_argument(
        "--statements", type=int, default=usual.statements, metavar="N", help=f"of each stream ({usual.statements})"
    )
    parser.add_argument("--slots", type=int, default=usual.slots, metavar="N", help=f"tasks at a time ({usual.slots})")
    parser.add_argument("--memory", default=usual.memory, metavar="SIZE", help=f"of each side ({usual.memory})")
    parser.add_argument("--no-reuse", action="store_true", help="qoop keeps no outputs for later statements")
    parser.add_argument("--results", metavar="FILE", help="kept as they come; a broken-off run goes on from there")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if not 1 <= options.streams <= DECILES:
        raise ConfigError(f"--streams must be from 1 to {DECILES}, not {options.streams}")
    if options.statements < 1 or options.slots < 1:
        raise ConfigError("--statements and --slots must be at least 1")
    queries = parse_selection(options.queries) if options.queries is not None else ()
    chosen = StreamsOptions(
        Path(options.directory), queries, options.streams, options.statements, options.slots, options.memory,
        not options.no_reuse, Path(options.results) if options.results is not None else None,
    )  # fmt: skip
    done = run(chosen, lambda line: print(line, flush=True))
    print(table(done))
    return 1 if any(one.errors for one in done) else 0
