"""Make one Project of two that follow each other, and none of one that changes nothing."""

from __future__ import annotations

from collections import Counter

from qoop.planner.algebra.expr import Call, Column, Expr, is_volatile, substitute, walk
from qoop.planner.algebra.relation import Project, Relation, Shared
from qoop.planner.algebra.traversal import bottom_up


def merge_projects(relation: Relation) -> Relation:
    """Merge adjacent Projects where no computed column would be computed twice; drop identities.

    >>> from qoop.planner.algebra.expr import binary
    >>> from qoop.planner.algebra.relation import Scan
    >>> from qoop.planner.algebra.outline import outline
    >>> a, b, c = (Column(name, "INTEGER") for name in "abc")
    >>> inner = Project(Scan("t", "v", (("a", a),)), ((b, binary("+", a, a, "INTEGER")),))
    >>> outline(merge_projects(Project(inner, ((c, b),))))
    'project[c: (a + a)](t[a])'
    """
    return bottom_up(relation, _merge)


def _merge(node: Relation) -> Relation:
    if not isinstance(node, Project):
        return node
    while isinstance(node.input, Project) and _mergeable(node, node.input):
        mapping = dict(node.input.exprs)
        node = Project(node.input.input, tuple((column, substitute(expr, mapping)) for column, expr in node.exprs))
    identity = node.columns == node.input.columns and all(column == expr for column, expr in node.exprs)
    return node.input if identity and not isinstance(node.input, Shared) else node


def _mergeable(upper: Project, lower: Project) -> bool:
    """True if every computed column of `lower` is read at most once, so nothing is evaluated more often."""
    uses = Counter(e for _, expr in upper.exprs for e in walk(expr) if isinstance(e, Column))
    return all(_cheap(expr) or (uses[column] <= 1 and not is_volatile(expr)) for column, expr in lower.exprs)


def _cheap(expr: Expr) -> bool:
    return not isinstance(expr, Call)
