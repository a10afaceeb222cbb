"""How many rows an operator puts out, how many distinct values, how many bytes.

:class:`Cardinality` walks a relation bottom-up and gives every operator a :class:`Profile`: its rows and
a :class:`~qoop.planner.selectivity.Spread` for each column whose values it knows something about.  The
assumptions, all of them textbook and each stated where it is made:

* predicates on different columns are independent as long as the table has room for all combinations of
  values, and damped (exponential backoff) where it has not (:func:`conjoin`);
* the values of the smaller domain of an equality join all occur in the larger (:func:`equi_join`);
* a filter on another column thins out a column's values as a random sample would (`sampled`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime

from qoop.catalog.stats import ColumnStats, Scalar, TableStats, to_scalar
from qoop.planner.expr import COMPARISONS, Call, Column, Expr, Literal, columns_of, conjuncts, disjuncts
from qoop.planner.relation import (
    Aggregate,
    Aggregation,
    Exchange,
    Filter,
    Join,
    Limit,
    Opaque,
    Project,
    Relation,
    Scan,
    SetOp,
    Shared,
    Sort,
    Values,
    Window,
)
from qoop.planner.selectivity import (
    UNKNOWN_DISTINCT,
    UNKNOWN_EQUAL,
    UNKNOWN_LIKE,
    UNKNOWN_RANGE,
    Spread,
    below,
    between,
    equal,
    like,
    sampled,
)

UNKNOWN_TABLE_ROWS = 100_000.0
MOST_ROWS = 1e15  # estimates stay finite, whatever is multiplied

_WIDTHS = {
    "BOOLEAN": 1, "TINYINT": 1, "UTINYINT": 1, "SMALLINT": 2, "USMALLINT": 2, "INTEGER": 4, "UINTEGER": 4,
    "DATE": 4, "FLOAT": 4, "HUGEINT": 16, "UHUGEINT": 16, "UUID": 16, "INTERVAL": 16, "VARCHAR": 20, "BLOB": 32,
}  # fmt: skip
_SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}


@dataclass(frozen=True, slots=True)
class Origin:
    """The scan or aggregate that columns come from.

    table_rows: its rows before filters. rows: after the filters right above it.
    keys: sets of our column names that are unique together.
    filters: (fraction kept, distinct values of the column) for each column that those filters look at.
    """

    table_rows: float
    rows: float
    keys: tuple[frozenset[str], ...] = ()
    filters: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Profile:
    """What is known of an operator's output: rows, spreads by column name, origins by number."""

    rows: float
    columns: Mapping[str, Spread]
    origins: Mapping[int, Origin]


class Cardinality:
    """Estimates for the relations of one query, from statistics by table name (lower case).

    Estimates are remembered by object, so asking twice costs nothing; nothing else changes.
    """

    def __init__(self, stats: Mapping[str, TableStats]):
        self._stats = stats
        self._profiles: dict[int, tuple[Relation, Profile]] = {}
        self._widths: dict[str, float] = {}
        self._origins = 0

    def rows(self, relation: Relation) -> float:
        """Estimated number of rows the relation puts out."""
        return self.profile(relation).rows

    def distinct(self, relation: Relation, columns: Sequence[Expr]) -> float:
        """Estimated number of distinct combinations (NULL counts as a value) in the relation's output."""
        return combinations(self.profile(relation), columns)

    def selectivity(self, predicate: Expr, input: Relation) -> float:
        """Estimated fraction of the rows of `input` for which the predicate is true."""
        return conjoin(conjuncts(predicate), self.profile(input))[0]

    def width(self, columns: Iterable[Column]) -> float:
        """Estimated bytes of a row of these columns: measured where they come from a scan, else by type."""
        return sum(self._widths.get(column.name) or type_width(column.type) for column in columns)

    def bytes(self, relation: Relation) -> float:
        """Estimated bytes of all rows of the relation's output."""
        return self.rows(relation) * self.width(relation.columns)

    def profile(self, relation: Relation) -> Profile:
        """Everything known about the relation's output."""
        known = self._profiles.get(id(relation))
        if known is not None:
            return known[1]
        profile = self._estimate(relation)
        rows = min(MOST_ROWS, max(0.0, profile.rows))
        profile = profile if rows == profile.rows else replace(profile, rows=rows)
        self._profiles[id(relation)] = (relation, profile)  # the relation too: its id must not be given away
        return profile

    def _estimate(self, relation: Relation) -> Profile:
        match relation:
            case Scan():
                return self._scan(relation)
            case Values():
                return _values(relation)
            case Filter():
                return filtered(self.profile(relation.input), relation.predicates)
            case Project():
                return self._project(relation)
            case Join():
                return self._join(relation)
            case Aggregate():
                return self._aggregate(relation)
            case Window():
                return _window(relation, self.profile(relation.input))
            case Limit():
                return _limit(relation, self.profile(relation.input))
            case SetOp():
                return _set_operation(relation, [self.profile(branch) for branch in relation.branches])
            case Opaque():
                return self._opaque(relation)
            case Sort() | Shared() | Exchange():
                return self.profile(relation.input)

    def _next_origin(self) -> int:
        self._origins += 1
        return self._origins

    def _scan(self, scan: Scan) -> Profile:
        table = self._stats.get(scan.table.lower())
        if table is None:
            return Profile(UNKNOWN_TABLE_ROWS, {}, {})
        origin = self._next_origin()
        by_name = {name.lower(): stats for name, stats in table.columns.items()}
        spreads: dict[str, Spread] = {}
        for name, column in scan.fields:
            stats = by_name.get(name.lower())
            if stats is not None:
                self._widths[column.name] = stats.width
                spreads[column.name] = _base_spread(stats, table.rows, origin)
        ours = {name.lower(): column.name for name, column in scan.fields}
        keys = tuple(
            frozenset(ours[name.lower()] for name in key)
            for key in sorted(table.keys, key=sorted)
            if all(name.lower() in ours for name in key)
        )
        return Profile(table.rows, spreads, {origin: Origin(table.rows, table.rows, keys)})

    def _opaque(self, opaque: Opaque) -> Profile:
        """A piece of SQL not looked into: as many rows as its largest table."""
        sizes = [self._stats[name.lower()].rows for name, _ in opaque.tables if name.lower() in self._stats]
        return Profile(max(sizes, default=UNKNOWN_TABLE_ROWS), {}, {})

    def _project(self, project: Project) -> Profile:
        input = self.profile(project.input)
        spreads: dict[str, Spread] = {}
        for column, expr in project.exprs:
            spread = spread_of(expr, input)
            if spread is not None:
                spreads[column.name] = spread
            if isinstance(expr, Column) and expr.name in self._widths:
                self._widths[column.name] = self._widths[expr.name]
        names = {expr.name: column.name for column, expr in project.exprs if isinstance(expr, Column)}
        origins = {number: _renamed(origin, names) for number, origin in input.origins.items()}
        return Profile(input.rows, spreads, origins)

    def _join(self, join: Join) -> Profile:
        left, right = settled(self.profile(join.left)), settled(self.profile(join.right))
        if join.kind in ("semi", "anti", "mark"):
            return _half_join(join, left, right)
        pairs, rest = equalities(join.on, left, right)
        fraction = equi_join(pairs, left, right)
        both = Profile(left.rows * right.rows * fraction, {**left.columns, **right.columns},
                       {**left.origins, **right.origins})  # fmt: skip
        matched = (
            narrowed(replace(both, rows=both.rows * conjoin(rest, both)[0]), pairs) if rest else narrowed(both, pairs)
        )
        if join.kind == "inner":
            return matched
        rows = matched.rows
        if join.kind in ("left", "full"):
            rows += left.rows * (1.0 - match_fraction(pairs, rest, left, right))
        if join.kind in ("right", "full"):
            swapped = [(y, x) for x, y in pairs]
            rows += right.rows * (1.0 - match_fraction(swapped, rest, right, left))
        lost = 1.0 - matched.rows / rows if rows > 0 else 0.0
        padded = {"left": [right], "right": [left], "full": [left, right]}[join.kind]
        nullable = {name: _with_nulls(spread, lost) for side in padded for name, spread in side.columns.items()}
        return Profile(rows, {**both.columns, **nullable}, both.origins)

    def _aggregate(self, aggregate: Aggregate) -> Profile:
        input = self.profile(aggregate.input)
        sets = aggregate.grouping_sets if aggregate.grouping_sets is not None else (aggregate.keys,)
        rows = sum(combinations(input, keys) if keys else 1.0 for keys in sets)
        origin = self._next_origin()
        spreads = {
            key.name: _grouped(input.columns[key.name], input, origin)
            for key in aggregate.keys
            if key.name in input.columns
        }
        for aggregation in aggregate.aggregations:
            spread = _aggregated(aggregation, input, rows, origin)
            if spread is not None:
                spreads[aggregation.column.name] = spread
        keys = (frozenset(key.name for key in aggregate.keys),) if aggregate.grouping_sets is None else ()
        return Profile(rows, spreads, {origin: Origin(rows, rows, keys)})


def type_width(type_: str) -> float:
    """Bytes of a value of a DuckDB type, as a guess.

    >>> type_width("INTEGER"), type_width("DECIMAL(7,2)")
    (4.0, 8.0)
    """
    return float(_WIDTHS.get(type_.split("(")[0], 8 if "[" not in type_ else 64))


def _base_spread(stats: ColumnStats, rows: float, origin: int) -> Spread:
    distinct = min(max(1.0, stats.distinct), max(1.0, rows))
    nulls = min(1.0, stats.nulls / rows) if rows > 0 else 0.0
    return Spread(distinct, rows, distinct, nulls, stats.minimum, stats.maximum, stats.common, stats.bounds, origin)


def _values(values: Values) -> Profile:
    count = float(len(values.rows))
    spreads: dict[str, Spread] = {}
    for index, column in enumerate(values.columns):
        cells = [row[index] for row in values.rows]
        scalars = {scalar for cell in cells if (scalar := constant(cell)) is not None}
        distinct = float(max(1, len(set(map(str, cells)))))
        same = len({type(scalar) for scalar in scalars}) == 1
        low, high = (min(scalars), max(scalars)) if same else (None, None)
        spreads[column.name] = Spread(distinct, count, distinct, minimum=low, maximum=high)
    return Profile(count, spreads, {})


def _renamed(origin: Origin, names: Mapping[str, str]) -> Origin:
    keys = tuple(frozenset(names[name] for name in key) for key in origin.keys if key <= names.keys())
    return replace(origin, keys=keys)


def _with_nulls(spread: Spread, lost: float) -> Spread:
    return replace(spread, nulls=spread.nulls + (1.0 - spread.nulls) * min(1.0, max(0.0, lost)))


def _limit(limit: Limit, input: Profile) -> Profile:
    rows = max(0.0, input.rows - limit.offset)
    return replace(input, rows=rows if limit.limit is None else min(rows, float(limit.limit)))


# ---- distinct values ------------------------------------------------------------------------------


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


def combinations(profile: Profile, columns: Sequence[Expr]) -> float:
    """Distinct combinations of columns among the profile's rows.

    Columns of one table are taken as dependent: their combinations are the product of distinct values with
    exponential backoff, and no more than the table's rows. Tables are independent of each other. Throwing
    n rows at D cells fills D (1 - exp(-n/D)) of them (Cardenas, "Analysis and Performance of Inverted
    Data Base Structures", CACM 1975), which is how a product of distinct values is held to the rows there are.
    """
    if profile.rows <= 0:
        return 0.0
    groups: dict[int | None, list[tuple[str, float]]] = defaultdict(list)
    for index, column in enumerate(dict.fromkeys(columns)):
        spread = spread_of(column, profile)
        if spread is None:
            groups[-1 - index].append((str(column), max(1.0, profile.rows * UNKNOWN_DISTINCT)))
            continue
        values = max(1.0, distinct_values(spread, profile) + (1.0 if spread.nulls > 0 else 0.0))
        groups[spread.origin if spread.origin is not None else -1 - index].append((str(column), values))
    cells = 1.0
    for number, members in groups.items():
        cells = min(MOST_ROWS, cells * _together(members, profile.origins.get(number or 0), profile.rows))
    if cells <= 1.0:
        return 1.0
    return min(cells, profile.rows, max(1.0, sampled(cells, cells * max(1.0, profile.rows / cells), profile.rows)))


def _together(members: list[tuple[str, float]], origin: Origin | None, rows: float) -> float:
    """Combinations of columns of one origin."""
    names = {name for name, _ in members}
    if origin is not None:
        for key in origin.keys:
            if key <= names:
                return max(1.0, max(_key_values(key, members, origin, rows), max(values for _, values in members)))
    product = _backoff_product(sorted((values for _, values in members), reverse=True))
    most = min(rows, origin.rows) if origin is not None else rows
    return max(1.0, min(product, most))


def _key_values(key: frozenset[str], members: list[tuple[str, float]], origin: Origin, rows: float) -> float:
    if len(key) == 1:
        return next(values for name, values in members if name in key)
    return min(rows, origin.rows)


def _backoff_product(values: Iterable[float]) -> float:
    """The product of values in which each further one counts with half the exponent of the one before.

    >>> _backoff_product([100.0, 100.0])
    1000.0
    """
    product, exponent = 1.0, 1.0
    for value in values:
        product *= value**exponent
        exponent /= 2.0
    return product


# ---- columns of computed values -------------------------------------------------------------------


def spread_of(expr: Expr, profile: Profile) -> Spread | None:
    """What is known of an expression's values, None if nothing."""
    if isinstance(expr, Column):
        return profile.columns.get(expr.name)
    if isinstance(expr, Literal):
        value = constant(expr)
        return Spread(1.0, max(1.0, profile.rows), 1.0, 0.0, value, value)
    if expr.op == "cast" and len(expr.args) == 1:
        spread = spread_of(expr.args[0], profile)
        if spread is None or _family(expr.type) == _family(expr.args[0].type):
            return spread
        return replace(spread, minimum=None, maximum=None, common=(), bounds=())
    return _computed(expr, profile)


def _computed(call: Call, profile: Profile) -> Spread | None:
    """A function of columns has at most as many values as its arguments have combinations."""
    if call.op == "case" and len(call.args) > 1:
        branches = [*call.args[1:-1:2], call.args[-1]]
        if all(isinstance(branch, Literal) for branch in branches):
            few = float(len({str(branch) for branch in branches}))
            return Spread(few, max(profile.rows, few), few)
    columns = sorted(columns_of(call), key=lambda column: column.name)
    if not columns or any(column.name not in profile.columns for column in columns):
        return None
    inputs = [profile.columns[column.name] for column in columns]
    distinct = combinations(profile, columns)
    origins = {spread.origin for spread in inputs}
    rows = max(profile.rows, distinct)
    return Spread(
        distinct, rows, distinct, max(s.nulls for s in inputs), origin=origins.pop() if len(origins) == 1 else None
    )


def _grouped(spread: Spread, input: Profile, origin: int) -> Spread:
    """A grouping key's values: as many as before, no longer repeated as the rows were."""
    distinct = max(1.0, distinct_values(spread, input))
    return replace(spread, distinct=distinct, rows=distinct, nulls=0.0, common=(), bounds=(), origin=origin)


def _aggregated(aggregation: Aggregation, input: Profile, rows: float, origin: int) -> Spread | None:
    """The values of an aggregate: min and max stay in their argument's range, counts in the group's size."""
    op, args = aggregation.call.op, aggregation.call.args
    some = max(1.0, rows)
    if op in ("min", "max", "any_value", "first") and len(args) == 1:
        inner = spread_of(args[0], input)
        if inner is not None:
            few = min(some, max(1.0, distinct_values(inner, input)))
            return Spread(few, some, inner.domain, 0.0, inner.minimum, inner.maximum, origin=origin)
    if op in ("count", "count_star"):
        mean = max(1.0, input.rows / some)
        return Spread(min(some, 2.0 * mean), some, min(some, 2.0 * mean), 0.0, 1.0, 2.0 * mean, origin=origin)
    if op in ("sum", "avg") and rows > 0:
        return Spread(some, some, some, origin=origin)
    return None


def _window(window: Window, input: Profile) -> Profile:
    """Ranks run from 1 to the size of a partition, so a filter on one is a top-N of each partition."""
    spreads = dict(input.columns)
    for call in window.calls:
        if call.call.op in ("rank", "dense_rank", "row_number"):
            parts = combinations(input, call.partition_by) if call.partition_by else 1.0
            size = max(1.0, input.rows / max(1.0, parts))
            spreads[call.column.name] = Spread(size, max(1.0, input.rows), size, 0.0, 1.0, size)
    return Profile(input.rows, spreads, input.origins)


def _set_operation(operation: SetOp, branches: list[Profile]) -> Profile:
    columns = [branch.columns for branch in operation.branches]
    spreads: dict[str, Spread] = {}
    for index, column in enumerate(operation.columns):
        parts = [spread_of(names[index], profile) for names, profile in zip(columns, branches, strict=True)]
        known = [part for part in parts if part is not None]
        if known and len(known) == len(parts):
            spreads[column.name] = _united(known, branches) if operation.kind == "union" else _detached(known[0])
    total = sum(branch.rows for branch in branches)
    rows = total if operation.kind == "union" else branches[0].rows
    whole = Profile(rows, spreads, {})
    if operation.all and operation.kind == "union":
        return whole
    groups = combinations(whole, operation.columns)
    if operation.kind == "intersect":
        others = [combinations(branch, names) for branch, names in zip(branches, columns, strict=True)]
        return replace(whole, rows=min(groups, *others))
    return replace(whole, rows=groups)


def _detached(spread: Spread) -> Spread:
    return replace(spread, common=(), bounds=(), origin=None)


def _united(parts: list[Spread], branches: list[Profile]) -> Spread:
    """Values of a union's column: branches whose ranges overlap draw from one domain, others add up."""
    found = [distinct_values(part, branch) for part, branch in zip(parts, branches, strict=True)]
    rows = sum(branch.rows for branch in branches)
    apart = all(_range_overlap(a, b) == 0.0 for i, a in enumerate(parts) for b in parts[:i])
    combine = sum if apart else max
    nulls = sum(p.nulls * b.rows for p, b in zip(parts, branches, strict=True)) / rows if rows > 0 else 0.0
    low, high = _outer_range(parts)
    distinct = max(1.0, combine(found))
    return Spread(distinct, max(rows, distinct), combine(part.domain for part in parts), nulls, low, high)


def _outer_range(parts: list[Spread]) -> tuple[Scalar | None, Scalar | None]:
    lows, highs = [p.minimum for p in parts], [p.maximum for p in parts]
    if None in lows or None in highs or len({type(value) for value in (*lows, *highs)}) != 1:
        return None, None
    return min(lows), max(highs)  # type: ignore[type-var]


# ---- equality joins -------------------------------------------------------------------------------

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
    a, b = spread_of(first, left), spread_of(second, right)
    if a is not None and b is not None and columns_of(first) and columns_of(second):
        return first, second
    a, b = spread_of(second, left), spread_of(first, right)
    if a is not None and b is not None and columns_of(first) and columns_of(second):
        return second, first
    return None


def equi_join(pairs: Sequence[Pair], left: Profile, right: Profile) -> float:
    """Fraction of the cross product that satisfies all equalities.

    Pairs between the same two tables are one composite key, not independent conditions.
    """
    fraction = 1.0
    for group in _by_origins(pairs, left, right):
        fraction *= _composite(group, left, right)
    return fraction


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
        known = a is not None and b is not None and a.origin is not None and b.origin is not None
        key: tuple[object, object] = (a.origin, b.origin) if known and a and b else ("alone", index)
        groups.setdefault(key, []).append((x, y))
    yield from groups.values()


def _composite(pairs: Sequence[Pair], left: Profile, right: Profile) -> float:
    """Fraction of the cross product of two tables that agrees on all pairs."""
    sides = [(spread_of(x, left), spread_of(y, right)) for x, y in pairs]
    known = [(a, b) for a, b in sides if a is not None and b is not None]
    if not known:
        return UNKNOWN_EQUAL
    not_null, common_left, common_right = 1.0, 1.0, 1.0
    for a, b in known:
        not_null *= (1.0 - a.nulls) * (1.0 - b.nulls)
        common_left = min(common_left, _range_overlap(a, b))
        common_right = min(common_right, _range_overlap(b, a))
    domain = max(
        _domain([a for a, _ in known], [x for x, _ in pairs], left) * common_left,
        _domain([b for _, b in known], [y for _, y in pairs], right) * common_right,
        1.0,
    )
    within = _rows_in_range(known[0][0], left, common_left) * _rows_in_range(known[0][1], right, common_right)
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
    return min(most, _backoff_product(sorted((spread.domain for spread in spreads), reverse=True)))


def _range_overlap(spread: Spread, other: Spread) -> float:
    """Fraction of a column's non-NULL values that lie in the range of another's."""
    low, high = other.minimum, other.maximum
    if low is None or high is None or spread.minimum is None or spread.maximum is None:
        return 1.0
    if type(low) is not type(spread.minimum):
        return 1.0
    if low <= spread.minimum and high >= spread.maximum:  # type: ignore[operator]
        return 1.0
    if low > spread.maximum or high < spread.minimum:  # type: ignore[operator]
        return 0.0
    values = replace(spread, nulls=0.0, common=(), bounds=()) if spread.nulls > 0 or spread.common else spread
    return max(1.0 / max(1.0, spread.domain), below(values, high, True) - below(values, low, False))


def _rows_in_range(spread: Spread, profile: Profile, fraction: float) -> float:
    """Fraction of the rows whose key lies in a range that holds `fraction` of the key's values.

    Filters on other columns of the same table are independent of the key if their column has few values
    (a month number says nothing about which century), but a column of more values than the range has
    shares (a year) follows the key, and then a query that asks for some of them asks for those that exist.
    """
    if fraction >= 1.0 or fraction <= 0.0:
        return fraction
    origin = profile.origins.get(spread.origin or 0)
    along = [kept for kept, values in origin.filters if values * fraction >= 1.0] if origin is not None else []
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
        low, high = _inner_range(a, b)
        fewest = min(a.distinct, b.distinct)
        for name, spread in ((x.name, a), (y.name, b)):
            rows = max(fewest, min(spread.rows, profile.rows))
            columns[name] = replace(spread, distinct=fewest, rows=rows, nulls=0.0, minimum=low, maximum=high)
    return replace(profile, columns=columns)


def _inner_range(a: Spread, b: Spread) -> tuple[Scalar | None, Scalar | None]:
    if a.minimum is None or a.maximum is None or type(a.minimum) is not type(b.minimum):
        return b.minimum, b.maximum
    if b.minimum is None or b.maximum is None:
        return a.minimum, a.maximum
    return max(a.minimum, b.minimum), min(a.maximum, b.maximum)


def _half_join(join: Join, left: Profile, right: Profile) -> Profile:
    """Semi, anti and mark joins: rows of the left only."""
    pairs, rest = equalities(join.on, left, right)
    matched = match_fraction(pairs, rest, left, right)
    if join.mark is not None:
        spread = Spread(2.0, max(2.0, left.rows), 2.0, 0.0, 0.0, 1.0, ((1.0, matched), (0.0, 1.0 - matched)))
        return Profile(left.rows, {**left.columns, join.mark.name: spread}, left.origins)
    return replace(left, rows=left.rows * (matched if join.kind == "semi" else 1.0 - matched))


# ---- predicates -----------------------------------------------------------------------------------


def filtered(profile: Profile, predicates: Iterable[Expr]) -> Profile:
    """The profile of the rows that satisfy all predicates."""
    parts = tuple(part for predicate in predicates for part in conjuncts(predicate))
    fraction, factors = conjoin(parts, profile)
    rows = profile.rows * fraction
    columns = dict(profile.columns)
    origins = dict(profile.origins)
    for expr, kept in factors:
        spread = spread_of(expr, profile) if expr is not None else None
        if spread is None or spread.origin not in origins:
            continue
        origin = origins[spread.origin]
        known = (*origin.filters, (kept, max(1.0, spread.distinct)))
        origins[spread.origin] = replace(origin, filters=known, rows=min(origin.rows, rows))
    for part in parts:
        _restrict(part, columns, fraction)
    return Profile(rows, columns, origins)


def conjoin(parts: Sequence[Expr], profile: Profile) -> tuple[float, list[tuple[Expr | None, float]]]:
    """Fraction of rows for which all parts are true, and the factor of each column it is made of.

    Ranges of one column are intersected first. Factors multiply while the product of the columns' distinct
    values is at most the rows, since then there is room for every combination; beyond that the columns must
    depend on each other, and each further factor counts with half the exponent of the one before.
    """
    ranges: dict[Expr, list[Call]] = {}
    factors: list[tuple[Expr | None, float]] = []
    for part in parts:
        subject = _range_subject(part)
        if subject is not None and isinstance(part, Call):
            ranges.setdefault(subject, []).append(part)
        else:
            factors.append((_subject(part), _fraction(part, profile)))
    factors.extend((subject, _range_fraction(subject, calls, profile)) for subject, calls in ranges.items())
    return _backed_off(factors, profile), factors


def _backed_off(factors: list[tuple[Expr | None, float]], profile: Profile) -> float:
    fraction, room, exponent = 1.0, max(1.0, profile.rows), 1.0
    for subject, factor in sorted(factors, key=lambda item: item[1]):
        spread = spread_of(subject, profile) if subject is not None else None
        if spread is not None and spread.distinct > 1:
            room /= spread.distinct
            if room < 1.0 and fraction < 1.0:
                exponent /= 2.0
        fraction *= max(0.0, min(1.0, factor)) ** exponent
    return fraction


def _subject(part: Expr) -> Expr | None:
    """The column or expression a predicate is about, if it is about one alone."""
    columns = columns_of(part)
    return next(iter(columns)) if len(columns) == 1 else None


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
    if spread is None or (spread.minimum is None and not spread.bounds and not spread.common):
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
        return equal(spread, 1.0) if spread is not None else 0.5
    match part.op:
        case "and":
            return conjoin(conjuncts(part), profile)[0]
        case "or":
            return _either(disjuncts(part), profile)
        case "not":
            return _negated(part.args[0], profile)
        case "is_null":
            spread = spread_of(part.args[0], profile)
            return spread.nulls if spread is not None else UNKNOWN_EQUAL
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
    if spread is None:
        return min(1.0, UNKNOWN_EQUAL * (len(part.args) - 1))
    return min(1.0 - spread.nulls, sum(equal(spread, constant(value)) for value in dict.fromkeys(part.args[1:])))


def _like(part: Call, profile: Profile) -> float:
    spread, pattern = spread_of(part.args[0], profile), part.args[1]
    if spread is None or not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
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
    if a is None:
        same = UNKNOWN_EQUAL
    elif not columns_of(right):
        same = equal(a, constant(right))
    else:
        same = 1.0 / max(1.0, a.distinct, b.distinct if b is not None else 1.0)
    return same if part.op == "=" else max(0.0, 1.0 - same - (a.nulls if a is not None else 0.0))


def _restrict(part: Expr, columns: dict[str, Spread], fraction: float) -> None:
    """Narrow the spreads of the columns that a predicate compares with constants."""
    if not isinstance(part, Call) or not part.args:
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


# ---- constants ------------------------------------------------------------------------------------


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
