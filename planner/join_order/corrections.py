"""Distributes the errors of estimates over the assumptions behind them.

The rows of a set of relations depend on the selectivity of each filter and on the matches of each pair of keys. If the
observed rows of a set differ from the estimate, it is unknown which assumption was wrong. Each gets a part of the
error, and every other estimate with that assumption moves, too: correcting one estimate alone would favour plans that
avoid it. Of all factors that explain the observations, the smallest are chosen (in logarithms, by the sum of squares).
So sets with right estimates, and sets with a common assumption, count together.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from math import exp, log

Assumption = int
"""The mask of the relations that an assumption is about: one relation's filters, or the keys that several share."""

_RIDGE = 1e-6
"""Bounds the contradiction of two sets with the same assumptions."""


def corrections(observed: Sequence[tuple[Set[Assumption], float]]) -> dict[Assumption, float]:
    """For each assumption the factor by which to correct it. seen: the assumptions of a set, and true over estimated.

    >>> found = corrections([(frozenset({1, 2}), 100.0), (frozenset({1, 4}), 1.0)])
    >>> {assumption: round(factor, 2) for assumption, factor in found.items()}
    {1: 4.64, 2: 21.54, 4: 0.22}
    """
    sets = [(assumptions, log(factor)) for assumptions, factor in observed if assumptions]
    gram = [[float(len(one & other)) for other, _ in sets] for one, _ in sets]
    for place, row in enumerate(gram):
        row[place] += _RIDGE
    parts = _solved(gram, [value for _, value in sets])
    everything = sorted(frozenset[Assumption]().union(*(assumptions for assumptions, _ in sets)))
    return {
        one: exp(sum(part for part, (assumptions, _) in zip(parts, sets, strict=True) if one in assumptions))
        for one in everything
    }


def _solved(matrix: list[list[float]], right: list[float]) -> list[float]:
    """The solution of equations whose matrix is symmetric and positive: elimination needs no choice of rows."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for place, pivot in enumerate(rows):
        for row in rows[place + 1 :]:
            factor = row[place] / pivot[place]
            row[place:] = [a - factor * b for a, b in zip(row[place:], pivot[place:], strict=True)]
    found = [0.0] * len(rows)
    for place in reversed(range(len(rows))):
        row = rows[place]
        known = sum(row[other] * found[other] for other in range(place + 1, len(rows)))
        found[place] = (row[-1] - known) / row[place]
    return found
