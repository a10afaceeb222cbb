"""The error to come of a growing answer, as predicted rounds ahead, against what it then is.

Rounds here read the same number of pieces each, so that there are enough of them; tables and figures are those of
:mod:`qoop.tpcds.bench.coverage`. What is predicted is the mean error of those groups that have an interval at the time
(and later); others get theirs later, and no error of theirs is known before. The closed form is compared with a curve
fitted to the errors so far (SLAQ's sublinear class), and with the last fall repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean

import numpy as np

from qoop.growing.estimators.look import Look
from qoop.growing.growth import Figure
from qoop.growing.intervals import intervals
from qoop.iterating.curves import fitted
from qoop.schedulers.terms import Sampled
from qoop.tpcds.bench.coverage import FIGURES, SPREADS, Drawn, table

KINDS = ("plain", "sorted", "clustered", "skewed")
AHEAD = (1, 3, 5, 10)
_ROUND, _ROUNDS = 16, 40


def errors(totals: np.ndarray, figure: Figure, seed: int) -> np.ndarray:
    """By round and group the half-width of an interval relative to its estimate; NaN where there is none."""
    pieces = totals.shape[1]
    order = np.random.default_rng(seed).permutation(pieces)
    found = []
    for number in range(1, _ROUNDS + 1):
        read = Drawn(totals[:, order[: number * _ROUND]])
        seen = intervals([figure], read, Look(number * _ROUND, pieces, 0.05))
        low, high = seen.low[figure.place], seen.high[figure.place]
        found.append((high - low) / np.abs(high + low))
    return np.array(found)


def off(known: Sequence[float], now: int, pieces: int, ahead: int) -> Mapping[str, float]:
    """The error predicted that many rounds after round `now`, by way of predicting it. known: errors up to that."""
    drawn = now * _ROUND
    course = Sampled(known[-1], known[0], 0.0, drawn, drawn + _ROUND, pieces, _ROUND)
    curve = fitted(known, "sublinear")
    return {
        "closed form": course.predicted(drawn + ahead * _ROUND),
        "curve": known[-1] - curve.fall(len(known) - 1, ahead) if curve is not None else float("nan"),
        "last fall": known[-1] - ahead * (known[-2] - known[-1]),
    }


def lines(draws: int, seed: int) -> Iterator[str]:
    """For each shape: the mean of |predicted / true - 1|, by rounds ahead."""
    yield f"{'shape':22} {'rounds ahead':12} " + " ".join(f"{ahead:>7}" for ahead in AHEAD)
    shapes = {"sum": FIGURES[1], "average": FIGURES[2], "ratio": FIGURES[3], "deviation": SPREADS[1]}
    for kind in KINDS:
        tables = [table(kind, np.random.default_rng((seed, draw))) for draw in range(draws)]
        for name, figure in shapes.items():
            known = [errors(one, figure, draw) for draw, one in enumerate(tables)]
            for way, found in _judged(known, tables[0].shape[1]).items():
                yield f"{kind + ', ' + name:22} {way:12} " + " ".join(
                    f"{mean(some):7.2%}" if some else "      -" for some in found
                )


def _judged(known: Sequence[np.ndarray], pieces: int) -> Mapping[str, list[list[float]]]:
    found: dict[str, list[list[float]]] = {}
    for errors_ in known:
        for now in (8, 16, 24):
            for place, ahead in enumerate(AHEAD):
                then = now + ahead - 1
                told = errors_[:, np.isfinite(errors_[[now - 2, now - 1, then]]).all(0)]
                if not told.size:
                    continue
                before = told[:now][np.isfinite(told[:now]).all(1)].mean(1).tolist()
                for way, predicted in off(before, now, pieces, ahead).items():
                    some = found.setdefault(way, [[] for _ in AHEAD])
                    some[place].append(abs(predicted / float(told[then].mean()) - 1))
    return found
