"""Compute several one-row aggregates over the same rows in one pass.

``(select count(*) from s where p), (select avg(x) from s where q)`` arrives as a cross join of aggregates
without keys, each over its own copy of ``s``. They become one aggregate over ``s where p or q``, whose
aggregations have their predicates as FILTER. What the predicates have in common filters the rows for all.
The rule runs while every WHERE is still one Filter right below its aggregate, before filters are pushed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from qoop.planner.algebra.canonical_text import halves
from qoop.planner.algebra.expr import Column, Expr, conjunction, disjunction, substitute
from qoop.planner.algebra.factor import factor_common
from qoop.planner.algebra.implication import Implication, exclusive
from qoop.planner.algebra.properties import is_total
from qoop.planner.algebra.relation import (
    Aggregate,
    Aggregation,
    Filter,
    Join,
    Project,
    Relation,
    Scan,
    Shared,
    with_inputs,
)
from qoop.planner.algebra.traversal import each_block, filtered, narrowed, unique

Renaming = dict[Column, Column]


def merge_scalar_aggregates(relation: Relation) -> Relation:
    """Merge the key-less aggregates of a cross join that read the same rows but for a Filter.

    >>> from qoop.planner.algebra.expr import Call, is_null
    >>> from qoop.planner.algebra.outline import outline
    >>> def counted(a, n):
    ...     count = Aggregation(Column(n, "BIGINT"), Call("count_star", (), "count(*)", "BIGINT"))
    ...     column = Column(a, "INTEGER")
    ...     return Filter(Scan("t", "v", (("a", column),)), (is_null(column),)), count
    >>> (some, n), (all_, m) = counted("a", "n"), counted("b", "m")
    >>> both = Join(Aggregate(some, (), (n,)), Aggregate(all_.input, (), (m,)), "inner", ())
    >>> outline(merge_scalar_aggregates(both))
    'aggregate[; n: count(*) where (a IS NULL); m: count(*)](t[a])'
    """
    return each_block(relation, _walk)


def _walk(node: Relation) -> Relation:
    if isinstance(node, Shared):
        return node
    if not _is_cross(node):
        return with_inputs(node, tuple(map(_walk, node.inputs))) if node.inputs else node
    factors = _factors(node)
    merged = _merged(factors)
    if len(merged) == len(factors):
        return _with_factors(node, iter([_walk(factor) for factor in factors]))
    whole = _walk(merged[0])
    for factor in merged[1:]:
        whole = Join(whole, _walk(factor), "inner", ())
    return narrowed(whole, node.columns)


def _is_cross(node: Relation) -> TypeGuard[Join]:
    return isinstance(node, Join) and node.kind == "inner" and not node.on


def _factors(node: Relation) -> list[Relation]:
    """The factors of a nest of cross joins, from left to right."""
    return [*_factors(node.left), *_factors(node.right)] if _is_cross(node) else [node]


def _with_factors(node: Relation, factors: Iterator[Relation]) -> Relation:
    if not _is_cross(node):
        return next(factors)
    left = _with_factors(node.left, factors)
    return with_inputs(node, (left, _with_factors(node.right, factors)))


@dataclass
class _SourceAggregates:
    """Aggregates over one source, in the columns of the first. wheres: the conjuncts under each of them."""

    source: Relation
    wheres: list[tuple[Expr, ...]]
    aggregations: list[tuple[Aggregation, ...]]

    def joined_by(self, other: _SourceAggregates) -> bool:
        """Take in another aggregate if it reads the same source."""
        renaming = _match(self.source, other.source)
        if renaming is None:
            return False
        wheres = [*self.wheres, *(tuple(substitute(p, renaming) for p in where) for where in other.wheres)]
        if (self.has_distinct or other.has_distinct) and not _exclusive(wheres):
            return False
        self.wheres = wheres
        self.aggregations += [
            tuple(_renamed(agg, renaming) for agg in aggregations) for aggregations in other.aggregations
        ]
        return True

    @property
    def has_distinct(self) -> bool:
        return any(agg.distinct for aggregations in self.aggregations for agg in aggregations)

    def aggregate(self) -> Aggregate:
        common, rests = _common(self.wheres)
        shared = (*common, *_of_any(rests)) if all(rests) else common
        merged = (_restricted(agg, rest) for rest, group in zip(rests, self.aggregations, strict=True) for agg in group)
        return Aggregate(filtered(self.source, shared), (), tuple(merged))


def _common(wheres: Sequence[tuple[Expr, ...]]) -> tuple[tuple[Expr, ...], list[tuple[Expr, ...]]]:
    """The conjuncts that all have, and the others of each."""
    common = tuple(p for p in wheres[0] if all(p in where for where in wheres))
    return common, [tuple(p for p in where if p not in common) for where in wheres]


def _of_any(wheres: Sequence[tuple[Expr, ...]]) -> Iterator[Expr]:
    """Predicates of the rows that any of the aggregates wants: that one of the WHEREs holds, and the comparisons that
    follow from each. Scans skip rows by these, which they cannot by an OR over several columns."""
    yield factor_common(disjunction(map(conjunction, wheres)))
    each = [[half for predicate in where for half in halves(predicate)] for where in wheres]
    implication = Implication(str)
    compared = unique(half for where in each for half in where)
    weakest = [one for one in compared if all(implication.follows(one, where) for where in each)]
    yield from implication.essential(weakest, some_or=False)


def _exclusive(wheres: Sequence[tuple[Expr, ...]]) -> bool:
    """True if no row is under two of the aggregates, so that they can be groups. One pass that fills a hash table for
    each of six DISTINCT aggregates is no faster than six passes (measured on TPC-DS 28)."""
    return exclusive([conjunction(rest) for rest in _common(wheres)[1]], str)


def _merged(factors: list[Relation]) -> list[Relation]:
    """The factors, with those aggregates made one that can be, at the place of the first of them."""
    out: list[Relation | _SourceAggregates] = []
    for factor in factors:
        pool = _pool(factor)
        if pool is None:
            out.append(factor)
        elif not any(isinstance(known, _SourceAggregates) and known.joined_by(pool) for known in out):
            out.append(pool)
    if len(out) == len(factors):
        return factors
    return [part.aggregate() if isinstance(part, _SourceAggregates) else part for part in out]


def _pool(node: Relation) -> _SourceAggregates | None:
    """A key-less aggregate apart from its WHERE, if that may become a FILTER: arguments are computed for all rows."""
    if not isinstance(node, Aggregate) or node.keys or node.grouping_sets is not None:
        return None
    if not all(is_total(arg) for agg in node.aggregations for arg in agg.exprs):
        return None
    if any(agg.distinct for agg in node.aggregations) and any(agg.filter is not None for agg in node.aggregations):
        return None
    below = node.input
    where = unique(below.predicates) if isinstance(below, Filter) else ()
    source = below.input if isinstance(below, Filter) else below
    return _SourceAggregates(source, [where], [node.aggregations]) if all(map(is_total, where)) else None


def _restricted(agg: Aggregation, where: tuple[Expr, ...]) -> Aggregation:
    if not where:
        return agg
    return replace(agg, filter=conjunction(where if agg.filter is None else (*where, agg.filter)))


def _renamed(agg: Aggregation, renaming: Renaming) -> Aggregation:
    call = replace(agg.call, args=tuple(substitute(arg, renaming) for arg in agg.call.args))
    condition = None if agg.filter is None else substitute(agg.filter, renaming)
    return replace(agg, call=call, filter=condition)


def _match(one: Relation, other: Relation) -> Renaming | None:
    """Columns of `other` by those of `one`, if both are the same but for the names of columns; else None."""
    if type(one) is not type(other) or len(one.inputs) != len(other.inputs):
        return None
    renaming: Renaming = {}
    for a, b in zip(one.inputs, other.inputs, strict=True):
        below = _match(a, b)
        if below is None:
            return None
        renaming.update(below)
    return _match_operator(one, other, renaming)


def _match_operator(one: Relation, other: Relation, renaming: Renaming) -> Renaming | None:
    """Extend the renaming of the inputs' columns over one operator, None where it differs."""

    def same(left: Iterable[Expr], right: Iterable[Expr]) -> bool:
        return tuple(left) == tuple(substitute(expr, renaming) for expr in right)

    match one, other:
        case Scan(), Scan():
            equal = (one.table, one.version) == (other.table, other.version)
            equal = equal and [own for own, _ in one.fields] == [own for own, _ in other.fields]
        case Shared(), Shared():
            equal = one.name == other.name
        case Filter(), Filter():
            equal = same(one.predicates, other.predicates)
        case Project(), Project():
            equal = same((e for _, e in one.exprs), (e for _, e in other.exprs))
        case Join(), Join():
            equal = one.kind == other.kind and same(one.on, other.on)
        case _:
            return None
    return {**renaming, **dict(zip(other.columns, one.columns, strict=True))} if equal else None
