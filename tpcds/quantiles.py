"""Statistics of a sample: its quantiles, and the interval of a ratio of sums."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

RESAMPLES = 2_000


def quantile(values: Iterable[float], part: float) -> float:
    """The value below which that part of them lies, between neighbours on a straight line. Raises ValueError of none.

    >>> quantile([1, 2, 4], 0.5), quantile([2, 1], 0.25)
    (2.0, 1.25)
    """
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values have no quantile")
    place = part * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * float(ordered[high] - ordered[low])


def quantile_if_any(values: Iterable[float], part: float) -> float | None:
    """The same; None of no values."""
    known = list(values)
    return quantile(known, part) if known else None


def ratio_of_sums(groups: Iterable[Sequence[tuple[float, float]]]) -> tuple[float, float, float]:
    """Of pairs, the sum of the first ones over that of the second ones, and its 95 % interval.

    The interval is that of the bootstrap (Efron, 1979): pairs are drawn again, with replacement, within each group.
    """
    own = list(groups)
    chance = random.Random(1)
    drawn = [_ratio([chance.choices(pairs, k=len(pairs)) for pairs in own]) for _ in range(RESAMPLES)]
    return _ratio(own), quantile(drawn, 0.025), quantile(drawn, 0.975)


def _ratio(groups: Sequence[Sequence[tuple[float, float]]]) -> float:
    return sum(one for pairs in groups for one, _ in pairs) / sum(other for pairs in groups for _, other in pairs)
