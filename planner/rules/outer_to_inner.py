"""Turn an outer join inner where the rows it pads with NULLs are filtered away above it anyway.

One walk from the root carries the columns whose NULLs cannot survive: a Filter (or the condition of an inner
join) that is not true for a NULL in ``c`` makes every padded row above ``c``'s side void. After
C. Galindo-Legaria and A. Rosenthal, "Outerjoin simplification and reordering", TODS 1997.
"""

from __future__ import annotations

from dataclasses import replace

from qoop.planner.algebra.expr import Call, Column, Expr, Literal, columns_of, substitute, walk
from qoop.planner.algebra.properties import is_total, rejected_columns, strict_columns
from qoop.planner.algebra.relation import (
    Aggregate,
    Exchange,
    Filter,
    Join,
    JoinKind,
    Project,
    Relation,
    SetOp,
    Shared,
    Sort,
    Window,
    with_inputs,
)
from qoop.planner.algebra.traversal import each_block, narrowed
from qoop.planner.algebra.types import fold

Columns = frozenset[Column]
_NONE: Columns = frozenset()


def outer_to_inner(relation: Relation) -> Relation:
    """Make left and full joins as inner as the filters above them allow.

    >>> from qoop.planner.algebra.expr import binary, equals
    >>> from qoop.planner.algebra.relation import Scan
    >>> from qoop.planner.algebra.outline import outline
    >>> a, b = Column("a", "INTEGER"), Column("b", "INTEGER")
    >>> outer = Join(Scan("t", "v", (("a", a),)), Scan("u", "v", (("b", b),)), "left", (equals(a, b),))
    >>> outline(outer_to_inner(Filter(outer, (binary("<", b, b),))))
    'filter[(b < b)](inner[(a = b)](t[a], u[b]))'
    """
    return each_block(relation, lambda block: _walk(block, _NONE))


def _walk(node: Relation, rejected: Columns) -> Relation:
    """Simplify `node`, of whose rows none with a NULL in a `rejected` column is missed."""
    match node:
        case Shared():
            return node
        case Filter():
            return with_inputs(node, (_walk(node.input, rejected | rejected_by(node.predicates)),))
        case Join():
            return _join(node, rejected)
        case Project():
            below = (strict_columns(expr) for column, expr in node.exprs if column in rejected)
            return with_inputs(node, (_walk(node.input, _NONE.union(*below)),))
        case Aggregate():
            sets = node.grouping_sets if node.grouping_sets is not None else (node.keys,)
            passing = rejected.intersection(node.keys, *sets)
            return with_inputs(node, (_walk(node.input, passing),))
        case Window():
            parts = (frozenset(e for e in call.partition_by if isinstance(e, Column)) for call in node.calls)
            return with_inputs(node, (_walk(node.input, rejected.intersection(*parts)),))
        case Sort() | Exchange():
            return with_inputs(node, (_walk(node.input, rejected),))
        case SetOp():
            return with_inputs(
                node, tuple(_walk(b, _renamed(rejected, node.columns, b.columns)) for b in node.branches)
            )
    return with_inputs(node, tuple(_walk(child, _NONE) for child in node.inputs)) if node.inputs else node


def _join(node: Join, rejected: Columns) -> Relation:
    columns = node.columns
    node = _strengthened(node, rejected)
    by_on = rejected_by(node.on)
    to_left = rejected | by_on if node.kind in ("inner", "right", "semi") else rejected
    to_right = rejected | by_on if node.kind in ("inner", "left", "semi", "anti") else rejected
    if node.kind == "mark":
        to_right = _NONE
    elif node.kind == "full":
        to_left = to_right = _NONE  # a padded row hides which side a NULL came from
    left = _walk(node.left, to_left.intersection(node.left.columns))
    right = _walk(node.right, to_right.intersection(node.right.columns))
    return narrowed(with_inputs(node, (left, right)), columns)


def _strengthened(node: Join, rejected: Columns) -> Join:
    """The join that pads no row that is rejected; a right join is turned round."""
    if node.kind not in ("left", "right", "full"):
        return node
    left_alive = rejected.isdisjoint(node.right.columns)  # rows of the left without a partner are of use
    right_alive = rejected.isdisjoint(node.left.columns)
    keeps_left = node.kind in ("left", "full") and left_alive
    keeps_right = node.kind in ("right", "full") and right_alive
    if keeps_left and keeps_right:
        return node
    if keeps_right:
        return Join(node.right, node.left, "left", node.on)
    kind: JoinKind = "left" if keeps_left else "inner"
    return node if kind == node.kind else replace(node, kind=kind)


def rejected_by(predicates: tuple[Expr, ...]) -> Columns:
    """Columns for which a NULL keeps the conjunction of the predicates from being true."""
    return _NONE.union(*map(rejected_columns, predicates), *map(_rejected_by_value, predicates))


def _rejected_by_value(predicate: Expr) -> Columns:
    """The one column of a predicate that DuckDB finds not true for a NULL in it, as ``coalesce(n, 0) > 0``."""
    used = columns_of(predicate)
    if len(used) != 1 or not is_total(predicate) or not any(_handles_null(node) for node in walk(predicate)):
        return _NONE
    (column,) = used
    value = fold(substitute(predicate, {column: Literal(f"CAST(NULL AS {column.type})", column.type)}))
    return used if isinstance(value, Literal) and not value.value else _NONE


def _handles_null(node: Expr) -> bool:
    return isinstance(node, Call) and node.op in ("coalesce", "case", "is_null")


def _renamed(columns: Columns, old: tuple[Column, ...], new: tuple[Column, ...]) -> Columns:
    return frozenset(inner for outer, inner in zip(old, new, strict=True) if outer in columns)
