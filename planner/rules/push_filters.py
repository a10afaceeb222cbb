"""Push predicates down as far as their meaning stays the same, and derive the parts that can go further.

One walk from the root carries the predicates that hold above. An operator lets through those that commute
with it; the rest stays as a Filter above it. Of an OR that cannot pass as a whole, the part over columns that
can pass follows from it and goes down in addition (``(a.x = 1 and b.y = 2) or (a.x = 3 and b.y = 4)`` implies
``a.x in (1, 3)``). A predicate that may fail on some row, or is volatile, is not moved ahead of a
predicate that guards it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from qoop.planner.algebra.expr import (
    Call,
    Column,
    Expr,
    columns_of,
    conjunction,
    conjuncts,
    disjunction,
    disjuncts,
    is_volatile,
    outgrows,
    substitute,
)
from qoop.planner.algebra.float_order import with_digits
from qoop.planner.algebra.fold_constants import simplify, simplify_all
from qoop.planner.algebra.properties import is_total, may_enter_joins
from qoop.planner.algebra.relation import (
    Aggregate,
    Filter,
    Join,
    Project,
    Relation,
    SetOp,
    Shared,
    Sort,
    Window,
    with_inputs,
)
from qoop.planner.algebra.traversal import filtered, replace_shared, shared_subplans, unique

Predicates = tuple[Expr, ...]


def push_filters(relation: Relation) -> Relation:
    """Move every predicate down to where its columns come from; a cross join under an equality becomes inner.

    >>> from qoop.planner.algebra.expr import equals, Literal
    >>> from qoop.planner.algebra.relation import Scan
    >>> from qoop.planner.algebra.outline import outline
    >>> a, b = Column("a", "INTEGER"), Column("b", "INTEGER")
    >>> cross = Join(Scan("t", "v", (("a", a),)), Scan("u", "v", (("b", b),)), "inner", ())
    >>> outline(push_filters(Filter(cross, (equals(a, b), equals(a, Literal("1", "INTEGER", 1))))))
    'inner[(a = b)](filter[(a = 1)](t[a]), u[b])'
    """
    pusher = _Pusher()
    pushed = pusher.push(relation, ())
    bodies: dict[str, Relation] = {}
    for name, shared in shared_subplans(relation).items():
        bodies[name] = pusher.push(shared.input, pusher.shared_predicates(shared))
    return replace_shared(pushed, bodies)


class _Pusher:
    """One run of the rule. `readers`: for each shared subplan, what every reader of it keeps."""

    def __init__(self) -> None:
        self.readers: dict[str, list[Predicates]] = {}

    def push(self, node: Relation, predicates: Predicates) -> Relation:
        """Return `node` under these predicates, and all Filters in it as deep as they go."""
        match node:
            case Filter():
                return self._through_filter(node, predicates)
            case Project(input=Shared() as shared):
                return self._at_reader(node, shared, predicates)
            case Project():
                return self._through_project(node, predicates)
            case Join(kind="inner"):
                return self._into_inner(node, predicates)
            case Join():
                return self._into_join(node, predicates)
            case Aggregate():
                return self._split(node, predicates, _common_keys(node))
            case Window():
                return self._split(node, predicates, _common_partition(node))
            case SetOp():
                return self._into_branches(node, predicates)
            case Sort():
                return with_inputs(node, (self.push(node.input, predicates),))
            case Shared():
                self.readers.setdefault(node.name, []).append(predicates)
                return filtered(node, predicates)
            case _:
                inputs = tuple(self.push(child, ()) for child in node.inputs)
                return filtered(with_inputs(node, inputs) if inputs else node, predicates)

    def _through_filter(self, node: Filter, predicates: Predicates) -> Relation:
        """Total predicates go on; the others stay in place, under those that came from above them."""
        moving = tuple(p for p in node.predicates if may_enter_joins(p) or self._joins(node.input, p))
        staying = tuple(p for p in node.predicates if p not in moving)
        result = filtered(self.push(node.input, simplify_all((*moving, *predicates))), staying)
        same = isinstance(result, Filter) and result.input is node.input and result.predicates == node.predicates
        return node if same else result

    def _joins(self, node: Relation, predicate: Expr) -> bool:
        """True for a comparison of both sides of the inner join right below: that is where DuckDB puts it too."""
        if not isinstance(node, Join) or node.kind != "inner" or is_volatile(predicate):
            return False
        used = columns_of(predicate)
        return not used.isdisjoint(node.left.columns) and not used.isdisjoint(node.right.columns)

    def _through_project(self, node: Project, predicates: Predicates) -> Relation:
        mapping = dict(node.exprs)
        below: list[Expr] = []
        above: list[Expr] = []
        for predicate in predicates:
            moved = substitute(predicate, mapping)
            enters = not outgrows(moved, predicate) and may_enter_joins(moved)
            (below if enters else above).append(moved if enters else predicate)
        pushed = self.push(node.input, simplify_all(tuple(below)) if below else ())
        return filtered(with_inputs(node, (pushed,)), above)

    def _at_reader(self, node: Project, shared: Shared, predicates: Predicates) -> Relation:
        """A shared subplan cannot take one reader's filter; remember it for the OR of all readers'."""
        mapping = dict(node.exprs)
        moved = [(p, substitute(p, mapping)) for p in predicates]
        own = tuple(one for p, one in moved if not outgrows(one, p) and is_total(one))
        self.readers.setdefault(shared.name, []).append(own)
        return filtered(node, predicates)

    def shared_predicates(self, shared: Shared) -> Predicates:
        """The predicates that every row of the subplan must satisfy for at least one of its readers.

        The last digits of sums decide nothing there, if every reader has a further predicate: else no other run could
        use the subplan's output (:mod:`qoop.planner.algebra.float_order`).
        """
        predicates_of_readers = self.readers.get(shared.name, [])
        if not predicates_of_readers or not all(predicates_of_readers):
            return ()
        digits = with_digits(shared.input)
        if digits:
            exact = [tuple(p for p in own if digits.isdisjoint(columns_of(p))) for own in predicates_of_readers]
            predicates_of_readers = exact if all(exact) else predicates_of_readers
        return simplify_all((simplify(disjunction(conjunction(predicates) for predicates in predicates_of_readers)),))

    def _into_inner(self, node: Join, predicates: Predicates) -> Relation:
        left, right = frozenset(node.left.columns), frozenset(node.right.columns)
        to_left: list[Expr] = []
        to_right: list[Expr] = []
        on: list[Expr] = []
        for predicate in unique((*node.on, *predicates)):
            used = columns_of(predicate)
            if used <= left and (used or not is_volatile(predicate)) and may_enter_joins(predicate):
                to_left.append(predicate)
                if not used:
                    to_right.append(predicate)
            elif used <= right and may_enter_joins(predicate):
                to_right.append(predicate)
            else:
                on.append(predicate)
                to_left += _implied(predicate, left)
                to_right += _implied(predicate, right)
        return _rejoined(node, self.push(node.left, tuple(to_left)), self.push(node.right, tuple(to_right)), tuple(on))

    def _into_join(self, node: Join, predicates: Predicates) -> Relation:
        """Outer, semi, anti and mark joins: which side predicates from above and from `on` may enter."""
        left, right = frozenset(node.left.columns), frozenset(node.right.columns)
        above_left = node.kind in ("left", "semi", "anti", "mark")
        to_left, rest = _divide(predicates, left if above_left else frozenset())
        to_right, rest = _divide(rest, right if node.kind == "right" else frozenset())
        fixed = node.on[:1] if node.kind == "mark" else ()
        on = node.on[len(fixed) :]
        if node.kind in ("left", "semi", "anti", "mark"):
            entering, on = _divide(on, right)
            to_right += entering
        if node.kind in ("right", "semi"):
            entering, on = _divide(on, left)
            to_left += entering
        joined = _rejoined(node, self.push(node.left, to_left), self.push(node.right, to_right), (*fixed, *on))
        kept = tuple(p for p in predicates if p in rest)
        return filtered(joined, kept)

    def _split(self, node: Aggregate | Window, predicates: Predicates, passable: frozenset[Column]) -> Relation:
        below, above = _divide(predicates, passable, constants=bool(passable))
        return filtered(with_inputs(node, (self.push(node.input, below),)), above)

    def _into_branches(self, node: SetOp, predicates: Predicates) -> Relation:
        below = tuple(p for p in predicates if is_total(p))
        branches = []
        for branch in node.branches:
            mapping: dict[Column, Expr] = dict(zip(node.columns, branch.columns, strict=True))
            branches.append(self.push(branch, tuple(substitute(p, mapping) for p in below)))
        return filtered(with_inputs(node, tuple(branches)), (p for p in predicates if p not in below))


def _divide(
    predicates: Iterable[Expr], passable: frozenset[Column], constants: bool = False
) -> tuple[Predicates, Predicates]:
    """Split into what may pass to an input with these columns (implied parts included) and what stays."""
    below: list[Expr] = []
    above: list[Expr] = []
    for predicate in predicates:
        used = columns_of(predicate)
        if used <= passable and (used or constants) and is_total(predicate):
            below.append(predicate)
        else:
            above.append(predicate)
            below += _implied(predicate, passable)
    return tuple(below), tuple(above)


def _implied(predicate: Expr, columns: frozenset[Column]) -> list[Expr]:
    """The strongest OR over these columns alone that follows from an OR, if there is one.

    >>> from qoop.planner.algebra.expr import binary
    >>> a, b = Column("a", "BOOLEAN"), Column("b", "BOOLEAN")
    >>> [str(p) for p in _implied(binary("or", binary("and", a, b), a), frozenset({a}))]
    ['a']
    """
    if not isinstance(predicate, Call) or predicate.op != "or" or predicate.columns.isdisjoint(columns):
        return []
    parts = []
    for branch in disjuncts(predicate):
        own = [p for term in conjuncts(branch) for p in _part(term, columns)]
        if not own:
            return []
        parts.append(conjunction(own))
    return [simplify(disjunction(parts))]


def _part(term: Expr, columns: frozenset[Column]) -> list[Expr]:
    used = columns_of(term)
    if used and used <= columns:
        return [term] if is_total(term) else []
    return _implied(term, columns)


def _common_keys(node: Aggregate) -> frozenset[Column]:
    """Keys that every grouping set groups by: a filter on them drops whole groups."""
    keys = frozenset(node.keys)
    return keys.intersection(*node.grouping_sets) if node.grouping_sets is not None else keys


def _common_partition(node: Window) -> frozenset[Column]:
    """Columns that every window call partitions by: a filter on them drops whole partitions."""
    first, *rest = (frozenset(e for e in call.partition_by if isinstance(e, Column)) for call in node.calls)
    return first.intersection(*rest)


def _rejoined(node: Join, left: Relation, right: Relation, on: Predicates) -> Join:
    if left is node.left and right is node.right and on == node.on:
        return node
    return replace(node, left=left, right=right, on=on)
