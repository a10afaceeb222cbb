"""Fractions of a column's rows: equal to a value, below a value, like a pattern.

A :class:`Spread` holds the known facts about the values of one column in one relation.  The rules are those of System R
(Selinger et al., "Access Path Selection in a Relational Database Management System", SIGMOD 1979). Most common values
and an equi-depth histogram refine them where the catalog has them.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right

from qoop.catalog.statistics.stats import Scalar
from qoop.catalog.value import value

# What a predicate keeps of which nothing is known (System R's guesses).
UNKNOWN_RANGE = 1 / 3
UNKNOWN_LIKE = 0.05
UNKNOWN_DISTINCT = 0.1  # distinct values of an unknown column, as a fraction of its rows


@value
class Spread:
    """The values of one column.

    distinct: distinct non-NULL values found among `rows` rows; fewer rows hold fewer (:func:`sampled`).
    domain: distinct values the rows are drawn from before filters on other columns thinned them out:
        what an equality join divides by.
    nulls: fraction of rows that are NULL.
    minimum, maximum, common, bounds: as in :class:`~qoop.catalog.statistics.stats.ColumnStats`.
    origin: number of the scan or aggregate the column comes from; None for a computed one.
    locality, run: as in ColumnStats, in the order of a scan.
    share: estimated fraction of the range from minimum to maximum that the values lie in, wherever it is.
    """

    distinct: float
    rows: float
    domain: float
    nulls: float = 0.0
    minimum: Scalar | None = None
    maximum: Scalar | None = None
    common: tuple[tuple[Scalar, float], ...] = ()
    bounds: tuple[Scalar, ...] = ()
    origin: int | None = None
    share: float = 1.0
    locality: float = 1.0
    run: float = 1.0

    @property
    def rest(self) -> float:
        """Fraction of rows that are neither NULL nor one of the most common values."""
        return max(0.0, 1.0 - self.nulls - sum(fraction for _, fraction in self.common))


def sampled(distinct: float, rows: float, kept: float) -> float:
    """Distinct values left when `kept` of `rows` rows stay: Yao, "Approximating Block Accesses", CACM 1977.

    >>> sampled(100.0, 100.0, 25.0), round(sampled(10.0, 1000.0, 500.0), 6)
    (25.0, 10.0)
    """
    if distinct <= 0 or rows <= 0 or kept <= 0:
        return 0.0
    if kept >= rows:
        return min(distinct, kept)
    repeats = max(1.0, rows / distinct)
    return min(kept, float(distinct * (1.0 - (1.0 - kept / rows) ** repeats)))


def equal(spread: Spread, value: Scalar | None) -> float:
    """Fraction of rows equal to a constant; None stands for a constant of unknown value."""
    if value is None:
        return _non_null(spread) / max(1.0, spread.distinct)
    least = 0.5 / max(1.0, spread.rows)
    for common, fraction in spread.common:
        if common == value:
            return fraction
    if _outside(spread, value):
        return least
    others = spread.distinct - len(spread.common)
    if others < 1:
        return max(least, min(spread.rest, least * 2))
    share = spread.rest / others
    return max(least, min(share, spread.common[-1][1]) if spread.common else share)


def below(spread: Spread, value: Scalar, inclusive: bool) -> float:
    """Fraction of rows less than (`inclusive`: or equal to) a constant."""
    try:
        hits = sum(f for common, f in spread.common if _precedes(common, value, inclusive))
        return hits + spread.rest * _rank(spread, value, inclusive)
    except TypeError:  # a number against a string: DuckDB casts, we do not know
        return UNKNOWN_RANGE * _non_null(spread)


def between(
    spread: Spread, low: Scalar | None, high: Scalar | None, with_low: bool = True, with_high: bool = True
) -> float:
    """Fraction of rows in a range; None is an open end."""
    upper = _non_null(spread) if high is None else below(spread, high, with_high)
    lower = 0.0 if low is None else below(spread, low, not with_low)
    least = equal(spread, low) if low is not None and low == high else 0.5 / max(1.0, spread.rows)
    return min(1.0, max(least, upper - lower))


def like(spread: Spread, pattern: str, ignore_case: bool = False) -> float:
    """Fraction of rows LIKE a pattern: tried on the common values and, as a sample, on the histogram's edges."""
    prefix = re.split(r"[%_\\]", pattern, maxsplit=1)[0]
    if prefix == pattern and not ignore_case:
        return equal(spread, pattern)
    matches = like_regex(pattern, ignore_case).fullmatch
    hits = sum(fraction for value, fraction in spread.common if isinstance(value, str) and matches(value))
    sample = [value for value in spread.bounds if isinstance(value, str)]
    if not sample:
        return min(_non_null(spread), hits + spread.rest * UNKNOWN_LIKE)
    found = sum(1 for value in sample if matches(value)) / len(sample)
    if prefix and not ignore_case:
        found = max(found, _rank(spread, prefix + "\U0010ffff", True) - _rank(spread, prefix, False))
    return min(_non_null(spread), hits + spread.rest * max(found, 0.25 / len(sample)))


def like_regex(pattern: str, ignore_case: bool = False) -> re.Pattern[str]:
    """The regular expression of a LIKE pattern without ESCAPE."""
    parts = (".*" if char == "%" else "." if char == "_" else re.escape(char) for char in pattern)
    return re.compile("".join(parts), re.DOTALL | (re.IGNORECASE if ignore_case else 0))


def _precedes(a: Scalar, b: Scalar, inclusive: bool) -> bool:
    return bool(a < b) or (inclusive and a == b)  # type: ignore[operator]


def _non_null(spread: Spread) -> float:
    return max(0.0, 1.0 - spread.nulls)


def _outside(spread: Spread, value: Scalar) -> bool:
    try:
        return (spread.minimum is not None and value < spread.minimum) or (  # type: ignore[operator]
            spread.maximum is not None and value > spread.maximum  # type: ignore[operator]
        )
    except TypeError:
        return False


def _rank(spread: Spread, value: Scalar, inclusive: bool) -> float:
    """Fraction of the uncommon values below `value`, by histogram, else by the range alone."""
    edges = spread.bounds
    if len(edges) < 2:
        if spread.minimum is None or spread.maximum is None:
            return UNKNOWN_RANGE
        edges = (spread.minimum, spread.maximum)
    if value < edges[0]:  # type: ignore[operator]
        return 0.0
    if value > edges[-1] or (inclusive and value == edges[-1]):  # type: ignore[operator]
        return 1.0
    first, last = bisect_left(edges, value), bisect_right(edges, value)
    if last > first:  # the value is an edge, of several buckets if it is frequent
        position = float((last - 1) if inclusive else first)
    else:
        position = first - 1 + _interpolate(edges[first - 1], edges[first], value)
    one = 1.0 / max(1.0, spread.distinct - len(spread.common))
    return min(1.0, position / (len(edges) - 1) * (1.0 - one) + (one if inclusive else 0.0))


def _interpolate(low: Scalar, high: Scalar, value: Scalar) -> float:
    """The position of a value between two others, from 0 to 1."""
    if isinstance(low, str) and isinstance(high, str) and isinstance(value, str):
        low, high, value = _numbers(low, high, value)
    width = float(high) - float(low)
    return (float(value) - float(low)) / width if width > 0 else 0.5


def _numbers(low: str, high: str, value: str) -> tuple[float, float, float]:
    """Strings as fractions, past the prefix that the edges share."""
    shared = 0
    while shared < min(len(low), len(high)) and low[shared] == high[shared]:
        shared += 1
    return _fraction(low[shared:]), _fraction(high[shared:]), _fraction(value[shared:])


def _fraction(text: str) -> float:
    """A string as a number from 0 to 1 that orders as the string does, by its first characters."""
    total, scale = 0.0, 1.0
    for char in text[:8]:
        scale /= 128.0
        total += scale * min(127, ord(char))
    return total
