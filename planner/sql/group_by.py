"""GROUP BY: its keys, and the grouping sets that its items spell out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations, product

from sqlglot import exp

from qoop.planner.algebra.expr import Call, Column, Expr, Literal, transform
from qoop.planner.sql.scope import Names


@dataclass
class GroupKeys:
    """GROUP BY while it is built: key expression -> its column, and the grouping sets.

    correlated: what remains of correlated predicates, between key columns and outer ones.
    """

    columns: dict[Expr, Column] = field(default_factory=dict)
    sets: list[tuple[Column, ...]] | None = None
    correlated: list[Expr] = field(default_factory=list)

    def add(self, expr: Expr, names: Names) -> Column:
        if expr not in self.columns:
            self.columns[expr] = expr if isinstance(expr, Column) else names.fresh("key", expr.type)
        return self.columns[expr]

    def after(self, expr: Expr) -> Expr:
        """The expression above the Aggregate: key expressions became columns."""
        computed = {e: c for e, c in self.columns.items() if e != c and not isinstance(e, Literal)}
        if not computed:
            return expr
        return transform(expr, lambda node: computed.get(node) if isinstance(node, Call) else None)


def grouping_sets(group: exp.Group, key: Callable[[exp.Expression], Column]) -> list[tuple[Column, ...]]:
    """Spell GROUP BY out as the list of its grouping sets (SQL:1999, cross product of the items)."""
    factors: list[list[tuple[Column, ...]]] = []
    items = [
        *group.expressions,
        *(group.args.get("rollup") or ()),
        *(group.args.get("cube") or ()),
        *(group.args.get("grouping_sets") or ()),
    ]
    for item in items:
        factors.append(_factor(item, key))
    return [tuple(dict.fromkeys(c for part in choice for c in part)) for choice in product(*factors)]


def _factor(item: exp.Expression, key: Callable[[exp.Expression], Column]) -> list[tuple[Column, ...]]:
    def part(node: exp.Expression) -> tuple[Column, ...]:
        if isinstance(node, exp.Tuple):
            return tuple(key(child) for child in node.expressions)
        return (key(node.this if isinstance(node, exp.Paren) else node),)

    if isinstance(item, exp.Rollup):
        parts = [part(node) for node in item.expressions]
        return [sum(parts[:i], ()) for i in range(len(parts), -1, -1)]
    if isinstance(item, exp.Cube):
        parts = [part(node) for node in item.expressions]
        choices = [c for n in range(len(parts), -1, -1) for c in combinations(parts, n)]
        return [sum(choice, ()) for choice in choices]
    if isinstance(item, exp.GroupingSets):
        return [s for node in item.expressions for s in (
            _factor(node, key) if isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets) else [part(node)]
        )]  # fmt: skip
    return [part(item)]
