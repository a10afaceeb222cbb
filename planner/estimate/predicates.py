"""The fraction of a relation's rows that a predicate keeps, and the profile of the rows kept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from qoop.catalog.statistics.stats import Scalar
from qoop.planner.algebra.expr import COMPARISONS, Call, Column, Expr, Literal, columns_of, conjuncts, disjuncts
from qoop.planner.algebra.implication import essential
from qoop.planner.estimate.profile import Profile, constant, spread_of, with_factor
from qoop.planner.estimate.selectivity import UNKNOWN_LIKE, UNKNOWN_RANGE, Spread, between, equal, like

_SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}


def filtered(profile: Profile, predicates: Iterable[Expr]) -> Profile:
    """The profile of the rows that satisfy all predicates."""
    parts = tuple(part for predicate in predicates for part in conjuncts(predicate))
    fraction, factors = conjoin(parts, profile)
    rows = profile.rows * fraction
    columns = dict(profile.columns)
    origins = profile.origins
    for expr, kept in factors:
        if expr is not None:
            origins = with_factor(origins, spread_of(expr, profile), kept, rows)
    for part in parts:
        _restrict(part, columns, fraction)
    return Profile(rows, columns, origins)


def conjoin(parts: Sequence[Expr], profile: Profile) -> tuple[float, list[tuple[Expr | None, float]]]:
    """Fraction of rows for which all parts are true, and the factor of each column it is made of.

    Parts that follow from others count for nothing: where subplans are written out for each reader, a reader's own
    filter is added to the common one. Ranges of one column are intersected. Factors multiply while the
    product of the columns' distinct values is at most the rows, since then every combination can occur;
    beyond that the columns must depend on each other, and each further factor counts with half the exponent of the
    one before.
    """
    ranges: dict[Expr, list[Call]] = {}
    factors: list[tuple[Expr | None, float]] = []
    for part in essential(list(dict.fromkeys(parts)), _name):
        subject = _range_subject(part)
        if subject is not None and isinstance(part, Call):
            ranges.setdefault(subject, []).append(part)
        else:
            factors.append((_main_column(part, profile), _fraction(part, profile)))
    factors.extend((subject, _range_fraction(subject, calls, profile)) for subject, calls in ranges.items())
    return _backed_off(factors, profile), factors


def _name(column: Column) -> str:
    return column.name


def _backed_off(factors: list[tuple[Expr | None, float]], profile: Profile) -> float:
    fraction, available, exponent = 1.0, max(1.0, profile.rows), 1.0
    for subject, factor in sorted(factors, key=lambda item: item[1]):
        spread = spread_of(subject, profile) if subject is not None else None
        if spread is not None and spread.distinct > 1:
            available /= spread.distinct
            if available < 1.0 and fraction < 1.0:
                exponent /= 2.0
        fraction *= max(0.0, min(1.0, factor)) ** exponent
    return fraction


def _subject(part: Expr) -> Expr | None:
    """The column or expression a predicate is about, if it is about one alone."""
    columns = columns_of(part)
    return next(iter(columns)) if len(columns) == 1 else None


def _main_column(part: Expr, profile: Profile) -> Expr | None:
    """The column of most values that a predicate on one table looks at."""
    columns = sorted(columns_of(part), key=lambda column: column.name)
    if len({spread_of(column, profile).origin for column in columns}) != 1:
        return None
    return max(columns, key=lambda column: spread_of(column, profile).distinct)


def _range_subject(part: Expr) -> Expr | None:
    """The expression that a predicate bounds by constants, None if it is no range."""
    if not isinstance(part, Call):
        return None
    if part.op == "between" and all(constant(arg) is not None for arg in part.args[1:]):
        return part.args[0]
    if part.op in ("<", "<=", ">", ">=") and len(part.args) == 2:
        if constant(part.args[1]) is not None and columns_of(part.args[0]):
            return part.args[0]
        if constant(part.args[0]) is not None and columns_of(part.args[1]):
            return part.args[1]
    return None


def _bounds(subject: Expr, calls: Iterable[Call]) -> tuple[Scalar | None, Scalar | None, bool, bool]:
    """Intersect ranges: low, high, and whether each end belongs to the range."""
    low: Scalar | None = None
    high: Scalar | None = None
    with_low = with_high = True
    for call in calls:
        for op, value in _ends(subject, call):
            if op in (">", ">=") and (low is None or _less(low, value) or (low == value and op == ">")):
                low, with_low = value, op == ">="
            if op in ("<", "<=") and (high is None or _less(value, high) or (high == value and op == "<")):
                high, with_high = value, op == "<="
    return low, high, with_low, with_high


def _ends(subject: Expr, call: Call) -> Iterator[tuple[str, Scalar]]:
    if call.op == "between":
        ends = [(">=", constant(call.args[1])), ("<=", constant(call.args[2]))]
    elif call.args[0] == subject:
        ends = [(call.op, constant(call.args[1]))]
    else:
        ends = [(_SWAPPED[call.op], constant(call.args[0]))]
    yield from ((op, value) for op, value in ends if value is not None)


def _less(a: Scalar, b: Scalar) -> bool:
    return type(a) is type(b) and a < b  # type: ignore[operator]


def _range_fraction(subject: Expr, calls: list[Call], profile: Profile) -> float:
    spread = spread_of(subject, profile)
    low, high, with_low, with_high = _bounds(subject, calls)
    if spread.minimum is None and not spread.bounds and not spread.common:
        return UNKNOWN_RANGE if low is None or high is None else UNKNOWN_RANGE / 2
    if low is not None and high is not None and _less(high, low):
        return 0.0
    return between(spread, low, high, with_low, with_high)


def _fraction(part: Expr, profile: Profile) -> float:
    """Fraction of rows for which one predicate is true."""
    if isinstance(part, Literal):
        return 1.0 if part.value is True else 0.0
    if isinstance(part, Column):
        spread = profile.columns.get(part.name)
        return equal(spread, 1.0) if spread is not None and spread.minimum is not None else 0.5
    match part.op:
        case "and":
            return conjoin(conjuncts(part), profile)[0]
        case "or":
            return _either(disjuncts(part), profile)
        case "not":
            return _negated(part.args[0], profile)
        case "is_null":
            return spread_of(part.args[0], profile).nulls
        case "in":
            return _one_of(part, profile)
        case "like" | "ilike":
            return _like(part, profile)
        case op if op in COMPARISONS:
            return _comparison(part, profile)
        case "between":
            return UNKNOWN_RANGE / 2
    return UNKNOWN_RANGE


def _either(parts: Sequence[Expr], profile: Profile) -> float:
    """OR: equalities on one column exclude each other and add up; others are independent."""
    sums: dict[Expr, float] = defaultdict(float)
    none = 1.0
    for part in parts:
        fraction = _fraction(part, profile) if _range_subject(part) is None else conjoin((part,), profile)[0]
        if isinstance(part, Call) and part.op in ("=", "in", "between") and columns_of(part.args[0]):
            sums[part.args[0]] += fraction
        else:
            none *= 1.0 - fraction
    for total in sums.values():
        none *= 1.0 - min(1.0, total)
    return 1.0 - none


def _negated(part: Expr, profile: Profile) -> float:
    """NOT: what is neither true nor unknown."""
    if isinstance(part, Call) and part.op == "is_null":
        return 1.0 - _fraction(part, profile)
    subject = _subject(part)
    spread = spread_of(subject, profile) if subject is not None else None
    return max(0.0, 1.0 - (spread.nulls if spread is not None else 0.0) - conjoin((part,), profile)[0])


def _one_of(part: Call, profile: Profile) -> float:
    spread = spread_of(part.args[0], profile)
    return min(1.0 - spread.nulls, sum(equal(spread, constant(value)) for value in dict.fromkeys(part.args[1:])))


def _like(part: Call, profile: Profile) -> float:
    spread, pattern = spread_of(part.args[0], profile), part.args[1]
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        return UNKNOWN_LIKE
    return like(spread, pattern.value, part.op == "ilike")


def _comparison(part: Call, profile: Profile) -> float:
    """``x op y`` where it is no range: against a constant, or between two columns."""
    left, right = part.args
    if not columns_of(left):
        left, right = right, left
    a, b = spread_of(left, profile), spread_of(right, profile)
    if part.op not in ("=", "<>"):
        return UNKNOWN_RANGE
    same = 1.0 / max(1.0, a.distinct, b.distinct) if columns_of(right) else equal(a, constant(right))
    return same if part.op == "=" else max(0.0, 1.0 - same - a.nulls)


def _restrict(part: Expr, columns: dict[str, Spread], fraction: float) -> None:
    """Narrow the spreads of the columns that a predicate compares with constants."""
    if not isinstance(part, Call) or not part.args:
        return
    if part.op == "or":
        _restrict_either(part, columns)
        return
    subject = _range_subject(part) or part.args[0]
    if (
        part.op == "not"
        and isinstance(subject, Call)
        and subject.op == "is_null"
        and isinstance(subject.args[0], Column)
    ):
        _put(columns, subject.args[0], nulls=0.0)
        return
    if not isinstance(subject, Column) or subject.name not in columns:
        return
    spread = columns[subject.name]
    if _range_subject(part) is not None:
        low, high, _, _ = _bounds(subject, (part,))
        kept = _range_fraction(subject, [part], Profile(spread.rows, columns, {})) / max(1e-12, 1.0 - spread.nulls)
        _shrink(columns, subject, max(1.0, spread.distinct * min(1.0, kept)), low, high)
    elif part.op == "in" or (part.op == "=" and not columns_of(part.args[1])):
        values = [constant(value) for value in part.args[1:]]
        known = [value for value in values if value is not None]
        ends = (min(known), max(known)) if _ordered(known, values) else (None, None)
        _shrink(columns, subject, min(spread.distinct, float(len(set(part.args[1:])))), *ends)


def _restrict_either(part: Call, columns: dict[str, Spread]) -> None:
    """Narrow the columns that every alternative narrows, to the union of the alternatives."""
    branches = []
    for alternative in disjuncts(part):
        branch = dict(columns)
        for one in conjuncts(alternative):
            _restrict(one, branch, 1.0)
        branches.append(branch)
    for column in sorted(columns_of(part), key=_name):
        before = columns.get(column.name)
        after = [branch[column.name] for branch in branches if branch.get(column.name) is not before]
        distinct = sum(spread.distinct for spread in after)
        if before is None or len(after) < len(branches) or distinct >= before.distinct:
            continue
        lows = [spread.minimum for spread in after if spread.minimum is not None]
        highs = [spread.maximum for spread in after if spread.maximum is not None]
        known = _ordered([*lows, *highs], [end for spread in after for end in (spread.minimum, spread.maximum)])
        _shrink(columns, column, distinct, *((min(lows), max(highs)) if known else (None, None)))


def _ordered(known: list[Scalar], values: list[Scalar | None]) -> bool:
    return len(known) == len(values) and len({type(value) for value in known}) == 1


def _shrink(
    columns: dict[str, Spread], column: Column, distinct: float, low: Scalar | None, high: Scalar | None
) -> None:
    spread = columns[column.name]
    rows = max(distinct, spread.rows * distinct / max(1.0, spread.distinct))
    low = spread.minimum if low is None or (spread.minimum is not None and _less(low, spread.minimum)) else low
    high = spread.maximum if high is None or (spread.maximum is not None and _less(spread.maximum, high)) else high
    domain = spread.domain * distinct / max(1.0, spread.distinct)
    _put(
        columns,
        column,
        distinct=distinct,
        rows=rows,
        domain=domain,
        nulls=0.0,
        minimum=low,
        maximum=high,
        common=(),
        bounds=(),
    )


def _put(columns: dict[str, Spread], column: Column, **changes: object) -> None:
    if column.name in columns:
        columns[column.name] = replace(columns[column.name], **changes)  # type: ignore[arg-type]
