"""The select list of a block: its items with stars spelt out, and the names by which other clauses may mean them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from qoop.catalog.value import value
from qoop.planner.algebra.expr import Column
from qoop.planner.sql.query_block import without_parentheses
from qoop.planner.sql.scope import Scope, Unsupported


@value
class SelectItem:
    """One output column of a block.

    node: its expression, or the column that a star stands for.
    name: what the output is called. named: other clauses may use the name for the expression. DuckDB takes for an
    alias what AS gives, and the name of a column that the text writes in another case; never the name of an
    expression without AS: ``SELECT i::VARCHAR … ORDER BY i`` sorts by the column.
    """

    node: exp.Expression | Column
    name: str
    named: bool = False


def select_items(node: exp.Select, scope: Scope) -> list[SelectItem]:
    """The items of a SELECT, whose FROM items are in the scope."""
    items: list[SelectItem] = []
    for item in node.expressions:
        if _is_star(item):
            items.extend(_star(item, scope))
        elif isinstance(item, exp.Alias):
            items.append(SelectItem(item.this, item.alias, named=True))
        else:
            items.append(_unnamed(without_parentheses(item), scope))
    return items


def aliases(items: Sequence[SelectItem]) -> dict[str, exp.Expression]:
    """The expressions that a name of the select list may stand for, by lower-case name; the last of equal names."""
    return {item.name.lower(): item.node for item in items if item.named and isinstance(item.node, exp.Expression)}


def places(items: Sequence[SelectItem]) -> dict[str, int]:
    """The place in the select list that a name means in ORDER BY, by lower-case name; the last of equal names."""
    return {item.name.lower(): place for place, item in enumerate(items) if item.named}


def has_own_names(query: exp.Expression) -> bool:
    """True if the text names every output of a query; other names DuckDB makes of the expressions."""
    while not isinstance(query, exp.Select):
        if not isinstance(query, exp.Subquery | exp.SetOperation):
            return isinstance(query, exp.Values)
        query = query.this
    return all(isinstance(without_parentheses(item), exp.Column | exp.Alias | exp.Star) for item in query.expressions)


def _unnamed(node: exp.Expression, scope: Scope) -> SelectItem:
    if not isinstance(node, exp.Column):
        return SelectItem(node, node.sql(dialect="duckdb"))
    name = scope.own_name(node.name.lower(), node.table.lower() or None) or node.name
    return SelectItem(node, name, named=name != node.name)


def _is_star(node: exp.Expression) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def _star(node: exp.Expression, scope: Scope) -> list[SelectItem]:
    star = node if isinstance(node, exp.Star) else node.this
    if star.args.get("replace") or star.args.get("rename"):
        raise Unsupported("REPLACE or RENAME in a star")
    excluded = {item.name.lower() for item in star.args.get("except_") or star.args.get("except") or ()}
    table = node.table.lower() if isinstance(node, exp.Column) else None
    if table is None and scope.merged:
        raise Unsupported("a star over USING")
    found = [
        SelectItem(column, name)
        for source in scope.sources
        if table is None or source.alias.lower() == table
        for name, column in source.columns
        if name.lower() not in excluded
    ]
    if not found:
        raise Unsupported("a star over nothing")
    return found
