"""Seconds of one thread of a tree and of the layouts of its joins, remembered by object."""

from __future__ import annotations

from qoop.planner.algebra.relation import Join, Relation, Scan, Shared
from qoop.planner.estimate import tree_cost
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.estimate.cost import CostModel
from qoop.planner.variants import USUAL

LARGE_ROWS = 1_000_000.0
"""Rows of the smaller side from which on both sides of a join are laid out again."""


class Work:
    """The cost of trees that differ in a few operators; a shared subplan costs the reading of its rows.

    own: seconds of operators by id that are known; what is found is added.
    """

    def __init__(
        self, cardinality: Cardinality, cost: CostModel, own: dict[int, tuple[Relation, float]] | None = None
    ) -> None:
        self.cardinality = cardinality
        self.cost = cost
        self._own = {} if own is None else own
        self._all: dict[int, tuple[Relation, float]] = {}
        self._scans: dict[int, tuple[Relation, float]] = {}

    def own(self, node: Relation) -> float:
        """Seconds of the top operator."""
        known = self._own.get(id(node))
        if known is None:
            known = self._own[id(node)] = (node, tree_cost.own_seconds(self.cost, node, self.cardinality))
        return known[1]

    def seconds(self, node: Relation) -> float:
        """Seconds of the tree down to shared subplans."""
        known = self._all.get(id(node))
        if known is None:
            known = self._all[id(node)] = (node, self._seconds(node))
        return known[1]

    def _seconds(self, node: Relation) -> float:
        if isinstance(node, Shared):
            return self.transfer(node)
        below = sum(map(self.seconds, node.inputs))
        own = self.joining(node) if isinstance(node, Join) else self.own(node)
        return own + max(0.0, below - tree_cost.spared_seconds(self.cost, node, self.cardinality))

    def above_scans(self, node: Relation) -> float:
        """Seconds of the tree but for its scans."""
        return self.seconds(node) - self.scans(node)

    def scans(self, node: Relation) -> float:
        """Seconds of the scans of the tree, down to shared subplans."""
        known = self._scans.get(id(node))
        if known is None:
            known = self._scans[id(node)] = (node, self._scanning(node))
        return known[1]

    def _scanning(self, node: Relation) -> float:
        if isinstance(node, Scan):
            return self.own(node)
        if isinstance(node, Shared):
            return 0.0
        return max(0.0, sum(map(self.scans, node.inputs)) - tree_cost.spared_seconds(self.cost, node, self.cardinality))

    def probing(self, join: Join) -> float:
        """Seconds to look the left side up."""
        left, right = map(self.cardinality.rows, join.inputs)
        return self.cost.probe(left * self.cardinality.part_read(join), right)

    def joining(self, join: Join) -> float:
        """Seconds of a join, with those to lay its sides out again."""
        own = self.own(join)
        if not self.is_hashed(join):
            return own
        return own + sum(self.cardinality.rows(side) * USUAL.hash_row + 2 * self.transfer(side) for side in join.inputs)

    def is_hashed(self, join: Join) -> bool:
        """True if both sides are too large for every task to have all of one."""
        return min(map(self.cardinality.rows, join.inputs)) >= LARGE_ROWS

    def transfer(self, node: Relation) -> float:
        """Seconds to write or to read the rows at a stage border."""
        return self.cost.transfer(self.cardinality.rows(node), self.cardinality.arrow_width(node.columns))
