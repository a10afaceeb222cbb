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
from functools import cache
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

MEANS = (1.0, 0.5, 0.25)
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
    """

    directory: Path
    queries: tuple[int, ...] = ()
    longest: int = 20
    seeds: int = 20
    means: tuple[float, ...] = MEANS
    size: Size = FULL
    results: Path | None = None
    sides: tuple[str, ...] = SIDES


@dataclass(frozen=True, slots=True)
class Trial:
    """One query, one side, one sequence of kills. seconds: until the answer, at most the limit.

    kills: how often it was killed. ended: False: it was stopped at the limit. error: of a wrong or failed answer.
    """

    query: int
    side: str
    mean: float
    seed: int
    undisturbed: float
    seconds: float
    kills: int
    ended: bool
    error: str | None = None


def run(options: InterruptOptions, told: Callable[[str], None] = print) -> list[Trial]:
    """Run what is not in the results yet, all queries with one seed before the next seed.

    Raises ConfigError or SourceError if it cannot begin.
    """
    results = Results(options.results, {"size": asdict(options.size), "limit": LIMIT, "qoop": DEFAULT})
    chosen = options.queries or longest(options.directory, options.longest, results, told)

    @cache
    def theirs(number: int) -> pa.Table:
        with Oracle(options.directory) as oracle:
            return oracle.answer(texts(directory=options.directory)[number])

    with scratch_folder() as scratch:
        times = {number: _undisturbed(options, number, results, scratch) for number in chosen}
        return [
            _trial(options, number, mean, seed, side, times[number], results, scratch, theirs, told)
            for seed in range(options.seeds)
            for mean in options.means
            for number in chosen
            for side in options.sides
        ]


def intervals(query: int, mean: float, seed: int) -> Iterator[float]:
    """The times between kills, in multiples of the undisturbed time; the same for all sides.

    >>> a, b = intervals(1, 0.5, 7), intervals(1, 0.5, 7)
    >>> [next(a) for _ in range(3)] == [next(b) for _ in range(3)]
    True
    """
    chance = random.Random(f"{query} {mean} {seed}")
    while True:
        yield chance.expovariate(1.0 / mean)


def _undisturbed(options: InterruptOptions, number: int, results: Results, scratch: Path) -> float:
    """DuckDB from the start of the process to the answer, the median of three."""
    name = f"undisturbed {number}"
    if results.get(name) is None:
        text = texts(directory=options.directory)[number]
        task = Task(
            "running", str(options.directory), text, options.size, str(scratch / "a.arrow"), waits=False
        )  # fmt: skip
        taken = []
        for _ in range(3):
            begun = time.monotonic()
            with SystemUnderTest(task, scratch) as system:
                system.finished(begun + 3600.0)
                taken.append(time.monotonic() - begun)
        results.put(name, median(taken))
    return float(results.get(name))


def _trial(
    options: InterruptOptions, number: int, mean: float, seed: int, side: str, undisturbed: float, results: Results,
    scratch: Path, theirs: Callable[[int], pa.Table], told: Callable[[str], None],
) -> Trial:  # fmt: skip
    name = f"trial {number} {side} {mean} {seed}"
    kept = results.get(name)
    if kept is not None:
        return Trial(**kept)
    one = _kill_and_start_again(options, number, mean, seed, side, undisturbed, scratch, theirs)
    results.put(name, asdict(one))
    state = "ended" if one.ended else "stopped"
    told(
        f"query {number:2d} mean {mean:g} seed {seed} {NAMES[side]} {state} after"
        f" {one.seconds:.2f} s = {one.seconds / undisturbed:.2f} x, killed {one.kills} times"
        + (f": {one.error}" if one.error else "")
    )
    return one


def _kill_and_start_again(
    options: InterruptOptions, number: int, mean: float, seed: int, side: str, undisturbed: float, scratch: Path,
    theirs: Callable[[int], pa.Table],
) -> Trial:  # fmt: skip
    text, answer, kept = texts(directory=options.directory)[number], scratch / "answer.arrow", scratch / "checkpoints"
    checkpoints = str(kept) if side != "running" else None
    kind, staged = ("qoop", True) if side == STAGED else (side, False)
    task = Task(kind, str(options.directory), text, options.size, str(answer), checkpoints, waits=False, staged=staged)
    limit, spent, kills, ended, error = LIMIT * undisturbed, 0.0, 0, False, None
    for gap in intervals(number, mean, seed):
        lifetime = min(gap * undisturbed, limit - spent)
        outcome, seconds = (None, lifetime) if side == "running" and gap < HOPELESS else _live(task, lifetime, scratch)
        spent += seconds
        if outcome is not None:
            ended, error = outcome.error is None, outcome.error
            break
        if spent >= limit:
            break
        kills += 1
    if ended and side != "running":
        error = judge(options.directory, text, answer, theirs(number))
    shutil.rmtree(kept, ignore_errors=True)
    answer.unlink(missing_ok=True)
    return Trial(number, side, mean, seed, undisturbed, min(spent, limit), kills, ended and error is None, error)


def _live(task: Task, seconds: float, scratch: Path) -> tuple[Outcome | None, float]:
    """Run one process and kill it after that many seconds: its outcome by then, and the seconds until it was gone."""
    begun = time.monotonic()
    with SystemUnderTest(task, scratch) as system:
        outcome = system.finished(begun + seconds)
    return outcome, time.monotonic() - begun


def table(trials: Sequence[Trial]) -> str:
    """Sum of completion times by mean interval, and either DuckDB's over ours with a 95 % interval over seeds."""
    lines = ["", "mean interval  side                  seconds  ended   : qoop   95 % interval"]
    for mean in dict.fromkeys(trial.mean for trial in trials):
        ours = [trial for trial in trials if trial.mean == mean and trial.side == "qoop"]
        for side in dict.fromkeys(trial.side for trial in trials):
            theirs = [trial for trial in trials if trial.mean == mean and trial.side == side]
            seconds = sum(trial.seconds for trial in theirs)
            line = f"{mean:13g}  {NAMES[side]:18} {seconds:10.1f} {_ended(theirs)}"
            pairs = _pairs(ours, theirs) if side != "qoop" else []
            if pairs:
                _, low, high = ratio_of_sums([pairs])
                line += f" {sum(a for a, _ in pairs) / sum(b for _, b in pairs):8.2f}   {low:.2f} – {high:.2f}"
            lines.append(line)
    wrong = [f"query {trial.query} seed {trial.seed}: {trial.error}" for trial in trials if trial.error]
    return "\n".join([*lines, f"wrong or failed: {'; '.join(wrong) or 'none'}"])


def _ended(trials: Sequence[Trial]) -> str:
    return f"{sum(trial.ended for trial in trials) / len(trials):6.0%}" if trials else "     -"


def _pairs(ours: Sequence[Trial], theirs: Sequence[Trial]) -> list[tuple[float, float]]:
    """Their seconds and ours, of the trials that both have made."""
    other = {(trial.query, trial.seed): trial.seconds for trial in theirs}
    return [(other[key], one.seconds) for one in ours if (key := (one.query, one.seed)) in other]
