"""The profile of a union: its columns have the values of all branches, and the dependencies that hold in them.

Columns of one table in every branch depend on each other (brand and class of an item, in sales of each channel), and
columns of different tables do not.  Treating all columns of a union as those of one table gives far too many groups of
brand and class, and too few of item and day.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from qoop.catalog.statistics.stats import Scalar
from qoop.planner.algebra.expr import Column
from qoop.planner.estimate.equijoin import range_overlap
from qoop.planner.estimate.profile import ColumnOrigin, Profile, combinations, distinct_values, spread_of
from qoop.planner.estimate.selectivity import Spread

Branch = tuple[Sequence[Column], Profile]
"""The columns of a branch in the union's order, and its profile."""


def union_all(columns: Sequence[Column], branches: Sequence[Branch], next_origin: Callable[[], int]) -> Profile:
    """The profile of all rows of all branches. next_origin: a number that no origin has yet."""
    profiles = [profile for _, profile in branches]
    numbers: dict[tuple[int | None, ...], int] = {}
    origins: dict[int, ColumnOrigin] = {}
    spreads: dict[str, Spread] = {}
    for index, column in enumerate(columns):
        parts = [spread_of(theirs[index], profile) for theirs, profile in branches]
        tables = tuple(part.origin for part in parts)
        spread = _united(parts, profiles)
        if None not in tables:
            if tables not in numbers:
                numbers[tables] = next_origin()
                origins[numbers[tables]] = _united_origin(parts, profiles)
            spread = replace(spread, origin=numbers[tables])
        spreads[column.name] = spread
    return Profile(sum(profile.rows for profile in profiles), spreads, origins)


def without_repeats(columns: Sequence[Column], branches: Sequence[Branch], together: Profile) -> Profile:
    """The profile of different rows alone: no fewer than one branch has, no more than all of them have."""
    each = [combinations(profile, theirs) for theirs, profile in branches]
    rows = min(sum(each), max(*each, combinations(together, columns)))
    spreads = {}
    for name, spread in together.columns.items():
        distinct = min(spread.distinct, max(1.0, rows))
        spreads[name] = replace(spread, distinct=distinct, rows=max(distinct, min(spread.rows, rows)))
    whole = frozenset(spreads)  # as a key it is useful only if all columns come from one table
    origins = {
        number: replace(origin, rows=min(origin.rows, rows), keys=(whole,))
        for number, origin in together.origins.items()
    }
    return Profile(rows, spreads, origins)


def _united(parts: Sequence[Spread], branches: Sequence[Profile]) -> Spread:
    """Values of a union's column: branches whose ranges overlap draw from one domain, others add up."""
    found = [distinct_values(part, branch) for part, branch in zip(parts, branches, strict=True)]
    rows = sum(branch.rows for branch in branches)
    combine = sum if _apart(parts) else max
    nulls = sum(p.nulls * b.rows for p, b in zip(parts, branches, strict=True)) / rows if rows > 0 else 0.0
    low, high = _outer_range(parts)
    distinct = max(1.0, combine(found))
    domain, share = combine(part.domain for part in parts), max(part.share for part in parts)
    return Spread(distinct, max(rows, distinct), domain, nulls, low, high, share=share)


def _apart(parts: Sequence[Spread]) -> bool:
    return all(range_overlap(a, b.minimum, b.maximum) == 0.0 for i, a in enumerate(parts) for b in parts[:i])


def _outer_range(parts: Sequence[Spread]) -> tuple[Scalar | None, Scalar | None]:
    lows, highs = [p.minimum for p in parts], [p.maximum for p in parts]
    if None in lows or None in highs or len({type(value) for value in (*lows, *highs)}) != 1:
        return None, None
    return min(lows), max(highs)  # type: ignore[type-var]


def _united_origin(parts: Sequence[Spread], branches: Sequence[Profile]) -> ColumnOrigin:
    """The rows that columns of a union come from: those of one table once, however many branches read it."""
    table_rows: dict[object, float] = {}
    rows: dict[object, float] = {}
    for index, (part, branch) in enumerate(zip(parts, branches, strict=True)):
        origin = branch.origins.get(part.origin or 0) or ColumnOrigin(branch.rows, branch.rows)
        table = origin.table or index
        table_rows[table] = max(table_rows.get(table, 0.0), origin.table_rows)
        rows[table] = max(rows.get(table, 0.0), origin.rows)
    return ColumnOrigin(sum(table_rows.values()), sum(rows.values()))
