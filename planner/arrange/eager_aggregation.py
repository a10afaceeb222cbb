"""Eager aggregation: group before joins that only widen the rows.

``sum(x) GROUP BY name`` over a fact joined to a dimension is computed by the fact's foreign key first; each of
its groups is then joined once and the groups are summed up by name.  Sound for inner joins and aggregates that
can be combined from parts, whatever the joins multiply (Yan and Larson, "Eager Aggregation and Lazy
Aggregation", VLDB 1995, eager groupby-count aside: every part is joined as often as its rows would have been).

Runs after join ordering, which puts the joins that filter most at the bottom. The joins at the top only add columns;
aggregates are pushed below these, if the estimate shows a gain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from qoop.catalog.value import value
from qoop.planner.algebra.expr import Column, Expr, columns_of_all, is_volatile, substitute
from qoop.planner.algebra.relation import Aggregate, Aggregation, Join, Project, Relation
from qoop.planner.algebra.traversal import bottom_up
from qoop.planner.algebra.two_phase import TwoPhase, two_phase
from qoop.planner.estimate import tree_cost
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.estimate.cost import CostModel
from qoop.planner.variants import LEAST_GAIN

LEAST_ROWS = 100_000.0  # entering the aggregate: below, nothing is worth another stage
LEAST_REDUCTION = 4.0
"""Rows per group, in the mean, even for independent keys, as foreign keys of a fact mostly are. Without a gain, all
rows are grouped in vain (28 million into 27.9 in TPC-DS 23 at scale 10)."""


def eager_aggregation(
    relation: Relation, cardinality: Cardinality, cost: CostModel, least_gain: float = LEAST_GAIN
) -> Relation:
    """Return the relation with its aggregates pushed below joins where that is estimated to pay.

    least_gain: estimated seconds without over those with, from which on it is done; 0: wherever it can be.
    """

    def visit(node: Relation) -> Relation:
        if not isinstance(node, Aggregate) or cardinality.rows(node.input) < LEAST_ROWS:
            return node
        eager = _eager(node, cardinality)
        if eager is None:
            return node
        before, after = tree_cost.seconds(cost, node, cardinality), tree_cost.seconds(cost, eager, cardinality)
        return eager if before >= least_gain * after else node

    return bottom_up(relation, visit)


@value
class _Climbed:
    """A join on the way down: `other` is the side that only widens the rows, on the right or on the left."""

    join: Join
    other_is_right: bool

    def over(self, rest: Relation) -> Join:
        """The join with another relation in place of the side that is aggregated."""
        return replace(self.join, left=rest) if self.other_is_right else replace(self.join, right=rest)


def _eager(aggregate: Aggregate, cardinality: Cardinality) -> Aggregate | None:
    if not aggregate.keys or not can_be_early(aggregate):
        return None
    top, computed = below_project(aggregate)
    calls = tuple(substituted(agg, computed) for agg in measures_of(aggregate))
    keys = [computed.get(key, key) for key in aggregate.keys]
    measured = columns_of_all(expr for agg in calls for expr in agg.exprs)
    rest, climbed = _climb(top, measured, cardinality)
    if not climbed:
        return None
    needed = columns_of_all(keys) | columns_of_all(on for step in climbed for on in step.join.on)
    inner_keys = tuple(column for column in rest.columns if column in needed)
    if not inner_keys or cardinality.most_distinct(rest, inner_keys) * LEAST_REDUCTION > cardinality.rows(rest):
        return None
    phases = two_phase(Aggregate(rest, inner_keys, calls))
    if phases is None:
        return None
    return _stacked(aggregate, computed, phases, rest, climbed)


def can_be_early(aggregate: Aggregate) -> bool:
    """True if its functions may be computed in parts: none is DISTINCT, ordered or volatile."""
    measures = measures_of(aggregate)
    exprs = [expr for agg in measures for expr in agg.exprs]
    plain = all(not agg.distinct and not agg.ordered for agg in measures)
    return plain and bool(measures) and not any(map(is_volatile, exprs))


def measures_of(aggregate: Aggregate) -> list[Aggregation]:
    """All but GROUPING(), which is about the keys alone."""
    return [agg for agg in aggregate.aggregations if agg.call.op != "grouping"]


def below_project(aggregate: Aggregate) -> tuple[Relation, Mapping[Column, Expr]]:
    """The aggregate's input and what a Project directly below it computes."""
    node = aggregate.input
    if not isinstance(node, Project) or any(is_volatile(expr) for _, expr in node.exprs):
        return node, {}
    return node.input, {column: expr for column, expr in node.exprs if column != expr}


def substituted(agg: Aggregation, computed: Mapping[Column, Expr]) -> Aggregation:
    """The aggregation with expressions in place of columns."""
    args = tuple(substitute(arg, computed) for arg in agg.call.args)
    condition = None if agg.filter is None else substitute(agg.filter, computed)
    return replace(agg, call=replace(agg.call, args=args), filter=condition)


def _climb(
    node: Relation, measured: frozenset[Column], cardinality: Cardinality
) -> tuple[Relation, tuple[_Climbed, ...]]:
    """Go down inner joins as long as one side gives no measure and drops few rows of the other."""
    climbed: list[_Climbed] = []
    while isinstance(node, Join) and node.kind == "inner" and node.on:
        sides = [(node.left, True), (node.right, False)]
        rows = cardinality.rows(node)
        below = [
            (side, right)
            for side, right in sides
            if measured <= frozenset(side.columns) and 0.5 * cardinality.rows(side) <= rows
        ]
        if not below:
            break
        side, other_is_right = max(below, key=lambda pair: cardinality.rows(pair[0]))
        climbed.append(_Climbed(node, other_is_right))
        node = side
    return node, tuple(climbed)


def _stacked(
    aggregate: Aggregate,
    computed: Mapping[Column, Expr],
    phases: TwoPhase,
    rest: Relation,
    climbed: tuple[_Climbed, ...],
) -> Aggregate:
    """Early groups, the joins over them, and the final groups."""
    early = {part.column: replace(part.column, name=part.column.name + ":early") for part in phases.partials}
    partial = phases.partial(rest)
    node: Relation = replace(
        partial, aggregations=tuple(replace(part, column=early[part.column]) for part in partial.aggregations)
    )
    for step in reversed(climbed):
        node = step.over(node)
    still = [(column, expr) for column, expr in computed.items() if column in aggregate.keys]
    if still:
        kept = tuple((column, column) for column in node.columns)
        node = Project(node, (*kept, *still))
    finals = {final.column: substituted(final, early) for final in phases.finals}
    aggregations = tuple(finals.get(agg.column, agg) for agg in aggregate.aggregations)
    return Aggregate(node, aggregate.keys, aggregations, aggregate.grouping_sets)
