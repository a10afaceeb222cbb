"""Resources change in mid-query: qoop, qoop held to its plan, and DuckDB in two ways.

`shrink`: slots fall from 2 to 1 and memory from 8 GB to 1 GB at a third of the time that DuckDB needs undisturbed, and
return at 1.5 times it. `arrive`: a query begins with 1 slot and 1 GB, and 2 slots and 8 GB are there from that third
on. All systems have the same times of change. Each answers in its own process, in turn, so that a busy machine disturbs
all alike. Every first answer is compared with DuckDB's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from qoop.tpcds.bench.contest import Change, Outcome, SystemUnderTest, judge, need_affinity, scratch_folder
from qoop.tpcds.bench.system_under_test import KINDS, Size, Task
from qoop.tpcds.oracle import Oracle
from qoop.tpcds.queries import texts
from qoop.tpcds.results import Results

FULL, SMALL = Size(2, 8 * 10**9), Size(1, 10**9)
LIMIT = 20.0
"""Times the undisturbed time after which a system under test is stopped."""


@dataclass(frozen=True, slots=True)
class Course:
    """The resources over time. changes: the resources from a time on, in undisturbed times after the beginning.

    restarts: DuckDB starts again when it gains resources, too; else only when it loses some.
    """

    name: str
    size: Size
    changes: tuple[tuple[float, Size], ...]
    restarts: bool = False

    def within(self, undisturbed: float) -> tuple[Change, ...]:
        """The changes in seconds, for a query with that undisturbed time in seconds."""
        return tuple(Change(at * undisturbed, size) for at, size in self.changes)


SHRINK = Course("shrink", FULL, ((1 / 3, SMALL), (1.5, FULL)))
ARRIVE = Course("arrive", SMALL, ((1 / 3, FULL),), restarts=True)
ONES = ("held", "running")
"""One kind of each engine, for runs in which nothing changes."""


@dataclass(frozen=True, slots=True)
class ResizedOptions:
    """The runs to make. queries: none: the `longest` of all 99. repeat: of each. results: taken up and kept.

    staged: qoop has no plan of DuckDB's among its own.
    """

    directory: Path
    course: Course = SHRINK
    queries: tuple[int, ...] = ()
    longest: int = 20
    repeat: int = 5
    kinds: tuple[str, ...] = KINDS
    results: Path | None = None
    staged: bool = False


@dataclass(frozen=True)
class QueryResult:
    """One query: DuckDB's undisturbed seconds, and by system the seconds of each repetition (None: failed).

    clairvoyant: where capacity only arrives, the seconds of a schedule that knows it.
    """

    query: int
    undisturbed: float
    seconds: Mapping[str, Sequence[float | None]] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    switches: Sequence[int] = ()
    clairvoyant: float | None = None

    def median(self, kind: str) -> float | None:
        """The median of the repetitions that ended; a failure counts as the limit."""
        taken = self.seconds.get(kind, ())
        return median(one if one is not None else LIMIT * self.undisturbed for one in taken) if taken else None

    def line(self) -> str:
        cells = [f"{value:8.2f}" if (value := self.median(kind)) is not None else "       -" for kind in KINDS]
        note = "  ".join(f"{kind}: {error}" for kind, error in self.errors.items())
        known = "          -" if self.clairvoyant is None else f"{self.clairvoyant:11.2f}"
        return (
            f"{self.query:5d} {self.undisturbed:11.2f} {known} {' '.join(cells)}  {sum(self.switches):3d}  {note}"
        ).rstrip()


HEADER = f"query undisturbed clairvoyant {' '.join(f'{kind:>8}'[:9] for kind in KINDS)}  switches"


def run(options: ResizedOptions, progress: Callable[[str], None] = print) -> list[QueryResult]:
    """Run what is not in the results yet. Raises ConfigError or SourceError if it cannot begin."""
    need_affinity()
    settings = {"course": asdict(options.course), "repeat": options.repeat, "staged": options.staged}
    results = Results(options.results, settings)
    chosen = options.queries or longest(options.directory, options.longest, results, progress)
    progress(HEADER)
    done = []
    for number in chosen:
        kept = results.get(f"query {number}")
        one = QueryResult(**kept) if kept is not None else _query(options, number)
        results.put(f"query {number}", asdict(one))
        progress(one.line())
        done.append(one)
    return done


def longest(directory: Path, count: int, results: Results, progress: Callable[[str], None] = print) -> tuple[int, ...]:
    """The queries that DuckDB takes longest for, in the order of their numbers. One run of each, after each other."""
    with scratch_folder() as scratch:
        for number, text in texts(directory=directory).items():
            name = f"duckdb {number}"
            if results.get(name) is None:
                results.put(name, undisturbed(directory, text, scratch, 1))
                progress(f"query {number}: {results.get(name):.2f} s in DuckDB")
    ordered = sorted(texts(directory=directory), key=lambda number: (-float(results.get(f"duckdb {number}")), number))
    return tuple(sorted(ordered[:count]))


def undisturbed(directory: Path, text: str, scratch: Path, repeat: int) -> float:
    """Seconds that DuckDB takes with all the resources there are: the median."""
    task = Task("running", str(directory), text, FULL, str(scratch / "answer.arrow"))
    return _undisturbed(task, scratch, repeat)


def _undisturbed(task: Task, scratch: Path, repeat: int) -> float:
    return median(_once(task, scratch, (), float("inf")).seconds for _ in range(repeat))


def _query(options: ResizedOptions, number: int) -> QueryResult:
    text = texts(directory=options.directory)[number]
    seconds: dict[str, list[float | None]] = {kind: [] for kind in options.kinds}
    errors: dict[str, str] = {}
    switches: list[int] = []
    with scratch_folder() as scratch:
        time = undisturbed(options.directory, text, scratch, min(3, options.repeat))
        with Oracle(options.directory) as oracle:
            theirs = oracle.answer(text)
        for repetition in range(options.repeat):
            for kind in in_turn(options.kinds, repetition):
                task = _task(options, kind, text, options.course.size, scratch)
                outcome = _once(task, scratch, options.course.within(time), LIMIT * time)
                error = outcome.error
                if error is None and repetition == 0:
                    error = judge(options.directory, text, Path(task.answer), theirs)
                seconds[kind].append(outcome.seconds if error is None else None)
                if error is not None:
                    errors[kind] = error
                if kind == "qoop":
                    switches.append(int(outcome.facts.get("switches", 0)))
        known = clairvoyant(options, text, time, scratch) if len(options.course.changes) == 1 else None
    return QueryResult(number, time, seconds, errors, switches, known)


def _task(options: ResizedOptions, kind: str, text: str, size: Size, scratch: Path) -> Task:
    answer = str(scratch / f"{kind}.arrow")
    restarts = options.course.restarts
    return Task(kind, str(options.directory), text, size, answer, staged=options.staged, restarts_on_more=restarts)


def clairvoyant(options: ResizedOptions, text: str, undisturbed: float, scratch: Path) -> float:
    """Seconds of a schedule that knows when its resources change, once, and loses nothing then.

    It does of the query what the quickest of all systems does on the first resources until the change, and the rest as
    quickly as the quickest does on the later ones. No system need reach it: the best plans before and after the
    change may have no stage in common.
    """
    [change] = options.course.within(undisturbed)
    before, after = (
        min(_undisturbed(_task(options, kind, text, size, scratch), scratch, min(3, options.repeat)) for kind in ONES)
        for size in (options.course.size, change.size)
    )
    return schedule_seconds(change.at, before, after)


def schedule_seconds(change: float, before: float, after: float) -> float:
    """Seconds of a query that takes `before` on the first resources, and `after` on those from a change on."""
    return before if before <= change else change + (1.0 - change / before) * after


def in_turn(kinds: Sequence[str], repetition: int) -> Sequence[str]:
    """Each goes first in some repetition, since the first finds files and caches as others have left them."""
    first = repetition % len(kinds)
    return [*kinds[first:], *kinds[:first]]


def _once(task: Task, scratch: Path, changes: Sequence[Change], limit: float) -> Outcome:
    with SystemUnderTest(task, scratch) as system:
        system.ready()
        return system.go(changes, limit)


def table(done: Sequence[QueryResult]) -> str:
    """The sums, and where an adaptive run was behind one held to its plan."""
    lines = ["", "sum of medians, seconds:"]
    sums: dict[str, float] = {}
    for kind in KINDS:
        medians = [value for one in done if (value := one.median(kind)) is not None]
        if medians:
            sums[kind] = sum(medians)
            lines.append(f"  {kind:10} {sums[kind]:9.2f}  {_failures(done, kind)}".rstrip())
    lines.append(f"  undisturbed {sum(one.undisturbed for one in done):8.2f}")
    known = [one.clairvoyant for one in done if one.clairvoyant is not None]
    if known and len(known) == len(done):
        lines.append(f"  clairvoyant {sum(known):8.2f}")
        if sums.get("qoop"):
            lines.append(f"qoop : clairvoyant = {sums['qoop'] / sum(known):.2f}")
    for kind in KINDS[1:]:
        if kind in sums and sums.get("qoop"):
            lines.append(f"{kind} : qoop = {sums[kind] / sums['qoop']:.2f}")
    pairs = ((one, one.median("qoop"), one.median("held")) for one in done)
    behind = [f"{one.query} ({a / b - 1:+.0%})" for one, a, b in pairs if a and b and a > 1.05 * b]
    lines.append(f"more than 5 % behind the held plan: {', '.join(behind) or 'none'}")
    return "\n".join(lines)


def _failures(done: Sequence[QueryResult], kind: str) -> str:
    failed = sum(one is None for result in done for one in result.seconds.get(kind, ()))
    return f"({failed} runs failed or were stopped at {LIMIT:g} times the undisturbed time)" if failed else ""
