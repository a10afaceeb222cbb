"""Estimates of an operator's output: its rows, its distinct values, its bytes.

:class:`Cardinality` walks a relation bottom-up and gives every operator a :class:`Profile`: its rows and
a :class:`~qoop.planner.estimate.selectivity.Spread` for each column whose values it knows something about.  The
assumptions, all of them textbook and each stated where it is made:

* predicates on different columns are independent if the table has enough rows for all combinations of values, and
  damped (exponential backoff) if not (:func:`~qoop.planner.estimate.predicates.conjoin`);
* the values of the smaller domain of an equality join all occur in the larger (:mod:`~qoop.planner.estimate.equijoin`);
* a filter on another column thins out a column's values as a random sample would (`sampled`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import log

from qoop.catalog.statistics.stats import ColumnStats, TableStats
from qoop.planner.algebra.expr import Column, Expr, conjuncts
from qoop.planner.algebra.relation import (
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
from qoop.planner.estimate.clustering import DividedRows
from qoop.planner.estimate.equijoin import Pair, equalities, equi_join, match_fraction, narrowed
from qoop.planner.estimate.observed_rows import ObservedRows
from qoop.planner.estimate.predicates import conjoin, filtered
from qoop.planner.estimate.profile import (
    MOST_ROWS,
    ColumnOrigin,
    Profile,
    combinations,
    constant,
    distinct_values,
    guess,
    settled,
    spread_of,
    with_factor,
)
from qoop.planner.estimate.selectivity import Spread
from qoop.planner.estimate.skipping import part_read
from qoop.planner.estimate.unions import union_all, without_repeats

UNKNOWN_TABLE_ROWS = 100_000.0

_WIDTHS = {
    "BOOLEAN": 1, "TINYINT": 1, "UTINYINT": 1, "SMALLINT": 2, "USMALLINT": 2, "INTEGER": 4, "UINTEGER": 4,
    "DATE": 4, "FLOAT": 4, "HUGEINT": 16, "UHUGEINT": 16, "UUID": 16, "INTERVAL": 16, "VARCHAR": 20, "BLOB": 32,
}  # fmt: skip


class Cardinality:
    """Estimates for the relations of one query, from statistics by table name (lower case).

    Estimates are remembered by object, so asking twice costs nothing; nothing else changes.
    observed: rows seen in earlier runs, which win over estimates.
    """

    def __init__(self, stats: Mapping[str, TableStats], observed: ObservedRows | None = None):
        self._stats = stats
        self.observed = observed if observed is not None and observed.table_sets else None
        self._profiles: dict[int, tuple[Relation, Profile]] = {}
        self._sides: dict[int, tuple[Profile, Profile]] = {}
        self._parts_read: dict[int, tuple[Relation, float]] = {}
        self._pairs: dict[tuple[int, tuple[Expr, ...]], tuple[Relation, float]] = {}
        self._widths: dict[str, float] = {}
        self._origins = 0

    def rows(self, relation: Relation) -> float:
        """Estimated number of rows the relation puts out."""
        return self.profile(relation).rows

    def distinct(self, relation: Relation, columns: Sequence[Expr]) -> float:
        """Estimated number of distinct combinations (NULL counts as a value) in the relation's output."""
        return combinations(self.profile(relation), columns)

    def most_distinct(self, relation: Relation, columns: Sequence[Expr]) -> float:
        """The same for independent columns: the largest number of combinations."""
        return combinations(self.profile(relation), columns, independent=True)

    def most_common(self, relation: Relation, columns: Sequence[Column]) -> float:
        """Estimated fraction of the relation's rows, at most, that agree on all of the columns."""
        profile = self.profile(relation)
        return min((_most_common(spread_of(column, profile)) for column in columns), default=1.0)

    def selectivity(self, predicate: Expr, input: Relation) -> float:
        """Estimated fraction of the rows of `input` for which the predicate is true."""
        return conjoin(conjuncts(predicate), self.profile(input))[0]

    def width(self, columns: Iterable[Column]) -> float:
        """Estimated bytes of a row of these columns: measured where they come from a scan, else by type."""
        return sum(self._widths.get(column.name) or type_width(column.type) for column in columns)

    def arrow_width(self, columns: Iterable[Column]) -> float:
        """Estimated bytes of a row of these columns as Arrow, in which it leaves a stage."""
        return sum(max(self._widths.get(column.name, 0.0), arrow_width(column.type)) for column in columns)

    def bytes(self, relation: Relation) -> float:
        """Estimated bytes of all rows of the relation's output."""
        return self.rows(relation) * self.width(relation.columns)

    def part_read(self, relation: Join | Filter) -> float:
        """Estimated fraction of the rows of the table below that are read (:mod:`~qoop.planner.estimate.skipping`)."""
        known = self._parts_read.get(id(relation))
        if known is None:
            known = self._parts_read[id(relation)] = (relation, part_read(relation, self))
        return known[1]

    def pairs(self, join: Join, on: tuple[Expr, ...]) -> float:
        """Estimated pairs of rows of a join's sides that satisfy some of its conditions."""
        known = self._pairs.get((id(join), on))
        if known is None:
            paired = Join(join.left, join.right, "inner", on)
            known = self._pairs[id(join), on] = (join, self.rows(paired))
        return known[1]

    def same_rows(self, relation: Relation, known: Relation) -> None:
        """Let a relation have the estimate of another one with the same rows and columns.

        A rewrite that adds an implied semi join, by the other side's keys, would otherwise seem to drop rows twice.
        """
        self._profiles[id(relation)] = (relation, self.profile(known))

    def profile(self, relation: Relation) -> Profile:
        """Everything known about the relation's output."""
        known = self._profiles.get(id(relation))
        if known is not None:
            return known[1]
        profile = self._estimate(relation)
        observed_rows = self.observed.known_rows(relation) if self.observed is not None else None
        profile = profile if observed_rows is None else replace(profile, rows=observed_rows)
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
                return self._set_operation(relation)
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
            return Profile(UNKNOWN_TABLE_ROWS, _guesses(scan.columns, UNKNOWN_TABLE_ROWS), {})
        origin = self._next_origin()
        by_name = {name.lower(): stats for name, stats in table.columns.items()}
        spreads: dict[str, Spread] = {}
        for name, column in scan.fields:
            stats = by_name.get(name.lower())
            if stats is None:
                spreads[column.name] = guess(table.rows)
                continue
            self._widths[column.name] = stats.width
            spreads[column.name] = _base_spread(stats, table.rows, origin)
        ours = {name.lower(): column.name for name, column in scan.fields}
        keys = tuple(
            frozenset(ours[name.lower()] for name in key)
            for key in sorted(table.keys, key=sorted)
            if all(name.lower() in ours for name in key)
        )
        keyed = any(len(key) == 1 for key in table.keys)
        known = ColumnOrigin(table.rows, table.rows, keys, keyed=keyed, table=scan.table.lower())
        return Profile(table.rows, spreads, {origin: known})

    def _opaque(self, opaque: Opaque) -> Profile:
        """The profile of opaque SQL: its rows are known from its text, or are those of its largest table."""
        if opaque.rows is not None:
            return Profile(opaque.rows, _guesses(opaque.columns, opaque.rows), {})
        sizes = [self._stats[name.lower()].rows for name, _ in opaque.tables if name.lower() in self._stats]
        rows = max(sizes, default=UNKNOWN_TABLE_ROWS)
        return Profile(rows, _guesses(opaque.columns, rows), {})

    def _project(self, project: Project) -> Profile:
        input = self.profile(project.input)
        spreads: dict[str, Spread] = {}
        for column, expr in project.exprs:
            spreads[column.name] = spread_of(expr, input)
            if isinstance(expr, Column) and expr.name in self._widths:
                self._widths[column.name] = self._widths[expr.name]
        names = {expr.name: column.name for column, expr in project.exprs if isinstance(expr, Column)}
        origins = {number: _renamed(origin, names) for number, origin in input.origins.items()}
        return Profile(input.rows, spreads, origins)

    def _join(self, join: Join) -> Profile:
        left, right = self._settled(join.left), self._settled(join.right)
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
            return replace(matched, origins=_thinned(pairs, left, right, matched))
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

    def _settled(self, side: Relation) -> Profile:
        known = self._sides.get(id(side))
        profile = self.profile(side)
        if known is None or known[0] is not profile:
            known = self._sides[id(side)] = (profile, settled(profile))
        return known[1]

    def _aggregate(self, aggregate: Aggregate) -> Profile:
        input = self.profile(aggregate.input)
        sets = aggregate.grouping_sets if aggregate.grouping_sets is not None else (aggregate.keys,)
        rows = sum(self._all_groups(aggregate.input, input, keys) if keys else 1.0 for keys in sets)
        origin = self._next_origin()
        spreads = {key.name: _grouped(spread_of(key, input), input, origin) for key in aggregate.keys}
        for aggregation in aggregate.aggregations:
            spreads[aggregation.column.name] = _aggregated(aggregation, input, rows, origin)
        keys = (frozenset(key.name for key in aggregate.keys),) if aggregate.grouping_sets is None else ()
        return Profile(rows, spreads, {origin: ColumnOrigin(rows, rows, keys)})

    def _all_groups(self, relation: Relation, input: Profile, keys: Sequence[Column]) -> float:
        groups, rows = combinations(input, keys), DividedRows.largest(relation, self)
        return groups if rows is None else rows.all_groups(keys, groups, input.rows)

    def _set_operation(self, operation: SetOp) -> Profile:
        branches = [(branch.columns, self.profile(branch)) for branch in operation.branches]
        if operation.kind == "union":
            whole = union_all(operation.columns, branches, self._next_origin)
            return whole if operation.all else without_repeats(operation.columns, branches, whole)
        columns, first = branches[0]
        origin = self._next_origin()
        every = branches if operation.kind == "intersect" else branches[:1]
        rows = min(combinations(profile, columns) for columns, profile in every)
        spreads = {
            column.name: replace(_detached(spread_of(theirs, first)), origin=origin)
            for column, theirs in zip(operation.columns, columns, strict=True)
        }
        keys = () if operation.all else (frozenset(spreads),)
        return Profile(rows, spreads, {origin: ColumnOrigin(rows, rows, keys)})


def type_width(type_: str) -> float:
    """Bytes of a value of a DuckDB type, as a guess.

    >>> type_width("INTEGER"), type_width("DECIMAL(7,2)")
    (4.0, 8.0)
    """
    return float(_WIDTHS.get(type_.split("(")[0], 8 if "[" not in type_ else 64))


def arrow_width(type_: str) -> float:
    """The same in Arrow, with every decimal of 128 bits, as in answers; the least that a value of that type takes.

    >>> arrow_width("INTEGER"), arrow_width("DECIMAL(7,2)")
    (4.0, 16.0)
    """
    return 16.0 if type_.startswith(("DECIMAL", "HUGEINT", "UHUGEINT", "INTERVAL")) else type_width(type_)


def _base_spread(stats: ColumnStats, rows: float, origin: int) -> Spread:
    distinct = min(max(1.0, stats.distinct), max(1.0, rows))
    nulls = min(1.0, stats.nulls / rows) if rows > 0 else 0.0
    return Spread(
        distinct, rows, distinct, nulls, stats.minimum, stats.maximum, stats.common, stats.bounds, origin,
        locality=stats.locality, run=stats.run,
    )  # fmt: skip


def _most_common(spread: Spread) -> float:
    fractions = (fraction for _, fraction in spread.common)
    return max(spread.nulls, 1.0 / max(1.0, spread.distinct), *fractions)


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


def _renamed(origin: ColumnOrigin, names: Mapping[str, str]) -> ColumnOrigin:
    keys = tuple(frozenset(names[name] for name in key) for key in origin.keys if key <= names.keys())
    return replace(origin, keys=keys)


def _with_nulls(spread: Spread, lost: float) -> Spread:
    return replace(spread, nulls=spread.nulls + (1.0 - spread.nulls) * min(1.0, max(0.0, lost)))


def _limit(limit: Limit, input: Profile) -> Profile:
    rows = max(0.0, input.rows - limit.offset)
    return replace(input, rows=rows if limit.limit is None else min(rows, float(limit.limit)))


def _guesses(columns: Iterable[Column], rows: float) -> dict[str, Spread]:
    return {column.name: guess(rows) for column in columns}


def _grouped(spread: Spread, input: Profile, origin: int) -> Spread:
    """A grouping key's values: as many as before, no longer repeated as the rows were."""
    distinct = max(1.0, distinct_values(spread, input))
    return replace(spread, distinct=distinct, rows=distinct, nulls=0.0, common=(), bounds=(), origin=origin)


def _aggregated(aggregation: Aggregation, input: Profile, rows: float, origin: int) -> Spread:
    """The values of an aggregate: min and max stay in their argument's range, counts in the group's size."""
    op, args = aggregation.call.op, aggregation.call.args
    some = max(1.0, rows)
    if op in ("min", "max", "any_value", "first") and len(args) == 1:
        inner = spread_of(args[0], input)
        few = min(some, max(1.0, distinct_values(inner, input)))
        return Spread(few, some, inner.domain, 0.0, inner.minimum, inner.maximum, origin=origin)
    if op in ("count", "count_star"):
        sizes = _geometric(max(1.0, input.rows / some))
        few = min(some, max(1.0, sizes[-1]))
        return Spread(few, some, few, 0.0, 1.0, sizes[-1], bounds=sizes, origin=origin)
    return Spread(some, some, some, origin=origin)


def _geometric(mean: float) -> tuple[float, ...]:
    """Quantiles of group sizes: a geometric distribution, since of groups only the mean size is known."""
    if mean <= 1.0 + 1e-9:
        return (1.0, 1.0)
    steps = [quantile / 20 for quantile in range(20)]
    return (*(1.0 + log(1.0 - q) / log(1.0 - 1.0 / mean) for q in steps), 1.0 + 7.0 * mean)


def _window(window: Window, input: Profile) -> Profile:
    """Ranks run from 1 to the size of a partition, so a filter on one is a top-N of each partition."""
    spreads = dict(input.columns)
    for call in window.calls:
        if call.call.op in ("rank", "dense_rank", "row_number"):
            parts = combinations(input, call.partition_by) if call.partition_by else 1.0
            size = max(1.0, input.rows / max(1.0, parts))
            spreads[call.column.name] = Spread(size, max(1.0, input.rows), size, 0.0, 1.0, size)
    return Profile(input.rows, spreads, input.origins)


def _detached(spread: Spread) -> Spread:
    return replace(spread, common=(), bounds=())


def _thinned(pairs: Sequence[Pair], left: Profile, right: Profile, output: Profile) -> Mapping[int, ColumnOrigin]:
    """Origins after a join, which is a filter of its columns' tables where it loses rows."""
    origins = output.origins
    for pair in pairs:
        for expr, side in zip(pair, (left, right), strict=True):
            if 0 < output.rows < side.rows:
                origins = with_factor(origins, spread_of(expr, side), output.rows / side.rows, output.rows)
    return origins


def _half_join(join: Join, left: Profile, right: Profile) -> Profile:
    """Semi, anti and mark joins: rows of the left only."""
    pairs, rest = equalities(join.on, left, right)
    matched = match_fraction(pairs, rest, left, right)
    if join.mark is not None:
        spread = Spread(2.0, max(2.0, left.rows), 2.0, 0.0, 0.0, 1.0, ((1.0, matched), (0.0, 1.0 - matched)))
        return Profile(left.rows, {**left.columns, join.mark.name: spread}, left.origins)
    kept = replace(left, rows=left.rows * (matched if join.kind == "semi" else 1.0 - matched))
    return replace(kept, origins=_thinned(pairs, left, kept, kept)) if join.kind == "semi" else kept
