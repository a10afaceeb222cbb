"""The join graph of a group: sets of leaves as bitmasks, and how many rows each set joins to.

The rows of a set depend on the set alone, not on the order it was joined in:

    rows(S) = product of the leaves' rows x factors of its equality classes, predicates and attached leaves

Expressions that equalities chain together form a class; whichever of its members meet first, they are
equated once a join.  With the members' domains d1 <= d2 <= ... <= dk a class keeps 1 / (d2 ... dk).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import combinations, islice

from qoop.planner.algebra.expr import Call, Expr, columns_of, columns_of_all, equals
from qoop.planner.algebra.properties import EqualExprs
from qoop.planner.algebra.relation import Filter, Join, Relation
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.estimate.equijoin import (
    equalities,
    equi_join,
    inner_range,
    match_fraction,
    range_overlap,
    rows_in_range,
)
from qoop.planner.estimate.frequent import excess_of
from qoop.planner.estimate.observed_rows import ObservedRows
from qoop.planner.estimate.predicates import conjoin
from qoop.planner.estimate.profile import Profile, distinct_values, spread_of, with_factor
from qoop.planner.estimate.selectivity import Spread
from qoop.planner.join_order.corrections import corrections
from qoop.planner.join_order.group import JoinGroup, JoinLeaf

Mask = int

_MOST_SETS = 256  # of leaves, looked at for one observed set of tables: self-joins make many


@dataclass
class EqualityClass:
    """Expressions that are all equal in the result, each with the leaves it needs."""

    members: list[tuple[Expr, Mask]] = field(default_factory=list)
    mask: Mask = 0
    factors: dict[Mask, float] = field(default_factory=dict)

    @property
    def wide(self) -> bool:
        """True if a member needs several leaves, so that touching a leaf of the class does not make it available."""
        return any(mask & (mask - 1) for _, mask in self.members)

    def available(self, leaves: Mask) -> list[Expr]:
        """The members that can be computed from these leaves."""
        return [expr for expr, needs in self.members if not needs & ~leaves]


class JoinGraph:
    """Leaves, edges and factors of one group.

    corrected_by: observations of some sets, which moved the estimates of others; None: no observations.
    full: mask of all leaves. attached: mask of the leaves that are not inner. needs: for each attached leaf the
    leaves its ON refers to. neighbours: for each leaf the mask of leaves it shares an edge with.
    """

    def __init__(self, group: JoinGroup, cardinality: Cardinality):
        self.leaves = group.leaves
        self.full: Mask = (1 << len(group.leaves)) - 1
        self._owner = {column: 1 << i for i, leaf in enumerate(group.leaves) for column in leaf.columns}
        self.attached: Mask = 0
        self.needs: dict[Mask, Mask] = {}
        for i, leaf in enumerate(group.leaves):
            if leaf.kind != "inner":
                self.attached |= 1 << i
                self.needs[1 << i] = self._needs(leaf)
        self.classes: list[EqualityClass] = []
        self.predicates: list[tuple[Expr, Mask]] = []
        self.constants: list[Expr] = []
        self._local = self._sort_out(group.predicates)
        self._pairs: dict[Mask, list[tuple[Mask, Mask]] | None] = {}
        self.corrected_by: ObservedRows | None = None
        self.relations = [self.with_filters(i, leaf.relation) for i, leaf in enumerate(group.leaves)]
        self._meeting = [(cls.mask, cls if cls.wide else None) for cls in self.classes]
        self._estimate(cardinality)
        self.neighbours = self._edges()

    # ---- structure

    def with_filters(self, place: int, relation: Relation) -> Relation:
        """A relation in the place of a leaf, under the predicates that concern this leaf alone."""
        return _with_filter(relation, self._local.get(1 << place, []))

    def pairs(
        self, component: Mask, find: Callable[[Mask], list[tuple[Mask, Mask]] | None]
    ) -> list[tuple[Mask, Mask]] | None:
        """The pairs of sets to look at in a component, found once."""
        if component not in self._pairs:
            self._pairs[component] = find(component)
        return self._pairs[component]

    def mask_of(self, expr: Expr) -> Mask:
        """The leaves an expression needs, among them those that must be there before an attached one is."""
        mask = 0
        for column in columns_of(expr):
            mask |= self._owner[column]
        return self._closed(mask)

    def _closed(self, mask: Mask) -> Mask:
        for bit in bits(mask & self.attached):
            mask |= self.needs.get(bit, 0)
        return mask

    def _needs(self, leaf: JoinLeaf) -> Mask:
        outer = columns_of_all(leaf.on) - frozenset(leaf.relation.columns)
        mask = 0
        for column in outer:
            mask |= self._owner[column]
        return self._closed(mask) or 1 << leaf.anchor

    def _sort_out(self, predicates: Iterable[Expr]) -> dict[Mask, list[Expr]]:
        """Split predicates into equality classes, filters of one leaf (returned), constants and the rest."""
        local: dict[Mask, list[Expr]] = {}
        classes = EqualExprs()
        for predicate in dict.fromkeys(predicates):
            mask = self.mask_of(predicate)
            sides = self._sides(predicate)
            if sides is not None:
                classes.add(*sides)
            elif mask == 0:
                self.constants.append(predicate)
            elif mask & (mask - 1) == 0:
                local.setdefault(mask, []).append(predicate)
            else:
                self.predicates.append((predicate, mask))
        for members in classes.groups():
            self._add_class(members, local)
        return local

    def _sides(self, predicate: Expr) -> tuple[Expr, Expr] | None:
        if not (isinstance(predicate, Call) and predicate.op == "=" and len(predicate.args) == 2):
            return None
        left, right = predicate.args
        a, b = self.mask_of(left), self.mask_of(right)
        if not a or not b or (a & b and not (a | b) & self.attached):
            return None
        return (left, right) if a != b else None

    def _add_class(self, members: list[Expr], local: dict[Mask, list[Expr]]) -> None:
        """Equate members of one leaf there, and keep the first of them."""
        cls, first = EqualityClass(), dict[Mask, Expr]()
        for expr in members:
            mask = self.mask_of(expr)
            if mask in first and mask & (mask - 1) == 0:
                local.setdefault(mask, []).append(equals(first[mask], expr))
                continue
            first.setdefault(mask, expr)
            cls.members.append((expr, mask))
            cls.mask |= mask
        if len(cls.members) > 1:
            self.classes.append(cls)

    # ---- rows

    def _estimate(self, cardinality: Cardinality) -> None:
        self.profiles = [cardinality.profile(relation) for relation in self.relations]
        self._thin_out()
        self.rows: dict[Mask, float] = {1 << i: profile.rows for i, profile in enumerate(self.profiles)}
        self.widths: dict[Mask, float] = {
            1 << i: cardinality.width(relation.columns) for i, relation in enumerate(self.relations)
        }
        self.factors = [(mask, conjoin((p,), self._joined(mask))[0]) for p, mask in self.predicates]
        self.factors += self._composite_keys()
        self.growth = {bit: self._growth(self.leaves[bit.bit_length() - 1], bit) for bit in bits(self.attached)}
        if cardinality.observed is not None:
            self._correct(cardinality.observed)

    def _correct(self, observed: ObservedRows) -> None:
        """Add factors that give every observed set of leaves its observed rows, and other sets their part."""
        known = [(mask, self._observed_rows(mask, observed)) for mask in self._over(observed)]
        found = [(mask, max(rows, 0.5)) for mask, rows in known if rows is not None and self._rows_of(mask) > 0]
        uncertain = [bit for bit in self._local if observed.rows(self.relations[bit.bit_length() - 1]) is None]
        leaning = [self._assumptions(mask, uncertain) for mask, _ in found]
        wrong = [rows / self._rows_of(mask) for mask, rows in found]
        self._forget_sets()
        self.corrected_by = observed if found else None
        for assumption, factor in corrections(list(zip(leaning, wrong, strict=True))).items():
            if assumption in self.rows:
                self.rows[assumption] *= factor
            else:
                self.factors.append((assumption, factor))
        for mask, rows in found:  # exactly, where two of them contradict each other
            self.factors.append((mask, rows / self._rows_of(mask)))
            self._forget_sets()

    def _observed_rows(self, mask: Mask, observed: ObservedRows) -> float | None:
        """The observed rows of a set, or else those by the error of other joins of its tables."""
        meaning = self.meaning(mask)
        rows = observed.rows(meaning)
        if rows is not None:
            return rows
        error = observed.error(meaning)
        return None if error is None else error * self._rows_of(mask)

    def _forget_sets(self) -> None:
        """Forget the rows of all sets but the single leaves."""
        self.rows = {mask: rows for mask, rows in self.rows.items() if not mask & (mask - 1)}

    def _assumptions(self, mask: Mask, uncertain: Sequence[Mask]) -> frozenset[Mask]:
        """The assumptions behind the rows of a set: filters of leaves, and each join within it."""
        singles = ([m for _, m in cls.members if not m & ~mask and not m & (m - 1)] for cls in self.classes)
        pairs = (a | b for members in singles for a, b in combinations(members, 2))
        joins = (needs | bit for bit, needs in self.needs.items())
        together = (*pairs, *joins, *(needs for _, needs in self.predicates))
        return frozenset(one for one in (*together, *uncertain) if not one & ~mask)

    def _over(self, observed: ObservedRows) -> list[Mask]:
        """Sets of leaves over exactly the tables of an observation, the smallest first."""
        tables = [observed.tables(relation) for relation in self.relations]
        found: set[Mask] = set()
        for target in observed.table_sets:
            within = [i for i, own in enumerate(tables) if own <= target]
            sets = (chosen for size in range(2, len(within) + 1) for chosen in combinations(within, size))
            fitting = (c for c in islice(sets, _MOST_SETS) if frozenset().union(*(tables[i] for i in c)) == target)
            found.update(sum(1 << i for i in chosen) for chosen in fitting)
        return sorted((mask for mask in found if self._stands(mask)), key=lambda mask: (mask.bit_count(), mask))

    def _stands(self, mask: Mask) -> bool:
        """True if the set has all leaves that an ON of its attached leaves refers to, and a leaf that is not
        attached."""
        return bool(mask & ~self.attached) and not any(self.needs[bit] & ~mask for bit in bits(mask & self.attached))

    def meaning(self, mask: Mask) -> Relation:
        """A relation of the joined rows of a set of leaves; its order of joins has no meaning."""
        inner = [self.relations[bit.bit_length() - 1] for bit in bits(mask & ~self.attached)]
        relation = reduce(lambda left, right: Join(left, right, "inner", ()), inner)
        for bit in bits(mask & self.attached):
            leaf = self.leaves[bit.bit_length() - 1]
            relation = Join(relation, self.relations[bit.bit_length() - 1], leaf.kind, leaf.on, leaf.mark)
        members = [cls.available(mask) for cls in self.classes]
        equal = [equals(same[0], other) for same in members for other in same[1:]]
        return _with_filter(relation, [*equal, *(p for p, needs in self.predicates if not needs & ~mask)])

    def _rows_of(self, mask: Mask) -> float:
        """Estimated rows of a set of leaves."""
        done: Mask = 0
        for bit in (*bits(mask & ~self.attached), *bits(mask & self.attached)):
            if done:
                self.merged_rows(done, bit)
            done |= bit
        return self.rows[mask]

    def _thin_out(self) -> None:
        """Record for each leaf the fraction that its classes will keep of it, in any order of joins."""
        for cls in self.classes:
            members = [(expr, mask.bit_length() - 1) for expr, mask in cls.members if mask & (mask - 1) == 0]
            found = [(i, spread_of(expr, self.profiles[i])) for expr, i in members]
            values = [distinct_values(spread, self.profiles[i]) for i, spread in found]
            for n, (i, spread) in enumerate(found):
                fewest = min((count for m, count in enumerate(values) if m != n), default=spread.domain)
                profile = self.profiles[i]
                kept = fewest / max(1.0, spread.domain)
                self.profiles[i] = replace(profile, origins=with_factor(profile.origins, spread, kept, profile.rows))

    def _joined(self, mask: Mask) -> Profile:
        """A profile of all columns of some leaves, as if they were one table."""
        parts = [self.profiles[bit.bit_length() - 1] for bit in bits(mask)]
        columns = {name: spread for part in parts for name, spread in part.columns.items()}
        origins = {number: origin for part in parts for number, origin in part.origins.items()}
        return Profile(max((part.rows for part in parts), default=1.0), columns, origins)

    def _growth(self, leaf: JoinLeaf, bit: Mask) -> float:
        """Rows after attaching a leaf, per row before."""
        left, right = self._joined(self.needs[bit]), self.profiles[bit.bit_length() - 1]
        if leaf.kind == "mark":
            return 1.0
        pairs, rest = equalities(leaf.on, left, right)
        matched = match_fraction(pairs, rest, left, right)
        if leaf.kind == "semi":
            return matched
        if leaf.kind == "anti":
            return 1.0 - matched
        both = Profile(left.rows, {**left.columns, **right.columns}, {**left.origins, **right.origins})
        return 1.0 - matched + right.rows * equi_join(pairs, left, right) * conjoin(rest, both)[0]

    def _composite_keys(self) -> list[tuple[Mask, float]]:
        """The pairs of leaves that several classes connect, each with its rows relative to independent classes."""
        shared: dict[Mask, list[tuple[Expr, Expr]]] = {}
        for cls in self.classes:
            singles = [(expr, mask) for expr, mask in cls.members if mask & (mask - 1) == 0]
            for i, (x, a) in enumerate(singles):
                for y, b in singles[i + 1 :]:
                    shared.setdefault(a | b, []).append((x, y) if a < b else (y, x))
        return [(mask, self._correction(mask, pairs)) for mask, pairs in shared.items() if len(pairs) > 1]

    def _correction(self, mask: Mask, pairs: list[tuple[Expr, Expr]]) -> float:
        left, right = (self.profiles[bit.bit_length() - 1] for bit in bits(mask))
        apart = 1.0
        for pair in pairs:
            apart *= equi_join([pair], left, right)
        return equi_join(pairs, left, right) / apart if apart > 0 else 1.0

    def merged_rows(self, left: Mask, right: Mask) -> float:
        """Rows of the union of two sets whose own rows are known."""
        both = left | right
        known = self.rows.get(both)
        if known is not None:
            return known
        rows = self.rows[left] * (self.growth[right] if right in self.growth else self.rows[right])
        for cls in self.classes:
            mask, factors = cls.mask, cls.factors
            a, b = mask & left, mask & right
            if a and b:
                for key in (a, b, a | b):
                    if key not in factors:
                        factors[key] = self._equated(cls, key)
                rows *= factors[a | b] / (factors[a] * factors[b])
        for mask, factor in self.factors:
            if not mask & ~both and mask & ~left and mask & ~right:
                rows *= factor
        self.rows[both] = rows
        narrow = right in self.growth and self.leaves[right.bit_length() - 1].kind != "left"
        self.widths[both] = self.widths[left] + (1.0 if narrow else self.widths[right])
        return rows

    def _equated(self, cls: EqualityClass, key: Mask) -> float:
        """Fraction of combinations in which all available members of a class are equal."""
        here = [(expr, mask) for expr, mask in cls.members if not mask & ~key]
        if len(here) < 2:
            return 1.0
        profiles = [self._joined(mask) for _, mask in here]
        spreads = [spread_of(expr, profile) for (expr, _), profile in zip(here, profiles, strict=True)]
        low, high = spreads[0].minimum, spreads[0].maximum
        for spread in spreads[1:]:
            low, high = inner_range(Spread(1, 1, 1, minimum=low, maximum=high), spread)
        share = min(spread.share for spread in spreads)
        factor, domains = excess_of(spreads), []
        for (expr, _), spread, profile in zip(here, spreads, profiles, strict=True):
            overlap = range_overlap(spread, low, high, share)
            factor *= (1.0 - spread.nulls) * rows_in_range(expr, profile, overlap)
            domains.append(max(1.0, spread.domain * overlap))
        for domain in sorted(domains)[1:]:
            factor /= domain
        return factor or 1e-12  # divided by, later on

    # ---- edges

    def connects(self, left: Mask, right: Mask) -> bool:
        """True if an equality class has members on both sides, so that the join can be done by hashing."""
        for mask, wide in self._meeting:
            if mask & left and mask & right and (wide is None or (wide.available(left) and wide.available(right))):
                return True
        return False

    def _edges(self) -> list[Mask]:
        neighbours = [0] * len(self.leaves)
        for cls in self.classes:
            singles = [mask for _, mask in cls.members if mask & (mask - 1) == 0]
            together = sum(singles)
            for mask in singles:
                neighbours[mask.bit_length() - 1] |= together & ~mask
        wider = [mask for _, mask in self.predicates] + [cls.mask for cls in self.classes]
        wider += [need for need in self.needs.values() if need & (need - 1)]
        for mask in wider:
            _connect(mask & ~self.attached, neighbours)
        for bit, need in self.needs.items():
            neighbours[bit.bit_length() - 1] |= need
            for other in bits(need):
                neighbours[other.bit_length() - 1] |= bit
        return neighbours

    def components(self) -> list[Mask]:
        """The connected parts of the graph."""
        parts, rest = [], self.full
        while rest:
            part = _component(rest & -rest, self.neighbours)
            parts.append(part)
            rest &= ~part
        return parts


def bits(mask: Mask) -> Iterator[Mask]:
    """The single bits of a mask, lowest first."""
    while mask:
        bit = mask & -mask
        yield bit
        mask ^= bit


def _connect(mask: Mask, neighbours: list[Mask]) -> None:
    """Add edges between the leaves of a mask that no path connects yet."""
    for bit in bits(mask):
        apart = mask & ~_component(bit, neighbours)
        for other in bits(apart):
            neighbours[bit.bit_length() - 1] |= other
            neighbours[other.bit_length() - 1] |= bit


def _component(seed: Mask, neighbours: list[Mask]) -> Mask:
    reached, frontier = seed, seed
    while frontier:
        around = 0
        for bit in bits(frontier):
            around |= neighbours[bit.bit_length() - 1]
        frontier = around & ~reached
        reached |= frontier
    return reached


def _with_filter(relation: Relation, predicates: list[Expr]) -> Relation:
    if not predicates:
        return relation
    if isinstance(relation, Filter):
        return Filter(relation.input, tuple(dict.fromkeys((*relation.predicates, *predicates))))
    return Filter(relation, tuple(predicates))
