"""The profile of a relation's output: rows, and for each column the spread of its values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from math import prod

from qoop.catalog.statistics.stats import Scalar, to_scalar
from qoop.catalog.value import value
from qoop.planner.algebra.expr import Call, Column, Expr, Literal, columns_of
from qoop.planner.estimate.calendar import calendar_values
from qoop.planner.estimate.selectivity import UNKNOWN_DISTINCT, Spread, sampled

MOST_ROWS = 1e15  # keeps products of estimates finite


@value
class ColumnOrigin:
    """The scan or aggregate that columns come from.

    table_rows: its rows before filters. rows: after the filters right above it.
    keys: sets of our column names that are unique together.
    keyed: one column alone is a key, be it read or not: a dimension table.
    filters: (fraction kept, distinct values of the column) for each column that those filters look at.
    table: name of the table that is scanned; empty for what is none.
    """

    table_rows: float
    rows: float
    keys: tuple[frozenset[str], ...] = ()
    filters: tuple[tuple[float, float], ...] = ()
    keyed: bool = False
    table: str = ""


@value
class Profile:
    """The profile of an operator's output: rows, spreads by column name, origins by number."""

    rows: float
    columns: Mapping[str, Spread]
    origins: Mapping[int, ColumnOrigin]


def with_factor(
    origins: Mapping[int, ColumnOrigin], spread: Spread, kept: float, rows: float
) -> Mapping[int, ColumnOrigin]:
    """Note that a condition on a column of this spread kept a fraction of its table, and `rows` rows."""
    origin = origins.get(spread.origin) if spread.origin is not None else None
    if origin is None or spread.origin is None or kept >= 1.0:
        return origins
    filters = (*origin.filters, (kept, max(1.0, spread.distinct)))
    return {**origins, spread.origin: replace(origin, filters=filters, rows=min(origin.rows, rows))}


def guess(rows: float) -> Spread:
    """The spread of a column of which nothing is known."""
    distinct = max(1.0, rows * UNKNOWN_DISTINCT)
    return Spread(distinct, max(distinct, rows), distinct)


def spread_of(expr: Expr, profile: Profile) -> Spread:
    """The spread of an expression's values, known or else guessed."""
    if isinstance(expr, Column):
        return profile.columns.get(expr.name) or guess(profile.rows)
    if isinstance(expr, Literal):
        value = constant(expr)
        return Spread(1.0, max(1.0, profile.rows), 1.0, 0.0, value, value)
    if expr.op == "cast" and len(expr.args) == 1:
        spread = spread_of(expr.args[0], profile)
        if _family(expr.type) == _family(expr.args[0].type):
            return spread
        return replace(spread, minimum=None, maximum=None, common=(), bounds=())
    return _shifted(expr, profile) or _computed(expr, profile)


def _shifted(call: Call, profile: Profile) -> Spread | None:
    """A number plus or minus a constant: the same values, elsewhere."""
    if call.op not in ("+", "-") or len(call.args) != 2 or not columns_of(call.args[0]):
        return None
    by, spread = constant(call.args[1]), spread_of(call.args[0], profile)
    low, high = spread.minimum, spread.maximum
    if (
        by is None
        or low is None
        or high is None
        or isinstance(by, str)
        or isinstance(low, str)
        or isinstance(high, str)
    ):
        return None
    by = by if call.op == "+" else -by
    return replace(spread, minimum=low + by, maximum=high + by, common=(), bounds=())


def _computed(call: Call, profile: Profile) -> Spread:
    """A function of columns has at most as many values as its arguments have combinations."""
    if call.op == "case" and len(call.args) > 1:
        branches = [*call.args[1:-1:2], call.args[-1]]
        if all(isinstance(branch, Literal) for branch in branches):
            few = float(len({str(branch) for branch in branches}))
            return Spread(few, max(profile.rows, few), few)
    columns = sorted(columns_of(call), key=lambda column: column.name)
    if not columns or any(column.name not in profile.columns for column in columns):
        return guess(profile.rows)
    inputs = [profile.columns[column.name] for column in columns]
    distinct = combinations(profile, columns)
    if len(call.args) == 1 and isinstance(call.args[0], Column):
        distinct = min(distinct, calendar_values(call, inputs[0]) or distinct)
    divisor = constant(call.args[1]) if call.op == "%" else None
    if divisor and not isinstance(divisor, str) and "INT" in call.type:
        distinct = min(distinct, abs(divisor))  # remainders of integers, mostly of one sign
    origins = {spread.origin for spread in inputs}
    rows = max(profile.rows, distinct)
    return Spread(
        distinct, rows, distinct, max(s.nulls for s in inputs), origin=origins.pop() if len(origins) == 1 else None
    )


def distinct_values(spread: Spread, profile: Profile) -> float:
    """Distinct non-NULL values of a column among the profile's rows."""
    return max(0.0, sampled(spread.distinct, spread.rows, profile.rows))


def settled(profile: Profile) -> Profile:
    """The profile with distinct values counted among its present rows: a join may repeat them afterwards."""
    if all(spread.rows <= profile.rows for spread in profile.columns.values()):
        return profile
    rows = max(1.0, profile.rows)
    columns = {
        name: replace(spread, distinct=max(1.0, distinct_values(spread, profile)), rows=rows)
        if spread.rows > profile.rows
        else spread
        for name, spread in profile.columns.items()
    }
    return replace(profile, columns=columns)


def combinations(profile: Profile, columns: Sequence[Expr], independent: bool = False) -> float:
    """Distinct combinations of columns among the profile's rows.

    Columns of one table are taken as dependent, unless `independent`: their combinations are the product of distinct
    values with exponential backoff, and no more than the table's rows. Tables are independent of each other. A
    product of distinct values is bounded by the number of rows: n rows at random fill D (1 - exp(-n/D)) of D cells
    (Cardenas, "Analysis and Performance of Inverted Data Base Structures", CACM 1975).
    """
    if profile.rows <= 0:
        return 0.0
    groups: dict[int | None, list[tuple[str, float]]] = defaultdict(list)
    for index, column in enumerate(dict.fromkeys(columns)):
        spread = spread_of(column, profile)
        values = max(1.0, distinct_values(spread, profile) + (1.0 if spread.nulls > 0 else 0.0))
        groups[spread.origin if spread.origin is not None else -1 - index].append((str(column), values))
    cells = 1.0
    for number, members in groups.items():
        cells = min(MOST_ROWS, cells * _together(members, profile.origins.get(number or 0), profile.rows, independent))
    if cells <= 1.0:
        return 1.0
    return min(cells, profile.rows, max(1.0, sampled(cells, cells * max(1.0, profile.rows / cells), profile.rows)))


def _together(members: list[tuple[str, float]], origin: ColumnOrigin | None, rows: float, independent: bool) -> float:
    """Combinations of columns of one origin."""
    names = {name for name, _ in members}
    if origin is not None:
        for key in origin.keys:
            if key <= names:
                return max(1.0, max(_key_values(key, members, origin, rows), max(values for _, values in members)))
    if independent:
        return prod(values for _, values in members)
    product = backoff_product(sorted((values for _, values in members), reverse=True))
    most = min(rows, origin.rows) if origin is not None else rows
    return max(1.0, min(product, most))


def _key_values(key: frozenset[str], members: list[tuple[str, float]], origin: ColumnOrigin, rows: float) -> float:
    if len(key) == 1:
        return next(values for name, values in members if name in key)
    return min(rows, origin.rows)


def backoff_product(values: Iterable[float]) -> float:
    """The product of values in which each further one counts with half the exponent of the one before.

    >>> backoff_product([100.0, 100.0])
    1000.0
    """
    product, exponent = 1.0, 1.0
    for one in values:
        product *= one**exponent
        exponent /= 2.0
    return product


def constant(expr: Expr) -> Scalar | None:
    """The ordering scalar of a constant expression, None if it is none or its value is not known here."""
    if isinstance(expr, Literal):
        return to_scalar(expr.value)
    if not isinstance(expr, Call):
        return None
    if expr.op == "cast" and len(expr.args) == 1:
        return _cast(constant(expr.args[0]), expr.type)
    if expr.op in ("+", "-", "*", "/") and len(expr.args) == 2:
        return _arithmetic(expr.op, constant(expr.args[0]), constant(expr.args[1]), expr.type)
    return None


def _cast(value: Scalar | None, type_: str) -> Scalar | None:
    if not isinstance(value, str):
        return None if value is None or _family(type_) == "text" else value
    if _family(type_) == "text":
        return value
    try:
        if type_ == "DATE":
            return to_scalar(date.fromisoformat(value))
        if type_.startswith("TIMESTAMP"):
            return to_scalar(datetime.fromisoformat(value))
        return float(value)
    except ValueError:  # not in the plain form: DuckDB may know it, the estimate does without
        return None


def _arithmetic(op: str, a: Scalar | None, b: Scalar | None, type_: str) -> Scalar | None:
    if not isinstance(a, float) or not isinstance(b, float):
        return None
    if type_.startswith("TIMESTAMP"):
        return None
    if op == "/":
        return a / b if b else None
    return a + b if op == "+" else a - b if op == "-" else a * b


def _family(type_: str) -> str:
    """Types whose values have the same scalars."""
    if type_.startswith(("VARCHAR", "ENUM", "CHAR")):
        return "text"
    return "date" if type_ == "DATE" else "timestamp" if type_.startswith("TIMESTAMP") else "number"
