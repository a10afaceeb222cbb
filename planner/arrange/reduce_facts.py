"""Semi-join reduction: a large side of a join is cut down by the keys of the other side before its rows move.

``(sales ⋈ dates) ⋈ customers of one state`` has to bring nearly all sales together with their customers, only to find
that most have none.  The keys of those customers are few and narrow: every task that scans sales can have all of
them, so that only sales with a partner are laid out again (Bernstein and Chiu, "Using Semi-Joins to Solve Relational
Queries", JACM 1981; Stocker et al., "Integrating Semi-Join Reducers into State-of-the-Art Query Processors", ICDE
2001).

    before  Join(sales ⋈ dates, customers, inner, c = k)
    after   Join(Join(sales ⋈ dates, Project(keys, k), semi, c = k), Project(keys, ...), inner, c = k)
            keys: Shared(customers), computed once

Rows of a side that a join drops where they have no partner may be dropped before it: either side of an inner join, the
right one of a left, semi or anti join, the left one of a right join.  A NULL key has no partner, before as after.  Mark
joins (which tell NULL from false), full joins, and sides that may come out differently when asked twice (law 12) stay
as they are.  Runs after join ordering.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from qoop.planner.algebra.expr import Column, Expr, columns_of_all, equals
from qoop.planner.algebra.properties import equated
from qoop.planner.algebra.relation import Filter, Join, Opaque, Project, Relation, Shared, walk, with_inputs
from qoop.planner.algebra.traversal import bottom_up
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.identity.determinism import is_non_deterministic
from qoop.planner.join_order.enumerate import MACHINES

LARGE_ROWS = 1_000_000.0
"""Rows of a side from which on it is worth a stage to reduce it."""
LEAST_GAIN = 2.0
"""Bytes that the reduction saves the network over those it costs, at least."""

_NAME = "reducer_"
_RIGHT_DROPS = frozenset({"inner", "left", "semi", "anti"})
_LEFT_DROPS = frozenset({"inner", "right"})


def reduce_facts(relation: Relation, cardinality: Cardinality, least_gain: float = LEAST_GAIN) -> Relation:
    """Return the relation with the large sides of its joins reduced by the keys of the other side.

    That is done where it saves the network twice the bytes it costs, on a cluster of MACHINES machines; joins whose
    other side is small enough for each of those to have all of it need no reduction.

    least_gain: bytes saved over bytes that it costs, from which on it is done; 0: wherever it can be.

    >>> from qoop.catalog.statistics.stats import ColumnStats, TableStats
    >>> from qoop.planner.algebra.relation import Scan
    >>> c, k = Column("c", "INTEGER"), Column("k", "INTEGER")
    >>> sales, visits = Scan("sales", "1", (("c", c),)), Scan("visits", "1", (("k", k),))
    >>> stats = {
    ...     "sales": TableStats(1e8, 1e9, {"c": ColumnStats(0, 1e6, minimum=0, maximum=1e6)}),
    ...     "visits": TableStats(3e7, 3e8, {"k": ColumnStats(0, 1e4, minimum=0, maximum=1e6)}),
    ... }
    >>> reduced = reduce_facts(Join(sales, visits, "inner", (equals(c, k),)), Cardinality(stats))
    >>> reduced.kind, reduced.left.kind, reduced.right.input.name
    ('inner', 'semi', 'reducer_1')
    """
    return bottom_up(relation, _Reducer(cardinality, relation, least_gain).visit)


class _Reducer:
    def __init__(self, cardinality: Cardinality, root: Relation, least_gain: float) -> None:
        self.cardinality = cardinality
        self.least_gain = least_gain
        taken = {node.name for node in walk(root) if isinstance(node, Shared)}
        self.names = (name for i in count(1) if (name := f"{_NAME}{i}") not in taken)

    def visit(self, node: Relation) -> Relation:
        if not isinstance(node, Join) or self.is_reduced(node):
            return node
        if node.kind in _LEFT_DROPS and self.is_worth_it(node, node.left, node.right):
            left, right = self.reduced(node, node.left, node.right)
        elif node.kind in _RIGHT_DROPS and self.is_worth_it(node, node.right, node.left):
            right, left = self.reduced(node, node.right, node.left)
        else:
            return node
        result = replace(node, left=left, right=right)
        self.cardinality.same_rows(result, node)
        return result

    def is_reduced(self, join: Join) -> bool:
        """True for a reduction, and for a join one of whose sides is reduced by the other."""
        left, right = (_reducers(side) for side in join.inputs)
        return bool(left & right) or (join.kind == "semi" and _is_reader(join.right))

    def is_worth_it(self, join: Join, large: Relation, other: Relation) -> bool:
        rows, pairs = self.cardinality.rows(large), _key_pairs(join, large, other)
        if not pairs or not _is_repeatable(other):
            return False
        if self.least_gain == 0 or rows < LARGE_ROWS:
            return self.least_gain == 0
        moving = self.cardinality.bytes(large)
        if self.cardinality.bytes(other) * MACHINES <= moving:
            return False  # every machine may have the whole other side: nothing need be laid out again
        keys = tuple(key for _, key in pairs)
        cost = self.cardinality.distinct(other, keys) * self.cardinality.width(keys) * MACHINES
        semi = Join(large, other, "semi", tuple(equals(mine, key) for mine, key in pairs))
        return self.least_gain * cost <= moving * (1.0 - self.cardinality.rows(semi) / rows)

    def reduced(self, join: Join, large: Relation, other: Relation) -> tuple[Relation, Relation]:
        """The large side with a semi join by the other's keys, and the other as one reader of the shared rows."""
        shared = Shared(next(self.names), other)
        pairs = _key_pairs(join, large, other)
        fresh = {key: Column(f"{key.name}:{shared.name}", key.type) for _, key in pairs}
        keys = Project(shared, tuple((new, old) for old, new in fresh.items()))
        on = tuple(equals(mine, fresh[key]) for mine, key in pairs)
        whole = Project(shared, tuple((column, column) for column in shared.columns))
        return self.sunk(large, keys, on), whole

    def sunk(self, node: Relation, keys: Relation, on: tuple[Expr, ...]) -> Relation:
        """The semi join as far down as the rows would otherwise be laid out again: below joins of two large sides."""
        columns = columns_of_all(on) - frozenset(keys.columns)
        if isinstance(node, Filter) and isinstance(node.input, Join):
            return with_inputs(node, (self.sunk(node.input, keys, on),))
        if isinstance(node, Join):
            small = min(map(self.cardinality.rows, node.inputs)) < LARGE_ROWS
            left, right = frozenset(node.left.columns), frozenset(node.right.columns)
            if not small and columns <= left and node.kind in ("inner", "left", "semi", "anti", "mark"):
                return replace(node, left=self.sunk(node.left, keys, on))
            if not small and columns <= right and node.kind in ("inner", "right"):
                return replace(node, right=self.sunk(node.right, keys, on))
        return Join(node, keys, "semi", on)


def _reducers(relation: Relation) -> set[str]:
    return {node.name for node in walk(relation) if isinstance(node, Shared) and node.name.startswith(_NAME)}


def _is_reader(relation: Relation) -> bool:
    shared = relation.input if isinstance(relation, Project) else relation
    return isinstance(shared, Shared) and shared.name.startswith(_NAME)


def _key_pairs(join: Join, large: Relation, other: Relation) -> list[tuple[Column, Column]]:
    """(the large side's column, the other's) of every equality of plain columns between the sides."""
    mine, theirs = frozenset(large.columns), frozenset(other.columns)
    found: list[tuple[Column, Column]] = []
    for a, b in filter(None, map(equated, join.on)):
        if a in mine and b in theirs:
            found.append((a, b))
        elif b in mine and a in theirs:
            found.append((b, a))
    return found


def _is_repeatable(relation: Relation) -> bool:
    return not is_non_deterministic(relation) and not any(isinstance(node, Opaque) for node in walk(relation))
