"""The finer aggregate that covers several blocks: all their keys, and what their predicates differ in.

Tables that all blocks read are joined as they join them. A table that only some read is joined by an outer join, and a
key says for each group whether there was a partner: so the other blocks lose no rows. It needs a unique key, or rows
would count twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, reduce
from hashlib import blake2b

from qoop.catalog.value import value
from qoop.planner.algebra.expr import Column, Expr, columns_of, columns_of_all, is_not_null
from qoop.planner.algebra.properties import equated
from qoop.planner.algebra.relation import Aggregate, Aggregation, Filter, Join, Project, Relation, Scan
from qoop.planner.rules import apply_rules
from qoop.planner.summaries.block import Leaf, SummaryBlock, leaf_of, named, text

IsUnique = Callable[[str, str], bool]
"""True if a column of a table, by their names, is known to have no value twice."""

LiftedKeys = Callable[[Expr], Sequence[Expr]]
"""The keys that a summary needs so that a predicate can be evaluated on its groups."""


def by_columns(predicate: Expr) -> Sequence[Expr]:
    """The columns of the predicate: other constants can be filtered by, too."""
    return sorted(columns_of(predicate), key=lambda column: column.name)


def by_outcome(predicate: Expr) -> Sequence[Expr]:
    """The predicate itself, which has three values."""
    return (predicate,)


@value
class Partner:
    """A table that only some of the blocks read. on: the equality by whose unique column it is joined."""

    leaf: Leaf
    on: Expr

    @property
    def exists(self) -> Expr:
        """True where a row has a partner in the table."""
        return is_not_null(next(c for c in _sides(self.on) if leaf_of(c) == self.leaf.name))


@value
class Summary:
    """``SELECT keys, partials FROM leaves LEFT JOIN partners WHERE predicates GROUP BY keys``.

    All parts are over columns of leaves. keys: by text. partials: their columns are named by what they compute.
    """

    leaves: Mapping[str, Leaf]
    partners: tuple[Partner, ...]
    predicates: Mapping[str, Expr]
    keys: Mapping[str, Expr]
    partials: Mapping[str, Aggregation]

    @cached_property
    def all_leaves(self) -> Mapping[str, Leaf]:
        """Its tables, also those that only some blocks read."""
        return {**self.leaves, **{one.leaf.name: one.leaf for one in self.partners}}

    @cached_property
    def columns(self) -> Mapping[str, Column]:
        """The columns of the keys, by the texts of these."""
        return {
            text: expr if isinstance(expr, Column) else named("key", text, expr.type)
            for text, expr in self.keys.items()
        }

    @cached_property
    def relation(self) -> Relation:
        """The summary as a relation, after all rules."""
        used = columns_of_all((*self.predicates.values(), *self.keys.values(), *(one.on for one in self.partners)))
        used |= columns_of_all(expr for part in self.partials.values() for expr in part.exprs)
        scans = [_scan(leaf, used) for leaf in self.leaves.values()]
        joined: Relation = reduce(lambda left, right: Join(left, right, "inner", ()), scans)
        joined = Filter(joined, tuple(self.predicates.values())) if self.predicates else joined
        for one in self.partners:
            joined = Join(joined, _scan(one.leaf, used), "left", (one.on,))
        kept = tuple((column, column) for column in joined.columns)
        keys = tuple((self.columns[text], expr) for text, expr in self.keys.items() if not isinstance(expr, Column))
        below = Project(joined, (*kept, *keys)) if keys else joined
        return apply_rules(Aggregate(below, tuple(self.columns.values()), tuple(self.partials.values())))

    @cached_property
    def name(self) -> str:
        """Digest of all that it computes."""
        parts = [f"{leaf.name} {leaf.version}" for leaf in self.leaves.values()]
        parts += [f"{one.leaf.name} {one.leaf.version} {text(one.on)}" for one in self.partners]
        content = [sorted(parts), *map(sorted, (self.predicates, self.keys, self.partials))]
        return blake2b(repr(content).encode(), digest_size=16).hexdigest()


def covering(blocks: Sequence[SummaryBlock], is_unique: IsUnique, lifted: LiftedKeys = by_outcome) -> Summary | None:
    """The coarsest summary from which all blocks can be rolled up; None if there is none.

    lifted: the keys for a predicate that not all blocks have.
    """
    shared = _shared_leaves(blocks)
    predicates = _common(blocks, shared)
    if not shared or not _is_connected(shared, predicates.values()):
        return None
    partners = _partners(blocks, shared, is_unique)
    if partners is None:
        return None
    joins = {text(one.on) for one in partners}
    keys: dict[str, Expr] = {}
    for block in blocks:
        keys |= {text(expr): expr for expr in block.keys.values()}
        rest = [one for name, one in block.predicates.items() if name not in predicates and name not in joins]
        for expr in (key for one in rest for key in lifted(one)):
            keys.setdefault(text(expr), expr)
    keys |= {text(one.exists): one.exists for one in partners}
    partials = {part.column.name: part for block in blocks for part in block.partials.values()}
    return Summary(shared, partners, predicates, keys, partials)


def _shared_leaves(blocks: Sequence[SummaryBlock]) -> dict[str, Leaf]:
    """The leaves of all blocks, with all columns that any reads; none if a table has two versions."""
    found: dict[str, Leaf] = {}
    for name, leaf in blocks[0].leaves.items():
        same = [block.leaves[name] for block in blocks if name in block.leaves]
        if len(same) == len(blocks):
            if len({one.version for one in same}) > 1:
                return {}
            found[name] = _with_columns(leaf, same)
    return found


def _with_columns(leaf: Leaf, others: Iterable[Leaf]) -> Leaf:
    types = reduce(lambda one, other: {**one, **other.types}, others, dict(leaf.types))
    return Leaf(leaf.table, leaf.version, leaf.number, types)


def _common(blocks: Sequence[SummaryBlock], leaves: Collection[str]) -> dict[str, Expr]:
    """The predicates of all blocks that read no other leaves."""
    return {
        name: one
        for name, one in blocks[0].predicates.items()
        if all(name in block.predicates for block in blocks) and {leaf_of(c) for c in columns_of(one)} <= set(leaves)
    }


def _is_connected(leaves: Collection[str], predicates: Iterable[Expr]) -> bool:
    """True if equalities join all leaves: without them their rows would be multiplied."""
    pairs = [{leaf_of(c) for c in _sides(one)} for one in predicates]
    first, *_ = leaves
    reached = {first}
    for _ in leaves:
        reached |= set().union(*(pair for pair in pairs if pair & reached))
    return reached >= set(leaves)


def _sides(predicate: Expr) -> tuple[Column, ...]:
    """The columns of an equality between two; none for any other predicate."""
    return equated(predicate) or ()


def _partners(
    blocks: Sequence[SummaryBlock], shared: Collection[str], is_unique: IsUnique
) -> tuple[Partner, ...] | None:
    """The leaves of only some blocks, in an order in which they can be joined; None if one cannot."""
    others = {name: leaf for block in blocks for name, leaf in block.leaves.items() if name not in shared}
    found: dict[str, Partner] = {}
    while len(found) < len(others):
        reached = {*shared, *found}
        nearest = next(filter(None, (
            _partner(leaf, [block for block in blocks if name in block.leaves], reached, is_unique)
            for name, leaf in others.items() if name not in found
        )), None)  # fmt: skip
        if nearest is None:
            return None
        found[nearest.leaf.name] = nearest
    return tuple(found.values())


def _partner(
    leaf: Leaf, blocks: Sequence[SummaryBlock], reached: Collection[str], is_unique: IsUnique
) -> Partner | None:
    """The leaf, joined by an equality of a unique column that all of its blocks have."""
    same = [block.leaves[leaf.name] for block in blocks]
    if len({one.version for one in same}) > 1:
        return None
    for name, predicate in blocks[0].predicates.items():
        mine = [c for c in _sides(predicate) if leaf_of(c) == leaf.name]
        theirs = [c for c in _sides(predicate) if leaf_of(c) in reached]
        if len(mine) != 1 or len(theirs) != 1 or any(name not in block.predicates for block in blocks):
            continue
        if is_unique(leaf.table, next(own for own in leaf.types if leaf.column(own) == mine[0])):
            return Partner(_with_columns(leaf, same), predicate)
    return None


def _scan(leaf: Leaf, used: Collection[Column]) -> Scan:
    """The scan of the columns that are used, at least one."""
    fields = [(own, leaf.column(own)) for own in sorted(leaf.types)]
    needed = [(own, column) for own, column in fields if column in used]
    return Scan(leaf.table, leaf.version, tuple(needed or fields[:1]))
