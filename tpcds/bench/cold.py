"""The time of a query for its first user: a new process, and nothing cached.

``qoop DIR -f query.sql`` in turn with a Python process in which DuckDB answers the same text on the same files. Both
print or fetch the whole answer; both times run from the start of the process to its end. A cache folder of our own is
empty each time. Files are in the memory of the system after the first, untimed run of both, which also compiles our
modules, as an installation does. It does not compare answers: run without ``--cold`` for that.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from qoop.query.config import configure
from qoop.tpcds.oracle import views
from qoop.tpcds.queries import texts

_QOOP = "from qoop.__main__ import command; command()"  # as the command does
_DUCKDB = """import sys, duckdb
file, threads = sys.argv[1:]
duckdb.connect(config={"threads": int(threads)}).execute(open(file, encoding="utf-8").read()).fetchall()"""

HEADER = f"{'query':>5} {'ms':>8} {'DuckDB':>8} {'ratio':>6} {'more ms':>8}"


@dataclass(frozen=True, slots=True)
class ColdOptions:
    """The runs to make. repeat: of which the shortest counts. timeout: in seconds, for one process."""

    directory: Path
    suite: str = "tpcds"
    queries: tuple[int, ...] = ()
    slots: int | None = None
    memory: str | None = None
    repeat: int = 1
    timeout: float | None = None
    staged: bool = False


@dataclass(frozen=True, slots=True)
class ColdQuery:
    """One query: seconds of a process, None for one that failed. error: what it said."""

    query: int
    seconds: float | None = None
    duckdb_seconds: float | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ColdReport:
    """A whole run."""

    queries: tuple[ColdQuery, ...]

    @property
    def all_answered(self) -> bool:
        return all(one.error is None for one in self.queries)

    def totals(self) -> dict[str, Any]:
        """Sums over the queries that both sides answered; difference: mean seconds that ours takes longer."""
        pairs = [(one.seconds, one.duckdb_seconds) for one in self.queries if one.seconds and one.duckdb_seconds]
        ours, theirs = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
        return {
            "queries": len(self.queries),
            "failed": [one.query for one in self.queries if one.error is not None],
            "seconds": ours,
            "duckdb_seconds": theirs,
            "ratio": ours / theirs if theirs else None,
            "difference": (ours - theirs) / len(pairs) if pairs else None,
        }

    def json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {"queries": [asdict(one) for one in self.queries], "totals": self.totals()}


def line(one: ColdQuery) -> str:
    """One query in the columns of `HEADER`."""
    if one.seconds is None or one.duckdb_seconds is None:
        return f"{one.query:>5}  {one.error}"
    more = one.seconds - one.duckdb_seconds
    ratio = one.seconds / one.duckdb_seconds
    return f"{one.query:>5} {one.seconds * 1e3:>8.0f} {one.duckdb_seconds * 1e3:>8.0f} {ratio:>6.2f} {more * 1e3:>8.0f}"


def totals(report: ColdReport) -> str:
    """The sums, in words."""
    total = report.totals()
    failed = f"; failed: {', '.join(map(str, total['failed']))}" if total["failed"] else ""
    if total["ratio"] is None:
        return f"no query was answered by both sides{failed}"
    return (
        f"{total['queries']} queries, each in a new process with an empty cache: {total['seconds']:.1f} s against "
        f"{total['duckdb_seconds']:.1f} s of Python with DuckDB: {total['ratio']:.2f} x, "
        f"{total['difference']:+.2f} s a query{failed}"
    )


def run(options: ColdOptions, on_query: Callable[[ColdQuery], object] = lambda _: None) -> ColdReport:
    """Time every query. on_query: called with each at once."""
    slots = configure(slots=options.slots).slots
    known = texts(options.suite, options.directory)
    with tempfile.TemporaryDirectory(prefix="qoop-cold-") as folder:
        sides = _Sides(options, slots, Path(folder))
        found = []
        for number in options.queries or tuple(known):
            found.append(sides.measured(number, known[number]))
            on_query(found[-1])
    return ColdReport(tuple(found))


class _Sides:
    """The two processes that answer a query. folder: for their files."""

    def __init__(self, options: ColdOptions, slots: int, folder: Path) -> None:
        self._options = options
        self._slots = slots
        self._folder = folder
        self._views = views(options.directory)

    def measured(self, number: int, text: str) -> ColdQuery:
        """The shortest time of each side; whichever fails ends it."""
        ours, theirs = self._ours(text), self._theirs(text)
        best = [float("inf"), float("inf")]
        for index in range(self._options.repeat + 1):
            order = ((0, ours), (1, theirs)) if index % 2 else ((1, theirs), (0, ours))
            for side, command in order:
                seconds, error = self._timed(command)
                if error is not None:
                    return ColdQuery(number, error=f"{('qoop', 'DuckDB')[side]}: {error}")
                if index:
                    best[side] = min(best[side], seconds)
        return ColdQuery(number, best[0], best[1])

    def _ours(self, text: str) -> list[str]:
        file = self._folder / "query.sql"
        file.write_text(text, encoding="utf-8")
        command = [sys.executable, "-c", _QOOP, str(self._options.directory), "-f", str(file)]
        command += ["--slots", str(self._slots)]
        command += ["--memory", self._options.memory] if self._options.memory else []
        return [*command, "--staged"] if self._options.staged else command

    def _theirs(self, text: str) -> list[str]:
        words = set(re.findall(r"\w+", text.lower()))
        views = [sql for name, sql in self._views.items() if name.lower() in words]
        file = self._folder / "duckdb.sql"
        file.write_text(";\n".join([*views, text]), encoding="utf-8")
        return [sys.executable, "-c", _DUCKDB, str(file), str(self._slots)]

    def _timed(self, command: Sequence[str]) -> tuple[float, str | None]:
        """Seconds from start to end of a process, and why it failed."""
        with tempfile.TemporaryDirectory(dir=self._folder) as cache:
            environment = {**os.environ, "QOOP_CACHE_DIR": cache, "PYTHONPYCACHEPREFIX": str(self._folder / "compiled")}
            environment.pop("PYTHONDONTWRITEBYTECODE", None)
            begun = time.perf_counter()
            try:
                ended = subprocess.run(
                    command, env=environment, timeout=self._options.timeout, stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                return 0.0, f"not within {self._options.timeout:g} s"
            seconds = time.perf_counter() - begun
        failed = ended.stderr.strip().partition("\n")[0] or f"exit code {ended.returncode}"
        return seconds, failed if ended.returncode else None
