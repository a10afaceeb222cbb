"""Keep only columns that something above reads.

One walk from the root with the set of needed columns. Operators may hand up more than is needed where leaving
it costs nothing (a Filter passes all columns of its input); a Project that narrows is put in only where rows
are about to be kept or sent: above a filtered leaf that enters a join, below an Exchange, on the right side of
a semi or anti join.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from qoop.planner.algebra.expr import Column, columns_of_all
from qoop.planner.algebra.relation import (
    Aggregate,
    Exchange,
    Filter,
    Join,
    Opaque,
    Project,
    Relation,
    Scan,
    SetOp,
    Shared,
    Sort,
    Values,
    Window,
    WindowCall,
    with_inputs,
)
from qoop.planner.algebra.traversal import narrowed, replace_shared, shared_subplans

Columns = frozenset[Column]


def prune_columns(relation: Relation) -> Relation:
    """Drop columns that nothing reads; the root's columns stay as they are.

    >>> from qoop.planner.algebra.outline import outline
    >>> a, b, c = (Column(name, "INTEGER") for name in "abc")
    >>> t = Scan("t", "v", (("a", a), ("b", b), ("c", c)))
    >>> outline(prune_columns(Aggregate(Project(t, ((a, a), (b, b))), (a,), ())))
    'aggregate[a](project[a](t[a]))'
    """
    pruner = _Pruner()
    pruned = pruner.exactly(relation, relation.columns)
    bodies: dict[str, Relation] = {}
    for name, shared in shared_subplans(relation).items():
        if name not in pruner.read:
            continue  # its only readers were dropped
        kept = tuple(column for column in shared.columns if column in pruner.read[name]) or shared.columns[:1]
        bodies[name] = pruner.exactly(shared.input, kept)
    return replace_shared(pruned, bodies)


class _Pruner:
    """One run of the rule. `read`: the columns that some reader needs of each shared subplan."""

    def __init__(self) -> None:
        self.read: dict[str, set[Column]] = {}

    def exactly(self, node: Relation, columns: tuple[Column, ...]) -> Relation:
        """`node` with these columns in this order and no others."""
        return narrowed(self.prune(node, frozenset(columns)), columns)

    def prune(self, node: Relation, needed: Columns) -> Relation:
        """`node` with at least these columns, and as few more as comes free."""
        match node:
            case Scan():
                fields = tuple(field for field in node.fields if field[1] in needed)
                return node if len(fields) == len(node.fields) else replace(node, fields=fields)
            case Values():
                return _prune_values(node, needed)
            case Opaque():
                return _prune_opaque(node, needed)
            case Filter():
                return with_inputs(node, (self.prune(node.input, needed | columns_of_all(node.predicates)),))
            case Project():
                return self._project(node, needed)
            case Join():
                return self._join(node, needed)
            case Aggregate():
                return self._aggregate(node, needed)
            case Window():
                return self._window(node, needed)
            case Sort():
                keys = columns_of_all(key.expr for key in node.keys)
                return with_inputs(node, (self.prune(node.input, needed | keys),))
            case SetOp():
                return self._set_op(node, needed)
            case Shared():
                self.read.setdefault(node.name, set()).update(needed or node.columns[:1])
                return node
            case Exchange():
                needed |= columns_of_all(node.keys)
                kept = tuple(column for column in node.columns if column in needed)
                return with_inputs(node, (self.exactly(node.input, kept or node.columns[:1]),))
        return with_inputs(node, tuple(self.prune(child, needed) for child in node.inputs)) if node.inputs else node

    def _project(self, node: Project, needed: Columns) -> Relation:
        exprs = tuple(item for item in node.exprs if item[0] in needed)
        if not exprs and isinstance(node.input, Shared):
            exprs = node.exprs[:1]  # a reader of a shared subplan keeps its renaming Project
        if not exprs and node.exprs:
            return self.prune(node.input, frozenset())
        below = self.prune(node.input, columns_of_all(expr for _, expr in exprs))
        if len(exprs) == len(node.exprs):
            return with_inputs(node, (below,))
        return Project(below, exprs)

    def _join(self, node: Join, needed: Columns) -> Relation:
        if node.mark is not None and node.mark not in needed:
            return self.prune(node.left, needed)
        needed |= columns_of_all(node.on)
        left = self._side(node.left, needed)
        right = self._side(node.right, needed, exact=node.kind in ("semi", "anti", "mark"))
        return with_inputs(node, (left, right))

    def _side(self, node: Relation, needed: Columns, exact: bool = False) -> Relation:
        kept = tuple(column for column in node.columns if column in needed)
        pruned = self.prune(node, frozenset(kept))
        worthwhile = exact or isinstance(pruned, Filter) or (isinstance(pruned, Join) and pruned.kind != "inner")
        if not worthwhile or not kept or frozenset(pruned.columns) == frozenset(kept):
            return pruned
        return narrowed(pruned, kept)

    def _aggregate(self, node: Aggregate, needed: Columns) -> Relation:
        aggregations = tuple(agg for agg in node.aggregations if agg.column in needed)
        if not aggregations and not node.keys and node.grouping_sets is None:
            return Values((), ((),))  # without keys there is one row, whatever the input
        used = columns_of_all(expr for agg in aggregations for expr in agg.exprs)
        below = self.prune(node.input, used.union(node.keys))
        if len(aggregations) == len(node.aggregations):
            return with_inputs(node, (below,))
        return Aggregate(below, node.keys, aggregations, node.grouping_sets, node.cascade)

    def _window(self, node: Window, needed: Columns) -> Relation:
        calls = tuple(call for call in node.calls if call.column in needed)
        if not calls:
            return self.prune(node.input, needed)
        below = self.prune(node.input, needed | _columns_of_calls(calls))
        return with_inputs(node, (below,)) if len(calls) == len(node.calls) else Window(below, calls)

    def _set_op(self, node: SetOp, needed: Columns) -> Relation:
        """Rows of UNION ALL may lose columns; every other set operation compares all of them."""
        kept = [i for i, column in enumerate(node.columns) if column in needed] or [0]
        if not (node.kind == "union" and node.all):
            kept = list(range(len(node.columns)))
        branches = tuple(self.exactly(b, tuple(b.columns[i] for i in kept)) for b in node.branches)
        if len(kept) == len(node.columns):
            return with_inputs(node, branches)
        return SetOp(node.kind, node.all, branches, tuple(node.columns[i] for i in kept))


def _columns_of_calls(calls: Iterable[WindowCall]) -> Columns:
    return columns_of_all(expr for call in calls for expr in (call.call, *call.partition_by))


def _prune_opaque(node: Opaque, needed: Columns) -> Opaque:
    """DuckDB reads less of a file, and puts out less, for fewer columns."""
    kept = tuple(column for column in node.columns if column in needed) or node.columns[:1]
    if len(kept) == len(node.columns):
        return node
    names, every = (", ".join(map(str, columns)) for columns in (kept, node.columns))
    return replace(node, sql=f"SELECT {names} FROM ({node.sql}\n) AS o({every})", columns=kept)


def _prune_values(node: Values, needed: Columns) -> Values:
    kept = [i for i, column in enumerate(node.columns) if column in needed]
    if len(kept) == len(node.columns):
        return node
    return Values(tuple(node.columns[i] for i in kept), tuple(tuple(row[i] for i in kept) for row in node.rows))
