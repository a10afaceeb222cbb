"""Drop a DISTINCT whose rows are distinct already, or whose repeated rows have no effect."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from qoop.planner.algebra.properties import unique_keys
from qoop.planner.algebra.relation import Aggregate, Join, Project, Relation
from qoop.planner.algebra.traversal import bottom_up, narrowed


def drop_distinct(relation: Relation) -> Relation:
    """Drop DISTINCT over a unique input, and as the right input of a semi, anti or mark join.

    >>> from qoop.planner.algebra.expr import Column
    >>> from qoop.planner.algebra.relation import Scan
    >>> from qoop.planner.algebra.outline import outline
    >>> a = Column("a", "INTEGER")
    >>> once = Aggregate(Scan("t", "v", (("a", a),)), (a,), ())
    >>> outline(drop_distinct(Aggregate(once, (a,), ())))
    'aggregate[a](t[a])'
    """
    return bottom_up(relation, _visit)


def _visit(node: Relation) -> Relation:
    if _is_distinct(node) and any(key <= frozenset(node.keys) for key in unique_keys(node.input)):
        return narrowed(node.input, node.keys)
    if isinstance(node, Join) and node.kind in ("semi", "anti", "mark"):
        right = _without_distinct(node.right)
        return node if right is node.right else replace(node, right=right)
    return node


def _is_distinct(node: Relation) -> TypeGuard[Aggregate]:
    return isinstance(node, Aggregate) and bool(node.keys) and not node.aggregations and node.grouping_sets is None


def _without_distinct(node: Relation) -> Relation:
    if _is_distinct(node):
        return _without_distinct(narrowed(node.input, node.keys))
    if isinstance(node, Project) and (below := _without_distinct(node.input)) is not node.input:
        return Project(below, node.exprs)
    return node
