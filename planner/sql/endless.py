"""Rows that a query reads in part: LIMIT and EXISTS stop what makes them, which may have no end.

DuckDB makes the rows of a recursion or of ``range(1e11)`` as they are read. A stage puts out all of its rows before the
next one begins, so such a fragment belongs into the stage that stops it.
"""

from __future__ import annotations

from qoop.planner.algebra.relation import Aggregate, Limit, Opaque, Relation, SetOp, Sort, Window
from qoop.planner.sql.scope import Unsupported

MOST_ROWS = 1_000_000
"""Rows that a fragment may put out though only a part of them is read."""


def refuse_endless(relation: Relation, reader: str) -> None:
    """Raise Unsupported if a fragment that may make rows without end is read row by row. reader: stops to read."""
    left = [relation]
    while left:
        node = left.pop()
        if isinstance(node, Opaque) and (node.rows is None or node.rows > MOST_ROWS):
            raise Unsupported(f"{reader} of {node.reason}, which may make more rows than are read")
        if not isinstance(node, Aggregate | Sort | Window | Limit) and not (isinstance(node, SetOp) and not node.all):
            left += node.inputs
