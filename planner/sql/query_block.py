"""A query block while it is built, and what its ORDER BY sorts by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from qoop.planner.algebra.expr import Column, Expr, Literal
from qoop.planner.algebra.relation import Relation
from qoop.planner.sql.convert import Env
from qoop.planner.sql.latest import Latest
from qoop.planner.sql.running import Running
from qoop.planner.sql.scope import Unsupported


@dataclass
class QueryBlock:
    """A query block before its select list is projected.

    relation, exprs, names: the select list `exprs`, called `names`, over the rows of `relation`.
    correlated: predicates between the block's columns and outer ones that are still to be applied.
    single: the block has exactly one row (for each value of the correlated columns).
    grouped: it aggregates. of_nothing: what its columns are where no row is found, if that is not NULL.
    distinct: of its rows that are equal only one is meant, for each value of the correlated columns.
    running: the aggregates are still to be computed, over the rows up to an outer value.
    latest: only the first of the rows up to an outer value is meant.
    """

    relation: Relation
    exprs: tuple[Expr, ...]
    names: tuple[str, ...]
    correlated: tuple[Expr, ...] = ()
    single: bool = False
    grouped: bool = False
    of_nothing: Mapping[Column, Literal] = field(default_factory=dict)
    distinct: bool = False
    running: Running | None = None
    latest: Latest | None = None


def order_items(node: exp.Expression, width: int) -> list[exp.Ordered]:
    """The items of ORDER BY; of ORDER BY ALL one for each of the `width` outputs."""
    order = node.args.get("order")
    items: list[exp.Ordered] = list(order.expressions) if order is not None else []
    if len(items) == 1 and _is_all(items[0].this):
        return [_at(items[0], place) for place in range(1, width + 1)]
    return items


def _is_all(node: exp.Expression) -> bool:
    return isinstance(node, exp.Var) and node.name.upper() == "ALL"


def _at(item: exp.Ordered, place: int) -> exp.Ordered:
    own = item.copy()
    own.set("this", exp.Literal.number(place))
    return own


def order_exprs(node: exp.Expression, width: int, places: Mapping[str, int], env: Env) -> list[Expr | int]:
    """The ORDER BY items over the block's own columns; its place in the select list, of that `width`, where an item
    names an output column, by number or by name (`places`, lower-case)."""
    return [resolved(item.this, places, env) for item in order_items(node, width)]


def resolved(item: exp.Expression, places: Mapping[str, int], env: Env) -> Expr | int:
    """The expression that an item of ORDER BY or DISTINCT ON means, or its place in the select list."""
    key = without_parentheses(item)
    position = ordinal(key)
    if position is not None:
        return position - 1
    if isinstance(key, exp.Column) and not key.table:
        if key.name.lower() in places:
            return places[key.name.lower()]
        if key.name.upper() == "ALL":
            raise Unsupported("ORDER BY ALL")
    return env.convert(key)


def ordinal(node: exp.Expression) -> int | None:
    """The number of a column in the select list, from 1, where ORDER BY or GROUP BY names one; else None."""
    node = without_parentheses(node)
    return int(node.this) if isinstance(node, exp.Literal) and not node.is_string and node.this.isdigit() else None


def without_parentheses(node: exp.Expression) -> exp.Expression:
    """The expression inside of the parentheses around it, of which DuckDB's own tree has none."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node
