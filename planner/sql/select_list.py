"""The select list of a block: its items with stars spelt out, and the names by which other clauses may mean them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from qoop.catalog.value import value
from qoop.planner.algebra.expr import Column
from qoop.planner.sql.query_block import without_parentheses
from qoop.planner.sql.scope import Scope
from qoop.planner.sql.stars import columns_in, expanded, has_columns, is_star, output_name, star


@value
class SelectItem:
    """One output column of a block.

    node: its expression, or the column that a star stands for.
    name: of the output. named: other clauses may use the name for the expression. To DuckDB an alias is a name after
    AS, and the name of a column that the text writes in another case; never the name of an
    expression without AS: ``SELECT i::VARCHAR … ORDER BY i`` sorts by the column.
    """

    node: exp.Expression | Column
    name: str
    named: bool = False


def select_items(node: exp.Select, scope: Scope) -> list[SelectItem]:
    """The items of a SELECT, whose FROM items are in the scope."""
    items: list[SelectItem] = []
    for item in node.expressions:
        if is_star(item):
            items.extend(SelectItem(match.node, match.name, match.named) for match in star(item, scope))
        elif has_columns(item):
            items.extend(_of_columns(item, scope))
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
    return all(_has_own_name(without_parentheses(item)) for item in query.expressions)


def _has_own_name(item: exp.Expression) -> bool:
    if isinstance(item, exp.Column | exp.Alias) or is_star(item):
        return True
    return has_columns(item) and not columns_in(item).args.get("unpack")


def _of_columns(item: exp.Expression, scope: Scope) -> list[SelectItem]:
    """An item for each column that an item with COLUMNS stands for, called as the column unless AS says otherwise."""
    node = item.this if isinstance(item, exp.Alias) else item
    made = expanded(node, scope)
    if not isinstance(item, exp.Alias) and columns_in(node).args.get("unpack"):
        return [SelectItem(expr, expr.sql(dialect="duckdb")) for _, expr in made]
    call = columns_in(node)
    return [
        SelectItem(
            expr, output_name(item.alias, call, match) if isinstance(item, exp.Alias) else match.name, named=True
        )
        for match, expr in made
    ]


def _unnamed(node: exp.Expression, scope: Scope) -> SelectItem:
    if not isinstance(node, exp.Column):
        return SelectItem(node, node.sql(dialect="duckdb"))
    name = scope.own_name(node.name.lower(), node.table.lower() or None) or node.name
    return SelectItem(node, name, named=name != node.name)
