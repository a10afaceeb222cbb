"""The limits of a container change at random every few seconds while queries run in it: qoop, and then DuckDB.

The process is in a control group of its own, of version 1 or 2. Memory is drawn between a quarter and four times a
base, evenly by its logarithm, CPUs evenly between 0.5 and 2; both kinds get the same sizes. A process that the kernel
kills is started again, and its query is lost. Every answer is compared with DuckDB's without limits.

A query is measured against runs that keep one size: of these there is one for each query and each size of a grid,
and between the sizes of the grid, times are interpolated by the logarithms. A run that does its work at the pace of
such runs, at every size that it meets, has a ratio of 1.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from math import exp, log
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import duckdb
import pyarrow as pa

from qoop.catalog.errors import ExecutionError
from qoop.tpcds.bench.contest import judge, scratch_folder
from qoop.tpcds.bench.query_loop import KINDS
from qoop.tpcds.control_groups import ControlGroup, Course, GroupSize
from qoop.tpcds.oracle import Oracle
from qoop.tpcds.quantiles import quantile
from qoop.tpcds.queries import texts
from qoop.tpcds.results import Results

QUERIES = (23, 51, 67, 78)
BASE = 2 * 10**9
MEMORY, CPUS = (0.25, 1.0, 4.0), (0.5, 1.0, 2.0)
"""The grid of sizes that are kept: times the base, and CPUs. Its ends are those of the sizes that are drawn."""
PARTS = (0.5, 0.95)
"""Of the memory in use: a limit that is below it."""
LEAST = 0.4
"""Of the base: no limit of a shrink is lower."""
REACTION, RATIO = 1.0, 1.15
"""The goals: the most seconds until a lower limit is accepted, and the most time of runs that keep a size."""
_START, _KEPT = 120.0, 900.0  # seconds for a process to be ready, and for a query at a size that is kept
_RETRY = 0.01


@dataclass(frozen=True, slots=True)
class ResizesOptions:
    """The runs to make. count: resizes of each kind. every: seconds between them. base: bytes of memory.

    shrinks: every second limit of memory is below what is in use. kept: also run the queries at the sizes of the grid.
    results: a file taken up and kept.
    """

    directory: Path
    queries: tuple[int, ...] = QUERIES
    count: int = 1000
    every: float = 5.0
    base: int = BASE
    seed: int = 1
    kinds: tuple[str, ...] = KINDS
    shrinks: bool = False
    kept: bool = True
    results: Path | None = None


@dataclass(frozen=True, slots=True)
class Resized:
    """A resize. seconds: until the kernel had accepted the limit; None: it refused it until the next resize.

    below_use: the limit was below the memory in use. killed: the kernel killed the process before the next resize.
    """

    size: GroupSize
    seconds: float | None
    below_use: bool
    killed: bool


@dataclass(frozen=True, slots=True)
class Answered:
    """A query that ended. seconds, cpu: that it took. course: its seconds at each size that it met, in order.
    error: of a failed or wrong answer."""

    query: int
    seconds: float
    cpu: float = 0.0
    course: Sequence[tuple[float, GroupSize]] = ()
    error: str | None = None


@dataclass(frozen=True)
class Report:
    """The outcome of one kind."""

    kind: str
    resizes: Sequence[Resized] = ()
    answers: Sequence[Answered] = ()
    kept: Mapping[int, KeptTimes] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """The time of a run as a multiple of runs that keep each size, weighted by the time at it; None: unknown."""
        work = [
            sum(seconds / self.kept[one.query].at(size) for seconds, size in one.course)
            for one in self.answers
            if one.query in self.kept and one.error is None
        ]
        return sum(work) / len(work) if work else None

    @property
    def kills(self) -> int:
        """Resizes after which the kernel killed the process."""
        return sum(one.killed for one in self.resizes)

    @property
    def failed(self) -> bool:
        """True if there was a kill, or an answer that failed or is wrong."""
        return self.kills > 0 or any(one.error is not None for one in self.answers)

    def lines(self) -> Iterator[str]:
        """The result as lines of text."""
        below = [one for one in self.resizes if one.below_use]
        wrong = [one for one in self.answers if one.error is not None]
        yield f"{self.kind}: {len(self.resizes)} resizes, {self.kills} kills by the kernel (goal of qoop: 0)"
        yield f"  {len(self.answers) - len(wrong)} answers right, {len(wrong)} wrong or failed"
        for error in dict.fromkeys(f"query {one.query}: {one.error}" for one in wrong):
            yield f"    {error}"
        accepted = [one.seconds for one in below if one.seconds is not None]
        if accepted:
            late = sum(seconds > REACTION for seconds in accepted)
            yield (
                f"  {len(below)} limits below the memory in use: {sum(one.killed for one in below)} killed by them,"
                f" {len(below) - len(accepted)} refused until the next"
            )
            yield (
                f"  accepted after {median(accepted):.2f} s in the median, {quantile(accepted, 0.9):.2f} s at 90 %,"
                f" {max(accepted):.2f} s at most, {late} after more than {REACTION:g} s"
            )
        if self.ratio is not None:
            yield f"  {self.ratio:.2f} times the time of runs that keep each size (goal: {RATIO:g})"


def run(options: ResizesOptions, progress: Callable[[str], None] = print) -> list[Report]:
    """Run what is not in the results yet. Raises ConfigError or SourceError if it cannot begin."""
    settings = {
        "every": options.every, "base": options.base, "seed": options.seed, "shrinks": options.shrinks,
        "duckdb": duckdb.__version__,
    }  # fmt: skip
    results = Results(options.results, settings)
    with scratch_folder() as scratch:
        bench = _Bench(options, results, scratch, progress)
        for kind in options.kinds:
            bench.resize(kind)
        if options.kept and "qoop" in options.kinds:
            bench.keep_sizes()
    return [report(kind, options, results) for kind in options.kinds]


def report(kind: str, options: ResizesOptions, results: Results) -> Report:
    """The outcome of a kind so far."""
    found = [_resized(value) for name, value in results.values.items() if name.startswith(f"resize {kind} ")]
    answers = [_answered(value) for name, value in results.values.items() if name.startswith(f"answer {kind} ")]
    return Report(kind, found, answers, _kept_times(options, results) if kind == "qoop" else {})


def _kept_times(options: ResizesOptions, results: Results) -> dict[int, KeptTimes]:
    """By query, where each size of the grid is known."""
    grid = [(memory, cpus) for memory in MEMORY for cpus in CPUS]
    known = {query: {place: results.get(_kept(query, *place)) for place in grid} for query in options.queries}
    return {query: KeptTimes(options.base, seconds) for query, seconds in known.items() if None not in seconds.values()}


def table(done: Sequence[Report]) -> str:
    """All of it."""
    return "\n".join(line for one in done for line in one.lines())


def drawn(seed: int, number: int, base: int) -> GroupSize:
    """The size of a resize, the same for all kinds."""
    chance = Random(f"{seed} {number}")
    memory = int(base * exp(chance.uniform(log(MEMORY[0]), log(MEMORY[-1]))))
    return GroupSize(memory, round(chance.uniform(CPUS[0], CPUS[-1]), 2))


@dataclass(frozen=True)
class KeptTimes:
    """The seconds of one query at each size of the grid. base: bytes."""

    base: int
    seconds: Mapping[tuple[float, float], float]

    def at(self, size: GroupSize) -> float:
        """The seconds at a size, interpolated.

        >>> times = KeptTimes(100, {(m, c): 8 / c for m in MEMORY for c in CPUS})
        >>> round(times.at(GroupSize(33, 1.41)), 2), round(times.at(GroupSize(400, 0.5)), 2)
        (5.67, 16.0)
        """
        low, high, upper = _neighbours(MEMORY, size.memory / self.base)
        left, right, later = _neighbours(CPUS, size.cpus)
        weights = {
            (low, left): (1 - upper) * (1 - later), (low, right): (1 - upper) * later,
            (high, left): upper * (1 - later), (high, right): upper * later,
        }  # fmt: skip
        return exp(sum(weight * log(self.seconds[place]) for place, weight in weights.items()))


def _neighbours(points: Sequence[float], value: float) -> tuple[float, float, float]:
    """The points of the grid around a value, and its part of the way from one to the other by the logarithm."""
    value = min(max(value, points[0]), points[-1])
    low = max(point for point in points[:-1] if point <= value)
    high = min(point for point in points if point > low)
    return low, high, log(value / low) / log(high / low)


class _Bench:
    """The runs of some options, with their results in a file. scratch: a folder for answers."""

    def __init__(
        self, options: ResizesOptions, results: Results, scratch: Path, progress: Callable[[str], None]
    ) -> None:
        self._options, self._results, self._scratch, self._progress = options, results, scratch, progress
        known = texts(directory=options.directory)
        self._texts = {number: known[number] for number in options.queries}
        self._right: dict[int, pa.Table] = {}

    def keep_sizes(self) -> None:
        """Run each query at each size of the grid."""
        for memory in MEMORY:
            for cpus in CPUS:
                size = GroupSize(int(self._options.base * memory), cpus)
                missing = [one for one in self._options.queries if self._results.get(_kept(one, memory, cpus)) is None]
                if missing:
                    for answered in self._at_one_size(size, missing):
                        self._progress(f"query {answered.query} at {size}: {answered.seconds:.1f} s")
                        self._results.put(_kept(answered.query, memory, cpus), answered.seconds)

    def resize(self, kind: str) -> None:
        """Make the resizes that are missing."""
        count = self._count(f"resize {kind} ")
        with _group() as group:
            process: QueryLoop | None = None
            try:
                while count < self._options.count:
                    if process is None:
                        process = self._begun(kind, group, count)
                    resized = self._resize_once(process, group, self._size(count, group))
                    self._results.put(f"resize {kind} {count}", asdict(resized))
                    count += 1
                    for answered in process.answered():
                        self._keep(kind, answered)
                    if resized.killed or process.ended:
                        self._progress(f"{kind}, resize {count}, to {resized.size}: the process ended")
                        process.end()
                        process = None
                if process is not None:
                    self._keep(kind, process.next(_KEPT))  # the query that ran at the last resize
            finally:
                if process is not None:
                    process.end()

    def _drawn(self, number: int) -> GroupSize:
        return drawn(self._options.seed, number, self._options.base)

    def _size(self, number: int, group: ControlGroup) -> GroupSize:
        size = self._drawn(number)
        if not self._options.shrinks:
            return size
        if number % 2 == 0:
            return replace(size, memory=int(MEMORY[-1] * self._options.base))
        part = Random(f"{self._options.seed} {number} part").uniform(*PARTS)
        return replace(size, memory=int(max(LEAST * self._options.base, part * group.memory_in_use())))

    def _begun(self, kind: str, group: ControlGroup, count: int) -> QueryLoop:
        """A process at the size of the last resize."""
        chance = Random(f"{self._options.seed} {count} order")
        order = [one for _ in range(1000) for one in chance.sample(self._options.queries, len(self._options.queries))]
        process = self._loop(kind, order, group, self._drawn(count - 1))
        process.ready()
        return process

    def _loop(self, kind: str, order: Sequence[int], group: ControlGroup, size: GroupSize) -> QueryLoop:
        return QueryLoop(kind, self._options.directory, self._scratch, self._texts, order, group, size, self._judge)

    def _at_one_size(self, size: GroupSize, queries: Sequence[int]) -> Iterator[Answered]:
        with _group() as group:
            process = QueryLoop(
                "qoop", self._options.directory, self._scratch, self._texts, queries, group, size, self._judge
            )
            try:
                process.ready()
                for _ in queries:
                    answered = process.next(_KEPT)
                    if answered.error is not None:
                        raise ExecutionError(f"query {answered.query} at {size}: {answered.error}")
                    yield answered
            finally:
                process.end()

    def _resize_once(self, process: QueryLoop, group: ControlGroup, size: GroupSize) -> Resized:
        before, begun = group.kills(), time.monotonic()
        below, end = size.memory < group.memory_in_use(), begun + self._options.every
        group.limit_cpus(size.cpus)
        process.course.put(GroupSize(process.size.memory, size.cpus))
        accepted = None
        while accepted is None and time.monotonic() < end:
            try:
                group.limit_memory(size.memory)
                accepted = time.monotonic() - begun
                process.size = size
                process.course.put(size)
            except OSError:  # version 1 refuses while more is in use
                time.sleep(_RETRY)
        while time.monotonic() < end and not process.ended:
            time.sleep(0.05)
        return Resized(size, accepted, below, group.kills() > before)

    def _keep(self, kind: str, answered: Answered) -> None:
        self._results.put(f"answer {kind} {self._count(f'answer {kind} ')}", asdict(answered))
        if answered.error is not None:
            self._progress(f"{kind}, query {answered.query}: {answered.error}")

    def _judge(self, process: QueryLoop, event: Mapping[str, Any], begun: float) -> Answered:
        number, seconds = event["query"], event["at"] - begun
        if event["event"] == "failed":
            return Answered(number, seconds, error=event["error"])
        course = tuple(process.course.between(begun, event["at"]))
        return Answered(number, seconds, event["cpu"], course, self._difference(number))

    def _count(self, prefix: str) -> int:
        return sum(name.startswith(prefix) for name in self._results.values)

    def _difference(self, number: int) -> str | None:
        """The reason why an answer is wrong; the same bytes are judged once."""
        file = self._scratch / f"{number}.arrow"
        name = f"right {number} {blake2b(file.read_bytes(), digest_size=16).hexdigest()}"
        if self._results.get(name) is None:
            if number not in self._right:
                with Oracle(self._options.directory) as oracle:
                    self._right[number] = oracle.answer(self._texts[number])
            difference = judge(self._options.directory, self._texts[number], file, self._right[number])
            if difference is not None:
                return difference
            self._results.put(name, True)
        return None


class QueryLoop:
    """A process of :mod:`qoop.tpcds.bench.query_loop` in a control group. size: that it has now; course: that it had.

    judge: makes an answer of the line that ends a query, and of the time at which it began.
    """

    def __init__(
        self,
        kind: str,
        directory: Path,
        scratch: Path,
        texts: Mapping[int, str],
        order: Sequence[int],
        group: ControlGroup,
        size: GroupSize,
        judge: Callable[[QueryLoop, Mapping[str, Any], float], Answered],
    ) -> None:
        group.limit_memory(size.memory)
        group.limit_cpus(size.cpus)
        self.kind, self.size, self.course = kind, size, Course()
        self.course.put(size)
        self._judge = judge
        self._answers = queue.SimpleQueue[Answered | None]()
        self._is_ready = threading.Event()
        arguments = [kind, str(directory), str(scratch)]
        self._process = subprocess.Popen(
            group.inside([sys.executable, "-m", "qoop.tpcds.bench.query_loop", *arguments]),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=scratch,
            env={name: text for name, text in os.environ.items() if name != "QOOP_WATCH_MACHINE"},
        )  # fmt: skip
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"texts": texts, "order": list(order)}) + "\n")
        self._process.stdin.flush()
        self._thread = threading.Thread(target=self._read, name="qoop-query-loop", daemon=True)
        self._thread.start()

    @property
    def ended(self) -> bool:
        """True if the process is gone."""
        return self._process.poll() is not None

    def ready(self) -> None:
        """Wait until it has its tables, or is gone."""
        end = time.monotonic() + _START
        while not self._is_ready.wait(0.05) and not self.ended:
            if time.monotonic() > end:
                raise ExecutionError(f"{self.kind} is not ready after {_START:g} s")

    def answered(self) -> Iterator[Answered]:
        """The queries that have ended since the last call."""
        while True:
            try:
                found = self._answers.get_nowait()
            except queue.Empty:
                return
            if found is not None:
                yield found

    def next(self, within: float) -> Answered:
        """The next query that ends. Raises ExecutionError if the process ends before, or the time."""
        try:
            found = self._answers.get(timeout=within)
        except queue.Empty as error:
            raise ExecutionError(f"no answer within {within:g} s") from error
        if found is None:
            raise ExecutionError(f"the process ended with {self._process.wait()}")
        return found

    def end(self) -> None:
        """Kill it, and wait until it is gone."""
        self._process.kill()
        self._process.wait()
        self._thread.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):  # a line that the process did not read
                    stream.close()

    def _read(self) -> None:
        assert self._process.stdout is not None and self._process.stdin is not None
        begun = 0.0
        for line in self._process.stdout:
            event = json.loads(line)
            self._is_ready.set()
            if event["event"] == "begun":
                begun = event["at"]
            elif event["event"] in ("ended", "failed"):
                self._answers.put(self._judge(self, event, begun))
                if event["event"] == "ended":
                    with contextlib.suppress(BrokenPipeError):  # the process is gone
                        self._process.stdin.write("\n")
                        self._process.stdin.flush()
        self._answers.put(None)


def _resized(value: Mapping[str, Any]) -> Resized:
    return Resized(**{**value, "size": GroupSize(**value["size"])})


def _answered(value: Mapping[str, Any]) -> Answered:
    course = tuple((seconds, GroupSize(**size)) for seconds, size in value["course"])
    return Answered(**{**value, "course": course})


def _kept(query: int, memory: float, cpus: float) -> str:
    return f"kept {query} {memory:g} {cpus:g}"


@contextmanager
def _group() -> Iterator[ControlGroup]:
    group = ControlGroup(f"qoop-resizes-{os.getpid()}")
    try:
        yield group
    finally:
        group.close()
