"""Joins in another form, where estimates say that it pays."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import count

from qoop.planner.algebra.relation import Join, Relation
from qoop.planner.algebra.traversal import bottom_up, shared_subplans
from qoop.planner.estimate import tree_cost
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.estimate.cost import CostModel
from qoop.planner.variants import LEAST_GAIN

LEAST_SECONDS = 0.02
"""A join that takes less is left as it is: the further stages would cost as much."""


def in_other_form(
    relation: Relation,
    kinds: Collection[str],
    prefix: str,
    form: Callable[[Join, str], Relation | None],
    cardinality: Cardinality,
    cost: CostModel,
) -> Relation:
    """Return the relation with joins of some kinds in another form, where that should pay.

    form: the same rows in another way, None where there is none; it gets the join, and a name for the shared subplans
    that it makes, which begins with the prefix and which the query does not have.
    """
    taken = shared_subplans(relation)
    names = (name for number in count(1) if (name := f"{prefix}_{number}") not in taken)

    def visit(node: Relation) -> Relation:
        if not isinstance(node, Join) or node.kind not in kinds:
            return node
        before = tree_cost.own_seconds(cost, node, cardinality)
        after = form(node, next(names)) if before >= LEAST_SECONDS else None
        if after is None:
            return node
        sides = sum(tree_cost.seconds_once(cost, side, cardinality) for side in node.inputs)
        if before < LEAST_GAIN * (tree_cost.seconds_once(cost, after, cardinality) - sides):
            return node
        cardinality.same_rows(after, node)
        return after

    return bottom_up(relation, visit)
