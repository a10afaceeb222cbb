"""Expressions that are equal to each other, as equalities chain them together."""

from __future__ import annotations

from qoop.planner.algebra.expr import Expr

_EXACT = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "DECIMAL")


class EqualExprs:
    """Union-find over expressions; equality is carried on only between types that compare alike."""

    def __init__(self) -> None:
        self._of: dict[Expr, list[Expr]] = {}
        self._apart: list[list[Expr]] = []

    def add(self, left: Expr, right: Expr) -> None:
        """Take note that two expressions are equal."""
        if _comparison_type(left) != _comparison_type(right):
            self._apart.append([left, right])
            return
        a, b = self._of.setdefault(left, [left]), self._of.setdefault(right, [right])
        if a is not b:
            a.extend(b)
            for expr in b:
                self._of[expr] = a

    def groups(self) -> list[list[Expr]]:
        """The expressions that equalities chain together, in the order in which they came."""
        unique = {id(members): members for members in self._of.values()}
        return [*unique.values(), *self._apart]


def _comparison_type(expr: Expr) -> str:
    """Types with the same answer here compare by value without rounding, so that equality is transitive."""
    return "exact" if expr.type.startswith(_EXACT) else expr.type
