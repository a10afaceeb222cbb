"""The fraction of a cross product that an equality join keeps, and the fraction of the left that finds a partner."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import prod

from qoop.catalog.statistics.stats import Scalar
from qoop.planner.algebra.expr import Call, Column, Expr, columns_of, conjuncts
from qoop.planner.estimate.frequent import excess
from qoop.planner.estimate.predicates import conjoin
from qoop.planner.estimate.profile import Profile, backoff_product, combinations, spread_of
from qoop.planner.estimate.selectivity import Spread, below

Pair = tuple[Expr, Expr]


def equalities(on: Iterable[Expr], left: Profile, right: Profile) -> tuple[list[Pair], list[Expr]]:
    """Split join conditions into (left expression, right expression) pairs that are equated, and the rest."""
    pairs: list[Pair] = []
    rest: list[Expr] = []
    for condition in (part for expr in on for part in conjuncts(expr)):
        pair = _sides(condition, left, right)
        if pair is None:
            rest.append(condition)
        else:
            pairs.append(pair)
    return pairs, rest


def _sides(condition: Expr, left: Profile, right: Profile) -> Pair | None:
    if not (isinstance(condition, Call) and condition.op == "=" and len(condition.args) == 2):
        return None
    first, second = condition.args
    if _belongs(first, left) and _belongs(second, right):
        return first, second
    return (second, first) if _belongs(second, left) and _belongs(first, right) else None


def _belongs(expr: Expr, profile: Profile) -> bool:
    columns = columns_of(expr)
    return bool(columns) and all(column.name in profile.columns for column in columns)


def equi_join(pairs: Sequence[Pair], left: Profile, right: Profile) -> float:
    """Fraction of the cross product that satisfies all equalities.

    Pairs between the same two tables are one composite key, not independent conditions.
    """
    fraction = 1.0
    for group in _by_origins(pairs, left, right):
        fraction *= max(_composite(group, left, right), _frequent(group, left, right))
    return min(1.0, fraction)


def _frequent(pairs: Sequence[Pair], left: Profile, right: Profile) -> float:
    """The fraction that agrees on all pairs, by the frequent values of both sides; 0 for keys.

    Frequent values mostly occur together: of several such pairs each further one counts with half the exponent of the
    one before.
    """
    known = [(spread_of(x, left), spread_of(y, right)) for x, y in pairs]
    more = [excess(a, b) for a, b in known]
    if max(more) == 1.0 or _has_key([x for x, _ in pairs], left) or _has_key([y for _, y in pairs], right):
        return 0.0
    alone = [_composite([pair], left, right) for pair in pairs]
    uneven = sorted(one * times for one, times in zip(alone, more, strict=True) if times > 1.0)
    return backoff_product(uneven) * prod(one for one, times in zip(alone, more, strict=True) if times == 1.0)


def _has_key(exprs: Sequence[Expr], profile: Profile) -> bool:
    """True if the expressions hold a key of the table that they come from."""
    origin = profile.origins.get(spread_of(exprs[0], profile).origin or 0)
    names = {str(expr) for expr in exprs}
    return origin is not None and any(key <= names for key in origin.keys)


def match_fraction(pairs: Sequence[Pair], rest: Sequence[Expr], left: Profile, right: Profile) -> float:
    """Fraction of the left's rows that have a partner on the right: distinct values there over the domain."""
    if right.rows <= 0:
        return 0.0
    if not pairs:
        both = Profile(left.rows * right.rows, {**left.columns, **right.columns}, {})
        return min(1.0, right.rows * (conjoin(rest, both)[0] if rest else 1.0))
    matched = 1.0
    for group in _by_origins(pairs, left, right):
        keys = [y for _, y in group]
        values = max(1.0, combinations(right, keys))
        matched *= min(1.0, _composite(group, left, right) * values)
    if not rest:
        return matched
    both = Profile(left.rows * right.rows, {**left.columns, **right.columns}, {})
    partners = max(1.0, right.rows * equi_join(pairs, left, right) / max(matched, 1e-12))
    none: float = (1.0 - min(1.0, conjoin(rest, both)[0])) ** partners
    return matched * (1.0 - none)


def _by_origins(pairs: Sequence[Pair], left: Profile, right: Profile) -> Iterator[list[Pair]]:
    groups: dict[tuple[object, object], list[Pair]] = {}
    for index, (x, y) in enumerate(pairs):
        a, b = spread_of(x, left), spread_of(y, right)
        known = a.origin is not None and b.origin is not None
        key: tuple[object, object] = (a.origin, b.origin) if known else ("alone", index)
        groups.setdefault(key, []).append((x, y))
    yield from groups.values()


def _composite(pairs: Sequence[Pair], left: Profile, right: Profile) -> float:
    """Fraction of the cross product of two tables that agrees on all pairs."""
    known = [(spread_of(x, left), spread_of(y, right)) for x, y in pairs]
    not_null, common_left, common_right = 1.0, 1.0, 1.0
    for a, b in known:
        not_null *= (1.0 - a.nulls) * (1.0 - b.nulls)
        common_left = min(common_left, range_overlap(a, b.minimum, b.maximum, b.share))
        common_right = min(common_right, range_overlap(b, a.minimum, a.maximum, a.share))
    domain = max(
        _domain([a for a, _ in known], [x for x, _ in pairs], left) * common_left,
        _domain([b for _, b in known], [y for _, y in pairs], right) * common_right,
        1.0,
    )
    within = rows_in_range(pairs[0][0], left, common_left) * rows_in_range(pairs[0][1], right, common_right)
    return min(1.0, not_null * within / domain)


def _domain(spreads: list[Spread], exprs: list[Expr], profile: Profile) -> float:
    """Combinations of values that one side of a composite key draws from."""
    if len(spreads) == 1:
        return spreads[0].domain
    origin = profile.origins.get(spreads[0].origin or 0)
    most = origin.table_rows if origin is not None else profile.rows
    names = {str(expr) for expr in exprs}
    if origin is not None and any(key <= names for key in origin.keys):
        return most
    return min(most, backoff_product(sorted((spread.domain for spread in spreads), reverse=True)))


def range_overlap(spread: Spread, low: Scalar | None, high: Scalar | None, share: float = 1.0) -> float:
    """Fraction of a column's non-NULL values that lie in a range, or in a share of it.

    Ranges that are not known overlap wholly.
    """
    return min(_overlap(spread, low, high), share / spread.share)


def _overlap(spread: Spread, low: Scalar | None, high: Scalar | None) -> float:
    if low is None or high is None or spread.minimum is None or spread.maximum is None:
        return 1.0
    if type(low) is not type(spread.minimum) or type(high) is not type(spread.maximum):
        return 1.0
    if low <= spread.minimum and high >= spread.maximum:  # type: ignore[operator]
        return 1.0
    if low > spread.maximum or high < spread.minimum:  # type: ignore[operator]
        return 0.0
    values = replace(spread, distinct=spread.domain, nulls=0.0, common=(), bounds=())
    return max(1.0 / max(1.0, spread.domain), below(values, high, True) - below(values, low, False))


def rows_in_range(key: Expr, profile: Profile, fraction: float) -> float:
    """Fraction of the rows whose key lies in a range that holds `fraction` of the key's values.

    Filters on other columns of the same table are independent of the key if their column has few values: a month
    number does not depend on the century. A column of more values than the range has shares (a year) follows the key
    of its table, and a query names values that exist.
    """
    if fraction >= 1.0 or fraction <= 0.0:
        return fraction
    origin = profile.origins.get(spread_of(key, profile).origin or 0)
    if origin is None or not origin.keyed:
        return fraction
    if frozenset((str(key),)) not in origin.keys and not _follows(spread_of(key, profile), fraction):
        return fraction
    along = [kept for kept, values in origin.filters if values * fraction >= 1.0]
    return min(1.0, fraction / max(min(along), 1e-12)) if along else fraction


def narrowed(profile: Profile, pairs: Sequence[Pair]) -> Profile:
    """After an equality join both columns hold only values that occur on both sides."""
    columns = dict(profile.columns)
    for x, y in pairs:
        a, b = (
            (columns.get(x.name) if isinstance(x, Column) else None),
            (columns.get(y.name) if isinstance(y, Column) else None),
        )
        if a is None or b is None or not isinstance(x, Column) or not isinstance(y, Column):
            continue
        for column, other in ((x, b), (y, a)):
            overlap = range_overlap(columns[column.name], other.minimum, other.maximum, other.share)
            _follow(column, overlap, profile, columns)
        low, high = inner_range(a, b)
        fewest = min(a.distinct, b.distinct)
        for name, spread in ((x.name, a), (y.name, b)):
            rows = max(fewest, min(spread.rows, profile.rows))
            columns[name] = replace(spread, distinct=fewest, rows=rows, nulls=0.0, minimum=low, maximum=high)
    return replace(profile, columns=columns)


def _follow(key: Column, fraction: float, profile: Profile, columns: dict[str, Spread]) -> None:
    """A range of a table's key holds only a share of the values of columns that follow it (:func:`rows_in_range`)."""
    number = columns[key.name].origin
    origin = profile.origins.get(number or 0)
    if not 0.0 < fraction < 1.0 or origin is None or frozenset((key.name,)) not in origin.keys:
        return
    within = rows_in_range(key, profile, fraction)
    for name, spread in columns.items():
        if spread.origin == number and name != key.name and _follows(spread, fraction):
            distinct, domain = max(1.0, spread.distinct * within), max(1.0, spread.domain * fraction)
            columns[name] = replace(spread, distinct=distinct, domain=domain, share=spread.share * fraction)


def _follows(spread: Spread, fraction: float) -> bool:
    """True if a range of the table's key should hold only a share of the column's values, too."""
    return spread.domain * fraction >= 1.0


def inner_range(a: Spread, b: Spread) -> tuple[Scalar | None, Scalar | None]:
    if a.minimum is None or a.maximum is None or type(a.minimum) is not type(b.minimum):
        return b.minimum, b.maximum
    if b.minimum is None or b.maximum is None:
        return a.minimum, a.maximum
    return max(a.minimum, b.minimum), min(a.maximum, b.maximum)
