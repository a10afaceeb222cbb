"""A derived table that reads columns of the items before it, as a join.

The predicates that correlate the two are the condition of the join: a row of the left meets the rows of the derived
table that it would have seen. An aggregate without GROUP BY has a row for each of the left: that is a left join.
"""

from __future__ import annotations

from collections.abc import Sequence

from qoop.planner.algebra.expr import Call, Column, Expr, columns_of_all, is_volatile, substitute
from qoop.planner.algebra.relation import Join, JoinKind, Project, Relation
from qoop.planner.identity.determinism import is_non_deterministic
from qoop.planner.sql.query_block import QueryBlock
from qoop.planner.sql.scope import Unsupported


def joined_laterally(left: Relation, block: QueryBlock, columns: Sequence[Column], kind: JoinKind) -> Relation:
    """The rows of `left` with those of the block, whose select list becomes these columns. kind: inner or left.

    Raises Unsupported where that is no join.
    """
    if block.distinct:
        raise Unsupported("DISTINCT in a correlated LATERAL")
    known = frozenset(left.columns) | frozenset(block.relation.columns)
    if columns_of_all((*block.correlated, *block.exprs)) - known:
        raise Unsupported("LATERAL that reads columns of farther away")
    if any(map(is_volatile, block.exprs)) or is_non_deterministic(block.relation):
        raise Unsupported("LATERAL over rows that are others each time")
    on = tuple(block.correlated)
    kept = tuple((column, column) for column in left.columns)
    if block.single and on:
        exprs = [_filled(expr, block) for expr in block.exprs]
        return Project(Join(left, block.relation, "left", on), (*kept, *zip(columns, exprs, strict=True)))
    if kind == "inner" or (block.single and not on):
        return Project(Join(left, block.relation, "inner", on), (*kept, *zip(columns, block.exprs, strict=True)))
    if columns_of_all(block.exprs) - frozenset(block.relation.columns):
        raise Unsupported("LEFT JOIN LATERAL that computes with columns of the left")
    own = tuple((column, column) for column in block.relation.columns)
    computed = Project(block.relation, (*own, *zip(columns, block.exprs, strict=True)))
    joined = Join(left, computed, "left", on)
    return Project(joined, (*kept, *((column, column) for column in columns)))


def _filled(expr: Expr, block: QueryBlock) -> Expr:
    """The expression where no row was found: counts are 0 then."""
    return substitute(expr, {
        column: Call("coalesce", (column, value), "coalesce({0}, {1})", column.type)
        for column, value in block.of_nothing.items()
    })  # fmt: skip
