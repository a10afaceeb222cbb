"""Run the queries of a benchmark through qoop and through DuckDB on the same files, side by side.

For each query both sides answer once untimed (statistics, caches of the system), then in turn `repeat` times; the
shortest time of each counts. Both times run from the text to the whole answer in Arrow. The answers are compared by
:mod:`qoop.tpcds.oracle`. A query that fails is reported and the run goes on.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from qoop.engine.history import Succeeded
from qoop.tpcds.manifest import read_manifest
from qoop.tpcds.memory import PeakMemory
from qoop.tpcds.oracle import is_empty_answer
from qoop.tpcds.oracle_process import OracleError, OracleProcess
from qoop.tpcds.quantiles import quantile_if_any
from qoop.tpcds.queries import texts

if TYPE_CHECKING:
    from qoop.query.job import Job
    from qoop.session.session import Session

SLOW_RATIO, SLOW_SECONDS = 6.0, 0.25
"""A query is slow if it takes more than the larger of 6 x DuckDB and DuckDB + 250 ms."""


@dataclass(frozen=True, slots=True)
class SideBySideOptions:
    """The runs to make. check: compare the answer of every run of a query, not only that of the last.

    first: leave out the untimed run. timeout: in seconds, for one run of a query. staged: see `qoop.connect`.
    """

    directory: Path
    suite: str = "tpcds"
    queries: tuple[int, ...] = ()
    slots: int | None = None
    memory: str | None = None
    checkpoints: str | None = None
    repeat: int = 1
    check: bool = False
    first: bool = False
    timeout: float | None = None
    staged: bool = False


@dataclass(frozen=True, slots=True)
class QueryReport:
    """One query. Times in seconds, memory in bytes; None for what a failed query has not.

    seconds, duckdb_seconds: from text to Arrow. planning_seconds: part of seconds. max_width: tasks of the widest
    stage. opaque_stages: stages the planner did not take apart; all_opaque: it took nothing apart.
    empty: the answer proves little, see `is_empty_answer`. peak_memory: anonymous memory of the process.
    error: why it failed or is wrong.
    """

    query: int
    seconds: float | None = None
    duckdb_seconds: float | None = None
    planning_seconds: float | None = None
    rows: int | None = None
    correct: bool = False
    stages: int | None = None
    tasks: int | None = None
    max_width: int | None = None
    longest_task_seconds: float | None = None
    opaque_stages: int | None = None
    all_opaque: bool = False
    empty: bool = False
    peak_memory: int | None = None
    error: str | None = None
    task_seconds: tuple[float, ...] = field(default=(), repr=False)

    @property
    def slow(self) -> bool:
        """True if it takes much longer than DuckDB."""
        if self.seconds is None or self.duckdb_seconds is None:
            return False
        return self.seconds > max(SLOW_RATIO * self.duckdb_seconds, self.duckdb_seconds + SLOW_SECONDS)


@dataclass(frozen=True, slots=True)
class BenchReport:
    """A whole run; `settings` are what it ran under."""

    queries: tuple[QueryReport, ...]
    settings: Mapping[str, Any]
    versions: Mapping[str, str]

    @property
    def all_correct(self) -> bool:
        return all(report.correct for report in self.queries)

    def totals(self) -> dict[str, Any]:
        """Sums and counts over the queries; the ratio is over those that both sides answered."""
        pairs = [(r.seconds, r.duckdb_seconds) for r in self.queries if r.seconds is not None and r.duckdb_seconds]
        ours, theirs = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
        planning = [r.planning_seconds for r in self.queries if r.planning_seconds is not None]
        tasks = [seconds for r in self.queries for seconds in r.task_seconds]
        return {
            "queries": len(self.queries),
            "correct": sum(r.correct for r in self.queries),
            "wrong": [r.query for r in self.queries if not r.correct and r.seconds is not None],
            "failed": [r.query for r in self.queries if r.seconds is None],
            "empty": [r.query for r in self.queries if r.empty],
            "seconds": ours,
            "duckdb_seconds": theirs,
            "ratio": ours / theirs if theirs else None,
            "slow": [r.query for r in self.queries if r.slow],
            "planning_seconds_median": quantile_if_any(planning, 0.5),
            "planning_seconds_p95": quantile_if_any(planning, 0.95),
            "task_seconds_median": quantile_if_any(tasks, 0.5),
            "task_seconds_p99": quantile_if_any(tasks, 0.99),
            "longest_task_seconds": max(tasks, default=None),
            "wider_than_one": sum((r.max_width or 0) > 1 for r in self.queries),
            "without_opaque_stage": sum(r.opaque_stages == 0 for r in self.queries),
            "all_opaque": [r.query for r in self.queries if r.all_opaque],
            "peak_memory": max((r.peak_memory for r in self.queries if r.peak_memory is not None), default=None),
        }

    def json(self) -> dict[str, Any]:
        """The report as JSON values: queries, totals, settings, versions."""
        queries = [{k: v for k, v in asdict(report).items() if k != "task_seconds"} for report in self.queries]
        return {
            "queries": queries,
            "totals": self.totals(),
            "settings": dict(self.settings),
            "versions": dict(self.versions),
        }


def run(options: SideBySideOptions, progress: Callable[[QueryReport], None] = lambda report: None) -> BenchReport:
    """Run the chosen queries (all of the suite if none are chosen); `progress` hears of each as it is done.

    Raises ConfigError or SourceError if the run cannot begin: no texts, no such folder, wrong options.
    """
    import qoop

    chosen = texts(options.suite, options.directory)
    numbers = options.queries or tuple(chosen)
    staged = options.staged or None  # else as the environment says
    with qoop.connect(
        slots=options.slots, memory=options.memory, checkpoints=options.checkpoints, reuse=False, staged=staged
    ) as session:
        session.register_folder(options.directory)
        settings = _settings(options, session)
        with OracleProcess(options.directory, session.config.slots) as oracle:
            reports = []
            for number in numbers:
                reports.append(_Bench(session, oracle, options, number, chosen[number]).report())
                progress(reports[-1])
    return BenchReport(tuple(reports), settings, _versions())


@dataclass(frozen=True, slots=True)
class _Timed:
    """One answer of ours: the job and the seconds it took."""

    table: pa.Table
    seconds: float
    job: Job


class _Bench:
    """One query: asks both sides in turn and makes the report."""

    def __init__(
        self, session: Session, oracle: OracleProcess, options: SideBySideOptions, number: int, text: str
    ) -> None:
        self._session, self._oracle, self._options = session, oracle, options
        self._number, self._text = number, text
        self._memory = PeakMemory()

    def report(self) -> QueryReport:
        """Run, compare, describe; whatever goes wrong with the query is in the report."""
        try:
            ours, theirs, duckdb_seconds, difference = self._measure()
        except OracleError as error:
            return QueryReport(self._number, error=f"DuckDB: {error}", peak_memory=self._memory.peak)
        except Exception as error:  # also what is not ours: one bad query must not end a long run
            message = f"{type(error).__name__}: {error}"
            return QueryReport(self._number, duckdb_seconds=self._try_oracle(), error=message,
                               peak_memory=self._memory.peak)  # fmt: skip
        return _describe(self._number, ours, theirs, duckdb_seconds, difference, self._memory.peak)

    def _measure(self) -> tuple[_Timed, pa.Table, float, str | None]:
        runs = self._options.repeat + (not self._options.first)
        best: _Timed | None = None
        seconds, difference = [], None
        for index in range(runs):
            ours, (theirs, taken) = self._ask_both(ours_first=index % 2 == 0)
            if self._options.check or index == runs - 1:
                difference = difference or self._judge(ours.table, theirs)
            if index or self._options.first:
                seconds.append(taken)
                best = ours if best is None or ours.seconds < best.seconds else best
        assert best is not None  # repeat is at least 1
        return best, theirs, min(seconds), difference

    def _ask_both(self, ours_first: bool) -> tuple[_Timed, tuple[pa.Table, float]]:
        if ours_first:
            return self._ask_qoop(), self._oracle.answer(self._text)
        theirs = self._oracle.answer(self._text)
        return self._ask_qoop(), theirs

    def _ask_qoop(self) -> _Timed:
        with self._memory:
            begun = time.perf_counter()
            job = self._session.submit(self._text, timeout=self._options.timeout)
            try:
                table = job.result().arrow()
            except KeyboardInterrupt:
                job.cancel()
                raise
            return _Timed(table, time.perf_counter() - begun, job)

    def _judge(self, ours: pa.Table, theirs: pa.Table) -> str | None:
        difference = self._oracle.judge(self._text, ours, theirs)
        return None if difference is None else str(difference)

    def _try_oracle(self) -> float | None:
        """DuckDB's time for a query that failed here."""
        try:
            return self._oracle.answer(self._text)[1]
        except OracleError:
            return None


def _describe(
    number: int, ours: _Timed, theirs: pa.Table, duckdb_seconds: float, difference: str | None, peak: int | None
) -> QueryReport:
    stages = ours.job.plan.stages
    tasks = _task_seconds(ours.job)
    opaque = [stage for stage in stages if stage.opaque is not None]
    return QueryReport(
        query=number,
        seconds=ours.seconds,
        duckdb_seconds=duckdb_seconds,
        planning_seconds=ours.job.planning_seconds,
        rows=ours.table.num_rows,
        correct=difference is None,
        stages=len(stages),
        tasks=len(tasks),
        max_width=max(stage.width for stage in stages),
        longest_task_seconds=max(tasks, default=0.0),
        opaque_stages=len(opaque),
        all_opaque=len(opaque) == len(stages),
        empty=is_empty_answer(theirs),
        peak_memory=peak,
        error=difference,
        task_seconds=tasks,
    )


def _task_seconds(job: Job) -> tuple[float, ...]:
    return tuple(record.committed.seconds for record in job.history() if isinstance(record, Succeeded))


def _settings(options: SideBySideOptions, session: Session) -> dict[str, Any]:
    manifest = read_manifest(options.directory)
    return {
        "suite": options.suite,
        "scale": manifest.scale if manifest is not None else None,
        "slots": session.config.slots,
        "memory": session.config.memory,
        "durable": options.checkpoints is not None,
        "repeat": options.repeat,
        "first": options.first,
    }


def _versions() -> dict[str, str]:
    packages: Sequence[str] = ("qoop", "duckdb", "pyarrow", "sqlglot", "tpcgen-cli")
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
