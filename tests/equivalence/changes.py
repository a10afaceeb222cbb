"""Ways to change a relation, most of them as a rule might by mistake."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

from qoop.planner.algebra.expr import (
    Call,
    Column,
    Expr,
    Literal,
    binary,
    conjunction,
    equals,
    negate,
    transform,
)
from qoop.planner.algebra.relation import (
    Aggregate,
    Aggregation,
    Filter,
    Join,
    Limit,
    Project,
    Relation,
    Scan,
    SetOp,
    Shared,
    Sort,
    SortKey,
    Window,
    with_inputs,
)

Change = Callable[[Relation], Relation]


def edit(kind: Any, change: Callable[[Any], Relation], nth: int = 0) -> Change:
    """Change the n-th operator of a class, counted from the root."""

    def changed(relation: Relation) -> Relation:
        numbers = count()

        def visit(node: Relation) -> Relation:
            if isinstance(node, kind) and next(numbers) == nth:
                return change(node)
            return with_inputs(node, tuple(map(visit, node.inputs))) if node.inputs else node

        result = visit(relation)
        assert next(numbers) > nth, f"there is no {kind} number {nth}"
        return result

    return changed


def join(**changes: Any) -> Change:
    """Change fields of the uppermost join."""
    return edit(Join, lambda node: replace(node, **changes))


def retyped(op: str, template: str, nth: int = 0) -> Change:
    """Print the aggregate `op` by another template."""

    def change(node: Aggregate) -> Relation:
        changed = [
            replace(agg, call=replace(agg.call, template=template)) if agg.call.op == op else agg
            for agg in node.aggregations
        ]
        assert tuple(changed) != node.aggregations
        return replace(node, aggregations=tuple(changed))

    return edit(Aggregate, change, nth)


def windowed(old: str, new: str) -> Change:
    """Change the text of a window function."""

    def change(node: Window) -> Relation:
        [call] = node.calls
        template = call.call.template.replace(old, new)
        assert template != call.call.template, call.call.template
        return replace(node, calls=(replace(call, call=replace(call.call, template=template)),))

    return edit(Window, change)


def filtered(change: Callable[[Expr], Expr]) -> Change:
    """Change the predicates of the uppermost filter."""
    return edit(Filter, lambda node: Filter(node.input, (change(conjunction(node.predicates)),)))


def projected(change: Callable[[Expr], Expr]) -> Change:
    """Change the expressions of the uppermost projection."""
    return edit(Project, lambda node: Project(node.input, tuple((c, change(e)) for c, e in node.exprs)))


def swap(old: Expr, new: Expr) -> Callable[[Expr], Expr]:
    """Put one expression in the place of another."""

    def change(expr: Expr) -> Expr:
        return transform(expr, lambda node: new if node == old else None)

    return change


def calls(op: str, change: Callable[[Call], Expr]) -> Callable[[Expr], Expr]:
    """Change every call of an operator."""
    return lambda expr: transform(expr, lambda node: change(node) if isinstance(node, Call) and node.op == op else None)


def integer(name: str) -> Column:
    return Column(name, "INTEGER")


def number(value: int) -> Literal:
    return Literal(str(value), "INTEGER", value)


def column(node: Relation, name: str) -> Column:
    """The column of a relation that has this name."""
    return next(c for c in node.columns if c.name == name)


def same(left: Expr, right: Expr) -> Call:
    return Call("is_not_distinct_from", (left, right), "({0} IS NOT DISTINCT FROM {1})", "BOOLEAN")


def above(node: Join) -> Relation:
    """Conditions of a join as a filter above it, the first aside."""
    return Filter(replace(node, on=node.on[:1]), node.on[1:])


def distinct(node: Relation) -> Relation:
    return Aggregate(node, node.columns, ())


def member(node: Filter) -> Relation:
    """``NOT mark`` over a mark join as an anti join."""
    below = node.input
    assert isinstance(below, Join)
    return Join(below.left, below.right, "anti", below.on)


def as_membership(node: Join) -> Relation:
    """An anti join as NOT IN."""
    mark = Column("wrong_mark", "BOOLEAN")
    [condition] = node.on
    assert isinstance(condition, Call)
    return Filter(Join(node.left, node.right, "mark", (equals(*condition.args[::-1]),), mark), (negate(mark),))


def turned(node: Project) -> Relation:
    """The sides of a semi or anti join swapped, and what is put out of the right read from the left."""
    below = node.input
    assert isinstance(below, Join)
    other = Join(below.right, below.left, below.kind, below.on)
    exprs = tuple((c, other.columns[0]) for c, _ in node.exprs)
    return Project(other, exprs)


def by_join(kind: str) -> Callable[[SetOp], Relation]:
    """INTERSECT or EXCEPT as a join by ``=``, which no NULL passes."""

    def change(node: SetOp) -> Relation:
        left, right = node.branches
        on = tuple(equals(a, b) for a, b in zip(left.columns, right.columns, strict=True))
        joined = distinct(Join(left, right, kind, on))  # type: ignore[arg-type]
        return Project(joined, tuple(zip(node.columns, left.columns, strict=True)))

    return change


def pushed_right(node: Filter) -> Relation:
    """The filter over a join pushed to its right side."""
    below = node.input
    assert isinstance(below, Join)
    return replace(below, right=Filter(below.right, node.predicates))


def pushed_left(node: Filter) -> Relation:
    below = node.input
    assert isinstance(below, Join)
    return replace(below, left=Filter(below.left, node.predicates))


def into_on(node: Filter) -> Relation:
    below = node.input
    assert isinstance(below, Join)
    return replace(below, on=(*below.on, *node.predicates))


def on_side(side: str) -> Callable[[Join], Relation]:
    """Conditions of a join, the first aside, as a filter of one side."""
    return lambda node: replace(node, on=node.on[:1], **{side: Filter(getattr(node, side), node.on[1:])})


def below_input(node: Filter) -> Relation:
    """A filter, by columns that the operator below passes through, under that operator (and a projection over it)."""
    below = node.input
    if isinstance(below, Project):
        return with_inputs(below, (below_input(replace(node, input=below.input)),))
    return with_inputs(below, (Filter(below.inputs[0], node.predicates),))


def average_of_averages(node: Aggregate) -> Relation:
    """An average of the averages by another column."""
    by = (*node.keys, column(node.input, "a"))
    [agg] = node.aggregations
    part = Column("part", agg.column.type)
    inner = Aggregate(node.input, by, (replace(agg, column=part),))
    return Aggregate(inner, node.keys, (replace(agg, call=replace(agg.call, args=(part,))),))


def counted_groups(node: Aggregate) -> Relation:
    """Rows counted after one side was grouped."""
    below = node.input
    assert isinstance(below, Join)
    keys = tuple(c for c in below.left.columns if c.name == "k")
    return replace(node, input=replace(below, left=Aggregate(below.left, keys, ())))


def summed_early(node: Aggregate) -> Relation:
    """A sum over one side taken before the join, and once for every key of the other: duplicates do not count."""
    below = node.input
    assert isinstance(below, Join)
    return replace(node, input=replace(below, right=distinct(below.right)))


def without_key(node: Aggregate) -> Relation:
    """The last key is no key: any of its values is put out."""
    *kept, last = node.keys
    some = Aggregation(last, Call("max", (last,), "max({0})", last.type))
    ordered = Aggregate(node.input, tuple(kept), (some, *node.aggregations))
    return Project(ordered, tuple((c, c) for c in node.columns))


def with_key(name: str) -> Callable[[Aggregate], Relation]:
    """One more key, which is not put out."""

    def change(node: Aggregate) -> Relation:
        finer = replace(node, keys=(*node.keys, column(node.input, name)))
        return Project(finer, tuple((c, c) for c in node.columns))

    return change


def filter_to_where(node: Aggregate) -> Relation:
    """The FILTER of an aggregate as a filter of its input."""
    conditions = [agg.filter for agg in node.aggregations if agg.filter is not None]
    plain = tuple(replace(agg, filter=None) for agg in node.aggregations)
    return replace(node, input=Filter(node.input, tuple(conditions)), aggregations=plain)


def into_branches(node: Limit) -> Relation:
    """A limit over a UNION ALL in its branches alone."""
    union = node.input
    while not isinstance(union, SetOp):
        [union] = union.inputs
    cut = (Limit(Sort(b, tuple(SortKey(c) for c in b.columns)), node.limit) for b in union.branches)
    return replace(union, branches=tuple(cut))


def into_shared(relation: Relation) -> Relation:
    """Ask inside a shared subplan, for all readers, what one reader asks of it."""

    def visit(node: Relation) -> Relation:
        if isinstance(node, Shared):
            total = next(c for c in node.columns if c.name == "sum_b")
            return replace(node, input=Filter(node.input, (binary(">", total, number(1)),)))
        return with_inputs(node, tuple(map(visit, node.inputs))) if node.inputs else node

    return edit(Filter, lambda node: node.input)(visit(relation))


def scans(**changes: Any) -> Change:
    return edit(Scan, lambda node: replace(node, **changes), 1)
