"""A query lives in short processes: each is killed, and the next one has other resources.

Every life has 1 or 2 slots and 0.5 to 4 GB, drawn with a seed, and the same folder of checkpoints. It is killed
(SIGKILL) without notice, once its process has taken a part of the processor seconds that an undisturbed run of that
size takes. The clock begins when the session opens; the start of Python does not count. A run that needs more than
`LIMIT` times an undisturbed one is stopped. Every answer is compared with DuckDB's.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import duckdb
import pyarrow as pa

from qoop.catalog.errors import ExecutionError
from qoop.catalog.user_key import chosen_key
from qoop.session.lives import unfinished_runs
from qoop.tpcds.bench.contest import Outcome, SystemUnderTest, judge, need_affinity, scratch_folder
from qoop.tpcds.bench.resized import longest
from qoop.tpcds.bench.system_under_test import UNTIL_DONE, Size, Task
from qoop.tpcds.oracle import Oracle
from qoop.tpcds.queries import texts
from qoop.tpcds.results import Results

GOALS = {1 / 4: 1.25, 1 / 12: 1.6}
"""By the length of a life, as a part of an undisturbed run: the most that all lives take of one, together."""
SIZES = tuple(Size(slots, int(memory * 1e9)) for slots, memory in ((1, 0.5), (1, 2), (2, 1), (2, 4)))
LIMIT = 4.0


@dataclass(frozen=True, slots=True)
class LivesOptions:
    """The runs to make. queries: none: the `longest` of all 99. parts: the lengths of lives, each a part of an
    undisturbed run. seeds: sequences of sizes for each. results: a file taken up and kept."""

    directory: Path
    queries: tuple[int, ...] = ()
    longest: int = 6
    parts: tuple[float, ...] = tuple(GOALS)
    seeds: int = 1
    results: Path | None = None


@dataclass(frozen=True, slots=True)
class Life:
    """size: its place in `SIZES`. cpu, wall: seconds that it took. whole_cpu, whole_wall: those of an undisturbed run.

    made, outputs: of the plan, those on disk at its end; None after the last life.
    """

    size: int
    cpu: float
    wall: float
    whole_cpu: float
    whole_wall: float
    made: int | None = None
    outputs: int | None = None


@dataclass(frozen=True)
class Trial:
    """All lives of one query. error: it never ended, or its answer is wrong."""

    query: int
    part: float
    seed: int
    lives: Sequence[Life]
    error: str | None = None

    @property
    def cpu(self) -> float:
        """Processor seconds of all lives over undisturbed ones of the same sizes, weighted by the time at each."""
        return sum(one.cpu / one.whole_cpu for one in self.lives)

    @property
    def wall(self) -> float:
        """The same in seconds of the clock."""
        return sum(one.wall / one.whole_wall for one in self.lives)

    def __str__(self) -> str:
        far = " ".join(f"{one.made}/{one.outputs}" for one in self.lives if one.made is not None)
        return (
            f"query {self.query} in lives of 1/{1 / self.part:.0f}, seed {self.seed}: {len(self.lives)} lives,"
            f" {self.cpu:.2f} x by processor seconds, {self.wall:.2f} x by the clock; outputs {far or 'of one life'}"
            + (f": {self.error}" if self.error else "")
        )


def run(options: LivesOptions, progress: Callable[[str], None] = print) -> list[Trial]:
    """Run what is not in the results yet. Raises ConfigError or SourceError if it cannot begin."""
    need_affinity()
    results = Results(options.results, {"sizes": [asdict(one) for one in SIZES], "duckdb": duckdb.__version__})
    chosen = options.queries or longest(options.directory, options.longest, results, progress)
    done = []
    for number in chosen:
        with scratch_folder() as scratch:
            query = _Query(options.directory, number, results, scratch)
            for part, seed in product(options.parts, range(options.seeds)):
                done.append(query.trial(part, seed))
                progress(str(done[-1]))
    return done


def sizes(query: int, part: float, seed: int) -> Iterator[int]:
    """The sizes of one life after the other, as places in `SIZES`."""
    chance = random.Random(f"{query} {part:.3f} {seed}")
    while True:
        yield chance.randrange(len(SIZES))


class _Query:
    """The runs of one query. scratch: a folder for their files."""

    def __init__(self, directory: Path, number: int, results: Results, scratch: Path) -> None:
        self._directory, self._number, self._results, self._scratch = directory, number, results, scratch
        self._place, self._answer = scratch / "place", scratch / "answer.arrow"
        self._text = texts(directory=directory)[number]
        self._right: pa.Table | None = None

    def trial(self, part: float, seed: int) -> Trial:
        """All lives, from the results or run now."""
        name = f"lives {self._number} {part:.4f} {seed}"
        if self._results.get(name) is None:
            lives, error = self._lived(part, seed)
            self._results.put(name, {"lives": list(map(asdict, lives)), "error": error})
        stored = self._results.get(name)
        return Trial(self._number, part, seed, [Life(**one) for one in stored["lives"]], stored["error"])

    def _lived(self, part: float, seed: int) -> tuple[list[Life], str | None]:
        self._clean()
        lives: list[Life] = []
        try:
            for size in sizes(self._number, part, seed):
                whole = self._undisturbed(size)
                if sum(one.cpu / one.whole_cpu for one in lives) > LIMIT:
                    return lives, "not ended"
                life, error = self._life(size, part, whole)
                lives.append(life)
                if life.made is None:
                    return lives, error
        except ExecutionError as error:
            return lives, str(error)
        raise AssertionError("sizes never run out")

    def _life(self, size: int, part: float, whole: Outcome) -> tuple[Life, str | None]:
        """One life, and the reason if its answer is wrong."""
        whole_cpu = float(whole.facts["cpu"])
        with SystemUnderTest(self._task(size, self._place), self._scratch) as system:
            system.ready()
            end = system.go_until(part * whole_cpu)
        if not isinstance(end, Outcome):
            made, outputs = self._progress()
            return Life(size, end.cpu, end.wall, whole_cpu, whole.seconds, made, outputs), None
        if end.error is not None:
            raise ExecutionError(end.error)
        return Life(size, float(end.facts["cpu"]), end.seconds, whole_cpu, whole.seconds), self._wrong(end)

    def _progress(self) -> tuple[int, int]:
        for one in unfinished_runs(self._place, chosen_key()):
            if one.made is not None and one.outputs is not None:
                return one.made, one.outputs
        return 0, 0

    def _undisturbed(self, size: int) -> Outcome:
        """A run to the end in an empty folder. Raises ExecutionError."""
        name = f"undisturbed {self._number} {size}"
        if self._results.get(name) is None:
            self._right_answer()  # now, so that all runs find the files in the system's memory
            alone = self._scratch / "alone"
            shutil.rmtree(alone, ignore_errors=True)
            with SystemUnderTest(self._task(size, alone), self._scratch) as system:
                system.ready()
                outcome = system.go()
            error = self._wrong(outcome)
            if error is not None:
                raise ExecutionError(error)
            self._results.put(name, {"seconds": outcome.seconds, "cpu": outcome.facts["cpu"]})
        stored = self._results.get(name)
        return Outcome(stored["seconds"], facts={"cpu": stored["cpu"]})

    def _task(self, size: int, place: Path) -> Task:
        return Task(UNTIL_DONE, str(self._directory), self._text, SIZES[size], str(self._answer), str(place))

    def _wrong(self, outcome: Outcome) -> str | None:
        return outcome.error or judge(self._directory, self._text, self._answer, self._right_answer())

    def _right_answer(self) -> pa.Table:
        if self._right is None:
            with Oracle(self._directory) as oracle:
                self._right = oracle.answer(self._text)
        return self._right

    def _clean(self) -> None:
        shutil.rmtree(self._place, ignore_errors=True)


def table(trials: Sequence[Trial]) -> str:
    """The means by the length of lives, and the goals."""
    lines = [f"\nDuckDB {duckdb.__version__}: all lives over undisturbed runs of the same sizes"]
    for part in dict.fromkeys(one.part for one in trials):
        ended = [one for one in trials if one.part == part and one.error is None]
        if not ended:
            continue
        cpu, wall = (sum(getattr(one, kind) for one in ended) / len(ended) for kind in ("cpu", "wall"))
        goal = f" (goal: {GOALS[part]:g})" if part in GOALS else ""
        most = max(one.cpu for one in ended)
        lines.append(
            f"lives of 1/{1 / part:.0f}: {len(ended)} runs ended, {cpu:.2f} x by processor seconds, at most {most:.2f},"
            f" {wall:.2f} x by the clock{goal}"
        )
    failed = [f"{one.query} in lives of 1/{1 / one.part:.0f} ({one.error})" for one in trials if one.error is not None]
    return "\n".join([*lines, f"wrong or not ended: {'; '.join(failed) or 'none'}"])
