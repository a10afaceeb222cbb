"""Fragments that are being built: their width, what they cost, and the Exchange that ends each.

:class:`Fragments` extends the lower part of a fragment (:class:`~qoop.planner.exchange.distribution.Placed`) by an
operator, or ends it; :mod:`qoop.planner.exchange.exchange` decides where.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from qoop.catalog.value import changed
from qoop.planner.algebra.expr import TRUE, Column, Expr
from qoop.planner.algebra.relation import Exchange, Filter, Fragment, Join, Limit, Project, Relation, with_inputs
from qoop.planner.estimate.calls import estimates_of, sum_of
from qoop.planner.estimate.cost import BASE_MEMORY
from qoop.planner.exchange.distribution import HashKeys, Placed, fragment_nodes
from qoop.planner.exchange.exchange_cost import Costs
from qoop.planner.plan import CallEstimate, Estimate


class Fragments:
    """Builds the fragments of one plan.

    costs: of operators on this machine, with the sizes from which an end of a fragment pays.
    """

    def __init__(self, costs: Costs) -> None:
        self._costs = costs
        self._fillers = 0

    def tables(self, node: Relation, placed: Placed) -> int:
        """The number of tasks that divide the keys of an operator above, each with a separate hash table."""
        placed = placed._replace(seconds=placed.seconds + self._costs.work(node))
        return self._costs.width(placed) if placed.hashed else 1

    # ---- ends of fragments

    def end(self, placed: Placed, kind: str, keys: HashKeys = (), parts: int = 1) -> Exchange:
        """The Exchange that ends the fragment, with the decisions about it."""
        width = self._costs.width(placed)
        relation = placed.at(width)
        if isinstance(relation, Exchange) and kind == "gather":
            return replace(relation, kind="gather", keys=(), parts=1)
        if not relation.columns:  # a stage has a column to count its rows by
            self._fillers += 1
            filler = ((Column(f"row:{self._fillers}", "BOOLEAN"), TRUE),)
            relation, placed = Project(relation, filler), placed._replace(meaning=Project(placed.meaning, filler))
        fragment = self.fragment(placed, relation, width)
        return Exchange(relation, kind, keys, parts, fragment)  # type: ignore[arg-type]

    def fragment(self, placed: Placed, relation: Relation, width: int) -> Fragment:
        """The decisions about a fragment of that many tasks. relation: its operators, as its tasks run them."""
        rows = placed.rows_of(width)
        own = self._costs.apart(placed.seconds / width + placed.repeated, width)
        seconds = own + self._costs.starting(relation) + self._costs.texts(rows, relation) / width
        tables = BASE_MEMORY + placed.hash_bytes_each + 1.5 * placed.hash_bytes / width
        memory = tables + self._costs.bytes(rows, relation) / width
        slots = self._costs.threads if width == 1 and seconds > self._costs.limits.threads_seconds else 1
        if slots > 1:
            seconds += self._costs.grouped_together(fragment_nodes(relation))
        requested = min(memory, self._costs.most_memory(slots))
        calls = self._calls(relation, width)
        estimate = Estimate(rows, self._costs.bytes(rows, relation), max(seconds, 1e-4), requested, memory, calls)
        return Fragment(placed.meaning, placed.partial, width, slots, estimate)

    def _calls(self, relation: Relation, width: int) -> tuple[CallEstimate, ...]:
        """The calls of functions of Python in a task of the fragment."""
        row_seconds = self._costs.cost.calls
        if not row_seconds:
            return ()
        found: list[CallEstimate] = []
        others: list[Mapping[str, float]] = []
        for number, node in enumerate(fragment_nodes(relation)):
            ordered = estimates_of(node, self._costs.cardinality, row_seconds, number)
            found.extend(ordered)
            if not ordered:
                others.append(self._costs.calls(node))
        found.extend(CallEstimate(key, rows, row_seconds.get(key, 0.0)) for key, rows in sum_of(others).items())
        return tuple(changed(one, rows=one.rows / width) for one in sorted(found, key=lambda one: one.function))

    def gathered(self, placed: Placed) -> Placed:
        """The same rows, all in one task."""
        return self._leaf(self.end(placed, "gather"), placed) if placed.spread else placed

    def staged(self, placed: Placed) -> Placed:
        """The same rows, computed once in a separate stage."""
        return self._leaf(self.end(placed, "gather"), placed)

    def settled(self, placed: Placed) -> Placed:
        """A long computation of one task ends here rather than grow into a longer one, if its rows are few."""
        moving = 2.0 * self._costs.transfer(placed)
        if placed.seconds <= self._costs.limits.single_seconds or moving > 0.1 * placed.seconds:
            return placed
        return self.staged(placed)

    def _leaf(self, exchange: Exchange, placed: Placed) -> Placed:
        rows = placed.rows_of(exchange.fragment.width if exchange.fragment else 1)
        columns = placed.meaning.columns
        read = exchange if columns or not exchange.columns else Project(exchange, ())  # the filler was for the stage
        return Placed(placed.meaning, lambda _: read, rows, partial=placed.partial)

    def hashed(self, placed: Placed, keys: HashKeys) -> Placed:
        """The same rows, spread by ``hash(keys)``."""
        rows = placed.rows_of(self._costs.width(placed))
        placed = placed._replace(seconds=placed.seconds + self._costs.limits.hash_row * rows)
        return Placed(
            placed.meaning, lambda n: self.end(placed, "hash", keys, n), rows, spread=True,
            partial=placed.partial, hashed=(keys,), splits=self._costs.limits.most_parts,
        )  # fmt: skip

    # ---- operators

    def reached(self, node: Relation, child: Placed) -> float:
        """The part of the tasks that have rows after an operator, which may read only a range of a sorted table."""
        part = self._costs.cardinality.part_read(node) if child.spread and isinstance(node, Filter | Join) else 1.0
        return min(child.reached, part)

    def stack(self, node: Relation, child: Placed, hashed: tuple[HashKeys, ...] | None = None) -> Placed:
        """An operator that every task can do on its share."""
        hashed = child.hashed if hashed is None else hashed
        rows = self._costs.rows(node)
        if isinstance(node, Filter | Limit):
            rows = min(child.rows, rows)
        seconds = self._costs.work(node, self.tables(node, child)) - min(child.seconds, self._costs.spared(node))
        return child.under(
            node, lambda below: with_inputs(node, (below,)), rows, seconds, hashed=hashed,
            hash_bytes=child.hash_bytes + self._costs.memory(node), reached=self.reached(node, child),
        )  # fmt: skip

    def worth_hashing(self, node: Relation, child: Placed, keys: Sequence[Expr]) -> bool:
        """True if the operator is too much for one task and its keys have values enough for all tasks."""
        if not keys or self._costs.slots == 1 or self._costs.work(node) <= self._costs.limits.single_seconds:
            return False
        return self._costs.cardinality.distinct(child.meaning, keys) >= 8 * self._costs.slots
