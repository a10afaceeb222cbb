"""Walking and rebuilding relations, for all rules.

Rules keep identity: unchanged parts remain the same objects. So a pass without a change costs no allocation, and a
subplan read twice (`Shared`) stays one object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from qoop.planner.algebra.expr import FALSE, Column, Expr, conjuncts
from qoop.planner.algebra.relation import Filter, Project, Relation, Shared, with_inputs

Visit = Callable[[Relation], Relation]


def bottom_up(relation: Relation, visit: Visit) -> Relation:
    """Rebuild the tree from the leaves; `visit` gets every operator with its inputs already rebuilt."""
    done: dict[int, Relation] = {}

    def rebuild(node: Relation) -> Relation:
        known = done.get(id(node))
        if known is None:
            inputs = tuple(map(rebuild, node.inputs))
            known = done[id(node)] = visit(with_inputs(node, inputs) if inputs else node)
        return known

    return rebuild(relation)


def shared_subplans(relation: Relation) -> dict[str, Shared]:
    """Return the shared subplans by name, every reader of a subplan before the subplan itself."""
    found: dict[str, Shared] = {}  # post-order: a subplan after those it reads
    visited: set[int] = set()

    def visit(node: Relation) -> None:
        if id(node) in visited:
            return
        visited.add(id(node))
        for child in node.inputs:
            visit(child)
        if isinstance(node, Shared):
            found.setdefault(node.name, node)

    visit(relation)
    return dict(reversed(found.items()))


def replace_shared(relation: Relation, bodies: dict[str, Relation]) -> Relation:
    """Give the shared subplans of these names other inputs (which may read further ones of them)."""
    if not bodies:
        return relation
    shared: dict[str, Shared] = {}
    done: dict[int, Relation] = {}

    def rebuild(node: Relation) -> Relation:
        if isinstance(node, Shared) and node.name in bodies:
            if node.name not in shared:
                body = rebuild(bodies[node.name])
                shared[node.name] = node if body is node.input else Shared(node.name, body)
            return shared[node.name]
        if id(node) not in done:
            done[id(node)] = with_inputs(node, tuple(map(rebuild, node.inputs))) if node.inputs else node
        return done[id(node)]

    return rebuild(relation)


def each_block(relation: Relation, walk: Visit) -> Relation:
    """Apply a walk from the root, which stops at Shared, to the relation and to every shared subplan of it."""
    bodies = {name: walk(shared.input) for name, shared in shared_subplans(relation).items()}
    return replace_shared(walk(relation), bodies)


def filtered(relation: Relation, predicates: Iterable[Expr]) -> Relation:
    """`relation` under these predicates, merged into the Filter that it may be already.

    >>> from qoop.planner.algebra.expr import is_null
    >>> from qoop.planner.algebra.relation import Scan
    >>> a = Column("a", "INTEGER")
    >>> t = filtered(Scan("t", "v", (("a", a),)), [is_null(a)])
    >>> filtered(t, [is_null(a)]) is t
    True
    """
    new = tuple(predicates)
    if not new:
        return relation
    if isinstance(relation, Filter):
        merged = _unless_false(unique((*relation.predicates, *new)))
        return relation if merged == relation.predicates else Filter(relation.input, merged)
    return Filter(relation, _unless_false(unique(new)))


def _unless_false(predicates: tuple[Expr, ...]) -> tuple[Expr, ...]:
    return (FALSE,) if FALSE in predicates else predicates


def narrowed(relation: Relation, columns: tuple[Column, ...]) -> Relation:
    """`relation` with exactly these columns in this order."""
    if relation.columns == columns:
        return relation
    if isinstance(relation, Project):
        by_column = dict(relation.exprs)
        return Project(relation.input, tuple((column, by_column[column]) for column in columns))
    return Project(relation, tuple((column, column) for column in columns))


def unique(exprs: Iterable[Expr]) -> tuple[Expr, ...]:
    """Split at AND and drop what repeats (``a = b`` and ``b = a`` are one), keeping the first."""
    found: dict[object, Expr] = {}
    for expr in exprs:
        for part in conjuncts(expr):
            found.setdefault(_key(part), part)
    return tuple(found.values())


def _key(expr: Expr) -> object:
    op, args = getattr(expr, "op", None), getattr(expr, "args", ())
    return ("=", frozenset(args)) if op == "=" else expr
