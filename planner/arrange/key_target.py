"""The target of a transfer's keys: as deep below a join's side as pays.

A semi join by keys commutes with what neither makes nor changes the key: filters, projections, inner joins (on either
side; where these equate the key, on both), the kept side of outer joins, groups by the key, windows over partitions by
it, sorts, and all branches of a set operation.  It stops at a Limit, at shared subplans, and at non-deterministic
relations.

A lookup by hash is the form of the reduction: on 29 million rows of Parquet, IN lists, bitmaps (``get_bit``) and a
larger ``dynamic_or_filter_threshold`` took the same time within 10 %, since decoding takes most of it.  DuckDB 1.5
gives scans the range of a build side's keys by itself, and the keys where they are fewer than 50; it has no Bloom
filters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from qoop.planner.algebra.expr import Column, equals, is_volatile
from qoop.planner.algebra.properties import equated
from qoop.planner.algebra.relation import (
    Aggregate,
    Filter,
    Join,
    Project,
    Relation,
    SetOp,
    Shared,
    Sort,
    Window,
    with_inputs,
)
from qoop.planner.arrange.work import Work
from qoop.planner.exchange.distribution import common_keys, common_partition

Pairs = tuple[tuple[Column, Column], ...]
"""(the target's column, the source's) of each key."""

_KEPT = {"inner": (0, 1), "left": (0,), "semi": (0,), "anti": (0,), "mark": (0,), "right": (1,)}
"""The sides of a join of which it puts rows out as they are."""
_BOTH = frozenset({"inner", "left", "right", "semi", "anti"})
"""Joins whose sides may both be reduced by a key that they equate."""

_MARK = ":transferred_"


def source_name(node: Relation) -> str | None:
    """The name of the shared subplan whose keys a semi join transfers; None for any other operator."""
    if not isinstance(node, Join) or node.kind != "semi" or not isinstance(node.right, Project):
        return None
    marked = all(_MARK in column.name for column in node.right.columns)
    return node.right.input.name if marked and isinstance(node.right.input, Shared) else None


class Target:
    """The reductions of a side by the keys of one source.

    numbers: those that are free, to name columns by. deep: always as deep as can be.
    """

    def __init__(self, work: Work, source: Shared, numbers: Iterator[int], deep: bool = False) -> None:
        self.work = work
        self.source = source
        self.numbers = numbers
        self.deep = deep
        self.semis: list[Join] = []

    def reduced(self, node: Relation, pairs: Pairs) -> Relation:
        """The node's rows that have a partner in the source, in the cheapest way that there is."""
        below = list(self.below(node, pairs))
        if self.deep and below:
            return below[-1]
        return min((*below, self.semi(node, pairs)), key=self.work.seconds)

    def semi(self, node: Relation, pairs: Pairs) -> Join:
        number = next(self.numbers)
        fresh = {key: Column(f"{key.name}{_MARK}{number}", key.type) for _, key in pairs}
        keys = Project(self.source, tuple((new, old) for old, new in fresh.items()))
        semi = Join(node, keys, "semi", tuple(equals(mine, fresh[key]) for mine, key in pairs))
        self.semis.append(semi)
        return semi

    def looking_up(self, relation: Relation) -> float:
        """Seconds of the semi joins that are part of a relation."""
        mine = {id(semi): semi for semi in self.semis}
        found = dict.fromkeys(id(node) for node in _nodes(relation) if id(node) in mine)
        return sum(self.work.own(mine[one]) for one in found)

    def below(self, node: Relation, pairs: Pairs) -> Iterator[Relation]:
        """The node over reduced inputs, in each way that there is."""
        mine = [target for target, _ in pairs]
        match node:
            case Filter() if not any(map(is_volatile, node.predicates)):
                yield from self.through(node, pairs)
            case Sort():
                yield from self.through(node, pairs)
            case Project() if not any(is_volatile(expr) for _, expr in node.exprs):
                exprs = dict(node.exprs)
                renamed = tuple((expr, key) for one, key in pairs if isinstance(expr := exprs[one], Column))
                if len(renamed) == len(pairs):
                    yield from self.through(node, renamed)
            case Aggregate() if set(mine) <= set(common_keys(node)):
                yield from self.through(node, pairs)
            case Window() if set(mine) <= set(common_partition(node)):
                yield from self.through(node, pairs)
            case Join():
                yield from self.past_join(node, pairs)
            case SetOp():
                yield from self.past_set(node, pairs)

    def through(self, node: Relation, pairs: Pairs) -> Iterator[Relation]:
        (child,) = node.inputs
        yield with_inputs(node, (self.reduced(child, pairs),))

    def past_join(self, node: Join, pairs: Pairs) -> Iterator[Relation]:
        """The join with its kept sides reduced, or with both: then the other one only by a key equated with its own."""
        if any(map(is_volatile, node.on)):
            return
        kept = _KEPT.get(node.kind, ())
        left = self.side(node, 0, pairs)
        sides = [left, None if source_name(node) else self.side(node, 1, pairs)]
        for place in kept:
            if sides[place] is not None:
                yield self.over(node, {place: sides[place]})
        if node.kind in _BOTH and all(side is not None for side in sides):
            both = self.over(node, dict(enumerate(sides)))
            self.work.cardinality.same_rows(both, self.over(node, {kept[0]: sides[kept[0]]}))
            yield both

    def over(self, node: Join, sides: Mapping[int, Relation | None]) -> Relation:
        left, right = (sides.get(place) or node.inputs[place] for place in (0, 1))
        return with_inputs(node, (left, right))

    def side(self, join: Join, place: int, pairs: Pairs) -> Relation | None:
        """A side of a join reduced by the keys that it has, or that the join equates with its own."""
        side = join.inputs[place]
        columns, same = frozenset(side.columns), dict(_equal(join)) if join.kind in _BOTH else {}
        own = tuple((mine, key) for one, key in pairs if (mine := one if one in columns else same.get(one)) in columns)
        return self.reduced(side, own) if len(own) == len(pairs) else None

    def past_set(self, node: SetOp, pairs: Pairs) -> Iterator[Relation]:
        places = [(node.columns.index(one), key) for one, key in pairs]
        branches = (self.reduced(b, tuple((b.columns[i], key) for i, key in places)) for b in node.branches)
        yield with_inputs(node, tuple(branches))


def _equal(join: Join) -> Iterator[tuple[Column, Column]]:
    for a, b in filter(None, map(equated, join.on)):
        yield a, b
        yield b, a


def _nodes(relation: Relation) -> Iterator[Relation]:
    yield relation
    if not isinstance(relation, Shared):
        for child in relation.inputs:
            yield from _nodes(child)
