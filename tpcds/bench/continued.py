"""The process of a query is killed at a part of its work, and another one goes on: how much of that work is saved.

Every query runs undisturbed without and with a folder of checkpoints, in turn, in the same options; then it is killed
(SIGKILL) once its process has taken a part of the processor seconds of such a run, and runs in a new process with the
same folder. The start of a process does not count: the clock begins when the query is submitted, and nothing but the
modules has been loaded by then. What is saved is the part of a whole run with checkpoints that the second run does not
take. Every answer is compared with DuckDB's.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean, median

import duckdb
import pyarrow as pa

from qoop.catalog.errors import ExecutionError
from qoop.tpcds.bench.contest import Killed, Outcome, SystemUnderTest, judge, need_affinity, scratch_folder
from qoop.tpcds.bench.modes import DEFAULT, STAGED, described
from qoop.tpcds.bench.resized import in_turn, longest
from qoop.tpcds.bench.system_under_test import Size, Task
from qoop.tpcds.oracle import Oracle
from qoop.tpcds.quantiles import ratio_of_sums
from qoop.tpcds.queries import texts
from qoop.tpcds.results import Results

POINTS = (0.3, 0.6, 0.9)
USUAL = Size(2, 2 * 10**9)
LEAST = 10.0
"""Seconds that a query must take for its start, and the moments of a kill, to be of no account."""
SAVED, UNDISTURBED = 0.8, 1.03
"""The goals: the least saved part of the done part, and the most that a run with checkpoints takes of one without."""
_TRIES = 3
_SIDES = ("without", "with")


@dataclass(frozen=True, slots=True)
class ContinuedOptions:
    """The runs to make. queries: none: the `longest` of all 99. repeat: rounds of all runs of a query.

    points: parts of the work after which it is killed. least: seconds that an undisturbed run must take for that.
    staged: in stages only. results: a file taken up and kept.
    """

    directory: Path
    queries: tuple[int, ...] = ()
    longest: int = 20
    repeat: int = 1
    points: tuple[float, ...] = POINTS
    size: Size = USUAL
    least: float = LEAST
    staged: bool = False
    results: Path | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    """Seconds of the clock and of the processor until the answer. outputs: tasks that ran."""

    wall: float
    cpu: float
    outputs: int = 0

    def seconds(self, part: str) -> float:
        """part: wall or cpu."""
        return self.wall if part == "wall" else self.cpu


@dataclass(frozen=True, slots=True)
class Second:
    """A run after a kill. cpu: processor seconds that the killed one had taken. taken: by the second run."""

    cpu: float
    taken: Taken


@dataclass(frozen=True)
class QueryResult:
    """One query: its undisturbed runs by side, and by point its second runs; none of these if it is too short."""

    query: int
    undisturbed: Mapping[str, Sequence[Taken]]
    seconds: Mapping[float, Sequence[Second]] = field(default_factory=dict)
    error: str | None = None

    @property
    def ratio(self) -> float:
        """A run with checkpoints as a multiple of one without: the medians."""
        return self.whole("wall") / median(one.wall for one in self.undisturbed["without"])

    def whole(self, part: str) -> float:
        """Seconds of a run with checkpoints: the median. part: wall or cpu."""
        return median(one.seconds(part) for one in self.undisturbed["with"])

    def done(self, point: float) -> float:
        """The part of a whole run that was done when it was killed, in the mean."""
        return mean(one.cpu for one in self.seconds[point]) / self.whole("cpu")

    def saved(self, point: float, part: str = "wall") -> float:
        """The part of a whole run that the second run saves, in the mean. part: wall or cpu."""
        return 1.0 - mean(one.taken.seconds(part) for one in self.seconds[point]) / self.whole(part)

    def of_done(self, point: float, part: str = "wall") -> float:
        """The part that is saved over the part that was done."""
        return self.saved(point, part) / self.done(point)

    def lines(self) -> Iterator[str]:
        """The result as lines of text."""
        if self.error is not None:
            yield f"query {self.query}: {self.error}"
            return
        yield f"query {self.query}: {self.whole('wall'):.2f} s, {self.ratio:.3f} x of a run without checkpoints"
        if not self.seconds:
            yield "  too short to be killed"
        for point in self.seconds:
            took = mean(one.taken.wall for one in self.seconds[point])
            yield (
                f"  killed at {self.done(point):4.0%}: the second run takes {took:.2f} s and saves"
                f" {self.saved(point):.0%}: {self.of_done(point):.2f} of what was done"
                f" ({self.of_done(point, 'cpu'):.2f} by processor seconds)"
            )


def run(options: ContinuedOptions, progress: Callable[[str], None] = print) -> list[QueryResult]:
    """Run what is not in the results yet. Raises ConfigError or SourceError if it cannot begin."""
    need_affinity()
    settings = {
        "size": asdict(options.size), "points": options.points, "staged": options.staged, "duckdb": duckdb.__version__
    }  # fmt: skip
    results = Results(options.results, settings)
    chosen = options.queries or longest(options.directory, options.longest, results, progress)
    size = f"{options.size.slots} slots, {options.size.memory / 1e9:g} GB"
    progress(f"{_mode(options)}, {size}, DuckDB {duckdb.__version__}")
    done = []
    for number in chosen:
        with scratch_folder() as scratch:
            done.append(_Query(options, number, results, scratch).measured())
        for line in done[-1].lines():
            progress(line)
    return done


def _mode(options: ContinuedOptions) -> str:
    return described(STAGED if options.staged else DEFAULT)


class _Query:
    """The runs of one query. scratch: a folder for their files."""

    def __init__(self, options: ContinuedOptions, number: int, results: Results, scratch: Path) -> None:
        self._options = options
        self._number = number
        self._results = results
        self._folder = scratch / "checkpoints"
        self._answer = scratch / "answer.arrow"
        self._scratch = scratch
        self._text = texts(directory=options.directory)[number]
        self._right: pa.Table | None = None

    def measured(self) -> QueryResult:
        """Make the runs that are not in the results yet, and return all."""
        undisturbed: dict[str, list[Taken]] = {side: [] for side in _SIDES}
        seconds: dict[float, list[Second]] = {}
        try:
            for repetition in range(self._options.repeat):
                for side in in_turn(_SIDES, repetition):
                    undisturbed[side].append(self._undisturbed(side, repetition))
                whole = QueryResult(self._number, undisturbed)
                if whole.whole("wall") < self._options.least:
                    continue
                for point in self._options.points:
                    seconds.setdefault(point, []).append(self._killed(point, whole.whole("cpu"), repetition))
        except ExecutionError as error:
            return QueryResult(self._number, undisturbed, seconds, str(error))
        return QueryResult(self._number, undisturbed, seconds)

    def _undisturbed(self, side: str, repetition: int) -> Taken:
        name = f"query {self._number} {side} {repetition}"
        if self._results.get(name) is None:
            self._right_answer()  # now, so that all runs find the files in the system's memory
            self._results.put(name, asdict(self._whole(self._task(side))))
        return Taken(**self._results.get(name))

    def _killed(self, point: float, cpu: float, repetition: int) -> Second:
        name = f"query {self._number} killed at {point:g} {repetition}"
        if self._results.get(name) is None:
            self._results.put(name, asdict(self._kill_and_start_again(point, cpu)))
        kept = self._results.get(name)
        return Second(kept["cpu"], Taken(**kept["taken"]))

    def _kill_and_start_again(self, point: float, cpu: float) -> Second:
        """cpu: of a whole run. Raises ExecutionError."""
        task = self._task("with")
        for _ in range(_TRIES):
            self._clean()
            with SystemUnderTest(task, self._scratch) as system:
                system.ready()
                end = system.go_until(point * cpu)
            if isinstance(end, Killed):
                return Second(end.cpu, self._whole(task, clean=False))
        raise ExecutionError(f"it ended {_TRIES} times before it could be killed at {point:.0%}")

    def _whole(self, task: Task, clean: bool = True) -> Taken:
        """A run to the end. Raises ExecutionError where it fails or its answer is wrong."""
        if clean:
            self._clean()
        self._answer.unlink(missing_ok=True)
        with SystemUnderTest(task, self._scratch) as system:
            system.ready()
            outcome = system.go()
        error = outcome.error or judge(self._options.directory, self._text, self._answer, self._right_answer())
        if error is not None:
            raise ExecutionError(error)
        return _taken(outcome)

    def _task(self, side: str) -> Task:
        folder = str(self._folder) if side == "with" else None
        directory, answer = str(self._options.directory), str(self._answer)
        return Task(
            "qoop", directory, self._text, self._options.size, answer, folder, staged=self._options.staged, fresh=True
        )  # fmt: skip

    def _clean(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _right_answer(self) -> pa.Table:
        if self._right is None:
            with Oracle(self._options.directory) as oracle:
                self._right = oracle.answer(self._text)
        return self._right


def _taken(outcome: Outcome) -> Taken:
    return Taken(outcome.seconds, float(outcome.facts["cpu"]), int(outcome.facts["attempts"]))


def table(done: Sequence[QueryResult], options: ContinuedOptions) -> str:
    """The means, and whether the goals are met."""
    good = [one for one in done if one.error is None]
    killed = [one for one in good if one.seconds]
    lines = ["", f"{_mode(options)}, DuckDB {duckdb.__version__}:"]
    if killed:
        saved = mean(one.of_done(point) for one in killed for point in one.seconds)
        by_cpu = mean(one.of_done(point, "cpu") for one in killed for point in one.seconds)
        lines.append(
            f"{len(killed)} queries of {options.least:g} s or more, killed: saved {saved:.2f} of what was done"
        )
        lines[-1] += f" in the mean, {by_cpu:.2f} by processor seconds (goal: {SAVED:g})"
        for point in killed[0].seconds:
            each = [one.of_done(point) for one in killed if point in one.seconds]
            lines.append(f"  at {point:4.0%}: {mean(each):.2f}, the least {min(each):.2f}")
    if good:
        ratio, low, high = _undisturbed_ratio(good)
        lines.append(
            f"{len(good)} queries undisturbed, with checkpoints over without: {ratio:.3f}"
            f" (95 % interval {low:.3f} to {high:.3f}; goal: {UNDISTURBED:g})"
        )
    failed = [f"{one.query} ({one.error})" for one in done if one.error is not None]
    return "\n".join([*lines, f"wrong or failed: {'; '.join(failed) or 'none'}"])


def _undisturbed_ratio(good: Sequence[QueryResult]) -> tuple[float, float, float]:
    return ratio_of_sums(
        [
            (one.wall, other.wall)
            for one, other in zip(query.undisturbed["with"], query.undisturbed["without"], strict=True)
        ]
        for query in good
    )
