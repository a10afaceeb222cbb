"""How a session plans its queries, and what it learns from those that have run.

    text ──SessionTables──> bound query ──statistics──> Prepared ──planner──> Planned     `plan`, `prepare`
    the same text again, or but for literals ──PlanMemo──> the plans of before              `plan`, `alternatives`
    a job that has ended ──> what its stages turned out to be ──> later plans             `started`

All of it runs in the thread of the caller, but for the search for alternatives of a job that runs: that is handed to
the planner thread with the job (:class:`~qoop.replanning.adaptive.Adaptive`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from qoop.catalog.errors import QueryError
from qoop.config import Config
from qoop.control.job_handle import JobHandle
from qoop.duckdb_plans import SHORT_SECONDS, DuckDBPlans
from qoop.engine.events import Committed
from qoop.engine.task import CheckpointKey, checkpoint_key
from qoop.job import Planned, Prepared
from qoop.plan_cache import PlanCache, Settings
from qoop.plan_memo import PlanMemo, about, versions
from qoop.planner.estimate.cost import CostModel
from qoop.planner.estimate.observed import Observations
from qoop.planner.plan import Plan, Resources
from qoop.planner.search.candidate import Alternatives, Candidate, Grid, local_grid
from qoop.planner.variants import Variant
from qoop.planner.whole_query import is_whole
from qoop.replanning.adaptive import Adaptive
from qoop.replanning.decision import Greedy, Policy
from qoop.replanning.observations import MISJUDGED, Seen, committed, misestimate, outputs
from qoop.session_tables import SessionTables, weakly
from qoop.statements.statement import query_text

if TYPE_CHECKING:
    from qoop.catalog.table import Table
    from qoop.planner.sql.bind import Bound

Present = Callable[[Sequence[CheckpointKey]], Sequence[Committed]]
"""Those of the keys that are committed."""


class QueryPlanning:
    """The plans of one session. Thread-safe. It does not know the session, which jobs must not keep.

    share: what all jobs together may use now. cost: the machine's constants.
    """

    def __init__(
        self,
        tables: SessionTables,
        plan_cache: PlanCache,
        cost: CostModel,
        config: Config,
        share: Callable[[], Resources],
    ) -> None:
        self._tables = tables
        self._cost = cost
        self._config = config
        self._share = share
        self._plan_memo = PlanMemo(plan_cache, tables.catalog, tables.binder, tables.lock, cost)
        self._duckdb_plans = DuckDBPlans(tables, shared=config.reuse or config.checkpoints is not None)
        self._seen = Seen()
        self._learning = threading.Lock()
        self._unlearned: list[tuple[Planned, JobHandle]] = []  # jobs whose outputs nobody has looked at yet

    @property
    def usable(self) -> Resources:
        """The share to plan for: without any slot, that of one."""
        share = self._share()
        return replace(share, cpu=max(1.0, share.cpu))

    def plan(self, text: str, at: str | None = None) -> Planned:
        """Bind and plan a query in the caller's thread, or find the plan that it had before. at: see `Binder.bind`.

        Raises as `Session.submit` does.
        """
        self._tables.check_open()
        self._learn()
        begun = time.perf_counter()
        text = self._tables.as_read(text)
        share = self.usable
        whole = self._by_duckdb(text, share, begun) if at is None and not self._config.staged else None
        if whole is not None:
            return whole
        known = self._plan_memo.plan(text, share)
        if known is not None:
            bound, plan, tables = known
            self._tables.pinned(tables)
            adaptive = self._adaptive(text, share, bound, tables)
            return Planned(bound, plan, tables, time.perf_counter() - begun, 0.0, adaptive, share)
        prepared = self.prepare(text, at)
        plan = prepared.planning().plan(Variant(), share)
        self._plan_memo.keep_plan(text, share, prepared, plan)
        adaptive = self._adaptive(text, share, prepared.bound, prepared.tables, prepared)
        seconds = time.perf_counter() - begun - prepared.statistics_seconds
        return Planned(prepared.bound, plan, prepared.tables, seconds, prepared.statistics_seconds, adaptive, share)

    def _by_duckdb(self, text: str, share: Resources, begun: float) -> Planned | None:
        """The query by DuckDB's own plan, if it is so short that no other plan is worth making."""
        own = self._duckdb_plans.of(text, int(share.cpu))
        if self._cost.on_threads(own.seconds, share.cpu) > SHORT_SECONDS:
            return None
        return Planned(own.bound, own.plan, own.tables, time.perf_counter() - begun, 0.0, None, share)

    def with_plan(self, text: str, plan: Plan, at: str | None = None) -> Planned:
        """The query with a plan that was made for it. Raises QueryError if it was made for something else."""
        begun = time.perf_counter()
        bound, tables = self._tables.bind(self._tables.as_read(text), at)
        known = {name: table.version for name, table in tables.items()}
        read = {(item.table, item.version) for stage in plan.stages for item in stage.table_inputs}
        if plan.columns != tuple(bound.columns) or not read <= known.items():
            raise QueryError("the plan is not one of this query, or its tables have changed since")
        return Planned(bound, plan, tables, time.perf_counter() - begun, 0.0)

    def alternatives(self, text: str, grid: Grid | None = None, at: str | None = None) -> Alternatives:
        """As `Session.alternatives`. at: see `Binder.bind`."""
        self._learn()
        query = self._tables.as_read(query_text(text))
        return self._plan_memo.alternatives(query, grid or local_grid(self.usable), lambda: self.prepare(query, at))

    def prepare(self, text: str, at: str | None = None) -> Prepared:
        """As `Session.prepare`."""
        from qoop.planner.planner import logical, stats_needed  # loads the planner, which a plan found again does not

        bound, tables = self._tables.bind(text, at)
        relation = logical(bound, self._tables.binder.describe)
        begun = time.perf_counter()
        catalog = self._tables.catalog
        stats = {name: catalog.stats(name, columns) for name, columns in stats_needed(relation).items()}
        splits = {name: table.max_parts() for name, table in tables.items()}
        seen = self._seen.over(versions(tables))
        return Prepared(bound, tables, relation, stats, splits, time.perf_counter() - begun, self._cost, seen)

    def started(self, planned: Planned, job: JobHandle) -> None:
        """A job runs what was planned: learn from it once it has ended."""
        with self._learning:
            self._unlearned.append((planned, job))

    def learn(self, text: str, present: Present) -> int:
        """Learn what there is of the stages of a query. Returns for how many of them there is something."""
        query, found = self._tables.as_read(query_text(text)), 0
        usual = self.plan(query)
        share = self.usable
        for plan in (usual.plan, *(one.plan for one in self.alternatives(query).kept)):
            keys = [checkpoint_key(stage, part) for stage in plan.stages for part in range(stage.width)]
            seen = outputs(plan, present(keys))
            self._seen.add(plan, seen)
            found += len(seen)
            if misestimate(plan, seen) > MISJUDGED:
                self._plan_memo.forget(query, share, local_grid(share))
        return found

    def _learn(self) -> None:
        """Remember what the stages of jobs that have ended turned out to be; forget plans that were far off."""
        with self._learning:
            ended = [item for item in self._unlearned if item[1].done.done()]
            self._unlearned = [item for item in self._unlearned if item not in ended]
        for planned, handle in ended:
            if is_whole(planned.plan):
                self._duckdb_plans.learn(planned.bound.text, planned.plan, handle.history())
                continue
            facts = committed(handle.history())
            for plan in (planned.plan, *handle.plans()[1:]):
                seen = outputs(plan, facts)
                self._seen.add(plan, seen)
                if plan is planned.plan and planned.available is not None and misestimate(plan, seen) > MISJUDGED:
                    self._plan_memo.forget(planned.bound.text, planned.available, local_grid(planned.available))

    def _adaptive(
        self,
        text: str,
        share: Resources,
        bound: Bound,
        tables: Mapping[str, Table],
        prepared: Prepared | None = None,
    ) -> Adaptive | None:
        """The parts that a job of the text needs to change plan, None if it may not."""
        if not self._config.replan:
            return None
        grid = local_grid(share)
        return Adaptive(
            partial(weakly(self._find), text, grid, versions(tables), bound.settings, prepared),
            share,
            at_once=self._plan_memo.has_alternatives(text, grid),
            policy=_forecast() if self._config.forecast else Greedy(),
            demand_aware=self._config.demand_aware,
        )

    def _find(
        self,
        text: str,
        grid: Grid,
        tables: Mapping[str, str],
        settings: Settings,
        prepared: Prepared | None,
        observed: Observations,
    ) -> Sequence[Candidate]:
        """The plans of a query worth keeping, given what was seen of it since it was planned.

        tables, settings: versions by name, and options, that the query was planned with: only plans that stand on the
        same can take its place.
        """

        def prepare() -> Prepared:
            return prepared or self.prepare(text)

        if observed.by_signature:
            from qoop.planner.search.alternatives import keep, pool

            found = keep(pool(prepare().planning(observed), grid))
        else:
            found = self._plan_memo.alternatives(text, grid, prepare)
        return [one for one in found.kept if about(one.plan, tables, settings)]


def _forecast() -> Policy:
    from qoop.replanning.forecast import Forecast

    return Forecast()
