"""Carry what is known of a column over to the columns that a join equates with it.

From ``a = b and a in (1, 2)`` follows ``b in (1, 2)``, so both inputs of the join can be filtered. Facts are
gathered from below (a Filter deep in the left input is known of the join's rows too); the new predicates are
put on the join's inputs and pushed down by the next `push_filters`. Equalities themselves are not multiplied:
``a = b and b = c`` implying ``a = c`` is for the join order to use.
"""

from __future__ import annotations

from collections.abc import Iterable

from qoop.planner.algebra.expr import Call, Column, Expr, Literal, columns_of, substitute
from qoop.planner.algebra.properties import equated, is_total
from qoop.planner.algebra.relation import (
    Aggregate,
    Exchange,
    Filter,
    Join,
    Limit,
    Project,
    Relation,
    Shared,
    Sort,
    Window,
    with_inputs,
)
from qoop.planner.algebra.traversal import bottom_up, filtered, unique

Facts = tuple[Expr, ...]


def infer_predicates(relation: Relation) -> Relation:
    """Add to each join's inputs the single-column predicates that its equalities imply.

    >>> from qoop.planner.algebra.expr import equals
    >>> from qoop.planner.algebra.relation import Scan
    >>> from qoop.planner.algebra.outline import outline
    >>> a, b, one = Column("a", "INTEGER"), Column("b", "INTEGER"), Literal("1", "INTEGER", 1)
    >>> t = Filter(Scan("t", "v", (("a", a),)), (equals(a, one),))
    >>> outline(infer_predicates(Join(t, Scan("u", "v", (("b", b),)), "left", (equals(a, b),))))
    'left[(a = b)](filter[(a = 1)](t[a]), filter[(b = 1)](u[b]))'
    """
    known: dict[int, Facts] = {}
    return bottom_up(relation, lambda node: _infer(node, known) if isinstance(node, Join) else node)


def _infer(node: Join, known: dict[int, Facts]) -> Relation:
    if node.kind in ("full", "mark"):
        return node
    left, right = facts(node.left, known), facts(node.right, known)
    to_right = _carried((*node.on, *left), right, node.right) if node.kind != "right" else ()
    to_left = _carried((*node.on, *right), left, node.left) if node.kind in ("inner", "semi", "right") else ()
    if not to_left and not to_right:
        return node
    return with_inputs(node, (filtered(node.left, to_left), filtered(node.right, to_right)))


def _carried(source: Facts, there: Facts, side: Relation) -> Facts:
    """Predicates of `source` translated to columns of `side`, where they do not follow from what is known there."""
    equal = _closure((*source, *there))
    if not equal:
        return ()
    equal_columns = _closure(there)
    have = dict.fromkeys(there)
    for predicate in (*source, *there):
        used = columns_of(predicate)
        if len(used) != 1 or not is_total(predicate) or not _worthwhile(predicate):
            continue
        (column,) = used
        for twin in equal.get(column, ()):
            if twin in side.columns and twin != column:
                forms = [substitute(predicate, {column: same}) for same in equal_columns.get(twin, (twin,))]
                if not any(form in have for form in forms):
                    have[substitute(predicate, {column: twin})] = None
    return tuple(have)[len(dict.fromkeys(there)) :]


def _worthwhile(predicate: Expr) -> bool:
    """Only a comparison with constants can drop rows that the join keeps; no NULL passes the equality."""
    op = getattr(predicate, "op", "")
    return op != "not" and (isinstance(predicate, Call) and any(isinstance(e, Literal | Call) for e in predicate.args))


def _closure(predicates: Iterable[Expr]) -> dict[Column, tuple[Column, ...]]:
    """Classes of columns that the predicates make equal, by member."""
    classes: dict[Column, tuple[Column, ...]] = {}
    for pair in map(equated, predicates):
        if pair is not None:
            members = tuple(dict.fromkeys((*classes.get(pair[0], pair[:1]), *classes.get(pair[1], pair[1:]))))
            classes.update(dict.fromkeys(members, members))
    return classes


def facts(node: Relation, known: dict[int, Facts]) -> Facts:
    """Total predicates that are true of every row of the relation, as far as Filters and joins below say so."""
    if id(node) not in known:
        known[id(node)] = _facts(node, known)
    return known[id(node)]


def _facts(node: Relation, known: dict[int, Facts]) -> Facts:
    match node:
        case Filter():
            return unique((*node.predicates, *facts(node.input, known)))
        case Join(kind="inner"):
            return unique((*node.on, *facts(node.left, known), *facts(node.right, known)))
        case Join(kind="left" | "semi" | "anti" | "mark"):
            return facts(node.left, known)
        case Aggregate(grouping_sets=None):
            keys = frozenset(node.keys)
            return tuple(p for p in facts(node.input, known) if columns_of(p) <= keys)
        case Project():
            new = {expr: column for column, expr in reversed(node.exprs) if isinstance(expr, Column)}
            below = facts(node.input, known)
            return tuple(substitute(p, new) for p in below if columns_of(p) <= new.keys())
        case Window() | Sort() | Limit() | Shared() | Exchange():
            return facts(node.input, known)
    return ()
