"""The memory of a session for the texts it has planned: plans, alternatives, and how those were found.

    the same text, tables, settings, resources ->  the plans themselves                      (well under 2 ms)
    the same but for literals, or rows added  -> plans made along the decisions of before  (no search)
    anything else                             -> the search

See :mod:`qoop.query.plan_cache` for what makes two texts the same and :mod:`qoop.planner.search.decisions` for the
second line.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from math import log

from qoop.catalog.catalog import Catalog
from qoop.catalog.table import Table
from qoop.planner.collector import collector_waits
from qoop.planner.estimate.cost import CostModel
from qoop.planner.estimate.observed import MISJUDGED
from qoop.planner.plan import Plan, Resources
from qoop.planner.search.candidate import Alternatives, Candidate, Grid
from qoop.planner.search.decisions import PlanDecision, decisions, recalled, replay
from qoop.planner.sql.bind import Binder, Bound
from qoop.query.config import Statistics
from qoop.query.job import Prepared
from qoop.query.plan_cache import Entry, Kind, PlanCache, Settings, all_shared, key_of, may_be_kept


class PlanMemo:
    """Looks texts up among those planned before. Thread-safe.

    lock: held by the thread that changes tables; what binder and catalog say under it belongs together.
    statistics: the option of the session. calls: tells the seconds a row of functions of Python, as far as seen.
    """

    def __init__(
        self,
        cache: PlanCache,
        catalog: Catalog,
        binder: Binder,
        lock: threading.RLock,
        cost: CostModel,
        statistics: Statistics,
        calls: Callable[[], Mapping[str, float]] = dict,
    ) -> None:
        self._cache, self._catalog, self._binder, self._lock, self._cost = cache, catalog, binder, lock, cost
        self._statistics, self._calls = statistics, calls

    def plan(self, text: str, available: Resources) -> tuple[Bound, Plan, Mapping[str, Table]] | None:
        """The plan that a text has for some resources, with the tables it reads, pinned."""
        entry = self._find(self._key("plan", text, available))
        if entry is None:
            return None
        with self._lock:
            tables = {name: self._catalog.table(name) for name in entry.tables}
        if versions(tables) != entry.tables:  # they have changed since it was found
            return None
        [plan] = entry.plans
        schemas = {name: (table.version, table.columns) for name, table in tables.items()}
        functions = self._binder.functions(text)
        return Bound(text.strip(), None, schemas, plan.columns, plan.settings, functions=functions), plan, tables

    def keep_plan(self, text: str, available: Resources, prepared: Prepared, plan: Plan) -> None:
        """Remember a plan that was made."""
        self._keep(text, self._key("plan", text, available), prepared, (plan,))

    @collector_waits()
    def alternatives(self, text: str, grid: Grid, prepare: Callable[[], Prepared]) -> Alternatives:
        """The plans of a text worth keeping, from before or, with what `prepare` gives, new."""
        key = self._key("alternatives", text, grid)
        entry = self._find(key)
        if entry is not None:
            return entry.alternatives or recalled(zip(entry.plans, entry.decisions, strict=True), grid, self._cost)
        prepared = prepare()
        pattern = self._key("decisions", text, grid)
        before = self._find(pattern)
        planning = prepared.planning()
        found = replay(planning, grid, before.decisions) if before is not None else None
        if found is None:
            from qoop.planner.search.alternatives import keep, pool  # loads the planner

            found = keep(pool(planning, grid))
            self._keep(text, pattern, prepared, (), decisions(found), of_versions=False)
        self._keep(text, key, prepared, tuple(one.plan for one in found.kept), decisions(found), found)
        return found

    def has_alternatives(self, text: str, grid: Grid) -> bool:
        """True if they are in memory."""
        if not len(self._cache):  # a process that has just started: its key digests the planner's code, 20 ms
            return False
        return self._key("alternatives", text, grid) in self._cache

    def known(self, text: str, grid: Grid) -> Sequence[Candidate]:
        """The plans worth keeping that are in memory."""
        entry = self._find(self._key("alternatives", text, grid))
        return () if entry is None or entry.alternatives is None else entry.alternatives.kept

    def stored(self, text: str, grid: Grid) -> Sequence[Candidate]:
        """The plans worth keeping that are in memory or in the folder of plans."""
        entry = self._find(self._key("alternatives", text, grid))
        if entry is None:
            return ()
        found = entry.alternatives or recalled(zip(entry.plans, entry.decisions, strict=True), grid, self._cost)
        return found.kept

    def forget(self, text: str, available: Resources, grid: Grid) -> None:
        """Drop what is known of a text whose plan turned out to be far off."""
        for key in (self._key("plan", text, available), self._key("alternatives", text, grid)):
            self._cache.forget(key)

    def _key(self, kind: Kind, text: str, *circumstances: object) -> str:
        with self._lock:
            tables = {name.lower(): table for name, table in self._catalog.tables().items()}
            functions = self._binder.functions(text).values()
            seen = self._calls() if functions else {}
            calls = [f"{one.key} {_about(seen.get(one.key))}" for one in functions]
            about = (*circumstances, self._cost, self._statistics, *calls)
            return key_of(kind, text, self._binder.settings, tables, *about)

    def _find(self, key: str) -> Entry | None:
        """The entry under a key, if it is about the tables and settings of this moment."""
        entry = self._cache.find(key)
        if entry is None:
            return None
        with self._lock:
            settings, known = self._binder.settings, versions(self._catalog.tables())
        fits = all(known.get(name) == version for name, version in entry.tables.items())
        if not fits or any(plan.settings != settings for plan in entry.plans):
            return None
        if self._is_behind(entry):
            self._cache.forget(key)
            return None
        return entry

    def _is_behind(self, entry: Entry) -> bool:
        """True if statistics have been collected since of columns that it had from footers alone."""
        return any(columns & set(self._catalog.collected(name)) for name, columns in entry.guessed.items())

    def _keep(
        self,
        text: str,
        key: str,
        prepared: Prepared,
        plans: tuple[Plan, ...],
        made: tuple[PlanDecision, ...] = (),
        found: Alternatives | None = None,
        of_versions: bool = True,
    ) -> None:
        """of_versions: False: it holds for other versions of the tables, too."""
        if may_be_kept(text, plans):
            guessed = {name.lower(): known.guessed for name, known in prepared.stats.items() if known.guessed}
            read = versions(prepared.tables) if of_versions else {}
            entry = Entry(read, plans, made, found, guessed)
            self._cache.keep(key, entry, all_shared(prepared.tables.values()))


def _about(row_seconds: float | None) -> int | None:
    """The seconds a row of a function, to within a factor: plans that were made for others are not taken again."""
    return None if row_seconds is None else round(log(max(row_seconds, 1e-9), MISJUDGED))


def versions(tables: Mapping[str, Table]) -> dict[str, str]:
    """Versions by lower-case name."""
    return {name.lower(): table.version for name, table in tables.items()}


def about(plan: Plan, tables: Mapping[str, str], settings: Settings) -> bool:
    """True if a plan reads no other versions of tables than these (by lower-case name), under these settings."""
    read: Sequence[tuple[str, str]] = [(item.table, item.version) for s in plan.stages for item in s.table_inputs]
    return plan.settings == settings and all(tables.get(name.lower()) == version for name, version in read)
