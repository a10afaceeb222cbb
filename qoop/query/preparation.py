"""Queries made ready to plan: bound, with the statistics that their planning needs, and pilots where these pay."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from qoop.adaptive.replanning.observations import SessionObservations
from qoop.catalog.errors import BindError, CatalogError
from qoop.planner.estimate.cost import CostModel
from qoop.planner.plan import Plan, Resources
from qoop.planner.variants import Variant
from qoop.query.config import Statistics
from qoop.query.job import Prepared
from qoop.query.plan_keys import versions
from qoop.query.tables import SessionTables

if TYPE_CHECKING:
    from qoop.catalog.statistics.stats import TableStats
    from qoop.catalog.table import Table
    from qoop.planner.sql.bind import Bound

PILOT_PART = 0.02
"""Part of a query's estimated work that pilots may take: they seldom change its plan."""

UNEVEN_PART = 0.1
"""The same for a first pilot of columns that are joined and are no keys,"""
KNOWN_UNEVEN_PART = 0.5
"""and for pilots of the others, once that has found frequent values: the estimate of the work is then too low, since
estimates of such joins may be off by hundreds."""


class Preparation:
    """Makes the queries of one session ready to plan. Thread-safe.

    statistics: the option of the session. observations: of the stages of its earlier jobs. falls_back: DuckDB's plan
    takes the place of stages where these raise an error.
    """

    def __init__(
        self,
        tables: SessionTables,
        cost: CostModel,
        statistics: Statistics,
        observations: SessionObservations,
        falls_back: bool,
    ) -> None:
        self._tables = tables
        self._cost = cost
        self._statistics = statistics
        self._observations = observations
        self._falls_back = falls_back

    def prepare(self, text: str, at: str | None = None) -> Prepared:
        """As `Session.prepare`. Where a table changes meanwhile, the query is bound again."""
        while True:
            bound, tables = self._tables.bind(text, at)
            try:
                return self._prepared(bound, tables, self._falls_back and at is None)
            except (BindError, CatalogError):
                if self._tables.are_as_before(tables):
                    raise

    def planned(self, prepared: Prepared, share: Resources) -> tuple[Prepared, Plan]:
        """The usual plan of a query. A plan that takes long and depends on guesses is made after a pilot has run."""
        from qoop.planner.estimate.doubts import moved

        plan = prepared.planning().plan(Variant(), share)
        better = self.after_pilots(prepared, lambda: plan)
        if better is prepared or not moved(prepared.relation, prepared.stats, better.stats):
            return better, plan
        return better, better.planning().plan(Variant(), share)

    def after_pilots(self, prepared: Prepared, plan: Callable[[], Plan]) -> Prepared:
        """The query with the results of pilots on the columns that its joins and filters depend on, as far as a plan
        of it takes long enough for these to pay."""
        from qoop.planner.estimate.doubts import doubtful, joined_unevenly, narrowing

        if self._statistics != "pilot":
            return prepared
        filtered = _together(doubtful(prepared.relation, prepared.stats), narrowing(prepared.relation, prepared.stats))
        joined = joined_unevenly(prepared.relation, prepared.stats)
        if not filtered and not joined:
            return prepared
        work = sum(stage.width * stage.estimate.task_seconds for stage in plan().stages)
        begun, pilots = time.perf_counter(), self._tables.catalog.run_pilots
        ran = {*pilots(filtered, work * PILOT_PART), *self._uneven(joined, work)}
        better = {name: self._stats(name, known.columns) for name, known in prepared.stats.items() if name in ran}
        spent = prepared.statistics_seconds + time.perf_counter() - begun
        return replace(prepared, stats={**prepared.stats, **better}, statistics_seconds=spent) if ran else prepared

    def _prepared(self, bound: Bound, tables: Mapping[str, Table], falls_back: bool) -> Prepared:
        from qoop.planner.planner import logical, stats_needed  # loads the planner, which a plan found again does not

        relation = logical(bound, self._tables.binder.describe, falls_back)
        begun = time.perf_counter()
        stats = {name: self._stats(name, columns) for name, columns in stats_needed(relation).items()}
        splits = {name: table.max_parts() for name, table in tables.items()}
        observed = self._observations.over(versions(tables))
        return Prepared(bound, tables, relation, stats, splits, time.perf_counter() - begun, self._cost, observed)

    def _uneven(self, joined: Mapping[str, Collection[str]], work: float) -> Collection[str]:
        """The tables whose frequent values pilots have found.

        joined: columns by table, the smallest table first: if it has no frequent values, those of others change
        nothing.
        """
        if not joined:
            return ()
        catalog, first = self._tables.catalog, next(iter(joined))
        ran = catalog.run_pilots({first: joined[first]}, work * UNEVEN_PART, frequent=True)
        if not any(one.common for one in catalog.known_stats(first, joined[first]).columns.values()):
            return ran
        others = {name: columns for name, columns in joined.items() if name != first}
        return [*ran, *catalog.run_pilots(others, work * KNOWN_UNEVEN_PART, frequent=True)]

    def _stats(self, table: str, columns: Collection[str]) -> TableStats:
        catalog = self._tables.catalog
        return (catalog.stats if self._statistics == "full" else catalog.known_stats)(table, columns)


def _together(some: Mapping[str, frozenset[str]], others: Mapping[str, frozenset[str]]) -> Mapping[str, frozenset[str]]:
    """The columns of both, by table."""
    none: frozenset[str] = frozenset()
    return {table: some.get(table, none) | others.get(table, none) for table in {**some, **others}}
