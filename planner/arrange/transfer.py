"""Predicate transfer: the keys that one side of a join has left cut the other side down where its rows come from.

``sales ⋈ (averages of all sales by item) ⋈ items of one maker`` has to average the sales of every item, only to find
that most are of other makers.  The keys of those items are few: the scan below the averages can have them.  So the
predicates of one relation travel to others along the joins, forward and backward, before any join is made ("Debunking
the Myth of Join Ordering: Toward Robust SQL Analytics", SIGMOD 2025; semi-join reducers: Bernstein and Chiu, "Using
Semi-Joins to Solve Relational Queries", JACM 1981; Stocker et al., ICDE 2001).

    before  Join(averages(sales), items of one maker, inner, i = k)
    after   Join(averages(Join(sales, Project(keys, k), semi, i = k)), Project(keys, ...), inner, i = k)
            keys: Shared(items of one maker), computed once

The schedule follows the joins from the root down: at each join either side may reduce the other, and what it leaves
goes on to the joins below.  A source (:func:`source_of`) is the least part of a side that has as
few keys; it becomes a separate stage.  A target (:mod:`qoop.planner.arrange.key_target`) is as deep below the other
side as pays.  Each transfer is costed by itself: what it saves must pay for the keys and for looking them up.

Rows of a side that a join drops where they have no partner may be dropped before it: either side of an inner join, the
right one of a left, semi or anti join, the left one of a right or semi join.  A NULL key has no partner, before as
after.  Mark joins (which distinguish NULL from false) and full joins stay as they are, and so do keys whose equal
values are not identical, and non-deterministic sources (law 12).  Runs after join ordering.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

from qoop.planner.algebra.expr import Column, equals
from qoop.planner.algebra.properties import equated
from qoop.planner.algebra.relation import (
    Aggregate,
    Filter,
    Join,
    Project,
    Relation,
    Shared,
    Sort,
    Window,
    with_inputs,
)
from qoop.planner.algebra.traversal import shared_subplans
from qoop.planner.arrange.key_target import Target, source_name
from qoop.planner.arrange.work import Work
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.identity.determinism import is_non_deterministic
from qoop.planner.variants import TRANSFER_GAIN

LEAST_SECONDS = 0.01
"""Seconds that a transfer gains, at least."""
MOST_LEFT = 0.75
"""The part of a side's rows that a join leaves of it, or makes of it, at most."""
STAGE_SECONDS = 0.006
"""Seconds that one more stage costs, which others wait for."""

_NAME = "keys_of_"
_RIGHT_DROPS = frozenset({"inner", "left", "semi", "anti"})
_LEFT_DROPS = frozenset({"inner", "right", "semi"})


def transfer(relation: Relation, work: Work, least_gain: float = TRANSFER_GAIN) -> Relation:
    """Return the relation with keys transferred between the sides of its joins where that pays.

    least_gain: estimated seconds saved over those that it costs, from which on it is done; 0: wherever it can be.
    """
    return _Transfers(work, relation, least_gain).walk(relation)


@dataclass(frozen=True)
class _Transfer:
    """A join with one side reduced by the other. right: which one. gain: seconds saved, less those it costs."""

    join: Join
    right: bool
    gain: float


class _Transfers:
    def __init__(self, work: Work, root: Relation, least_gain: float) -> None:
        self.work = work
        self.cardinality = work.cardinality
        self.least_gain = least_gain
        self.everywhere = least_gain == 0
        self.least = 0.0 if self.everywhere else least_gain * STAGE_SECONDS + LEAST_SECONDS
        before = [name for node in _nodes(root) if (name := source_name(node))]
        self.again = bool(before)  # the rule has run before
        self.numbers = count(1 + len(before))
        taken = shared_subplans(root)
        self.names = (name for i in count(1) if (name := f"{_NAME}{i}") not in taken)
        self.done: dict[int, tuple[Relation, Relation]] = {}
        self.bodies: dict[str, Shared] = {}

    def walk(self, node: Relation) -> Relation:
        """The tree with its transfers, those of the top joins first."""
        if isinstance(node, Shared):
            return self.shared(node)
        known = self.done.get(id(node))
        if known is None:
            top = self.joined(node) if isinstance(node, Join) else node
            result = with_inputs(top, tuple(map(self.walk, top.inputs)))
            if result is not node:
                self.cardinality.same_rows(result, node)
            known = self.done[id(node)] = (node, result)
        return known[1]

    def shared(self, node: Shared) -> Shared:
        """All readers of a subplan read the same one."""
        if node.name not in self.bodies:
            self.bodies[node.name] = with_inputs(node, (self.walk(node.input),))  # type: ignore[assignment]
        return self.bodies[node.name]

    def joined(self, join: Join) -> Join:
        """The join with each of its sides reduced by the other, the one that gains more first, where it pays."""
        if not join.on or source_name(join) or (self.again and _is_reduced(join)):
            return join
        first = max(self.options(join, (False, True)), key=_gain, default=None)
        if first is None:
            return join
        second = max(self.options(first.join, (not first.right,)), key=_gain, default=None)
        return (second or first).join

    def options(self, join: Join, sides: Iterable[bool]) -> Iterator[_Transfer]:
        """The transfers that pay. sides: the sides to reduce; True: the right one."""
        for right in sides:
            if join.kind not in (_RIGHT_DROPS if right else _LEFT_DROPS) or not self.may_pay(join, right):
                continue
            side, other = _sides(join, right)
            pairs = tuple(key_pairs(join, side, other))
            for chosen in dict.fromkeys((pairs, *((pair,) for pair in pairs))) if pairs else ():
                found = self.option(join, right, chosen)
                if found is not None:
                    yield found

    def may_pay(self, join: Join, right: bool) -> bool:
        """False if there is little to save, or if the join hardly drops a row of the side.

        A left side is looked up as the join would look it up, which saves nothing.
        """
        if self.everywhere:
            return True
        side, rows = _sides(join, right)[0], self.cardinality.rows
        if join.kind == "inner" and rows(join) >= MOST_LEFT * rows(side):
            return False
        return self.savable(join, right) - (0.0 if right else self.work.probing(join)) >= self.least

    def savable(self, join: Join, right: bool) -> float:
        """Seconds that a transfer saves at most: those of the join and of all below but the scans."""
        return self.work.above_scans(_sides(join, right)[0]) + self.work.joining(join)

    def option(self, join: Join, right: bool, pairs: Sequence[KeyPair]) -> _Transfer | None:
        """The transfer of some keys to one side of a join, if it pays."""
        side, other = _sides(join, right)
        most = self.savable(join, right) * (1.0 - self.part_left(side, other, pairs))
        if most < self.least:
            return None
        source = source_of(other, [theirs for _, theirs in pairs], self.cardinality)
        if source is None:
            return None
        making = self.making(source.relation)
        looking = self.work.cost.probe(self.cardinality.rows(side), self.cardinality.rows(source.relation))
        if not self.pays(most, making + looking) or is_non_deterministic(source.relation):
            return None
        return self.made(join, right, pairs, source, making)

    def making(self, source: Relation) -> float:
        """Seconds to make a source a separate stage."""
        if isinstance(source, Shared):
            return 0.0
        return STAGE_SECONDS + 2 * self.work.transfer(source)

    def pays(self, saved: float, costs: float) -> bool:
        return self.everywhere or (saved - costs >= LEAST_SECONDS and saved >= self.least_gain * costs)

    def made(
        self, join: Join, right: bool, pairs: Sequence[KeyPair], source: KeySource, making: float
    ) -> _Transfer | None:
        side, other = _sides(join, right)
        known = source.relation if isinstance(source.relation, Shared) else None
        shared = known or Shared(next(self.names), source.relation)
        target = Target(self.work, shared, self.numbers, self.everywhere)
        found = target.reduced(side, tuple(zip([mine for mine, _ in pairs], source.keys, strict=True)))
        whole: Relation = (
            Project(shared, tuple((column, column) for column in shared.columns)) if known is None else shared
        )
        rest = replaced(other, source.path, whole)
        after = replace(join, right=found, left=rest) if right else replace(join, left=found, right=rest)
        self.cardinality.same_rows(after, join)
        work, looking = self.work, target.looking_up(found)
        gain = work.seconds(side) + work.joining(join) - work.seconds(found) - work.joining(after) - making
        return _Transfer(after, right, gain) if self.pays(gain + making + looking, making + looking) else None

    def part_left(self, side: Relation, other: Relation, pairs: Sequence[KeyPair]) -> float:
        """The part of a side's rows that have a partner."""
        semi = Join(side, other, "semi", tuple(equals(*pair) for pair in pairs))
        return self.cardinality.rows(semi) / max(1.0, self.cardinality.rows(side))


def _sides(join: Join, right: bool) -> tuple[Relation, Relation]:
    """The side to reduce and the other one."""
    return (join.right, join.left) if right else (join.left, join.right)


def _gain(transfer: _Transfer) -> float:
    return transfer.gain


def _is_reduced(join: Join) -> bool:
    """True for a join one of whose sides is reduced by the other."""
    left, right = (list(_nodes(side)) for side in join.inputs)
    return any(
        source_name(node) in {other.name for other in others if isinstance(other, Shared)}
        for side, others in ((left, right), (right, left))
        for node in side
    )


def _nodes(relation: Relation) -> Iterator[Relation]:
    """Every operator, a shared one once."""
    visited: set[int] = set()
    stack = [relation]
    while stack:
        node = stack.pop()
        if id(node) not in visited:
            visited.add(id(node))
            yield node
            stack.extend(node.inputs)


# The source of the keys: the smallest part of a side that has as few keys as the whole side

MORE_KEYS = 1.2
"""Keys that a part of a side may have over those of the whole side, to stand for it."""

KeyPair = tuple[Column, Column]
"""(the target's column, the source's)."""


@dataclass(frozen=True)
class KeySource:
    """A part of a side whose keys include all of the side's. path: the inputs that lead to it. keys: its columns."""

    relation: Relation
    path: tuple[int, ...]
    keys: tuple[Column, ...]


def key_pairs(join: Join, side: Relation, other: Relation) -> list[KeyPair]:
    """(the side's column, the other's) of every equality of plain columns between the sides of a join."""
    mine, theirs = frozenset(side.columns), frozenset(other.columns)
    found: list[KeyPair] = []
    for a, b in filter(None, map(equated, join.on)):
        if a in mine and b in theirs:
            found.append((a, b))
        elif b in mine and a in theirs:
            found.append((b, a))
    return found


def source_of(side: Relation, keys: Sequence[Column], cardinality: Cardinality) -> KeySource | None:
    """The part of a side with the fewest bytes that has hardly more keys than all of it; None if it has no keys."""
    most = MORE_KEYS * cardinality.distinct(side, keys)
    parts = (part for part in _parts(side, (), tuple(keys)) if cardinality.distinct(part.relation, part.keys) <= most)
    return min(parts, key=lambda part: cardinality.bytes(part.relation), default=None)


def _parts(node: Relation, path: tuple[int, ...], keys: tuple[Column, ...]) -> Iterator[KeySource]:
    """The subtrees that hold all values of the keys which come out at the top; shared ones are not entered."""
    yield KeySource(node, path, keys)
    match node:
        case Filter() | Sort() | Window() | Join() | Aggregate():
            below: Sequence[Column | None] = keys
        case Project():
            exprs = dict(node.exprs)
            below = [expr if isinstance(expr := exprs[key], Column) else None for key in keys]
        case _:
            return
    for place, child in enumerate(node.inputs):
        carried = tuple(key for key in below if key is not None and key in child.columns)
        if len(carried) == len(keys):
            yield from _parts(child, (*path, place), carried)


def replaced(node: Relation, path: tuple[int, ...], part: Relation) -> Relation:
    """The tree with another relation at the end of a path."""
    if not path:
        return part
    inputs = list(node.inputs)
    inputs[path[0]] = replaced(inputs[path[0]], path[1:], part)
    return with_inputs(node, tuple(inputs))
