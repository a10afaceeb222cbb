"""A correlated subquery of the last row up to a bound becomes a join with that row.

``(SELECT price FROM q WHERE q.sym = t.sym AND q.ts <= t.ts ORDER BY q.ts DESC LIMIT 1)`` first finds the greatest
``ts`` up to the bound for each row of ``t`` (:mod:`~qoop.planner.sql.running`), then the rows that have it::

    Join(running maximum of ts for each outer row, groups of the inner rows by sym and ts)

Further items of ORDER BY choose among the inner rows of one ``ts``. DuckDB's choice among rows that agree in all items
is arbitrary, and another choice could be another answer. So values that differ there raise an error, at which a query
changes to DuckDB's plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal as OneOf

from qoop.catalog.value import value
from qoop.planner.algebra.expr import (
    Call,
    Column,
    Expr,
    Literal,
    binary,
    columns_of_all,
    equals,
    is_volatile,
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
    Shared,
    SortKey,
    Window,
    WindowCall,
)
from qoop.planner.identity.determinism import is_non_deterministic
from qoop.planner.sql.running import Bound, Running, aligned, bound_of, check, with_join, with_running
from qoop.planner.sql.scope import Names, Unsupported

_FLOATS = ("FLOAT", "DOUBLE")
_ONE = Literal("1", "BIGINT", 1)
_TIES = "rows of a correlated subquery agree in all items of its ORDER BY ... LIMIT 1, which DuckDB chooses among"


@value
class Latest:
    """The first of the rows that a correlated subquery has up to a bound, which its order begins with.

    keys: (inner, outer) expressions that are equal. others: the further items of the order.
    """

    keys: tuple[tuple[Expr, Expr], ...]
    bound: Bound
    others: tuple[SortKey, ...]

    def running(self, names: Names) -> tuple[Running, Column]:
        """The value of the bound in that row, as a running aggregate."""
        inner = self.bound.inner
        function = "max" if self.bound.op in ("<", "<=") else "min"
        column = names.fresh("latest", inner.type)
        call = Call(function, (inner,), f"{function}({{0}})", inner.type)
        return Running(self.keys, self.bound, (Aggregation(column, call),)), column


def is_ordered(type_: str) -> bool:
    """True for values of which equal ones are identical, zeros of floating point numbers excepted."""
    return type_ in _FLOATS or interchangeable(type_)


def latest_of(relation: Relation, correlated: Sequence[Expr], order: Sequence[SortKey]) -> Latest:
    """The subquery's first row in an order. correlated: its correlated predicates. Raises Unsupported for others than
    equalities and one bound, in whose direction the order begins."""
    inner = frozenset(relation.columns)
    bounds = [bound for predicate in correlated if (bound := bound_of(predicate, inner)) is not None]
    if len(bounds) != 1 or not order:
        raise Unsupported("LIMIT in a correlated subquery without a bound")
    (bound,), first = bounds, order[0]
    if first.expr != bound.inner or first.descending != (bound.op in ("<", "<=")):
        raise Unsupported("LIMIT in a correlated subquery by another order than that of its bound")
    keys = tuple(_equal(predicate, inner) for predicate in correlated if bound_of(predicate, inner) is None)
    running = aligned(Running(keys, bound, ()))
    check(running)
    found = Latest(running.keys, running.bound, tuple(order[1:]))
    if not interchangeable(bound.inner.type) or any(map(is_volatile, (key.expr for key in order))):
        raise Unsupported(f"LIMIT by an order of {bound.inner.type}")
    if is_non_deterministic(relation):
        raise Unsupported("LIMIT of non-deterministic rows in a correlated subquery")
    return found


def _equal(predicate: Expr, inner: frozenset[Column]) -> tuple[Expr, Expr]:
    args = predicate.args if isinstance(predicate, Call) and predicate.op == "=" else ()
    for ours, theirs in (args, args[::-1]) if len(args) == 2 else ():
        if columns_of_all([ours]) and columns_of_all([ours]) <= inner and not columns_of_all([theirs]) & inner:
            return ours, theirs
    raise Unsupported(f"a subquery correlated by {predicate}")


def with_latest(
    left: Relation,
    rows: Relation,
    latest: Latest,
    exprs: Sequence[tuple[Column, Expr]],
    kind: OneOf["inner", "left"],
    names: Names,
) -> Relation:
    """The outer rows, each with expressions of its latest row. rows: of the subquery. kind: left to keep outer rows
    without any."""
    running, end = latest.running(names)
    shared = Shared(names.fresh("inner_rows", "").name, rows)
    first, second = (_Reader(shared, names) for _ in range(2))
    left_with_end = with_running(left, first.relation, first.running(running), names)
    keys = [(names.fresh("latest_key", ours.type), ours) for ours, _ in latest.keys]
    at = names.fresh("latest_at", end.type)
    groups, found = _groups(second, latest, [*keys, (at, latest.bound.inner)], exprs, names)
    on = (*(equals(outer, key) for (key, _), (_, outer) in zip(keys, latest.keys, strict=True)), equals(end, at))
    joined = Join(left_with_end, groups, kind, on)
    return Project(joined, (*((column, column) for column in left.columns), *found))


def with_all(
    left: Relation, rows: Relation, latest: Latest, exprs: Sequence[tuple[Column, Expr]], names: Names
) -> Relation:
    """The same as DuckDB computes it, for the cost of its plan: each outer row is joined with all rows up to it."""
    running, _ = latest.running(names)
    calls = tuple(Aggregation(column, _first("any_value", expr)) for column, expr in exprs)
    return with_join(left, rows, Running(running.keys, running.bound, calls))


class _Reader:
    """A reader of the subquery's rows, with columns of its own."""

    def __init__(self, shared: Shared, names: Names) -> None:
        self._of: dict[Column, Expr] = {column: names.fresh(column.name, column.type) for column in shared.columns}
        self.relation: Relation = Project(shared, tuple((mine, column) for column, mine in self._of.items()))  # type: ignore[misc]

    def own(self, expr: Expr) -> Expr:
        """The expression over this reader's columns."""
        return substitute(expr, self._of)

    def running(self, running: Running) -> Running:
        """The running aggregates over this reader's columns."""
        keys = tuple((self.own(ours), theirs) for ours, theirs in running.keys)
        bound = Bound(self.own(running.bound.inner), running.bound.op, running.bound.outer)
        calls = tuple(Aggregation(one.column, self.own(one.call)) for one in running.aggregations)  # type: ignore[arg-type]
        return Running(keys, bound, calls)


def _groups(
    rows: _Reader,
    latest: Latest,
    keys: Sequence[tuple[Column, Expr]],
    exprs: Sequence[tuple[Column, Expr]],
    names: Names,
) -> tuple[Relation, tuple[tuple[Column, Expr], ...]]:
    """The first row for each of these keys, as a group, and the columns that are asked for, over the groups' columns:
    errors where a group has several rows that differ."""
    by = [names.fresh("latest_order", key.expr.type) for key in latest.others]
    values = [names.fresh(column.name, column.type) for column, _ in exprs]
    read = Project(
        rows.relation,
        (
            *((column, rows.own(expr)) for column, expr in keys),
            *((column, rows.own(key.expr)) for column, key in zip(by, latest.others, strict=True)),
            *((column, rows.own(expr)) for column, (_, expr) in zip(values, exprs, strict=True)),
        ),
    )
    first: Relation = read
    if latest.others:
        rank = names.fresh("latest_rank", "BIGINT")
        call = _rank([column for column, _ in keys], by, latest.others)
        first = Filter(
            Window(read, (WindowCall(rank, call, tuple(column for column, _ in keys)),)), (binary("=", rank, _ONE),)
        )
    count = names.fresh("latest_rows", "BIGINT")
    ends = [tuple(names.fresh(f"latest_{end}", column.type) for end in ("min", "max")) for column in values]
    known = [names.fresh("latest_known", "BIGINT") for _ in values]
    calls = [Aggregation(count, Call("count_star", (), "count(*)", "BIGINT"))]
    for column, (least, greatest), filled in zip(values, ends, known, strict=True):
        calls += (
            Aggregation(least, _first("min", column)),
            Aggregation(greatest, _first("max", column)),
            Aggregation(filled, Call("count", (column,), "count({0})", "BIGINT")),
        )
    groups = Aggregate(first, tuple(column for column, _ in keys), tuple(calls))
    checked = tuple(
        (column, _checked(count, least, greatest, filled))
        for (column, _), (least, greatest), filled in zip(exprs, ends, known, strict=True)
    )
    return groups, checked


def _checked(count: Column, least: Column, greatest: Column, filled: Column) -> Expr:
    """The value that all rows of a group have; an error if they differ."""
    differ = "{1} IS DISTINCT FROM {2} OR {3} NOT IN (0, {0})"
    differ += " OR {1} = 0" if least.type in _FLOATS else ""  # 0.0 equals -0.0
    template = f"CASE WHEN {{0}} > 1 AND ({differ}) THEN CAST(error('{_TIES}') AS {least.type}) ELSE {{1}} END"
    return Call("error", (count, least, greatest, filled), template, least.type)


def _first(function: str, expr: Expr) -> Call:
    return Call(function, (expr,), f"{function}({{0}})", expr.type)


def _rank(keys: Sequence[Column], by: Sequence[Column], order: Sequence[SortKey]) -> Call:
    slots = ", ".join(f"{{{place}}}" for place in range(len(keys)))
    sorted_by = ", ".join(
        f"{{{len(keys) + place}}} {'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"
        for place, key in enumerate(order)
    )
    return Call("rank", (*keys, *by), f"rank() OVER (PARTITION BY {slots} ORDER BY {sorted_by})", "BIGINT")
