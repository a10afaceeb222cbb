"""Take the common parts of all branches out of an OR.

AND and OR form a distributive lattice in SQL's three-valued logic, so ``(a and x) or (a and y)`` is
``a and (x or y)`` on every row. That is what finds the join keys of ``(a.k = b.k and …) or (a.k = b.k and …)``.
"""

from __future__ import annotations

from qoop.planner.algebra.expr import Call, Expr, conjunction, conjuncts, disjunction, disjuncts
from qoop.planner.algebra.traversal import unique


def factor_common(expr: Expr) -> Expr:
    """Factor every OR of the expression that stands under nothing but AND and OR.

    >>> from qoop.planner.algebra.expr import Column
    >>> a, b, c = (Column(name, "BOOLEAN") for name in "abc")
    >>> str(factor_common(disjunction((conjunction((a, b)), conjunction((c, a))))))
    '(a AND (b OR c))'
    """
    if not isinstance(expr, Call) or expr.op not in ("and", "or"):
        return expr
    split, build = (conjuncts, conjunction) if expr.op == "and" else (disjuncts, disjunction)
    links = split(expr)
    parts = tuple(map(factor_common, links))
    if parts != links:
        expr = build(parts)
    if not isinstance(expr, Call) or expr.op != "or":
        return expr
    common, rest = split_common(without_absorbed(disjuncts(expr)))
    if not common:
        return expr
    return conjunction((*common, factor_common(disjunction(rest))) if rest else common)


def without_absorbed(branches: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Drop repeated branches, and ``a and b`` next to ``a``: they add nothing to an OR."""
    distinct = tuple(dict.fromkeys(branches))
    sets = [frozenset(conjuncts(branch)) for branch in distinct]
    least = min(map(len, sets), default=0)  # usually all are of one size: then none are compared
    return tuple(
        branch
        for branch, mine in zip(distinct, sets, strict=True)
        if len(mine) == least or not any(other < mine for other in sets)
    )


def split_common(branches: tuple[Expr, ...]) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """Split an OR into the conjuncts that all branches share and an OR of the rest; () if the rest is true."""
    if len(branches) < 2:
        return (), branches
    parts = [unique((branch,)) for branch in branches]
    common = tuple(part for part in parts[0] if all(part in other for other in parts[1:]))
    if not common:
        return (), branches
    rest = [tuple(part for part in other if part not in common) for other in parts]
    return common, tuple(map(conjunction, rest)) if all(rest) else ()
