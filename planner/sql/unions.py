"""Values of a UNION run whole: a checkpoint loses which member a NULL is of, and so where it belongs in an order.

Arrow's reader in DuckDB makes a NULL of the whole value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp

from qoop.planner.sql.bind import Bound

_TYPE = re.compile(r"\bUNION\(")
_MADE = re.compile(r"\bunion_value\b|\bunion\s*\(", re.IGNORECASE)


def has_unions(bound: Bound) -> bool:
    """True if the query reads or makes values of a UNION."""
    assert bound.ast is not None
    names = frozenset(_tables_and_columns(bound))
    made = _MADE.search(bound.text) is not None
    return (bool(names) or made) and any(_is_of_union(node, names) for node in bound.ast.walk())


def _tables_and_columns(bound: Bound) -> Iterator[str]:
    """The names, in lower case, of columns that are a UNION or have one inside, and of their tables."""
    for table, (_, columns) in bound.tables.items():
        found = [name.lower() for name, type_ in columns if _TYPE.search(type_)]
        yield from (*found, table.lower()) if found else ()


def _is_of_union(node: exp.Expr, names: frozenset[str]) -> bool:
    match node:
        case exp.DataType():
            return bool(node.this == exp.DataType.Type.UNION)
        case exp.Anonymous():
            return node.name.lower() == "union_value"
        case exp.Star() | exp.Columns():
            return bool(names) and not isinstance(node.parent, exp.Count)
        case exp.Column():
            return node.name.lower() in names
    return False
