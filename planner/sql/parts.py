"""The parts of sqlglot's nodes that the planner takes over where it builds a query of them.

A node is rebuilt from the parts that are read here and there; one that none of the readers knows would be lost, and the
answer be another. So :func:`check_parts` refuses each block that has another part, and DuckDB runs it as it is written.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from qoop.planner.algebra.types import aggregate_macros, aggregate_names
from qoop.planner.sql.scope import refuse


def _parts(**names: str) -> Mapping[type[exp.Expr], frozenset[str]]:
    return {getattr(exp, node): frozenset(parts.split()) for node, parts in names.items()}


_SET_OPERATION = "this expression distinct by_name with_ order limit offset"

CLAUSES = _parts(
    With="expressions recursive",
    CTE="this alias materialized key_expressions",
    TableAlias="this columns",
    Select="with_ hint distinct expressions from_ joins where group having qualify order limit offset sample",
    Union=_SET_OPERATION,
    Except=_SET_OPERATION,
    Intersect=_SET_OPERATION,
    Subquery="this alias with_ joins pivots sample",
    Values="expressions alias pivots",
    From="this",
    Join="this on using side kind method",
    Where="this",
    Group="expressions grouping_sets cube rollup all",
    Having="this",
    Qualify="this",
    Distinct="expressions on",
    Order="this expressions",  # of an aggregate, which is printed with it
    Ordered="this desc nulls_first",
    Limit="expression",
    Offset="expression",
    Star="except_ replace rename",
    Columns="this unpack",
    Column="this table db catalog",
)
"""By type of node. A table in FROM is checked where it is met: DuckDB runs most kinds of these as they are written."""

EXPRESSIONS = _parts(
    Column="this table db catalog",
    Literal="this is_string",
    Boolean="this",
    Null="",
    Not="this",
    Neg="this",
    Is="this expression",
    Between="this low high symmetric",
    In="this expressions query unnest field",
    Like="this expression",
    ILike="this expression",
    Case="this ifs default",
    Cast="this to",
    Paren="this",
    Subquery="this alias with_",
    Exists="this",
    Filter="this expression",
    Window="this partition_by order spec over alias first",
)
"""The same of the expressions that are taken apart. Others are printed with all that they have."""


def check_parts(query: exp.Expression) -> None:
    """Raise Unsupported for a block with a part that is lost where it is built, but for the blocks within it."""
    for node in query.walk(prune=lambda inner: inner is not query and isinstance(inner, exp.Query)):
        known = CLAUSES.get(type(node))
        if known is not None:
            refuse(node, known)


def has_aggregate(node: exp.Expression) -> bool:
    """True if the expression computes an aggregate of the same block (functions of windows are none)."""
    if isinstance(node, exp.Query | exp.Subquery):
        return False
    if isinstance(node, exp.Window):
        call = node.this.this if isinstance(node.this, exp.Filter) else node.this
        inside = [*call.iter_expressions(), *(node.args.get("partition_by") or ())]
        return any(map(has_aggregate, inside + ([node.args["order"]] if node.args.get("order") else [])))
    return is_aggregate(node) or any(map(has_aggregate, node.iter_expressions()))


def is_aggregate(node: object) -> bool:
    """True if a node calls an aggregate function."""
    if isinstance(node, exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup):
        return is_aggregate(node.this)
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in aggregate_names() | aggregate_macros()
    return isinstance(node, exp.AggFunc | exp.Grouping) and not isinstance(node, _WINDOW_ONLY)


_WINDOW_ONLY = tuple(
    getattr(exp, name)
    for name in ("RowNumber", "Rank", "DenseRank", "PercentRank", "CumeDist", "Ntile", "Lag", "Lead", "NthValue",
                 "FirstValue", "LastValue")
    if hasattr(exp, name)
)  # fmt: skip
