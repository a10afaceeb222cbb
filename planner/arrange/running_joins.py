"""An aggregate over a join by an inequality becomes running aggregates of each row of one side.

``SELECT a.id, sum(b.x) FROM a JOIN b ON b.k = a.k AND b.d <= a.d GROUP BY a.id`` pairs each row of ``a`` with all rows
of ``b`` up to it. Where the groups are of the one side and the functions of the other, a function's value for each row
of ``a`` is a running aggregate (:mod:`~qoop.planner.sql.running`), and the groups are made of these values::

    Aggregate(Join(a, b))   →   Aggregate(Filter(running aggregates of b for each row of a, with a partner))

It is done where estimates say that it pays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from qoop.planner.algebra.expr import Call, Column, Expr, Literal, binary, columns_of_all
from qoop.planner.algebra.properties import is_total
from qoop.planner.algebra.relation import Aggregate, Aggregation, Filter, Join, Project, Relation, walk
from qoop.planner.algebra.traversal import bottom_up
from qoop.planner.algebra.two_phase import two_phase
from qoop.planner.arrange.eager_aggregation import below_project, can_be_early, measures_of, substituted
from qoop.planner.estimate import tree_cost
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.estimate.cost import CostModel
from qoop.planner.sql.running import Running, aligned, bound_of, check, with_running
from qoop.planner.sql.scope import Names, Unsupported
from qoop.planner.variants import LEAST_GAIN

LEAST_SECONDS = 0.02
"""An aggregate over a join that takes less is left as it is."""

_PLAIN = re.compile(r"\w+\((?:\{0\}|\*)\)")
"""A call that a window function can be made of."""


def running_joins(relation: Relation, cardinality: Cardinality, cost: CostModel) -> Relation:
    """Return the relation with aggregates over joins by an inequality as running aggregates, where that should pay."""
    numbers = count(1)
    taken = {column.name.partition(":")[0] for node in walk(relation) for column in node.columns}

    def visit(node: Relation) -> Relation:
        if not isinstance(node, Aggregate) or not isinstance(below_project(node)[0], Join):
            return node
        before = tree_cost.seconds_once(cost, node, cardinality)
        if before < LEAST_SECONDS:
            return node
        after = as_running(node, next(name for n in numbers if (name := f"running_{n}") not in taken))
        if after is None or before < LEAST_GAIN * tree_cost.seconds_once(cost, after, cardinality):
            return node
        cardinality.same_rows(after, node)
        return after

    return bottom_up(relation, visit)


def as_running(aggregate: Aggregate, name: str) -> Aggregate | None:
    """The rows of an aggregate over an inner join by an inequality, without the pairs; None where that cannot be.

    name: of the columns that are made; none of the query has a name that begins so.
    """
    join, computed = below_project(aggregate)
    if not isinstance(join, Join) or join.kind != "inner" or not can_be_early(aggregate):
        return None
    calls = tuple(substituted(agg, computed) for agg in measures_of(aggregate))
    if not all(map(is_total, (expr for agg in calls for expr in agg.exprs))):
        return None
    keys = columns_of_all(computed.get(key, key) for key in aggregate.keys)
    read = columns_of_all(expr for agg in calls for expr in agg.exprs)
    for outer, inner in ((join.left, join.right), (join.right, join.left)):
        if keys <= frozenset(outer.columns) and read <= frozenset(inner.columns):
            found = _running(aggregate, calls, join.on, inner)
            if found is not None:
                return _stacked(aggregate, calls, outer, inner, found, name)
    return None


def _running(
    aggregate: Aggregate, calls: tuple[Aggregation, ...], on: tuple[Expr, ...], inner: Relation
) -> Running | None:
    """The keys and the bound of a join, without its aggregates."""
    theirs = frozenset(inner.columns)
    bounds = [bound for predicate in on if (bound := bound_of(predicate, theirs)) is not None]
    if len(bounds) != 1:
        return None
    pairs: list[tuple[Expr, Expr]] = []
    for predicate in on:
        if bound_of(predicate, theirs) is None:
            sides = tuple(_sides(predicate, theirs))
            if not sides:
                return None
            pairs += sides
    running = aligned(Running(tuple(pairs), bounds[0], ()))
    exprs = (*(expr for pair in running.keys for expr in pair), running.bound.inner, running.bound.outer)
    return running if all(map(is_total, exprs)) else None


def _sides(predicate: Expr, inner: frozenset[Column]) -> Iterator[tuple[Expr, Expr]]:
    """The inner and the outer expression of an equality; nothing of other predicates."""
    if isinstance(predicate, Call) and predicate.op == "=":
        for ours, theirs in (predicate.args, predicate.args[::-1]):
            read = columns_of_all([ours])
            if read and read <= inner and columns_of_all([theirs]) and not columns_of_all([theirs]) & inner:
                yield ours, theirs


def _stacked(
    aggregate: Aggregate,
    calls: tuple[Aggregation, ...],
    outer: Relation,
    inner: Relation,
    running: Running,
    name: str,
) -> Aggregate | None:
    """Running aggregates, and over them the groups."""
    phases = two_phase(Aggregate(inner, (), calls))
    if phases is None or not all(_PLAIN.fullmatch(part.call.template) for part in phases.partials):
        return None
    early = {part.column: Column(f"{name}:{part.column.name}", part.column.type) for part in phases.partials}
    partners = Column(f"{name}:partners", "BIGINT")
    partials = tuple(replace(part, column=early[part.column]) for part in phases.partials)
    counted = Aggregation(partners, Call("count_star", (), "count(*)", "BIGINT"))
    running = Running(running.keys, running.bound, (*partials, counted))
    try:
        check(running)
    except Unsupported:
        return None
    node: Relation = with_running(outer, inner, running, _Names(name))
    node = Filter(node, (binary(">", partners, Literal("0", "BIGINT", 0)),))
    _, computed = below_project(aggregate)
    still = [(column, expr) for column, expr in computed.items() if column in aggregate.keys]
    if still:
        node = Project(node, (*((column, column) for column in node.columns), *still))
    finals = {final.column: substituted(final, early) for final in phases.finals}
    aggregations = tuple(finals.get(agg.column, agg) for agg in aggregate.aggregations)
    return Aggregate(node, aggregate.keys, aggregations, aggregate.grouping_sets)


class _Names(Names):
    """Names that begin in one way."""

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix

    def fresh(self, wish: str, type_: str) -> Column:
        column = super().fresh(wish, type_)
        return replace(column, name=f"{self._prefix}:{column.name}")
