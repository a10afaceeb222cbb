"""Drop what cannot have rows: a Filter that is never true, and what stands on it."""

from __future__ import annotations

from qoop.planner.algebra.expr import Literal
from qoop.planner.algebra.properties import is_constant
from qoop.planner.algebra.relation import Aggregate, Filter, Join, Limit, Project, Relation, SetOp, Sort, Values, Window
from qoop.planner.algebra.traversal import bottom_up


def drop_empty(relation: Relation) -> Relation:
    """Replace subplans that are proven empty by no rows, and leave them out of unions.

    >>> from qoop.planner.algebra.expr import FALSE, Column
    >>> from qoop.planner.algebra.relation import Scan
    >>> from qoop.planner.algebra.outline import outline
    >>> a, b, c = (Column(name, "INTEGER") for name in "abc")
    >>> branches = Filter(Scan("t", "v", (("a", a),)), (FALSE,)), Scan("u", "v", (("b", b),))
    >>> outline(drop_empty(SetOp("union", True, branches, (c,))))
    'project[c: b](u[b])'
    """
    return bottom_up(relation, _visit)


def _visit(node: Relation) -> Relation:
    if isinstance(node, SetOp):
        return _set_op(node)
    if isinstance(node, Join) and node.kind == "left" and _is_empty(node.right):
        nulls = ((c, Literal(f"CAST(NULL AS {c.type})", c.type)) for c in node.right.columns)
        return Project(node.left, (*((c, c) for c in node.left.columns), *nulls))
    if isinstance(node, Join) and node.kind == "anti" and _is_empty(node.right):
        return node.left
    return Values(node.columns, ()) if _becomes_empty(node) else node


def _becomes_empty(node: Relation) -> bool:
    match node:
        case Filter():
            return _is_empty(node.input) or any(is_constant(p, False) or is_constant(p, None) for p in node.predicates)
        case Project() | Sort() | Window():
            return _is_empty(node.input)
        case Limit():
            return _is_empty(node.input) or node.limit == 0
        case Aggregate():
            return _is_empty(node.input) and bool(node.keys) and node.grouping_sets is None
        case Join(kind="inner" | "semi"):
            return _is_empty(node.left) or _is_empty(node.right)
        case Join(kind="left" | "anti" | "mark"):
            return _is_empty(node.left)
    return False


def _set_op(node: SetOp) -> Relation:
    """UNION ALL without its empty branches. The others compare branches and are left alone."""
    if node.kind != "union" or not node.all:
        return node
    alive = tuple(branch for branch in node.branches if not _is_empty(branch))
    if len(alive) == len(node.branches):
        return node
    if not alive:
        return Values(node.columns, ())
    if len(alive) == 1:
        return Project(alive[0], tuple(zip(node.columns, alive[0].columns, strict=True)))
    return SetOp(node.kind, True, alive, node.columns)


def _is_empty(node: Relation) -> bool:
    return isinstance(node, Values) and not node.rows
