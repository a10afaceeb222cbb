"""Grouping sets in a cascade, where estimates say that it pays."""

from __future__ import annotations

from dataclasses import replace

from qoop.planner.algebra.cascade import can_cascade
from qoop.planner.algebra.relation import Aggregate, Relation
from qoop.planner.algebra.traversal import bottom_up
from qoop.planner.arrange.eager_aggregation import LEAST_ROWS
from qoop.planner.estimate import tree_cost
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.estimate.cost import CostModel
from qoop.planner.variants import LEAST_GAIN


def roll_up(relation: Relation, cardinality: Cardinality, cost: CostModel) -> Relation:
    """Return the relation with the grouping sets that take longer in one go in a cascade."""

    def visit(node: Relation) -> Relation:
        if not isinstance(node, Aggregate) or not can_cascade(node) or cardinality.rows(node.input) < LEAST_ROWS:
            return node
        found = replace(node, cascade=True)
        before, after = (tree_cost.own_seconds(cost, one, cardinality) for one in (node, found))
        return found if before >= LEAST_GAIN * after else node

    return bottom_up(relation, visit)
