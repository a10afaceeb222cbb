"""The choices by estimates before any exchange: the order of joins, and rewrites that depend on it.

    ──inline──> ──reduce build sides──> ──order joins──> ──split joins by OR──> ──join by extremes──>
        ──run aggregates──> ──loosen joins──> ──aggregate early──> ──roll up──> ──transfer──>

Predicates that call Python stay below the joins; or they are lifted above all joins before these are ordered, and put
down again where the fewest rows are left. The variant decides, else the cost.

Each step depends on one or two of the choices of a variant (:class:`~qoop.planner.variants.Logical`); a step that was
taken by the same choices from the same relation is not taken again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Literal as OneOf

from qoop.planner.algebra.interning import Interner
from qoop.planner.algebra.relation import Aggregate, Join, Relation
from qoop.planner.arrange.eager_aggregation import eager_aggregation
from qoop.planner.arrange.extremes import join_by_extremes
from qoop.planner.arrange.inline import inline_shared
from qoop.planner.arrange.late_calls import lifted, put_down
from qoop.planner.arrange.reduce_build_sides import reduce_build_sides
from qoop.planner.arrange.roll_up import roll_up
from qoop.planner.arrange.running_joins import running_joins
from qoop.planner.arrange.split_or_joins import split_or_joins
from qoop.planner.arrange.transfer import transfer
from qoop.planner.arrange.work import Work
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.estimate.cost import CostModel
from qoop.planner.estimate.tree_cost import seconds_once
from qoop.planner.exchange import exchange_cost
from qoop.planner.join_order import GroupCache, reorder
from qoop.planner.join_order.duckdb_order import DuckDBOrder
from qoop.planner.rules import apply_rules
from qoop.planner.rules.prune_columns import prune_columns
from qoop.planner.rules.semi_joins import semi_joins
from qoop.planner.variants import Aim, Logical

_USUAL = Logical()
MOST_REPEATED = 1.4
"""The seconds of a query with its shared subplans written out, over those with each run once, up to which to write them
out may pay. Of the 20 queries of TPC-DS at scale 10 that have such, both that gain by it are among the five below this
or below `LITTLE_LEFT`; the others would take 1.2 to 3 times as long."""
LITTLE_LEFT = 0.6
"""The part of the seconds of its ordered joins that the usual plan takes, below which that tells nothing: what saves
the rest, as keys that are transferred between joins, may save more in each copy."""

_EARLY_OR_LATE: tuple[OneOf["early", "late"], ...] = ("early", "late")


def arranged(relation: Relation, cardinality: Cardinality, cost: CostModel, choices: Logical = _USUAL) -> Relation:
    """Return the relation with its joins ordered and all that else follows from estimates, before any exchange."""
    return Arranger(cardinality, cost, Interner()).of(relation, choices)


class Arranger:
    """Arranges the relation of one query by several sets of choices; equal results are the same object."""

    def __init__(
        self,
        cardinality: Cardinality,
        cost: CostModel,
        interner: Interner,
        known: exchange_cost.OperatorFacts | None = None,
    ) -> None:
        self.cardinality = cardinality
        self.cost = cost
        self.interner = interner
        self._groups = GroupCache()
        self._work = Work(cardinality, cost, {} if known is None else known.work)
        self._taken: dict[tuple[object, ...], tuple[Relation, Relation]] = {}

    def of(self, relation: Relation, choices: Logical) -> Relation:
        """The relation as these choices arrange it."""
        if self.cost.calls and choices.calls == "cheapest":
            found = [self.of(relation, replace(choices, calls=calls)) for calls in _EARLY_OR_LATE]
            return min(found, key=lambda one: seconds_once(self.cost, one, self.cardinality))
        if choices.inline:
            relation = self._once(relation, _inlined)
        late = bool(self.cost.calls) and choices.calls == "late"
        if late:
            relation = self._once(relation, lifted)
        relation = self._once(relation, self._reduced)
        relation = self.ordered(relation, choices)
        if late:
            relation = self._once(relation, self._put_down)
        relation = self._once(relation, self._split)
        relation = self._once(relation, self._by_extremes)
        relation = self._once(relation, self._running)
        relation = self._once(relation, _loosened)
        relation = self._once(relation, self._early, choices.eager_gain)
        relation = self._once(relation, self._rolled)
        if choices.transfer_gain < inf:
            relation = self._once(relation, self._transferred, choices.transfer_gain)
        return relation

    def may_inline(self, relation: Relation) -> bool:
        """False if the query should take much longer with its shared subplans written out for every reader: before
        these are arranged, which takes as long as all else."""
        ordered = self.ordered(self._once(relation, self._reduced))
        once = seconds_once(self.cost, ordered, self.cardinality)
        if seconds_once(self.cost, self.of(relation, _USUAL), self.cardinality) < LITTLE_LEFT * once:
            return True
        return seconds_once(self.cost, _inlined(ordered), self.cardinality) <= MOST_REPEATED * once

    def ordered(self, relation: Relation, choices: Logical = _USUAL) -> Relation:
        """The relation with its joins ordered by these choices, and otherwise as it is."""
        return self._once(relation, self._ordered, choices.bushy, choices.aim)

    def ordered_as(self, relation: Relation, duckdb_order: DuckDBOrder) -> Relation:
        """The relation with its joins in the order of DuckDB's plan, as far as that has them, and with groups below
        joins where only that plan has such."""
        known, order = self._groups, duckdb_order
        ordered = reorder(relation, self.cardinality, model=self.cost, known=known, duckdb_order=order)
        early = order.groups_below_joins and not _groups_below_joins(relation)
        return self._early(ordered, _USUAL.eager_gain) if early else ordered

    def _once(self, relation: Relation, step: Callable[..., Relation], *choices: object) -> Relation:
        key = (id(relation), step, *choices)
        known = self._taken.get(key)
        if known is None:
            known = self._taken[key] = (relation, self.interner.of(step(relation, *choices)))
        return known[1]

    def _put_down(self, relation: Relation) -> Relation:
        return put_down(relation, self.cardinality)

    def _reduced(self, relation: Relation) -> Relation:
        return reduce_build_sides(relation, self.cardinality)

    def _ordered(self, relation: Relation, bushy: bool, aim: Aim) -> Relation:
        known = self._groups
        return reorder(relation, self.cardinality, model=self.cost, bushy=bushy, aim=aim, known=known)

    def _transferred(self, relation: Relation, least_gain: float) -> Relation:
        return transfer(relation, self._work, least_gain)

    def _rolled(self, relation: Relation) -> Relation:
        return roll_up(relation, self.cardinality, self.cost)

    def _split(self, relation: Relation) -> Relation:
        return split_or_joins(relation, self.cardinality, self.cost)

    def _by_extremes(self, relation: Relation) -> Relation:
        return join_by_extremes(relation, self.cardinality, self.cost)

    def _running(self, relation: Relation) -> Relation:
        return running_joins(relation, self.cardinality, self.cost)

    def _early(self, relation: Relation, least_gain: float) -> Relation:
        return prune_columns(eager_aggregation(relation, self.cardinality, self.cost, least_gain))


def _inlined(relation: Relation) -> Relation:
    inlined = inline_shared(relation)
    return relation if inlined is relation else apply_rules(inlined)


def _groups_below_joins(relation: Relation, order: tuple[type[Relation], ...] = (Aggregate, Join, Aggregate)) -> bool:
    """As :attr:`~qoop.planner.join_order.duckdb_order.DuckDBOrder.groups_below_joins`. order: the operators still to be
    found on the way down."""
    left = order[1:] if isinstance(relation, order[0]) else order
    return not left or any(_groups_below_joins(child, left) for child in relation.inputs)


def _loosened(relation: Relation) -> Relation:
    return prune_columns(semi_joins(relation))
