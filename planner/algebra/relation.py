"""Logical operators: the meaning of a query, as an immutable tree.

Every column of a query has a unique name (the builder numbers repeated ones), so a column is
found by name alone, no operator needs table aliases, and moving an operator never captures a name.
`relation.columns` are the output columns of an operator; constructors refuse inputs that lack a column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Union
from typing import Literal as OneOf

from qoop.catalog.errors import PlanError
from qoop.catalog.value import value
from qoop.planner.algebra.expr import Call, Column, Expr, columns_of_all

if TYPE_CHECKING:
    from qoop.planner.plan import Estimate

JoinKind = OneOf["inner", "left", "right", "full", "semi", "anti", "mark"]
SetKind = OneOf["union", "intersect", "except"]

Relation = Union[
    "Scan", "Values", "Filter", "Project", "Join", "Aggregate", "Window", "Sort", "Limit", "SetOp",
    "Shared", "Opaque", "Exchange",
]  # fmt: skip


_FRAME = re.compile(r"\b(ROWS|RANGE|GROUPS)\b", re.IGNORECASE)
_BY_POSITION = frozenset((
    "rank", "dense_rank", "row_number", "ntile", "percent_rank", "cume_dist", "lag", "lead", "first_value",
    "last_value", "nth_value",
))  # fmt: skip
"""Window functions that look at the place of a row, or at one other row."""


@value
class Scan:
    """Rows of a base table. `fields` pairs the table's own column name with our column.

    parts: how many tasks share the rows of a split scan; 1: every task reads all of them (see exchange.py).
    """

    table: str
    version: str
    fields: tuple[tuple[str, Column], ...]
    parts: int = 1

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return tuple(column for _, column in self.fields)

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return ()


@value
class Values:
    """Literal rows. No columns and one empty row stands for a SELECT without FROM."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Expr, ...], ...]

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return ()


@value
class Filter:
    """Rows of `input` for which every predicate is true."""

    input: Relation
    predicates: tuple[Expr, ...]

    def __post_init__(self) -> None:
        _need("Filter", self.predicates, self.input.columns)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)


@value
class Project:
    """Exactly these columns, each computed from a row of `input` (a column kept as it is maps to itself)."""

    input: Relation
    exprs: tuple[tuple[Column, Expr], ...]

    def __post_init__(self) -> None:
        _need("Project", tuple(expr for _, expr in self.exprs), self.input.columns)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return tuple(column for column, _ in self.exprs)

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)


@value
class Join:
    """Pairs of rows that satisfy all conditions. The right side is the build side.

    semi, anti: rows of the left with / without a partner; only the left's columns.
    mark: rows of the left, plus `mark` = ``x IN (right's y where rest)`` with SQL's three values; `on`
        is (x = y, *rest). `not mark` is NOT IN.
    inner without conditions is a cross join.
    """

    left: Relation
    right: Relation
    kind: JoinKind
    on: tuple[Expr, ...]
    mark: Column | None = None

    def __post_init__(self) -> None:
        _need("Join", self.on, self.left.columns + self.right.columns)
        if (self.kind == "mark") != (self.mark is not None):
            raise PlanError("a mark column goes with a mark join, and only with it")

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        if self.kind in ("semi", "anti"):
            return self.left.columns
        if self.mark is not None:
            return (*self.left.columns, self.mark)
        return self.left.columns + self.right.columns

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.left, self.right)


@value
class Aggregation:
    """One aggregate of an Aggregate: `column` receives `call`, computed over the rows where `filter` holds.

    call.op is the function's lower-case name (``count_star`` for COUNT(*)); call.args are all expressions
    it needs, call.template prints it without FILTER, with DISTINCT and ORDER BY where it has them.
    """

    column: Column
    call: Call
    distinct: bool = False
    filter: Expr | None = None
    ordered: bool = False

    @property
    def exprs(self) -> tuple[Expr, ...]:
        return (*self.call.args, self.filter) if self.filter is not None else self.call.args


@value
class Aggregate:
    """Groups of `input` by `keys`. No keys: one row, always. No aggregates: DISTINCT.

    grouping_sets: the subsets of keys to group by (ROLLUP, CUBE and GROUPING SETS are spelt out), None for
        one plain grouping. An aggregation ``grouping`` (args: keys) is GROUPING() of them.
    cascade: make the groups of coarser sets from those of finer ones (:mod:`qoop.planner.algebra.cascade`). It does
        not change the rows.
    """

    input: Relation
    keys: tuple[Column, ...]
    aggregations: tuple[Aggregation, ...]
    grouping_sets: tuple[tuple[Column, ...], ...] | None = None
    cascade: bool = False

    def __post_init__(self) -> None:
        needed = tuple(expr for agg in self.aggregations for expr in agg.exprs)
        _need("Aggregate", (*self.keys, *needed), self.input.columns)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.keys + tuple(agg.column for agg in self.aggregations)

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)


@value
class WindowCall:
    """One window function: `call` prints all of ``f(..) OVER (..)``; its args hold every expression used."""

    column: Column
    call: Call
    partition_by: tuple[Expr, ...]

    @property
    def layout(self) -> str:
        """The text of its partitions and order: functions that agree on it are computed over the rows as they lie."""
        return _FRAME.split(self._over)[0].rstrip(" )").format(*self.call.args)

    @property
    def is_ordered(self) -> bool:
        """True if the rows of a partition have an order."""
        return "ORDER BY" in self._over.upper()

    @property
    def has_moving_frame(self) -> bool:
        """True for an aggregate over other rows for each row: up to itself, or around it."""
        return self.is_ordered and self.call.op not in _BY_POSITION

    @property
    def _over(self) -> str:
        return self.call.template.rpartition("OVER")[2]


@value
class Window:
    """Rows of `input`, each with the window functions' values appended.

    first: the calls are ranks, and the reader of the rows keeps none beyond this one: others may be dropped before they
    are ranked. It does not change the result, since the reader is in the same fragment.
    """

    input: Relation
    calls: tuple[WindowCall, ...]
    first: int | None = None

    def __post_init__(self) -> None:
        _need("Window", tuple(window.call for window in self.calls), self.input.columns)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns + tuple(window.column for window in self.calls)

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)


@value
class SortKey:
    """One ORDER BY item; NULL placement is always spelt out."""

    expr: Expr
    descending: bool = False
    nulls_first: bool = False

    def __str__(self) -> str:
        return f"{self.expr} {'DESC' if self.descending else 'ASC'} NULLS {'FIRST' if self.nulls_first else 'LAST'}"


@value
class Sort:
    """Rows of `input` in order. Kept only at the root, or under a Limit."""

    input: Relation
    keys: tuple[SortKey, ...]

    def __post_init__(self) -> None:
        _need("Sort", tuple(key.expr for key in self.keys), self.input.columns)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)


@value
class Limit:
    """At most `limit` rows (None: all) of `input` after the first `offset`; over a Sort it is a top-N."""

    input: Relation
    limit: int | None
    offset: int = 0

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)


@value
class SetOp:
    """UNION, INTERSECT or EXCEPT [ALL] by position; each branch has exactly the types of `columns`."""

    kind: SetKind
    all: bool
    branches: tuple[Relation, ...]
    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        for branch in self.branches:
            if [c.type for c in branch.columns] != [c.type for c in self.columns]:
                raise PlanError(f"{self.kind}: a branch has columns {branch.columns}, expected {self.columns}")

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return self.branches


@value
class Shared:
    """A subplan computed once and read in several places (a CTE used more than once).

    Every reader is a Project over the same Shared that renames its columns, so that names stay unique.
    `name` says which subplan it is; equal names in one query have equal `input`.
    """

    name: str
    input: Relation

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)


@value
class Opaque:
    """A piece of SQL the planner does not look into, over base tables (law 11).

    rows: how many rows it has, the same ones each time, where that is plain from the text; else None.
    """

    sql: str
    tables: tuple[tuple[str, str], ...]
    columns: tuple[Column, ...]
    reason: str
    rows: int | None = None

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return ()


@value
class Fragment:
    """The planner's decisions and estimates for the operators under an Exchange.

    meaning: the relation whose rows they compute, as it was before it was cut.
    partial: the rows are unfinished (partial groups, each task's own top N); the reader finishes them.
    width: tasks. slots: threads of each.
    """

    meaning: Relation
    partial: bool
    width: int
    slots: int
    estimate: Estimate


@value
class Exchange:
    """A cut between stages: rows of `input` in another layout (see exchange.py).

    gather: every reading task gets all rows (a broadcast if there are several of them).
    hash: task i of `parts` gets the rows whose ``hash(keys) % parts`` is i; keys are already cast to the
        type that both sides of a join agree on.
    forward: task i reads what task i of the producer put out; only cuts the stage.
    The root of a placed relation is a gather: its fragment's tasks put out the result.
    """

    input: Relation
    kind: OneOf["gather", "hash", "forward"]
    keys: tuple[Expr, ...] = ()
    parts: int = 1
    fragment: Fragment | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        _need("Exchange", self.keys, self.input.columns)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)


def with_inputs(relation: Relation, inputs: tuple[Relation, ...]) -> Relation:
    """The same operator over other inputs; the same object where nothing changes."""
    if all(old is new for old, new in zip(relation.inputs, inputs, strict=True)):
        return relation
    match relation:  # spelt out, as planning does it so often
        case Join():
            return Join(inputs[0], inputs[1], relation.kind, relation.on, relation.mark)
        case Project():
            return Project(inputs[0], relation.exprs)
        case Filter():
            return Filter(inputs[0], relation.predicates)
        case Aggregate():
            return Aggregate(inputs[0], relation.keys, relation.aggregations, relation.grouping_sets, relation.cascade)
        case SetOp():
            return replace(relation, branches=inputs)
    if not hasattr(relation, "input"):
        raise PlanError(f"{type(relation).__name__} has no inputs")
    return replace(relation, input=inputs[0])  # type: ignore[arg-type]


def walk(relation: Relation, opens: Callable[[Relation], bool] = lambda _: True) -> Iterator[Relation]:
    """Yield the relation and all below it, parents first; what is below a Shared once, however many read it.

    opens: true for the nodes below which it goes on.
    """
    known: set[str] = set()
    waiting = [relation]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, Shared):
            if node.name in known:
                continue
            known.add(node.name)
        if opens(node):
            waiting += reversed(node.inputs)


def _need(what: str, exprs: tuple[Expr, ...], columns: tuple[Column, ...]) -> None:
    missing = columns_of_all(exprs) - frozenset(columns)
    if missing:
        names = ", ".join(sorted(column.name for column in missing))
        raise PlanError(f"{what} refers to {names}, but its input has {', '.join(c.name for c in columns)}")
