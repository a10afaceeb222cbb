"""The part of stated intervals that hold the truth, where an answer grows until its bound is met.

    python -m qoop.tpcds.bench.coverage [--draws 200] [--confidence 0.95] [--seed 1] [--rows clustered --bound 0.2]

Tables are drawn whose rows are plain, sorted, in clusters, of a heavy tail (Pareto, without a variance) or in groups of
which some are rare. Of each, a count, a sum, an average and a ratio of sums grow by the engine's own schedule, program
and estimators (:mod:`qoop.growing`) until all intervals are narrow enough; the totals of pieces come from
NumPy in place of SQL, so that thousands of draws take seconds. What is counted are the intervals of the last edition,
where it is no exact one, and those figures of which any interval on the way has missed the truth. The intervals of one
table go together, so that the error of what is counted (±, two standard errors) is that of tables, not of intervals.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from qoop.catalog.value import value
from qoop.growing.goal import Goal
from qoop.growing.growth import Figure
from qoop.growing.intervals import Intervals, at_look
from qoop.growing.look import Look
from qoop.growing.rounds import Begin, End, Pause, RoundEnded, Rounds
from qoop.growing.schedule import schedule
from qoop.growing.totals import Moments, PairMoments

if TYPE_CHECKING:
    import numpy as np

_PIECES, _ROWS = 1024, 200
"""Pieces of a table, and rows of each."""

FIGURES = (Figure(0, "total", 0), Figure(1, "total", 1), Figure(2, "ratio", 1, 0), Figure(3, "ratio", 1, 2))
"""Count, sum, average and ratio of sums, over these measures: rows, y, x and the squares of y."""

SPREADS = (Figure(0, "variance", 3, 0, z=1), Figure(1, "deviation", 3, 0, z=1))
"""Variance and standard deviation of y."""

ERRORS = (0.1, 0.05, 0.02)


@value
class Drawn:
    """Totals of pieces by measure: an array of measures, pieces and groups."""

    totals: np.ndarray

    @property
    def groups(self) -> int:
        """Number of groups."""
        return int(self.totals.shape[2])

    def moments(self, measure: int) -> Moments:
        """See `qoop.growing.totals.Totals.moments`."""
        x = self.totals[measure]
        return Moments(x.sum(0), (x**2).sum(0), (x**3).sum(0), abs(x).max(0))

    def pair_moments(self, y: int, x: int) -> PairMoments:
        """See `qoop.growing.totals.Totals.pair_moments`."""
        a, b = self.totals[y], self.totals[x]
        return PairMoments((a * b).sum(0), (a * a * b).sum(0), (a * b * b).sum(0))

    def triple_moments(self, y: int, z: int, x: int) -> np.ndarray:
        """See `qoop.growing.totals.Totals.triple_moments`."""
        return (self.totals[y] * self.totals[z] * self.totals[x]).sum(0)  # type: ignore[no-any-return]


@value
class Outcome:
    """Of one table and bound. shown, held: intervals of the last edition, and those of them that hold the truth.
    looked, missed: figures that had an interval on the way, and those of which one missed. share: that was read."""

    shown: int
    held: int
    looked: int
    missed: int
    share: float


def table(kind: str, rng: np.random.Generator) -> np.ndarray:
    """The totals of the pieces of a table of a kind."""
    import numpy as np

    rows = _PIECES * _ROWS
    y, x, group = rng.gamma(2.0, 10.0, rows), rng.gamma(4.0, 1.0, rows), rng.integers(0, 4, rows)
    if kind == "sorted":
        order = np.argsort(y)
        y, x, group = y[order], x[order], group[order]
    elif kind == "clustered":
        y = y * np.repeat(rng.lognormal(0.0, 0.5, _PIECES), _ROWS)
    elif kind == "heavy":
        y = rng.pareto(1.5, rows)
    elif kind == "skewed":
        group = np.minimum(rng.zipf(1.5, rows) - 1, 30)
    elif kind == "rare":
        group = np.searchsorted(np.cumsum([0.6, 0.3, 0.09, 0.009, 0.001]), rng.random(rows) * 0.999_999)
    groups = int(group.max()) + 1
    place = np.repeat(np.arange(_PIECES), _ROWS) * groups + group
    sums = [np.bincount(place, weights, _PIECES * groups) for weights in (np.ones(rows), y, x, y * y)]
    return np.stack(sums).reshape(4, _PIECES, groups)


KINDS = ("plain", "sorted", "clustered", "heavy", "rare", "skewed")


def grown(
    totals: np.ndarray, error: float, confidence: float, seed: int, figures: Sequence[Figure] = FIGURES
) -> Outcome:
    """Let the figures of a table grow until the bound is met."""
    import numpy as np

    rounds = schedule(_PIECES, seed)
    truth = _truth(totals, figures)
    missed = {one.place: np.zeros(totals.shape[2], bool) for one in figures}
    had = {one.place: np.zeros(totals.shape[2], bool) for one in figures}
    program, _ = Rounds(len(rounds.ends), error).after(Begin())
    for number, end in enumerate(rounds.ends):
        look = Look(end, _PIECES, 0.0)
        read = Drawn(totals[:, list(rounds.order[:end])])
        seen = read.totals[0].sum(0) > 0
        found = (
            Intervals({}, {}, 0.0) if look.is_whole else at_look(figures, read, rounds, end, Goal(error, confidence))
        )
        for place in found.low:
            is_shown = np.isfinite(found.low[place]) & seen
            missed[place] |= is_shown & ~_holds(found, place, truth)
            had[place] |= is_shown
        program, steps = program.after(RoundEnded(number, _worst(found, seen, look)))
        if any(isinstance(step, End | Pause) for step in steps):
            break
    last = {place: np.isfinite(found.low[place]) & seen for place in found.low}
    held = sum(int((last[place] & _holds(found, place, truth)).sum()) for place in last)
    return Outcome(
        sum(int(one.sum()) for one in last.values()), held, sum(int(one.sum()) for one in had.values()),
        sum(int(one.sum()) for one in missed.values()), end / _PIECES,
    )  # fmt: skip


def _worst(found: Intervals, seen: np.ndarray, look: Look) -> float | None:
    """As the engine has it, which knows nothing of groups that it has not seen."""
    import numpy as np

    if look.is_whole:
        return 0.0
    low = np.stack([found.low[one][seen] for one in sorted(found.low)])
    high = np.stack([found.high[one][seen] for one in sorted(found.low)])
    worst = float(np.max((high - low) / np.abs(high + low)))
    return worst if np.isfinite(worst) else None


def _truth(totals: np.ndarray, figures: Sequence[Figure]) -> Mapping[int, np.ndarray]:
    rows, y, x, squares = totals.sum(1)
    if figures is SPREADS:
        spread = squares / rows - (y / rows) ** 2
        return {0: spread, 1: spread**0.5}
    return {0: rows, 1: y, 2: y / rows, 3: y / x}


def _holds(found: Intervals, place: int, truth: Mapping[int, np.ndarray]) -> np.ndarray:
    slack = 1e-9 * abs(truth[place])
    return (found.low[place] - slack <= truth[place]) & (truth[place] <= found.high[place] + slack)  # type: ignore[no-any-return]


def run(
    draws: int,
    confidence: float,
    seed: int,
    figures: Sequence[Figure] = FIGURES,
    kinds: Sequence[str] = KINDS,
    errors: Sequence[float] = ERRORS,
) -> Iterator[tuple[str, float, Sequence[Outcome]]]:
    """The outcomes of each kind of table and each bound."""
    import numpy as np

    for kind in kinds:
        tables = [table(kind, np.random.default_rng((seed, draw))) for draw in range(draws)]
        for error in errors:
            yield kind, error, [grown(one, error, confidence, draw, figures) for draw, one in enumerate(tables)]


def line(kind: str, error: float, outcomes: Sequence[Outcome]) -> str:
    """One line of the table that is printed."""
    shown, held = sum(one.shown for one in outcomes), sum(one.held for one in outcomes)
    looked, missed = sum(one.looked for one in outcomes), sum(one.missed for one in outcomes)
    early = sum(one.shown > 0 for one in outcomes)
    cover = f"{held / shown:7.1%} ±{_twice_error(outcomes, held / shown):5.1%}" if shown else "      -       "
    ever = f"{1 - missed / looked:7.1%}" if looked else "      -"
    share = sum(one.share for one in outcomes) / len(outcomes)
    return f"{kind:10} {error:6.0%} {early:6}/{len(outcomes)} {share:6.0%} {shown:7} {cover} {looked:7} {ever}"


def _twice_error(outcomes: Sequence[Outcome], part: float) -> float:
    """Of the part of the intervals that hold, which is a ratio over tables: twice its standard error."""
    return 2 * sum((one.held - part * one.shown) ** 2 for one in outcomes) ** 0.5 / sum(one.shown for one in outcomes)  # type: ignore[no-any-return]


def main(arguments: Sequence[str] | None = None, say: Callable[[str], object] = print) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200, help="tables of each kind")
    parser.add_argument("--confidence", type=float, default=0.95)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--spreads", action="store_true", help="variances and deviations in place of sums")
    parser.add_argument("--rows", choices=KINDS, help="tables of this kind only")
    parser.add_argument("--bound", type=float, help="this bound only")
    options = parser.parse_args(arguments)
    say("data        bound  early ends  read   shown   cover            ever  covered at every look")
    kinds = (options.rows,) if options.rows else KINDS
    errors = (options.bound,) if options.bound else ERRORS
    figures = SPREADS if options.spreads else FIGURES
    for found in run(options.draws, options.confidence, options.seed, figures, kinds, errors):
        say(line(*found))


if __name__ == "__main__":
    main()
