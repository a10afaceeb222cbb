"""The process is killed again and again: qoop goes on from its checkpoints, DuckDB starts from nothing, or from what it
has kept.

Kills (SIGKILL) come at exponentially distributed intervals whose mean is a fraction of the time that DuckDB needs
undisturbed, from the start of its process to the answer. The same intervals hold for all sides; a killed process is
started again at once. A side that needs more than ten times the undisturbed time is stopped, and that time counts.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from math import inf
from pathlib import Path
from statistics import median

import pyarrow as pa

from qoop.tpcds.bench.contest import Outcome, SystemUnderTest, judge, scratch_folder
from qoop.tpcds.bench.modes import DEFAULT, STAGED
from qoop.tpcds.bench.resized import FULL, longest
from qoop.tpcds.bench.system_under_test import Size, Task
from qoop.tpcds.oracle import Oracle
from qoop.tpcds.quantiles import ratio_of_sums
from qoop.tpcds.queries import texts
from qoop.tpcds.results import Results

GOALS = {2.0: 1.9, 1.0: 2.5, 0.5: 4.0, 0.25: 6.0}
"""By mean interval: how many times as long DuckDB takes that starts again."""
MEANS = tuple(GOALS)
LEAST = 1.3
"""The goal of the lower ends of the intervals of these."""
LIMIT = 10.0
HOPELESS = 0.75
"""Of the undisturbed time: a DuckDB process with a shorter lifetime cannot answer and leaves nothing behind. So it is
not run; its time counts as if it had been. At a mean of 0.25 that is 19 of 20 lifetimes and 80 % of their time."""
SIDES = ("qoop", "staged", "running", "keeping")
"""qoop in its default options, and in stages only; DuckDB, which starts again with every process; and DuckDB that keeps
in a file what its query reads more than once."""
NAMES = {"qoop": "qoop", "staged": "qoop, staged=True", "running": "DuckDB", "keeping": "DuckDB that keeps"}


@dataclass(frozen=True, slots=True)
class InterruptOptions:
    """The runs to make. queries: none: the `longest` of all 99. seeds: how many sequences of kills for each mean.

    means: mean intervals, as fractions of the undisturbed time. results: a file taken up and kept. sides: of `SIDES`.
    minutes: no trial begins after them.
    """

    directory: Path
    queries: tuple[int, ...] = ()
    longest: int = 20
    seeds: int = 20
    means: tuple[float, ...] = MEANS
    size: Size = FULL
    results: Path | None = None
    sides: tuple[str, ...] = SIDES
    minutes: float = inf


@dataclass(frozen=True, slots=True)
class TrialKey:
    """A trial: one query, one side, and one sequence of kills. mean: their mean interval, in undisturbed times."""

    query: int
    side: str
    mean: float
    seed: int

    def __str__(self) -> str:
        return f"{self.query} {self.side} {self.mean} {self.seed}"


@dataclass(frozen=True, slots=True)
class Trial(TrialKey):
    """The outcome of a trial. seconds: until the answer, at most the limit. kills: their number.

    undisturbed: DuckDB's seconds without kills. ended: False: the limit stopped it. error: of a wrong or failed answer.
    """

    undisturbed: float
    seconds: float
    kills: int
    ended: bool
    error: str | None = None


def run(options: InterruptOptions, progress: Callable[[str], None] = print) -> list[Trial]:
    """Run the trials that the results lack, all queries with one seed before the next seed, until the time is over.

    Raises ConfigError or SourceError if it cannot begin.
    """
    results = Results(options.results, {"size": asdict(options.size), "limit": LIMIT, "qoop": DEFAULT})
    chosen = options.queries or longest(options.directory, options.longest, results, progress)
    keys = product(range(options.seeds), options.means, chosen, options.sides)
    with scratch_folder() as scratch:
        bench = _Bench(options, results, scratch)
        trials = (bench.trial(TrialKey(query, side, mean, seed), progress) for seed, mean, query, side in keys)
        return [trial for trial in trials if trial is not None]


def intervals(query: int, mean: float, seed: int) -> Iterator[float]:
    """The times between kills, in multiples of the undisturbed time; the same for all sides.

    >>> a, b = intervals(1, 0.5, 7), intervals(1, 0.5, 7)
    >>> [next(a) for _ in range(3)] == [next(b) for _ in range(3)]
    True
    """
    chance = random.Random(f"{query} {mean} {seed}")
    while True:
        yield chance.expovariate(1.0 / mean)


class _Bench:
    """The trials of some options, with their results in a file. scratch: a folder for answers and checkpoints."""

    def __init__(self, options: InterruptOptions, results: Results, scratch: Path) -> None:
        self._options, self._results, self._scratch = options, results, scratch
        self._texts = texts(directory=options.directory)
        self._answers: dict[int, pa.Table] = {}
        self._end = time.monotonic() + 60.0 * options.minutes

    def undisturbed(self, number: int) -> float:
        """DuckDB's seconds from the start of the process to the answer, the median of three."""
        name = f"undisturbed {number}"
        if self._results.get(name) is None:
            task = self._task("running", number, self._scratch / "a.arrow")
            taken = []
            for _ in range(3):
                begun = time.monotonic()
                with SystemUnderTest(task, self._scratch) as system:
                    system.finished(begun + 3600.0)
                    taken.append(time.monotonic() - begun)
            self._results.put(name, median(taken))
        return float(self._results.get(name))

    def trial(self, key: TrialKey, progress: Callable[[str], None]) -> Trial | None:
        """The trial of a key: from the results, or run now and stored there; None: the time is over."""
        stored = self._results.get(f"trial {key}")
        if stored is not None:
            return Trial(**stored)
        if time.monotonic() >= self._end:
            return None
        one = self._run(key)
        self._results.put(f"trial {key}", asdict(one))
        progress(
            f"query {key.query:2d} mean {key.mean:g} seed {key.seed} {NAMES[key.side]}"
            f" {'ended' if one.ended else 'stopped'} after {one.seconds:.2f} s = {one.seconds / one.undisturbed:.2f} x,"
            f" killed {one.kills} times" + (f": {one.error}" if one.error else "")
        )
        return one

    def _run(self, key: TrialKey) -> Trial:
        """Kill the process of a side again and again, until the answer or the limit."""
        answer, kept = self._scratch / "answer.arrow", self._scratch / "checkpoints"
        undisturbed = self.undisturbed(key.query)
        task = self._task(key.side, key.query, answer, None if key.side == "running" else str(kept))
        limit, spent, kills, ended, error = LIMIT * undisturbed, 0.0, 0, False, None
        for gap in intervals(key.query, key.mean, key.seed):
            lifetime = min(gap * undisturbed, limit - spent)
            hopeless = key.side == "running" and gap < HOPELESS
            outcome, seconds = (None, lifetime) if hopeless else _live(task, lifetime, self._scratch)
            spent += seconds
            if outcome is not None:
                ended, error = outcome.error is None, outcome.error
                break
            if spent >= limit:
                break
            kills += 1
        if ended and key.side != "running":
            error = judge(self._options.directory, self._texts[key.query], answer, self._answer(key.query))
        shutil.rmtree(kept, ignore_errors=True)
        answer.unlink(missing_ok=True)
        outcome_of = (undisturbed, min(spent, limit), kills, ended and error is None, error)
        return Trial(key.query, key.side, key.mean, key.seed, *outcome_of)

    def _task(self, side: str, number: int, answer: Path, checkpoints: str | None = None) -> Task:
        kind, staged = ("qoop", True) if side == STAGED else (side, False)
        directory, size = str(self._options.directory), self._options.size
        return Task(kind, directory, self._texts[number], size, str(answer), checkpoints, waits=False, staged=staged)

    def _answer(self, number: int) -> pa.Table:
        """DuckDB's answer to a query."""
        if number not in self._answers:
            with Oracle(self._options.directory) as oracle:
                self._answers[number] = oracle.answer(self._texts[number])
        return self._answers[number]


def _live(task: Task, seconds: float, scratch: Path) -> tuple[Outcome | None, float]:
    """Run one process and kill it after that many seconds: its outcome by then, and the seconds until it was gone."""
    begun = time.monotonic()
    with SystemUnderTest(task, scratch) as system:
        outcome = system.finished(begun + seconds)
    return outcome, time.monotonic() - begun


def table(trials: Sequence[Trial]) -> str:
    """Sum of completion times by mean interval, and each DuckDB's over ours, of the trials that both have made, with a
    95 % interval over these. The goals are those of a DuckDB that starts again."""
    lines = ["", "mean interval  side                trials   seconds  ended   : qoop   95 % interval  goal"]
    for mean in dict.fromkeys(trial.mean for trial in trials):
        ours = [trial for trial in trials if trial.mean == mean and trial.side == "qoop"]
        for side in dict.fromkeys(trial.side for trial in trials):
            theirs = [trial for trial in trials if trial.mean == mean and trial.side == side]
            seconds = sum(trial.seconds for trial in theirs)
            line = f"{mean:13g}  {NAMES[side]:18} {len(theirs):7} {seconds:9.1f} {_ended(theirs)}"
            pairs = _pairs(ours, theirs) if side != "qoop" else []
            if pairs:
                _, low, high = ratio_of_sums([pairs])
                ratio = sum(a for a, _ in pairs) / sum(b for _, b in pairs)
                goal = _judged(mean, ratio, low) if side == "running" else ""
                line += f" {ratio:8.2f}   {f'{low:.2f} – {high:.2f}':13}{goal}"
            lines.append(line)
    wrong = [f"query {trial.query} seed {trial.seed}: {trial.error}" for trial in trials if trial.error]
    return "\n".join([*lines, f"wrong or failed: {'; '.join(wrong) or 'none'}"])


def _judged(mean: float, ratio: float, low: float) -> str:
    """The goal of a mean interval, and whether it is met; empty: it has none."""
    if mean not in GOALS:
        return ""
    met = ratio >= GOALS[mean] and low > LEAST
    return f"  {GOALS[mean]:g}, from above {LEAST:g} on: {'met' if met else 'missed'}"


def _ended(trials: Sequence[Trial]) -> str:
    return f"{sum(trial.ended for trial in trials) / len(trials):6.0%}" if trials else "     -"


def _pairs(ours: Sequence[Trial], theirs: Sequence[Trial]) -> list[tuple[float, float]]:
    """Their seconds and ours, of the trials that both have made."""
    other = {(trial.query, trial.seed): trial.seconds for trial in theirs}
    return [(other[key], one.seconds) for one in ours if (key := (one.query, one.seed)) in other]
