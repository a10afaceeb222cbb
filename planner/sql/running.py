"""A correlated aggregate over the rows up to a bound becomes a window function.

``(SELECT max(q.ts) FROM q WHERE q.sym = t.sym AND q.ts <= t.ts)`` asks for each row of ``t`` what came before it. The
rows of both sides are laid out together, by the equal keys and in the order of the bound; a running aggregate of the
inner rows then has the value at each outer row::

    Project(Filter(Window(SetOp(outer rows, inner rows)), outer))

Each row is sorted once, where a join by the inequality would pair each outer row with all rows before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qoop.catalog.value import value
from qoop.planner.algebra.expr import (
    FALSE,
    TRUE,
    Call,
    Column,
    Expr,
    binary,
    cast,
    columns_of,
    columns_of_all,
    conjunction,
    equals,
    is_not_null,
    null_of,
    substitute,
)
from qoop.planner.algebra.properties import interchangeable
from qoop.planner.algebra.relation import (
    Aggregate,
    Aggregation,
    Filter,
    Join,
    Project,
    Relation,
    SetOp,
    Window,
    WindowCall,
)
from qoop.planner.sql.scope import Names, Unsupported

_MIRRORED: Mapping[str, str] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_FUNCTIONS = frozenset(("count", "count_star", "sum", "min", "max", "avg"))
"""Aggregates that DuckDB computes over a growing frame without a state for each row."""


@value
class Bound:
    """A predicate ``inner op outer`` of a correlated subquery."""

    inner: Expr
    op: str
    outer: Expr


@value
class Running:
    """An aggregate over the rows that a correlated subquery has up to a bound.

    keys: (inner, outer) expressions that are equal.
    """

    keys: tuple[tuple[Expr, Expr], ...]
    bound: Bound
    aggregations: tuple[Aggregation, ...]


def bound_of(predicate: Expr, inner: frozenset[Column]) -> Bound | None:
    """The predicate as a bound, None if it is none. inner: the columns of the subquery."""
    if not isinstance(predicate, Call) or predicate.op not in _MIRRORED:
        return None
    first, second = predicate.args
    for ours, op, theirs in ((first, predicate.op, second), (second, _MIRRORED[predicate.op], first)):
        if columns_of(ours) and columns_of(ours) <= inner and not columns_of(theirs) & inner:
            return Bound(ours, op, theirs)
    return None


def aligned(running: Running) -> Running:
    """The same with integers of two types as those of the wider one."""
    keys = tuple(_of_one_type(*pair) for pair in running.keys)
    inner, outer = _of_one_type(running.bound.inner, running.bound.outer)
    return Running(keys, Bound(inner, running.bound.op, outer), running.aggregations)


def _of_one_type(ours: Expr, theirs: Expr) -> tuple[Expr, Expr]:
    types = {ours.type, theirs.type}
    if not types <= {*_INTEGERS}:
        return ours, theirs
    widest = max(types, key=_INTEGERS.index)
    return cast(ours, widest), cast(theirs, widest)


def check(running: Running) -> None:
    """Raise Unsupported for what a running aggregate does not compute as the subquery does."""
    bound = running.bound
    ordered = bound.inner.type == "DOUBLE" or interchangeable(bound.inner.type)  # 0.0 and -0.0 are peers
    if not ordered or any(not interchangeable(ours.type) for ours, _ in running.keys):
        raise Unsupported("a subquery correlated by values of which equal ones may differ")
    for ours, theirs in (*running.keys, (bound.inner, bound.outer)):
        if ours.type != theirs.type:
            raise Unsupported(f"a subquery correlated by values of {ours.type} and {theirs.type}")
    for one in running.aggregations:
        if one.distinct or one.ordered or one.call.op not in _FUNCTIONS:
            raise Unsupported(f"{one.call.op} of the rows up to an outer value")


def with_running(left: Relation, inner: Relation, running: Running, names: Names) -> Relation:
    """The outer rows, each with its values of the aggregates. inner: the rows of the subquery."""
    bound = running.bound
    pairs = (*running.keys, (bound.inner, bound.outer))
    keys = tuple(names.fresh("running_key", ours.type) for ours, _ in pairs)
    flag = names.fresh("inner_row", "BOOLEAN")
    read = columns_of_all(expr for one in running.aggregations for expr in one.exprs)
    measures = tuple(column for column in inner.columns if column in read)
    all_left, all_measures = _fresh(left.columns, names), _fresh(measures, names)
    flagged = names.fresh(flag.name, "BOOLEAN"), names.fresh(flag.name, "BOOLEAN")
    theirs = _pairs([key for _, key in pairs], keys, names)
    outer_rows = Project(
        left, (*_pairs(left.columns, left.columns, names), *theirs, *_nulls(measures, names), (flagged[0], FALSE))
    )
    ours = _pairs([key for key, _ in pairs], keys, names)
    inner_rows = Project(
        Filter(inner, tuple(is_not_null(key) for key, _ in pairs)),
        (*_nulls(left.columns, names), *ours, *_pairs(measures, measures, names), (flagged[1], TRUE)),
    )
    rows = SetOp("union", True, (outer_rows, inner_rows), (*all_left, *keys, *all_measures, flag))
    mapping: dict[Column, Expr] = dict(zip(measures, all_measures, strict=True))
    calls = tuple(_call(one, mapping, keys, flag, bound.op) for one in running.aggregations)
    kept = Filter(Window(rows, calls), (Call("not", (flag,), "(NOT {0})", "BOOLEAN"),))
    found = tuple((one.column, one.column) for one in running.aggregations)
    return Project(kept, (*zip(left.columns, all_left, strict=True), *found))


def with_join(left: Relation, inner: Relation, running: Running) -> Relation:
    """The same as DuckDB computes it, for the cost of its plan: each outer row is joined with all rows up to it."""
    bound = running.bound
    on = (*(equals(ours, theirs) for ours, theirs in running.keys), binary(bound.op, bound.inner, bound.outer))
    return Aggregate(Join(left, inner, "left", on), left.columns, running.aggregations)


def _call(
    one: Aggregation, mapping: Mapping[Column, Expr], keys: Sequence[Column], flag: Column, op: str
) -> WindowCall:
    """The aggregate of the inner rows before each row.

    Inner rows at the bound come before outer ones if they count, and after them if not. NULLs come first: no inner row
    has any, so an outer row with one has no row before it.
    """
    call = substitute(one.call, mapping)
    assert isinstance(call, Call)
    condition = conjunction((flag, *(() if one.filter is None else (substitute(one.filter, mapping),))))
    *equal, bound = keys
    args = (*call.args, condition, *keys, flag)
    places = {expr: "{" + str(len(call.args) + 1 + place) + "}" for place, expr in enumerate((*keys, flag))}
    partition = f"PARTITION BY {', '.join(places[key] for key in equal)} " if equal else ""
    order = "ASC" if op in ("<", "<=") else "DESC"
    at_bound = "DESC" if op in ("<=", ">=") else "ASC"
    over = (
        f"{partition}ORDER BY {places[bound]} {order} NULLS FIRST, {places[flag]} {at_bound} NULLS FIRST "
        "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    )
    template = f"{call.template} FILTER (WHERE {{{len(call.args)}}}) OVER ({over})"
    return WindowCall(one.column, Call(call.op, args, template, call.type), tuple(equal))


def _fresh(columns: Sequence[Column], names: Names) -> tuple[Column, ...]:
    return tuple(names.fresh(column.name, column.type) for column in columns)


def _pairs(exprs: Sequence[Expr], like: Sequence[Column], names: Names) -> tuple[tuple[Column, Expr], ...]:
    return tuple(zip(_fresh(like, names), exprs, strict=True))


def _nulls(columns: Sequence[Column], names: Names) -> tuple[tuple[Column, Expr], ...]:
    return tuple((names.fresh(column.name, column.type), null_of(column.type)) for column in columns)
