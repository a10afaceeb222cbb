"""Statistics of a table from those of its two parts, such as the rows of before and the added ones.

Rows, NULLs and extremes add up exactly. The number of distinct values of both does not follow from the number of each.
For disjoint ranges these add up, too. For overlapping ones both parts count as draws from one set of values, whose size
follows from the first part (Cardenas 1975). Histograms are merged from steps of equal weight, so that a quantile errs
by at most one step of each.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from qoop.catalog.statistics.footers import domain_of, drawn
from qoop.catalog.statistics.stats import BLOCKS, ColumnStats, Scalar, TableStats
from qoop.catalog.value import value

MOST_COMMON, BINS = 20, 64
"""Common values, and steps of a histogram, that are kept; of so few values as there are bins all are common."""

_FREQUENT = 1.25
"""A value with this many times the rows of the mean one counts as common."""


def merged(one: TableStats, other: TableStats) -> TableStats:
    """The statistics of two parts together, for the columns that both have.

    A key of the first part remains one unless the second has duplicates: the added rows may be too few to be known as
    a key.
    """
    names = [name for name in one.columns if name in other.columns]
    columns = {name: _merged(_ColumnPart(one.columns[name], one.rows), _ColumnPart(other.columns[name], other.rows))
               for name in names}  # fmt: skip
    keys = frozenset(key for key in one.keys if key <= columns.keys() and _stays_key(key, other))
    return TableStats(one.rows + other.rows, one.bytes + other.bytes, columns, keys)


def _stays_key(key: Collection[str], other: TableStats) -> bool:
    """True if a key of one part may also be one of the other; footers have no keys of several columns."""
    combinations = 1.0
    for name in key:
        combinations *= max(1.0, other.columns[name].distinct)
    counted = not other.guessed.issuperset(key)
    return frozenset(key) in other.keys if counted else combinations >= other.rows


@value
class _ColumnPart:
    """The statistics of a column in one part of a table. rows: of the part."""

    column: ColumnStats
    rows: float

    @property
    def values(self) -> float:
        """Rows that are not NULL."""
        return max(0.0, self.rows - self.column.nulls)

    @property
    def has_range(self) -> bool:
        """True if the range of its values is known, or it has none."""
        return not self.values or self.column.minimum is not None

    def rows_of(self, scalar: Scalar) -> float:
        """Rows that have a value: as counted, or as the mean of those that are not common."""
        common = dict(self.column.common)
        if scalar in common:
            return common[scalar] * self.rows
        low, high = self.column.minimum, self.column.maximum
        others = self.column.distinct - len(common)
        if others < 1 or (low is not None and high is not None and not low <= scalar <= high):  # type: ignore[operator]
            return 0.0
        return max(0.0, self.values - sum(common.values()) * self.rows) / others

    def steps(self) -> Iterator[tuple[Scalar, float]]:
        """Values that are not common, each with the number of rows that it represents."""
        edges = self.column.bounds or tuple(self._even())
        if edges:
            left = max(0.0, self.values - sum(part for _, part in self.column.common) * self.rows)
            yield edges[0], 0.0
            yield from ((edge, left / max(1, len(edges) - 1)) for edge in edges[1:])

    def _even(self) -> Iterator[Scalar]:
        """Edges of a histogram where nothing but the range is known; none where all values are common."""
        low, high = self.column.minimum, self.column.maximum
        if low is None or high is None or len(self.column.common) >= self.column.distinct:
            return
        if isinstance(low, float | int) and isinstance(high, float | int):
            yield from (low + (high - low) * step / BINS for step in range(BINS + 1))
        else:
            yield from (low, high)

    def within(self, other: _ColumnPart) -> float:
        """The part of its range that another one's covers, as if its values were spread evenly."""
        low, high, least, most = (self.column.minimum, self.column.maximum, other.column.minimum, other.column.maximum)
        if low is None or high is None or least is None or most is None:
            return 1.0
        if isinstance(low, str) or isinstance(high, str) or isinstance(least, str) or isinstance(most, str):
            return 0.0 if str(least) > str(high) or str(low) > str(most) else 1.0
        if least > high or low > most:
            return 0.0
        return (min(high, most) - max(low, least)) / (high - low) if high > low else 1.0


def _merged(one: _ColumnPart, other: _ColumnPart) -> ColumnStats:
    if not one.values or not other.values:
        some = one if one.values else other
        rows = one.rows + other.rows
        common = tuple((scalar, part * some.rows / rows) for scalar, part in some.column.common)
        return replace(some.column, nulls=one.column.nulls + other.column.nulls, common=common)
    values = one.values + other.values
    width = (one.column.width * one.values + other.column.width * other.values) / values
    nulls = one.column.nulls + other.column.nulls
    run = values / (one.values / one.column.run + other.values / other.column.run)
    found = ColumnStats(nulls, min(values, _distinct(one, other)), width=width, locality=_locality(one, other), run=run)
    return _spread(found, one, other) if one.has_range and other.has_range else found


def _distinct(one: _ColumnPart, other: _ColumnPart) -> float:
    """Distinct values of both."""
    few, more = one.column.distinct, other.column.distinct
    shared = other.within(one)
    expected = drawn(domain_of(few, one.values), one.values + other.values * shared)
    new = min(max(0.0, expected - few), more * shared)
    return max(few + more * (1 - shared) + new, few, more)


def _locality(one: _ColumnPart, other: _ColumnPart) -> float:
    """The mean part of all rows that is in the range of a block; see `ColumnStats`."""
    total = one.rows + other.rows
    mine, theirs = one.rows / total, other.rows / total
    first = one.column.locality * (mine + theirs * other.within(one))
    second = other.column.locality * (theirs + mine * one.within(other))
    return min(1.0, max(1.0 / BLOCKS, mine * first + theirs * second))


def _spread(found: ColumnStats, one: _ColumnPart, other: _ColumnPart) -> ColumnStats:
    """With common values, a histogram and extremes."""
    parts, total = (one, other), one.rows + other.rows
    rows = {scalar: sum(part.rows_of(scalar) for part in parts)
            for part in parts for scalar, _ in part.column.common}  # fmt: skip
    common = _common(rows, found.distinct, one.values + other.values)
    steps: dict[Scalar, float] = {scalar: count for scalar, count in rows.items() if scalar not in common}
    for part in parts:
        for edge, weight in part.steps():
            if edge not in common:
                steps[edge] = steps.get(edge, 0.0) + weight
    lows = [part.column.minimum for part in parts if part.column.minimum is not None]
    highs = [part.column.maximum for part in parts if part.column.maximum is not None]
    low, high = min(lows), max(highs)
    bounds = _quantiles(steps)
    if bounds:
        bounds = (bounds[0] if low in common else low, *bounds[1:-1], bounds[-1] if high in common else high)
    frequent = tuple((scalar, count / total) for scalar, count in common.items())
    return replace(found, minimum=low, maximum=high, common=frequent, bounds=bounds)


def _common(rows: Mapping[Scalar, float], distinct: float, values: float) -> dict[Scalar, float]:
    """Those of the values that are common, most common first: all of few, else those clearly above average."""
    order = sorted(rows, key=lambda scalar: -rows[scalar])
    if len(rows) <= BINS and len(rows) >= distinct:
        return {scalar: rows[scalar] for scalar in order}
    least = _FREQUENT * values / max(1.0, distinct)
    return {scalar: rows[scalar] for scalar in order[:MOST_COMMON] if rows[scalar] > least}


def _quantiles(steps: Mapping[Scalar, float]) -> tuple[Scalar, ...]:
    """Values at equal steps through the rows, the least and the greatest among them.

    >>> _quantiles({float(x): 1.0 for x in range(129)})[:3]
    (0.0, 2.0, 4.0)
    """
    order: Sequence[Scalar] = sorted(steps)
    running = list(accumulate(steps[edge] for edge in order))
    bins = min(BINS, len(order) - 1)
    if bins < 1 or not running[-1]:
        return ()
    places = (min(bisect_left(running, running[-1] * step / bins), len(order) - 1) for step in range(bins + 1))
    return tuple(order[place] for place in places)
