"""Inner joins that only test for a partner become semi joins.

Duplicates have no effect on the right side of a semi, anti or mark join, and below DISTINCT, min and max. There an
inner join whose build side only gives equated columns multiplies rows for nothing.  TPC-DS joins web orders with
themselves only to find the orders that shipped from two warehouses: 80 million pairs at scale 10, for one million
orders.

Runs after join ordering, so that only what was chosen as a build side is dropped, and no order is forced.
"""

from __future__ import annotations

from collections.abc import Mapping

from qoop.planner.algebra.expr import Column, Expr, columns_of_all, is_volatile
from qoop.planner.algebra.properties import equated
from qoop.planner.algebra.relation import (
    Aggregate,
    Filter,
    Join,
    Project,
    Relation,
    SetOp,
    Shared,
    Sort,
    with_inputs,
)
from qoop.planner.algebra.traversal import replace_shared, shared_subplans

# Aggregates that a repeated row does not change.
_INSENSITIVE = frozenset({"min", "max", "bool_and", "bool_or", "bit_and", "bit_or", "any_value"})
_FILTERS = ("semi", "anti", "mark")


def semi_joins(relation: Relation) -> Relation:
    """Turn inner joins into semi joins where the number of partners does not matter.

    >>> from qoop.planner.algebra.expr import equals
    >>> from qoop.planner.algebra.relation import Scan
    >>> a, b = Column("a", "INTEGER"), Column("b", "INTEGER")
    >>> t, u = Scan("t", "1", (("a", a),)), Scan("u", "1", (("b", b),))
    >>> semi_joins(Aggregate(Join(t, u, "inner", (equals(a, b),)), (a,), ())).input.kind
    'semi'
    """
    shared = shared_subplans(relation)
    loosener = _Loosener()
    result = loosener.walk(relation, frozenset(relation.columns), False)
    bodies: dict[str, Relation] = {}
    for name, subplan in shared.items():  # readers precede the subplans that they read
        bodies[name] = loosener.walk(subplan.input, frozenset(subplan.columns), loosener.loose.get(name, False))
    return replace_shared(result, {name: body for name, body in bodies.items() if body is not shared[name].input})


def ignores_duplicates(node: Aggregate) -> bool:
    """True if repeated rows of its input do not change the aggregate."""
    return all(agg.distinct or agg.call.op in _INSENSITIVE for agg in node.aggregations)


class _Loosener:
    """Walks one block at a time. loose: shared subplans all of whose readers so far ignore duplicates."""

    def __init__(self) -> None:
        self.loose: dict[str, bool] = {}

    def walk(self, node: Relation, needed: frozenset[Column], loose: bool) -> Relation:
        """Rebuild the operator. needed: columns that are read above it. loose: duplicates do not matter above."""
        match node:
            case Shared():
                self.loose[node.name] = self.loose.get(node.name, True) and loose
                return node
            case Project():
                exprs = [expr for _, expr in node.exprs]
                still = loose and not any(map(is_volatile, exprs))
                return self.rebuilt(node, columns_of_all(exprs), still)
            case Filter():
                return self.rebuilt(node, needed | columns_of_all(node.predicates), loose)
            case Sort():
                return self.rebuilt(node, needed | columns_of_all(key.expr for key in node.keys), loose)
            case Aggregate():
                exprs = [expr for agg in node.aggregations for expr in agg.exprs]
                return self.rebuilt(node, frozenset(node.keys) | columns_of_all(exprs), ignores_duplicates(node))
            case SetOp():
                branches = (self.walk(b, frozenset(b.columns), loose or not node.all) for b in node.branches)
                kept = node.kind == "union" or not node.all
                return with_inputs(node, tuple(branches)) if kept else self.strict(node)
            case Join():
                return self.join(node, needed, loose)
        return self.strict(node)

    def strict(self, node: Relation) -> Relation:
        """An operator that counts rows or needs them all."""
        return with_inputs(node, tuple(self.walk(child, frozenset(child.columns), False) for child in node.inputs))

    def rebuilt(self, node: Relation, needed: frozenset[Column], loose: bool) -> Relation:
        (child,) = node.inputs
        return with_inputs(node, (self.walk(child, needed, loose),))

    def join(self, node: Join, needed: frozenset[Column], loose: bool) -> Relation:
        below = needed | columns_of_all(node.on)
        if node.kind in _FILTERS:
            left, right = self.walk(node.left, below, loose), self.walk(node.right, below, True)
            return with_inputs(node, (left, right))
        partners = _partners(node, needed) if loose and node.kind == "inner" and node.on else None
        left, right = self.walk(node.left, below, loose), self.walk(node.right, below, loose)
        if partners is None:
            return with_inputs(node, (left, right))
        semi = Join(left, right, "semi", node.on)
        if not partners:
            return semi
        kept: tuple[tuple[Column, Expr], ...] = tuple((column, column) for column in semi.columns)
        return Project(semi, kept + tuple(partners.items()))


def _partners(join: Join, needed: frozenset[Column]) -> Mapping[Column, Column] | None:
    """For every needed column of the right side the left one it is equated with; None if one has none."""
    left = frozenset(join.left.columns)
    equal: dict[Column, Column] = {}
    for pair in map(equated, join.on):
        if pair is not None and (pair[0] in left) != (pair[1] in left):
            mine, theirs = pair if pair[0] in left else pair[::-1]
            equal.setdefault(theirs, mine)
    needed_right = [column for column in join.right.columns if column in needed]
    if any(column not in equal for column in needed_right):
        return None
    return {column: equal[column] for column in needed_right}
