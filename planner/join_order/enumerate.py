"""The search for a join order: dynamic programming over connected sets, greedy where there are too many.

The search costs a join as a pipeline does: rows of the probe side flow through, rows of the build side are
put into a hash table.  So the fact table ends up as the probe side of a chain of small, filtered hash tables,
the most selective first; a bushy tree is taken where a build side is better reduced before it is built.

The cheapest order depends on the scarce resource, so the best one is kept for each :class:`Aim`: for the least work,
for the least memory in hash tables, for the fewest bytes between machines, for the smallest results.  All of them share
the graph, with its estimates, and the pairs of sets; each costs one more pass over these.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from qoop.planner.estimate.cost import CostModel
from qoop.planner.join_order.graph import JoinGraph, Mask, bits
from qoop.planner.variants import WORK, Aim

_SMALL = 6  # leaves up to which a greedy plan first would cost more than it prunes


class Step(NamedTuple):
    """The last step that makes a set of leaves: a leaf (no sides), or a join of two sets.

    cost: seconds, with all below.
    """

    cost: float
    probe: Mask = 0
    build: Mask = 0


MACHINES = 20
"""The number of machines for which an order that saves the network is made."""


class Search:
    """The best step for every set of leaves looked at."""

    def __init__(self, graph: JoinGraph, model: CostModel, aim: Aim = WORK):
        self.graph = graph
        self.model = model
        self.aim = aim
        self.best: dict[Mask, Step] = {bit: Step(0.0) for bit in bits(graph.full)}
        self._build_row = model.build_row + 2 * model.exchange_row  # a build side is mostly a separate stage:
        self._build_byte = model.build_byte + model.exchange_byte + model.output_byte  # written once and read once
        self._build_row += aim.hash_byte * model.hash_entry_bytes
        self._build_byte += aim.hash_byte
        self._output_row = model.output_row + aim.result_row

    def offer(self, both: Mask, step: Step) -> None:
        """Keep a step if it is the cheapest for its set."""
        known = self.best.get(both)
        if known is None or step.cost < known.cost:
            self.best[both] = step

    def consider(self, left: Mask, right: Mask, cheaper_than: float = inf) -> Step | None:
        """The cheaper way round of joining two sets.

        None if either cannot stand alone, they cannot be joined, or making both costs `cheaper_than` already.
        """
        a, b = self.best.get(left), self.best.get(right)
        if a is None or b is None or a.cost + b.cost >= cheaper_than:
            return None
        needs = self.graph.needs
        if left in needs or right in needs:
            return self._attach(left, right, a.cost + b.cost)
        graph, model = self.graph, self.model
        below = a.cost + b.cost + graph.merged_rows(left, right) * self._output_row
        n, m = graph.rows[left], graph.rows[right]
        build_left = n * (self._build_row + self._build_byte * graph.widths[left])
        build_right = m * (self._build_row + self._build_byte * graph.widths[right])
        if self.aim.moved_byte:
            build_left += self._moving(left, right)
            build_right += self._moving(right, left)
        if graph.connects(left, right):
            build_left += model.probe(m, n)
            build_right += model.probe(n, m)
        else:
            below += n * m * model.nested_pair
        if build_right <= build_left:
            return Step(below + build_right, left, right)
        return Step(below + build_left, right, left)

    def _moving(self, build: Mask, probe: Mask) -> float:
        """The weight of bringing the sides of a join together, on the link of one machine."""
        graph = self.graph
        whole, other = graph.rows[build] * graph.widths[build], graph.rows[probe] * graph.widths[probe]
        return self.aim.moved_byte * min(whole, (whole + other) / MACHINES)

    def _attach(self, left: Mask, right: Mask, below: float) -> Step | None:
        """Join an attached leaf to a set with the leaves of its ON."""
        if left in self.graph.needs:
            left, right = right, left
        if left in self.graph.needs or self.graph.needs[right] & ~left:
            return None
        rows = self.graph.merged_rows(left, right)
        cost = self._outer(left, right, rows)
        if self.graph.leaves[right.bit_length() - 1].kind == "left":
            turned = self._outer(right, left, rows)
            if turned < cost / 2:  # builds the kept side: only where that is much smaller
                return Step(below + turned, right, left)
        return Step(below + cost, left, right)

    def _outer(self, probe: Mask, build: Mask, rows: float) -> float:
        graph, model = self.graph, self.model
        m = graph.rows[build]
        seconds = m * (self._build_row + self._build_byte * graph.widths[build]) + rows * self._output_row
        if self.aim.moved_byte:
            seconds += self._moving(build, probe)
        return seconds + model.probe(graph.rows[probe], m)


def search(graph: JoinGraph, model: CostModel, limit: int, *, bushy: bool = True, aim: Aim = WORK) -> Search:
    """Find an order for all leaves, examining at most about `limit` pairs of sets by dynamic programming.

    bushy: False: one side of every join is a single leaf, as far as such an order can be had.
    aim: the resource that the order saves besides work.
    """
    found = Search(graph, model, aim)
    tops = []
    for component in graph.components():
        pairs = graph.pairs(component, lambda part: connected_pairs(part, graph.neighbours, limit))
        if not bushy:
            pairs = None if pairs is None else [pair for pair in pairs if _has_leaf(pair)]
            _linear(found, component)
        elif pairs is None or component.bit_count() > _SMALL:
            _greedy(found, component)
        if pairs is not None:
            _exhaustive(found, component, pairs)
        tops.append(component)
    cross(found, tops)
    return found


def _exhaustive(found: Search, component: Mask, pairs: list[tuple[Mask, Mask]]) -> None:
    """Dynamic programming; a part that costs more than a known plan for the whole is dropped."""
    best = found.best
    for left, right in pairs:
        both = left | right
        known = best.get(both) or best.get(component)
        step = found.consider(left, right, known.cost if known is not None else inf)
        if step is not None:
            found.offer(both, step)


def cross(found: Search, parts: list[Mask]) -> None:
    """Join unconnected parts, the smallest first, each as the build side."""
    rows = found.graph.rows
    parts = sorted(parts, key=lambda part: (rows[part], part))
    while len(parts) > 1:
        small, next_ = parts[0], parts[1]
        step = found.consider(next_, small)
        assert step is not None
        found.offer(small | next_, step)
        parts = sorted([small | next_, *parts[2:]], key=lambda part: (rows[part], part))


def _greedy(found: Search, component: Mask) -> None:
    """Greedy operator ordering: join the pair with the smallest result until one set is left.

    Fegaras, "A New Heuristic for Optimizing Large Queries", DEXA 1998.
    """
    graph = found.graph
    sets = list(bits(component))
    known: dict[tuple[Mask, Mask], tuple[float, Step] | None] = {}
    while len(sets) > 1:
        candidates = []
        for i, a in enumerate(sets):
            for b in sets[i + 1 :]:
                if (a, b) not in known:
                    step = found.consider(a, b) if adjacent(a, b, graph) else None
                    known[a, b] = None if step is None else (graph.rows[a | b], step)
                entry = known[a, b]
                if entry is not None:
                    candidates.append((entry[0], entry[1].cost, a, b, entry[1]))
        _, _, a, b, step = min(candidates)
        found.offer(a | b, step)
        sets = [s for s in sets if s not in (a, b)] + [a | b]


def _linear(found: Search, component: Mask) -> None:
    """Grow one set from the leaf with the most rows, always by the leaf that leaves the fewest rows."""
    graph = found.graph
    starts = sorted((bit for bit in bits(component) if bit not in graph.needs), key=lambda bit: (-graph.rows[bit], bit))
    grown = starts[0] if starts else component & -component
    while grown != component:
        near = [bit for bit in bits(component & ~grown) if adjacent(bit, grown, graph)]
        steps = [(step, bit) for bit in near if (step := found.consider(grown, bit)) is not None]
        if not steps:  # a leaf that is attached to several others may need them joined first
            _greedy(found, component)
            return
        _, _, bit, step = min((graph.rows[grown | bit], step.cost, bit, step) for step, bit in steps)
        found.offer(grown | bit, step)
        grown |= bit


def _has_leaf(pair: tuple[Mask, Mask]) -> bool:
    return any(side & (side - 1) == 0 for side in pair)


def adjacent(left: Mask, right: Mask, graph: JoinGraph) -> bool:
    """True if an edge leads from one set to the other."""
    return any(graph.neighbours[bit.bit_length() - 1] & right for bit in bits(left))


def connected_pairs(component: Mask, neighbours: list[Mask], limit: int) -> list[tuple[Mask, Mask]] | None:
    """All pairs of connected sets that are disjoint and joined by an edge, each once, smaller unions first enough
    for dynamic programming; None if there are more than `limit`.

    Moerkotte and Neumann, "Analysis of Two Existing and One New Dynamic Programming Algorithm for the
    Generation of Optimal Bushy Join Trees without Cross Products", VLDB 2006 (DPccp).
    """
    for bit in bits(component):
        degree = (neighbours[bit.bit_length() - 1] & component).bit_count()
        if degree * 2 ** (degree - 1) > limit:  # a star of `degree` edges alone has that many
            return None
    return _Pairs(neighbours, limit).of(component)


class _TooMany(Exception):
    """The limit on pairs is exceeded."""


@dataclass
class _Pairs:
    neighbours: list[Mask]
    limit: int

    def of(self, component: Mask) -> list[tuple[Mask, Mask]] | None:
        self.found: list[tuple[Mask, Mask]] = []
        self.near: dict[Mask, Mask] = {bit: self.neighbours[bit.bit_length() - 1] for bit in bits(component)}
        try:
            for bit in reversed(list(bits(component))):
                self._pairs(bit)
                self._grow(bit, (bit << 1) - 1, None)
        except _TooMany:
            return None
        return self.found

    def _around(self, leaves: Mask) -> Mask:
        near = self.near.get(leaves)
        if near is None:
            low = leaves & -leaves
            near = self.near[leaves] = self._around(leaves ^ low) | self.near[low]
        return near

    def _grow(self, leaves: Mask, forbidden: Mask, first: Mask | None) -> None:
        """EnumerateCsgRec: with `first`, report pairs (first, grown set); without, pairs of each grown set."""
        around = self._around(leaves) & ~forbidden & ~leaves
        if not around:
            return
        subset = around & -around
        while subset:  # all non-empty subsets, smaller numbers first
            if first is None:
                self._pairs(leaves | subset)
            else:
                self._report(first, leaves | subset)
            subset = (subset - around) & around
        blocked = forbidden | around
        subset = around & -around
        while subset:
            self._grow(leaves | subset, blocked, first)
            subset = (subset - around) & around

    def _pairs(self, leaves: Mask) -> None:
        """EnumerateCmp: all partners of a set whose lowest leaf is above the set's lowest."""
        blocked = (((leaves & -leaves) << 1) - 1) | leaves
        around = self._around(leaves) & ~blocked
        for bit in reversed(list(bits(around))):
            self._report(leaves, bit)
            self._grow(bit, blocked | (around & ((bit << 1) - 1)), leaves)

    def _report(self, left: Mask, right: Mask) -> None:
        self.found.append((left, right))
        if len(self.found) > self.limit:
            raise _TooMany
