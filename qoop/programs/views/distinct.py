"""DISTINCT rows as groups, which parts of a table have as they have sums. Pure.

::

    SELECT DISTINCT a, b + 1 AS c FROM t ORDER BY c
    SELECT a, c FROM (SELECT a AS a, b + 1 AS c, count(*) AS qoop_count FROM t GROUP BY 1, 2) AS qoop_groups ORDER BY c

The same for GROUP BY without sums.
"""

from __future__ import annotations

from sqlglot import exp

from qoop.programs.approximate.names import has_aggregates

_COUNT, _GROUPS = "qoop_count", "qoop_groups"


def without_distinct(query: exp.Expression) -> exp.Expression:
    """The query with groups in place of DISTINCT rows, where these have names.

    >>> from sqlglot import parse_one
    >>> without_distinct(parse_one("SELECT DISTINCT a FROM t LIMIT 2", read="duckdb")).sql("duckdb")
    'SELECT "a" FROM (SELECT a AS "a", COUNT(*) AS qoop_count FROM t GROUP BY 1) AS qoop_groups LIMIT 2'
    """
    query = query.copy()
    for select in [node for node in query.find_all(exp.Select) if _is_of_groups(node)]:
        outer = _grouped(select)
        if select is query:
            query = outer
        else:
            select.replace(outer)
    return query


def _is_of_groups(select: exp.Select) -> bool:
    """True for a SELECT whose rows are distinct, and have no sums."""
    distinct, group = select.args.get("distinct"), select.args.get("group")
    if distinct is None and group is None:
        return False
    if (distinct is not None and distinct.args.get("on") is not None) or select.args.get("qualify") is not None:
        return False
    clauses = [] if group is None else [key for key, one in group.args.items() if one]
    if clauses and (distinct is not None or clauses != ["expressions"]):
        return False
    if select.args.get("having") is not None or any(map(has_aggregates, select.expressions)):
        return False
    names = [_name(item) for item in select.expressions]
    return len({name.lower() for name in names}) == len(names) and "" not in names


def _name(item: exp.Expression) -> str:
    """The name of a column; empty: it has none, or what it is differs from row to row."""
    if item.is_star or item.find(exp.Window, exp.Unnest, exp.Explode) is not None:
        return ""
    return str(item.alias_or_name) if isinstance(item, exp.Alias | exp.Column) else ""


def _grouped(select: exp.Select) -> exp.Select:
    inner = select.copy()
    names = [_name(item) for item in select.expressions]
    items = [item.unalias().copy() for item in select.expressions]
    keys = select.args["group"].expressions if select.args.get("group") is not None else None
    outer = exp.select(*(exp.column(name, quoted=True) for name in names))
    for clause in ("with_", "order", "limit", "offset"):
        if inner.args.get(clause) is not None:
            outer.set(clause, inner.args[clause].pop())
    inner.set("distinct", None)
    named = [exp.alias_(item, name, quoted=True) for item, name in zip(items, names, strict=True)]
    inner.set("expressions", [*named, exp.alias_(exp.Count(this=exp.Star()), _COUNT)])
    if keys is None:
        inner.set("group", exp.Group(expressions=[exp.Literal.number(place + 1) for place in range(len(items))]))
    return outer.from_(inner.subquery(_GROUPS))
