"""``SELECT DISTINCT ON (…) … ORDER BY …``: the first row of each group.

It is the row that has the number 1 in its group. Where the order leaves a choice, the numbers vary, and so the block is
non-deterministic (law 12), as any with ``row_number()`` is; where nothing but the keys is asked for, it is a GROUP BY.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from qoop.catalog.value import value
from qoop.planner.algebra.expr import Call, Column, Expr, Literal, binary
from qoop.planner.algebra.relation import Aggregate, Filter, Project, SortKey, Window, WindowCall
from qoop.planner.sql.query_block import QueryBlock
from qoop.planner.sql.scope import Names, Unsupported

_ONE = Literal("1", "INTEGER", 1)


@value
class Kept:
    """The block of the rows that are kept, and the expressions over it that they are sorted by."""

    block: QueryBlock
    order: tuple[Expr, ...]


def first_of_each(block: QueryBlock, on: Sequence[Expr], order: Sequence[SortKey], names: Names) -> Kept:
    """The first row, in this order, for each value of the expressions `on`. Raises Unsupported without an order."""
    if block.correlated:
        raise Unsupported("DISTINCT ON in a correlated subquery")
    sorted_by = tuple(key.expr for key in order)
    if all(expr in on for expr in (*block.exprs, *sorted_by)):
        return _grouped(block, on, sorted_by, names)
    if not order:
        raise Unsupported("DISTINCT ON without an order, which leaves the choice of the rows to DuckDB")
    rank = names.fresh("place", "BIGINT")
    numbered = Window(block.relation, (WindowCall(rank, _row_number(on, order), tuple(on)),))
    return Kept(replace(block, relation=Filter(numbered, (binary("=", rank, _ONE),))), sorted_by)


def _grouped(block: QueryBlock, on: Sequence[Expr], order: Sequence[Expr], names: Names) -> Kept:
    keys: dict[Expr, Column] = {expr: names.fresh("distinct_key", expr.type) for expr in on}
    rows = Project(block.relation, tuple((column, expr) for expr, column in keys.items()))
    groups = Aggregate(rows, tuple(keys.values()), ())
    kept = replace(block, relation=groups, exprs=tuple(keys[expr] for expr in block.exprs))
    return Kept(kept, tuple(keys[expr] for expr in order))


def _row_number(on: Sequence[Expr], order: Sequence[SortKey]) -> Call:
    slots = ", ".join(f"{{{place}}}" for place in range(len(on)))
    sorted_by = ", ".join(f"{{{len(on) + place}}} {_direction(key)}" for place, key in enumerate(order))
    template = f"row_number() OVER (PARTITION BY {slots} ORDER BY {sorted_by})"
    return Call("row_number", (*on, *(key.expr for key in order)), template, "BIGINT")


def _direction(key: SortKey) -> str:
    return f"{'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"
