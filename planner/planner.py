"""The steps from a bound query to a plan, one per line.

    text ──bind──> Bound ──build──> Relation ──rules──> ──join order──> ──exchanges──> ──cut──> Plan

`logical` ends before the first use of statistics, and `stats_needed` lists them; `Planning` continues. Both are pure:
the session collects the statistics in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, partial

from qoop.catalog.statistics.stats import TableStats
from qoop.planner.algebra.float_order import FloatOrder, float_order_of
from qoop.planner.algebra.interning import Interner
from qoop.planner.algebra.relation import Exchange, Relation, Scan, walk
from qoop.planner.arrange.arrange import Arranger
from qoop.planner.collector import collector_waits
from qoop.planner.ending import go_on
from qoop.planner.estimate import tree_cost
from qoop.planner.estimate.calls import call_seconds
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.estimate.cost import DEFAULT, CostModel
from qoop.planner.estimate.observed import NOTHING, Observations
from qoop.planner.estimate.observed_rows import ObservedRows
from qoop.planner.exchange.cut import Cutter, Identity
from qoop.planner.exchange.exchange import place_exchanges
from qoop.planner.exchange.exchange_cost import OperatorFacts
from qoop.planner.identity.determinism import NonDeterminism
from qoop.planner.identity.provenance import Provenances
from qoop.planner.join_order.duckdb_order import DuckDBOrder, KnownTable
from qoop.planner.plan import Plan, Resources
from qoop.planner.rules import DUCKDB_RULES, apply_rules
from qoop.planner.sql.bind import Bound
from qoop.planner.sql.build import Describe, build, whole
from qoop.planner.variants import Logical, Variant

DUCKDB_PART = 0.85
"""The ratio of DuckDB's own plan to the estimated seconds of a plan's operators: rows do not cross stage borders.
Measured over the 99 queries of TPC-DS at scale 10."""


@collector_waits()
def logical(bound: Bound, describe: Describe, falls_back: bool = True) -> Relation:
    """Return the query's relation, rewritten by all rules that need no statistics.

    falls_back: where an expression raises an error, DuckDB's plan takes the place of stages.
    """
    try:
        return apply_rules(build(bound, describe, falls_back=falls_back))
    except RecursionError:
        return whole(bound, "too many terms")


@collector_waits()
def as_duckdb_reads(bound: Bound, describe: Describe) -> Relation | None:
    """The query's relation by rules that DuckDB has, too, for the cost of DuckDB's own plan. None for a query that
    cannot be decomposed."""
    try:
        return apply_rules(build(bound, describe, as_duckdb_reads=True), DUCKDB_RULES)
    except RecursionError:
        return None


def stats_needed(relation: Relation) -> Mapping[str, frozenset[str]]:
    """The columns of each table whose statistics `Planning` may ask for."""
    needed: dict[str, frozenset[str]] = {}
    for node in walk(relation):
        if isinstance(node, Scan):
            needed[node.table] = needed.get(node.table, frozenset()) | {own for own, _ in node.fields}
    return needed


class Planning:
    """The planning of one query, by several variants for several resources; shared steps run once.

    stats: by lower-case table name. splits: into how many useful parts each table can be cut.
    cost: the machine's constants. observed: observations of earlier runs, which replace estimates.
    """

    def __init__(
        self,
        bound: Bound,
        relation: Relation,
        stats: Mapping[str, TableStats],
        splits: Mapping[str, int],
        cost: CostModel = DEFAULT,
        observed: Observations = NOTHING,
    ) -> None:
        self.bound = bound
        self.relation = relation
        self.splits = splits
        self._stats = {name.lower(): table for name, table in stats.items()}
        self._provenances = Provenances(bound.settings, {name: table.keys for name, table in stats.items()})
        if bound.functions:
            cost = replace(cost, calls=call_seconds(bound.functions.values(), observed.calls))
        self.cardinality, self.cost = Cardinality(stats, ObservedRows(observed, self._provenances)), cost
        self._interner = Interner()
        self._known = OperatorFacts()
        self._arranger = Arranger(self.cardinality, cost, self._interner, self._known)
        self._plans: dict[int, tuple[Relation, Plan]] = {}
        columns = {name: [column for column, _ in typed] for name, (_, typed) in bound.tables.items()}
        self._cutter = Cutter(self._identity, columns, observed)

    @cached_property
    def _float_order(self) -> FloatOrder:
        """The effects of the last digits of sums; the sums have the same columns in all arrangements."""
        return float_order_of(self.relation)

    def arranged(self, choices: Logical) -> Relation:
        """The relation as these choices arrange it; where two lead to the same, the same object."""
        go_on()
        return self._arranger.of(self.relation, choices)

    def may_inline(self) -> bool:
        """See `Arranger.may_inline`."""
        return bool(self.cost.calls) or self._arranger.may_inline(self.relation)

    def placed(self, variant: Variant, available: Resources) -> Relation:
        """The variant's relation with its exchanges."""
        relation = self.arranged(variant.logical)
        go_on()
        placed = place_exchanges(
            relation, self.cardinality, available, self.cost, self.splits, variant.limits, self._known
        )
        return self._interner.of(placed)

    def cut(self, placed: Relation) -> Plan:
        """The plan of a relation with its exchanges; the same plan for the same object."""
        found = self._plans.get(id(placed))
        if found is None:
            go_on()
            plan = self._cutter.cut(placed, self.bound.columns, self.bound.settings)
            found = self._plans[id(placed)] = (placed, plan)
        return found[1]

    def duckdb_seconds(self, relation: Relation, explained: str | None = None) -> float:
        """Seconds of one thread that DuckDB's own plan of a relation should take: its operators, once each.

        explained: DuckDB's EXPLAIN (FORMAT JSON) of the query, for its order of joins; None: it has the cheapest one.
        """
        go_on()
        if explained is None:
            ordered = self._arranger.ordered(relation)
        else:
            ordered = self._arranger.ordered_as(relation, DuckDBOrder(explained, self._known_tables()))
        return DUCKDB_PART * tree_cost.seconds_once(self.cost, ordered, self.cardinality)

    def _known_tables(self) -> Mapping[str, KnownTable]:
        columns = {name: frozenset(one.lower() for one, _ in typed) for name, (_, typed) in self.bound.tables.items()}
        return {name: KnownTable(columns[name], stats.rows) for name, stats in self._stats.items() if name in columns}

    def plan(self, variant: Variant, available: Resources) -> Plan:
        """The plan that a variant leads to with these resources."""
        return self.cut(self.placed(variant, available))

    def exchanges(self, variant: Variant, available: Resources) -> tuple[Exchange, ...]:
        """The exchanges that the stages of that plan were cut from, in its order."""
        return self._cutter.exchanges(self.placed(variant, available))

    def observed_rows(self, observed: Observations) -> ObservedRows:
        """The observations as rows of this query's relations."""
        return ObservedRows(observed, self._provenances)

    @cached_property
    def _non_deterministic(self) -> NonDeterminism:
        return NonDeterminism(self._float_order)

    def _identity(self, meaning: Relation) -> Identity:
        meaning = self._interner.of(meaning)
        found = self._provenances.of(meaning)
        non_deterministic = self._non_deterministic.of(meaning)
        return Identity(
            found.signature,
            found.columns,
            non_deterministic,
            self._provenances.rows(meaning),
            partial(self._provenances.facts, meaning),
            non_deterministic and self._non_deterministic.by_digits(meaning),
        )
