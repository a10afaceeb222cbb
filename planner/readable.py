"""The operators of a stage in words that its user knows: filters, join conditions, groups, order.

The SQL of a stage names columns of other stages by their meaning (``i_category_c7a5f20f3d``); the output has the names
alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp

_DIGEST = re.compile(r"_[0-9a-f]{10}\b")
_TRANSFERRED = re.compile(r'"([^":]+):transferred_\d+"')
_MOST = 160
"""Characters of one operator that are worth showing."""


def readable_name(name: str) -> str:
    """A column's name without the digest of what it means.

    >>> readable_name("i_category_c7a5f20f3d"), readable_name("i_category")
    ('i_category', 'i_category')
    """
    return _DIGEST.sub("", name)


def operators(sql: str) -> tuple[str, ...]:
    """The operators of a stage's SQL, the last one first; of one that is not ours (a whole query of DuckDB's) none.

    >>> for line in operators("SELECT a FROM (SELECT a, b FROM t WHERE (b > 5)) JOIN (SELECT k_0123456789 FROM s1) "
    ...                       "ON (a = k_0123456789) GROUP BY a ORDER BY a DESC NULLS LAST LIMIT 3"):
    ...     print(line)
    order: a DESC, the first 3
    group by: a
    join: a = k
    filter: b > 5
    """
    from sqlglot import exp, parse_one  # only EXPLAIN ANALYZE needs it

    tree = parse_one(sql, dialect="duckdb")
    return tuple(dict.fromkeys(line for select in tree.find_all(exp.Select, bfs=True) for line in _of(select)))


def _of(select: exp.Select) -> Iterator[str]:
    order, limit = select.args.get("order"), select.args.get("limit")
    if order is not None or limit is not None:
        keys = ", ".join(_key(item) for item in order.expressions) if order is not None else "any"
        first = f", the first {_text(limit.expression)}" if limit is not None else ""
        yield _short(f"order: {keys}{first}")
    if (group := select.args.get("group")) is not None:
        keys = ", ".join(map(_text, group.expressions)) or _text(group).removeprefix("GROUP BY ")
        yield _short(f"group by: {keys}")
    for join in select.args.get("joins") or ():
        kind = " ".join(filter(None, (join.side, join.kind))).lower()
        on = _conjuncts(join.args.get("on"))
        yield _short(f"{kind} join: {on}".strip() if on else f"{kind or 'cross'} join")
    if (where := select.args.get("where")) is not None:
        yield _short(f"filter: {_conjuncts(where.this)}")


def _conjuncts(condition: exp.Expr | None) -> str:
    """A condition without superfluous parentheses."""
    if condition is None:
        return ""
    parts = list(condition.flatten()) if condition.key == "and" else [condition]
    return " and ".join(_text(part.unnest()) for part in parts)


def _key(item: exp.Expr) -> str:
    return _text(item).replace(" NULLS LAST", "").removesuffix(" ASC")


def _text(node: exp.Expr) -> str:
    """The SQL of an expression as its user would write it."""
    made = node.copy().transform(_plain)
    return readable_name(_TRANSFERRED.sub(r"\1", str(made.sql(dialect="duckdb"))))


def _plain(node: exp.Expr) -> exp.Expr:
    """``greatest(x)`` is x: it keeps DuckDB from looking through a column."""
    return node.this if node.key == "greatest" and not node.expressions else node


def _short(line: str) -> str:
    return line if len(line) <= _MOST else line[: _MOST - 2] + " …"
