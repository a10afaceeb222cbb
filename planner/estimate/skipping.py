"""The part of a table that a scan reads where a filter or a join saves it the rest.

Parquet and DuckDB files hold the minimum and maximum of each row group. DuckDB skips the row groups that a filter rules
out, and those outside the range of keys on the build side of a join above ("small materialized aggregates": Moerkotte,
VLDB 1998). That helps if the table is nearly sorted by the column, which the catalog knows as its *locality*. A range
of keys is narrow only if the filter of the build side correlates with them: a year does, a month of any year does not.
The locality of the filtered columns shows that, too. A filter on a table that is joined by a column in the order of
both narrows the range as well: the weeks of a year.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from qoop.catalog.statistics.stats import BLOCKS
from qoop.planner.algebra.expr import Call, Column, Expr, columns_of
from qoop.planner.algebra.relation import Exchange, Filter, Join, Project, Relation, Scan, Shared

if TYPE_CHECKING:
    from qoop.planner.estimate.cardinality import Cardinality

SORTED = 0.5
"""A column of at most this locality counts as one that the table is sorted by."""

_NARROWING = frozenset({"inner", "semi", "right"})


class _ScanPath(NamedTuple):
    """The scan that a column comes from, and the predicates and conditions of joins on the way up."""

    scan: Scan
    predicates: tuple[Expr, ...]
    conditions: tuple[Expr, ...]


def part_read(relation: Join | Filter, cardinality: Cardinality) -> float:
    """The fraction of the rows of the table below (of a join: below its left side) that is read; 1 if not known."""
    if isinstance(relation, Join):
        return _joined(relation, cardinality)
    if not isinstance(relation.input, Scan):
        return 1.0
    localities = [_locality(relation.input, predicate, cardinality) for predicate in relation.predicates]
    kept = _sorted_part(relation.predicates, relation.input, cardinality)
    return min(1.0, kept + max(min(localities, default=1.0), 1 / BLOCKS)) if kept < 1.0 else 1.0


def scanned(relation: Relation) -> Scan | None:
    """The scan whose rows stream up to here, past the build sides of joins; None if there is none."""
    while not isinstance(relation, Scan):
        if isinstance(relation, Join) and relation.kind != "full":
            relation = relation.left
        elif isinstance(relation, Filter | Project):
            relation = relation.input
        else:
            return None
    return relation


def _joined(join: Join, cardinality: Cardinality) -> float:
    if join.kind not in _NARROWING:
        return 1.0
    scan = scanned(join.left)
    if scan is None:
        return 1.0
    pairs = (_ordered_pair(condition, scan) for condition in join.on)
    return min((_range_part(join, scan, *pair, cardinality) for pair in pairs if pair is not None), default=1.0)


def _ordered_pair(condition: Expr, scan: Scan) -> tuple[Column, Column] | None:
    """The scan's column and the other one that a condition equates."""
    if not isinstance(condition, Call) or condition.op != "=":
        return None
    first, second = condition.args
    if not isinstance(first, Column) or not isinstance(second, Column):
        return None
    if first in scan.columns:
        return first, second
    return (second, first) if second in scan.columns else None


def _range_part(join: Join, scan: Scan, mine: Column, theirs: Column, cardinality: Cardinality) -> float:
    """The part of the scan's rows whose column is in the range of the other one, below the right side of the join."""
    part = _part_in_range(join.right, scan, mine, theirs, cardinality, further=True)
    return min(1.0, part + max(_locality(scan, mine, cardinality), 1 / BLOCKS))


def _part_in_range(
    below: Relation, scan: Scan, mine: Column, theirs: Column, cardinality: Cardinality, further: bool
) -> float:
    """The part of the range of a scan's sorted column that the predicates on a column that equals it leave.

    further: also the predicates on what is joined to the table of that column.
    """
    source = _source(below, theirs) if _is_sorted(scan, mine, cardinality) else None
    if source is None or not _is_sorted(source.scan, theirs, cardinality):
        return 1.0
    narrowed = _sorted_part(source.predicates, source.scan, cardinality)  # others thin keys out, but leave their range
    for condition in source.conditions if further else ():
        pair = _ordered_pair(condition, source.scan)
        if pair is not None:
            narrowed = min(narrowed, _part_in_range(below, source.scan, *pair, cardinality, further=False))
    return _in_range(narrowed, _span(source.scan, theirs, cardinality), _span(scan, mine, cardinality))


def _is_sorted(scan: Scan, column: Column, cardinality: Cardinality) -> bool:
    return _locality(scan, column, cardinality) <= SORTED


def _in_range(part: float, span: float, over: float) -> float:
    """The part that some values of a span take of another one; 1 if it is not known how wide either is."""
    return min(1.0, part * span / over) if span > 0.0 and over > 0.0 else 1.0


def _span(scan: Scan, column: Column, cardinality: Cardinality) -> float:
    """From the least to the greatest value of a column of numbers or dates; 0 if that is not known."""
    spread = cardinality.profile(scan).columns.get(column.name)
    if spread is None or not isinstance(spread.minimum, float) or not isinstance(spread.maximum, float):
        return 0.0
    return spread.maximum - spread.minimum


def _source(relation: Relation, column: Column) -> _ScanPath | None:
    predicates: tuple[Expr, ...] = ()
    conditions: tuple[Expr, ...] = ()
    while not isinstance(relation, Scan):
        if isinstance(relation, Filter):
            predicates += relation.predicates
        if isinstance(relation, Join) and relation.kind in _NARROWING:
            conditions += relation.on
        if isinstance(relation, Join) and column not in relation.left.columns:
            relation = relation.right
        elif isinstance(relation, Join):
            relation = relation.left
        elif isinstance(relation, Filter | Project | Shared | Exchange):
            relation = relation.input
        else:
            return None
        if column not in relation.columns:
            return None
    return _ScanPath(relation, predicates, conditions)


def _sorted_part(predicates: Iterable[Expr], scan: Scan, cardinality: Cardinality) -> float:
    """The fraction of the scan's rows that the predicates keep which go with its order."""
    part = 1.0
    for predicate in predicates:
        if _locality(scan, predicate, cardinality) <= SORTED:
            part *= cardinality.selectivity(predicate, scan)
    return part


def _locality(scan: Scan, expr: Expr, cardinality: Cardinality) -> float:
    """The locality of an expression: the worst of its columns'."""
    known = cardinality.profile(scan).columns
    columns = columns_of(expr)
    return max((known[c.name].locality if c.name in known else 1.0 for c in columns), default=1.0)
