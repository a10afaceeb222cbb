"""The way from a bound query to a plan, a step a line.

    text ──bind──> Bound ──build──> Relation ──rules──> ──join order──> ──exchanges──> ──cut──> Plan

`logical` stops where statistics are first needed and `stats_needed` says which; `physical` goes on from there.
Both are pure: the session collects the statistics in between.
"""

from __future__ import annotations

from collections.abc import Mapping

from qoop.catalog.stats import TableStats
from qoop.planner.bind import Bound
from qoop.planner.build import Describe, build
from qoop.planner.cardinality import Cardinality
from qoop.planner.cost import DEFAULT, CostModel
from qoop.planner.cut import Identity, cut
from qoop.planner.exchange import place_exchanges
from qoop.planner.join_order import reorder
from qoop.planner.observed import NOTHING, Observations, ObservedRows
from qoop.planner.plan import Plan, Resources
from qoop.planner.provenance import Provenances, is_island
from qoop.planner.relation import Relation, Scan, walk
from qoop.planner.rules import apply_rules
from qoop.planner.rules.eager_aggregation import eager_aggregation
from qoop.planner.rules.prune_columns import prune_columns
from qoop.planner.rules.reduce_build_sides import reduce_build_sides
from qoop.planner.rules.semi_joins import semi_joins


def logical(bound: Bound, describe: Describe) -> Relation:
    """Return the query's relation, rewritten by all rules that need no statistics."""
    return apply_rules(build(bound, describe))


def stats_needed(relation: Relation) -> Mapping[str, frozenset[str]]:
    """The columns of each table whose statistics `physical` may ask for."""
    needed: dict[str, frozenset[str]] = {}
    for node in walk(relation):
        if isinstance(node, Scan):
            needed[node.table] = needed.get(node.table, frozenset()) | {own for own, _ in node.fields}
    return needed


def physical(
    bound: Bound,
    relation: Relation,
    stats: Mapping[str, TableStats],
    room: Resources,
    splits: Mapping[str, int],
    cost: CostModel = DEFAULT,
    observed: Observations = NOTHING,
) -> Plan:
    """Order joins, place exchanges and cut the relation into the stages of a plan.

    stats: by lower-case table name. room: slots and memory (bytes) of the machine.
    splits: into how many useful parts each table can be cut.
    cost: the machine's constants. observed: what earlier runs saw, which wins over estimates.
    """
    provenances = Provenances(bound.settings)
    cardinality = Cardinality(stats, ObservedRows(observed, provenances))
    placed = place_exchanges(arranged(relation, cardinality, cost), cardinality, room, cost, splits)
    every_column = {name: [column for column, _ in typed] for name, (_, typed) in bound.tables.items()}
    return cut(
        placed,
        bound.columns,
        bound.settings,
        every_column,
        identify=lambda meaning: _identity(provenances, meaning),
        observed=observed,
    )


def arranged(relation: Relation, cardinality: Cardinality, cost: CostModel) -> Relation:
    """Return the relation with its joins ordered and all that else follows from estimates, before any exchange."""
    reduced = reduce_build_sides(relation, cardinality)
    ordered = prune_columns(semi_joins(reorder(reduced, cardinality)))
    return prune_columns(eager_aggregation(ordered, cardinality, cost))


def _identity(provenances: Provenances, meaning: Relation) -> Identity:
    found = provenances.of(meaning)
    return Identity(found.signature, found.columns, is_island(meaning), provenances.rows(meaning))
