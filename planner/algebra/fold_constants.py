"""Simplify expressions: logic over constants, repeated terms, common parts of the branches of an OR.

All identities hold in SQL's three-valued logic; where a Filter takes NULL for false, `simplify_all` does too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import date
from decimal import Decimal

from qoop.planner.algebra.expr import (
    COMPARISONS,
    FALSE,
    TRUE,
    Call,
    Column,
    Expr,
    Literal,
    conjunction,
    conjuncts,
    disjunction,
    disjuncts,
    equals,
)
from qoop.planner.algebra.factor import split_common, without_absorbed
from qoop.planner.algebra.properties import is_constant, is_total
from qoop.planner.algebra.relation import Aggregate, Filter, Join, Project, Relation
from qoop.planner.algebra.traversal import bottom_up, unique


def fold_constants(relation: Relation) -> Relation:
    """Simplify every expression of the relation.

    >>> from qoop.planner.algebra.outline import outline
    >>> from qoop.planner.algebra.relation import Scan
    >>> a, b, c = (Column(name, "BOOLEAN") for name in "abc")
    >>> t = Scan("t", "v", (("a", a), ("b", b), ("c", c)))
    >>> common = disjunction((conjunction((a, b)), conjunction((c, a)), FALSE))
    >>> outline(fold_constants(Filter(t, (common, TRUE))))
    'filter[a, (b OR c)](t[a, b, c])'
    """
    return bottom_up(relation, _fold_operator)


def _fold_operator(node: Relation) -> Relation:
    match node:
        case Filter():
            predicates = simplify_all(node.predicates)
            if not predicates:
                return node.input
            return node if predicates == node.predicates else Filter(node.input, predicates)
        case Join():
            return _fold_join(node)
        case Project():
            exprs = tuple((column, _same_type(expr)) for column, expr in node.exprs)
            return node if _same(exprs, node.exprs) else Project(node.input, exprs)
        case Aggregate():
            return _fold_aggregate(node)
    return node


def _fold_join(join: Join) -> Join:
    kept = join.on[:1] if join.kind == "mark" else ()  # x = y is the meaning of the mark, not a filter
    on = (*kept, *simplify_all(join.on[len(kept) :]))
    return join if on == join.on else replace(join, on=on)


def _fold_aggregate(node: Aggregate) -> Aggregate:
    aggregations = tuple(
        agg if agg.filter is None or (new := simplify(agg.filter)) is agg.filter else replace(agg, filter=new)
        for agg in node.aggregations
    )
    return node if _same(aggregations, node.aggregations) else replace(node, aggregations=aggregations)


def _same(new: tuple[object, ...], old: tuple[object, ...]) -> bool:
    return all(a is b or (isinstance(a, tuple) and a[1] is b[1]) for a, b in zip(new, old, strict=True))  # type: ignore[index]


def _same_type(expr: Expr) -> Expr:
    new = simplify(expr)
    return new if new.type == expr.type else expr


def simplify_all(predicates: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Simplify a conjunction that keeps only rows for which it is true; (FALSE,) if there are none."""
    parts = unique(map(simplify, predicates))
    if any(is_constant(part, False) or is_constant(part, None) for part in parts):
        return (FALSE,)
    return tuple(part for part in parts if not is_constant(part, True))


def simplify(expr: Expr) -> Expr:
    """Return an expression of the same value on every row; the same object where nothing is simpler.

    >>> a = Column("a", "INTEGER")
    >>> one, two = Literal("1", "INTEGER", 1), Literal("2", "INTEGER", 2)
    >>> str(simplify(disjunction((equals(a, one), equals(a, two), equals(one, two)))))
    '(a IN (1, 2))'
    """
    if not isinstance(expr, Call):
        return expr
    if expr.op == "and":  # the whole chain at once: its parts are not simplified again for each link
        return _and(expr, unique(map(simplify, conjuncts(expr))))
    if expr.op == "or":
        return _or(expr, tuple(part for one in disjuncts(expr) for part in disjuncts(simplify(one))))
    args = tuple(map(simplify, expr.args))
    if not all(new is old for new, old in zip(args, expr.args, strict=True)):
        expr = Call(expr.op, args, expr.template, expr.type)
    if expr.op == "not":
        return _not(expr)
    if expr.op in COMPARISONS:
        return _compare(expr)
    if expr.op == "in":
        return _in(expr)
    if expr.op == "is_null" and isinstance(args[0], Literal):
        return _boolean(is_constant(args[0], None)) if _known(args[0]) or is_constant(args[0], None) else expr
    return expr


def _and(expr: Call, parts: tuple[Expr, ...]) -> Expr:
    if any(is_constant(part, False) for part in parts):
        return FALSE
    return _rebuilt(expr, tuple(part for part in parts if not is_constant(part, True)), conjunction)


def _or(expr: Call, branches: tuple[Expr, ...]) -> Expr:
    if any(is_constant(branch, True) for branch in branches):
        return TRUE
    common, rest = split_common(without_absorbed(tuple(b for b in branches if not is_constant(b, False))))
    if not common:
        return _rebuilt(expr, _gather_in(rest), disjunction)
    return conjunction((*common, simplify(disjunction(rest))) if rest else common)


def _rebuilt(expr: Call, parts: tuple[Expr, ...], build: Callable[[Iterable[Expr]], Expr]) -> Expr:
    if parts == expr.args:
        return expr
    return build(parts)


def _gather_in(branches: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """``x = 1 or x in (2, 3)`` is ``x in (1, 2, 3)``, at the place of the first of them."""
    values: dict[Expr, dict[Expr, None]] = {}
    members = [_membership(branch) for branch in branches]
    for member in members:
        if member is not None:
            values.setdefault(member[0], {}).update(dict.fromkeys(member[1]))
    if len(values) == sum(member is not None for member in members):
        return branches
    out: list[Expr] = []
    for branch, member in zip(branches, members, strict=True):
        if member is None:
            out.append(branch)
        elif (found := values.pop(member[0], None)) is not None:
            out.append(_membership_call(member[0], tuple(found)))
    return tuple(out)


def _membership(expr: Expr) -> tuple[Expr, tuple[Expr, ...]] | None:
    """The column and constants of ``x = 1`` or ``x in (1, 2)``, all of x's kind, else None."""
    if not isinstance(expr, Call) or expr.op not in ("=", "in") or not isinstance(expr.args[0], Column):
        return None
    column, *constants = expr.args
    fits = all(isinstance(c, Literal) and c.value is not None and _kind(c) == _kind(column) for c in constants)
    return (column, tuple(constants)) if fits and "COLLATE" not in expr.template else None


def _membership_call(column: Expr, values: tuple[Expr, ...]) -> Expr:
    if len(values) == 1:
        return equals(column, values[0])
    slots = ", ".join("{" + str(i + 1) + "}" for i in range(len(values)))
    return Call("in", (column, *values), "({0} IN (" + slots + "))", "BOOLEAN")


def _kind(expr: Expr) -> str:
    return "INTEGER" if expr.type in ("TINYINT", "SMALLINT", "BIGINT", "HUGEINT") else expr.type


def _not(expr: Call) -> Expr:
    inner = expr.args[0]
    if is_constant(inner, True) or is_constant(inner, False):
        return _boolean(is_constant(inner, False))
    if isinstance(inner, Call) and inner.op == "not" and inner.args[0].type == "BOOLEAN":
        return inner.args[0]
    return expr


def _compare(expr: Call) -> Expr:
    left, right = expr.args
    if not (isinstance(left, Literal) and isinstance(right, Literal)):
        return expr
    if is_constant(left, None) or is_constant(right, None):
        return _NULL
    if not (_known(left) and _known(right) and _kind(left) == _kind(right)):
        return expr
    a, b = left.value, right.value
    if expr.op in ("=", "<>"):
        same = _same_value(a, b)
        return expr if same is None else _boolean(same == (expr.op == "="))
    if not isinstance(a, int | date | Decimal):  # text orders by bytes in DuckDB, floats have NaN
        return expr
    less, greater = a < b, a > b  # type: ignore[operator]
    return _boolean({"<": less, ">": greater, "<=": not greater, ">=": not less}[expr.op])


def _in(expr: Call) -> Expr:
    x, *values = expr.args
    if len(values) == 1 and "COLLATE" not in expr.template:
        return simplify(equals(x, values[0])) if is_total(x) and x.type == values[0].type else expr
    if not _known(x) or not all(_known(v) and _kind(v) == _kind(x) for v in values):
        return expr
    same = [_same_value(getattr(v, "value", None), getattr(x, "value", None)) for v in values]
    if any(same):
        return TRUE
    return expr if None in same else FALSE


def _same_value(a: object, b: object) -> bool | None:
    """Equality as DuckDB sees it under any collation; None where that decides."""
    if isinstance(a, str) and isinstance(b, str) and a != b:
        return False if a.isascii() and b.isascii() and a.lower() != b.lower() else None
    return a == b


def _known(expr: Expr) -> bool:
    """True for a literal whose Python value compares as DuckDB compares it."""
    return isinstance(expr, Literal) and isinstance(expr.value, int | str | date | Decimal)


def _boolean(value: bool) -> Literal:
    return TRUE if value else FALSE


_NULL = Literal("CAST(NULL AS BOOLEAN)", "BOOLEAN", None)
