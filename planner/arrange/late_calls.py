"""Predicates that call Python, late: where the joins have left the fewest rows.

Rules push every predicate down to its table. That is right for predicates that cost next to nothing; a function of
Python that takes a millisecond a row should run on the rows that joins leave. So :func:`lifted` moves such predicates
above all joins that allow it, the joins are ordered without them, and :func:`put_down` puts each where the fewest rows
are: the best place, if the function dominates the cost (Hellerstein and Stonebraker, "Predicate
Migration: Optimizing Queries with Expensive Predicates", SIGMOD 1993). The rows are the same in any place, and so are
the signatures. The input of such a predicate is a separate stage (:mod:`qoop.planner.exchange.exchange`).

A predicate on the left side goes above any join that keeps rows of the left, one on the right above inner joins only.
No expression that can fail is evaluated on more rows than before (law 12): it stays behind a predicate that may guard
it.
"""

from __future__ import annotations

from dataclasses import replace

from qoop.planner.algebra.expr import Column, Expr, columns_of, columns_of_all, is_movable_call, may_raise
from qoop.planner.algebra.relation import Filter, Join, Project, Relation, Shared, with_inputs
from qoop.planner.algebra.traversal import each_block, filtered, narrowed
from qoop.planner.estimate.cardinality import Cardinality

Predicates = tuple[Expr, ...]
_KEEP_LEFT = frozenset({"inner", "left", "semi", "anti", "mark"})


def lifted(relation: Relation) -> Relation:
    """Return the relation with its predicates that call Python above all joins that they may go above.

    >>> from qoop.planner.algebra.expr import PYTHON, Call, equals
    >>> from qoop.planner.algebra.outline import outline
    >>> from qoop.planner.algebra.relation import Scan
    >>> a, b = Column("a", "INTEGER"), Column("b", "INTEGER")
    >>> t, u = Scan("t", "v", (("a", a),)), Scan("u", "v", (("b", b),))
    >>> f = Call(PYTHON, (a,), '"f@1"({0})', "BOOLEAN")
    >>> outline(lifted(Join(Filter(t, (f,)), u, "inner", (equals(a, b),))))
    'filter["f@1"(a)](inner[(a = b)](t[a], u[b]))'
    """
    return each_block(relation, lambda block: narrowed(_lifted(block), block.columns))


def _lifted(relation: Relation) -> Relation:
    """The same rows, with more columns where a predicate above needs them."""
    match relation:
        case Shared():
            return relation
        case Join():
            return _above_join(relation)
        case Filter():
            return filtered(_lifted(relation.input), relation.predicates)
    below = [narrowed(_lifted(child), child.columns) for child in relation.inputs]
    return with_inputs(relation, tuple(below)) if relation.inputs else relation


def _above_join(join: Join) -> Relation:
    left, mine = _lifted(join.left), Predicates()
    right, theirs = narrowed(_lifted(join.right), join.right.columns), Predicates()
    free = not any(map(may_raise, join.on))
    if free and join.kind in _KEEP_LEFT:
        left, mine = _taken_off(left)
    if free and join.kind == "inner":
        right, theirs = _taken_off(_lifted(join.right))
    joined = replace(join, left=left, right=right) if (left, right) != join.inputs else join
    return filtered(joined, (*mine, *theirs))


def _taken_off(relation: Relation) -> tuple[Relation, Predicates]:
    """The relation without the predicates of its top that call Python, and these."""
    if isinstance(relation, Project) and all(isinstance(expr, Column) for _, expr in relation.exprs):
        below, taken = _taken_off(relation.input)
        missing = columns_of_all(taken) - {new for new, old in relation.exprs if new == old}
        more = tuple((column, column) for column in below.columns if column in missing)
        return (Project(below, (*relation.exprs, *more)), taken) if taken else (relation, ())
    if not isinstance(relation, Filter):
        return relation, ()
    taken = tuple(filter(is_movable_call, relation.predicates))
    staying = tuple(one for one in relation.predicates if one not in taken)
    if not taken or any(map(may_raise, staying)):
        return relation, ()
    return filtered(relation.input, staying), taken


def put_down(relation: Relation, cardinality: Cardinality) -> Relation:
    """Return the relation with each predicate that calls Python where the fewest rows are, of the places where it may
    be below the one where it is."""
    return each_block(relation, lambda block: _put_down(block, cardinality))


def _put_down(relation: Relation, cardinality: Cardinality) -> Relation:
    if isinstance(relation, Shared):
        return relation
    below = tuple(_put_down(child, cardinality) for child in relation.inputs)
    relation = with_inputs(relation, below) if relation.inputs else relation
    if not isinstance(relation, Filter):
        return relation
    moving = tuple(filter(is_movable_call, relation.predicates))
    staying = tuple(one for one in relation.predicates if one not in moving)
    if not moving or any(map(may_raise, staying)):
        return relation
    return _all_down(filtered(relation.input, staying), moving, cardinality)


def _all_down(relation: Relation, predicates: Predicates, cardinality: Cardinality) -> Relation:
    """All places are chosen before any predicate is moved: none depends on the effect of another."""
    places = [(_least(_ways(relation, columns_of(one)), cardinality), one) for one in predicates]

    def rebuilt(node: Relation) -> Relation:
        here = tuple(one for place, one in places if place is node)
        if isinstance(node, Join | Filter):
            node = with_inputs(node, tuple(map(rebuilt, node.inputs)))
        return filtered(node, here)

    return rebuilt(relation)


def _ways(relation: Relation, columns: frozenset[Column]) -> list[Relation]:
    """The places for a predicate over these columns, from the top down."""
    found = [relation]
    while True:
        node = found[-1]
        match node:
            case Filter():
                found.append(node.input)
            case Join() if node.kind in _KEEP_LEFT and columns <= frozenset(node.left.columns):
                found.append(node.left)
            case Join() if node.kind == "inner" and columns <= frozenset(node.right.columns):
                found.append(node.right)
            case _:
                return found


def _least(places: list[Relation], cardinality: Cardinality) -> Relation:
    """The place with the fewest rows; of equals the lowest, so that the joins above have less to do."""
    return min(reversed(places), key=cardinality.rows)
