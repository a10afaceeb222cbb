"""Queries whose answer over some rows of a table estimates their answer over all of them.

Such an answer has the same rows whatever part of the table is read, and its values are averages, extremes, quotients of
sums, and the like. A sum alone over a tenth of the rows is a tenth; an answer with a row for each row read is short.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from sqlglot import exp

from qoop.planner.algebra.types import aggregate_names
from qoop.programs.approximate.eligibility import own_nodes
from qoop.programs.approximate.names import Refused, sources_of

Shape = Literal["apart", "fixed", "groups", "rows"]
"""The rows of an answer: it does not read the table; the same ones for any part of the table; a row for each group of
rows that are read; a row for each row that is read."""

_ORDER: tuple[Shape, ...] = ("apart", "fixed", "groups", "rows")
_SCALED = exp.Sum, exp.Count, exp.CountIf
_SCALE_FREE = (
    exp.Avg, exp.Min, exp.Max, exp.Median, exp.Quantile, exp.ApproxQuantile, exp.PercentileCont, exp.PercentileDisc,
    exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance, exp.VariancePop, exp.Corr, exp.CovarPop, exp.CovarSamp,
    exp.ArgMin, exp.ArgMax, exp.AnyValue, exp.First, exp.Last, exp.Mode, exp.Skewness, exp.Kurtosis, exp.RegrSlope,
    exp.RegrIntercept, exp.RegrR2, exp.LogicalOr, exp.LogicalAnd,
)  # fmt: skip
_MEANS = frozenset(("mean", "favg", "mad"))
"""The same among functions that sqlglot has no class for."""
_PARTS = ("limit", "offset", "distinct", "qualify", "sample", "laterals")


def shape_of(query: exp.Expr, table: str) -> Shape:
    """The rows of a query, as the rows of a table are read in part. table: its name in lower case.

    Raises Refused where values would depend on the part that is read.

    >>> from sqlglot import parse_one
    >>> step = "SELECT f.a - avg(p.x) AS a FROM former f, points p GROUP BY f.a"
    >>> shape_of(parse_one(step, read="duckdb"), "points")
    'fixed'
    >>> shape_of(parse_one("SELECT k, sum(x) / count(*) FROM points GROUP BY k", read="duckdb"), "points")
    'groups'
    >>> shape_of(parse_one("SELECT sum(x) / 1000 FROM points", read="duckdb"), "points")
    Traceback (most recent call last):
    qoop.programs.approximate.names.Refused: SUM(x) grows with the rows that are read: divide it by another sum or count
    """
    return _shape(query, {table: "rows"})


def _shape(query: exp.Expr, known: Mapping[str, Shape]) -> Shape:
    """known: the shapes of tables and of queries in WITH that are not apart, by lower-case name."""
    with_ = query.args.get("with_")
    if with_ is not None:
        known = dict(known)
        for one in with_.expressions:
            if with_.args.get("recursive") and _mentions(one, known):
                raise Refused("WITH RECURSIVE reads it")
            known[one.alias.lower()] = _shape(one.this, known)
    if isinstance(query, exp.Subquery):
        return _shape(query.this, known)
    if isinstance(query, exp.Select):
        return _of_select(query, known)
    if isinstance(query, exp.Union) and not query.args.get("distinct"):
        return max(_shape(query.left, known), _shape(query.right, known), key=_ORDER.index)
    if _mentions(query, known):
        raise Refused(f"{query.key.upper()} reads it")
    return "apart"


def _mentions(node: exp.Expr, known: Mapping[str, Shape]) -> bool:
    return any(known.get(one.name.lower(), "apart") != "apart" for one in node.find_all(exp.Table))


def _of_select(select: exp.Select, known: Mapping[str, Shape]) -> Shape:
    sources = sources_of(select)
    shapes = [_of_source(one, known) for one in sources]
    nested = _of_nested(select, sources, known)
    many = [place for place, shape in enumerate(shapes) if shape in ("groups", "rows")]
    if not many:
        return "fixed" if nested == "fixed" or "fixed" in shapes else "apart"
    if len(many) > 1:
        raise Refused("its rows are joined with each other")
    _check(select, many[0])
    aggregates = [node for node in own_nodes(select) if _is_aggregate(node)]
    for one in aggregates:
        _check_aggregate(one)
    if select.args.get("group") is not None:
        return "fixed" if _has_groups_apart(select, sources, shapes) else "groups"
    if aggregates:
        return "fixed"
    return "fixed" if shapes[many[0]] == "groups" and _side(select, many[0]) == "LEFT" else shapes[many[0]]


def _of_source(source: exp.Expression, known: Mapping[str, Shape]) -> Shape:
    if isinstance(source, exp.Table):
        shape = "apart" if source.args.get("db") else known.get(source.name.lower(), "apart")
        if shape != "apart" and any(source.args.get(part) for part in ("sample", "pivots", "joins")):
            raise Refused("it is sampled, pivoted or in nested joins")
        return shape
    if isinstance(source, exp.Subquery) and not any(source.args.get(part) for part in ("sample", "pivots", "joins")):
        return _shape(source, known)
    if _mentions(source, known):
        raise Refused(f"{source.key.upper()} reads it")
    return "apart"


def _of_nested(select: exp.Select, sources: list[exp.Expression], known: Mapping[str, Shape]) -> Shape:
    """The shape of the queries in its columns and conditions."""
    outside = {id(one) for one in sources} | {id(select)}
    with_ = select.args.get("with_")
    if with_ is not None:
        outside |= {id(one.this) for one in with_.expressions}
    queries = (node for node in own_nodes(select) if isinstance(node, exp.Query) and id(node) not in outside)
    widest: Shape = max((_shape(query, known) for query in queries), key=_ORDER.index, default=_ORDER[0])
    if widest in ("groups", "rows"):
        raise Refused("a query in a column or condition has rows that depend on those that are read")
    return widest


def _side(select: exp.Select, place: int) -> str:
    """LEFT, SEMI … of a source by the join before it; empty for the first one, and for inner joins."""
    if place == 0:
        return ""
    join = select.args["joins"][place - 1]
    return str(join.args.get("side") or join.args.get("kind") or "").upper().replace("INNER", "").replace("CROSS", "")


def _check(select: exp.Select, place: int) -> None:
    for part in _PARTS:
        if select.args.get(part):
            raise Refused(f"it is read with {part.upper().removesuffix('S')}")
    if any(isinstance(node, exp.Window) for node in own_nodes(select)):
        raise Refused("a window function reads it")
    sides = {_side(select, other) for other in range(1 + len(select.args.get("joins") or ()))}
    if sides - {"", "LEFT"}:
        raise Refused(f"it is in a {min(sides - {'', 'LEFT'})} JOIN")


def _is_aggregate(node: exp.Expression) -> bool:
    return isinstance(node, exp.AggFunc) or (isinstance(node, exp.Anonymous) and node.name.lower() in aggregate_names())


def _check_aggregate(node: exp.Expression) -> None:
    if isinstance(node, _SCALE_FREE) or (isinstance(node, exp.Anonymous) and node.name.lower() in _MEANS):
        return
    if isinstance(node, _SCALED) and not node.find(exp.Distinct):
        if not _is_in_quotient(node):
            raise Refused(f"{node.sql('duckdb')} grows with the rows that are read: divide it by another sum or count")
        return
    raise Refused(f"{node.sql('duckdb')} depends on how many rows are read")


def _is_in_quotient(node: exp.Expression) -> bool:
    """True if the expression around a sum is divided by a sum, or divides one."""
    child: exp.Expr = node
    parent = node.parent
    while parent is not None and not isinstance(parent, exp.Query):
        if isinstance(parent, exp.Div):
            other = parent.expression if child is parent.this else parent.this
            if other.find(*_SCALED) is not None:
                return True
        child, parent = parent, parent.parent
    return False


def _has_groups_apart(select: exp.Select, sources: list[exp.Expression], shapes: list[Shape]) -> bool:
    """True if each key of the groups is a column of a source that is read whole, and no condition compares its rows
    with those that are read."""
    whole = {
        one.alias_or_name.lower() for one, shape in zip(sources, shapes, strict=True) if shape in ("apart", "fixed")
    }
    where, joins = select.args.get("where"), select.args.get("joins") or []
    conditions = [*([] if where is None else [where]), *(join.args["on"] for join in joins if join.args.get("on"))]
    if any(column.table.lower() in whole for one in conditions for column in one.find_all(exp.Column)):
        return False
    keys = select.args["group"].expressions
    return bool(keys) and all(isinstance(key, exp.Column) and key.table.lower() in whole for key in keys)
