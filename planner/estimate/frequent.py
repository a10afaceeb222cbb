"""Joins of frequent values with frequent values: what an equality keeps beyond what even values would give.

An equality join is estimated as if all values of a column were equally frequent. A value with a tenth of the rows on
one side makes no difference if the other side is a key. If it is frequent on both sides, a tenth of one meets a tenth
of the other. So the known frequent values of both sides are joined one by one, and the rest as before (Ioannidis and
Christodoulakis, "Optimal Histograms for Limiting Worst-Case Error Propagation in the Size of Join Results", TODS 1993).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod

from qoop.catalog.statistics.stats import Scalar
from qoop.planner.estimate.selectivity import Spread

CHANCE = 1.05
"""The factor by which more pairs may agree by how the rows of a sample, or the last digits, fell."""


def excess(a: Spread, b: Spread) -> float:
    """The factor by which more pairs of rows agree than if all values were as frequent.

    >>> even, half = Spread(100, 1e4, 100), Spread(100, 1e4, 100, common=((7.0, 0.5),))
    >>> round(excess(even, half), 2), round(excess(half, half), 2)
    (1.0, 25.25)
    """
    if not a.common or not b.common:
        return 1.0
    left, right = _parts(a), _parts(b)
    domain = max(a.domain, b.domain, 1.0)
    rest_left, rest_right = _rest(left), _rest(right)
    agree = sum(part * right[value] for value, part in left.items() if value in right)
    for one, other, rest in ((left, right, rest_right), (right, left, rest_left)):
        alone = sum(part for value, part in one.items() if value not in other)
        agree += alone * rest / max(1.0, domain - len(other))
    agree += rest_left * rest_right / max(1.0, domain - len(left.keys() | right.keys()))
    times = domain * agree
    return times if times > CHANCE else 1.0


def excess_of(spreads: Sequence[Spread]) -> float:
    """The same where several columns are all equal: the most uneven ones meet first."""
    ordered = sorted(spreads, key=lambda one: (-excess(one, one), repr(one.common)))
    return prod(excess(one, other) for one, other in pairwise(ordered))


def _parts(spread: Spread) -> Mapping[Scalar, float]:
    """The parts of the rows that are not NULL which the frequent values have."""
    return {value: part / max(1e-9, 1.0 - spread.nulls) for value, part in spread.common}


def _rest(parts: Mapping[Scalar, float]) -> float:
    return max(0.0, 1.0 - sum(parts.values()))
