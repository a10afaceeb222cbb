"""The planning of a session's queries, with the facts from those that have run.

    text ──SessionTables──> bound query ──Preparation──> Prepared ──planner──> Planned   `plan`, `prepare`
    the same text again, or but for literals ──SessionPlans──> its earlier plans         `plan`, `alternatives`
    a job that has ended ──JobLessons──> observations of its stages ──> later plans      `started`

All of it runs in the thread of the caller, except the search for alternatives of a running job. The planner thread
takes that with the job (:class:`~qoop.adaptive.replanning.adaptive.Adaptive`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from qoop.adaptive.cluster.job_handle import JobHandle
from qoop.adaptive.cluster.planner_thread import InlinePlanner, Planner
from qoop.adaptive.replanning.adaptive import Adaptive, Known
from qoop.adaptive.replanning.greedy import BOTH_ERR, LONG_SECONDS, Greedy
from qoop.adaptive.replanning.policies import policy_named
from qoop.catalog.errors import BindError, CatalogError, QueryError
from qoop.planner.estimate.cost import CostModel
from qoop.planner.estimate.observed import Observations
from qoop.planner.finish import Done, finish_time
from qoop.planner.plan import ISOLATED, Plan, Resources
from qoop.planner.search.candidate import Alternatives, Candidate, Grid, Pool, local_grid
from qoop.planner.variants import Variant
from qoop.planner.whole_query import whole_plan
from qoop.query.config import Config
from qoop.query.duckdb_plans import (
    GOES_ON,
    SHORT_SECONDS,
    DuckDBPlan,
    DuckDBPlans,
    as_they_turned_out,
    known_best,
    possible_slots,
    seconds_of,
)
from qoop.query.earlier_work import EarlierWork, StoredWork
from qoop.query.job import Planned, Prepared
from qoop.query.job_lessons import JobLessons
from qoop.query.plan_keys import about, versions
from qoop.query.plan_store import PlanStore, SessionPlans
from qoop.query.statements.statement import query_text
from qoop.query.tables import SessionTables, weakly

if TYPE_CHECKING:
    from qoop.catalog.table import Table
    from qoop.planner.sql.bind import Bound
    from qoop.query.preparation import Preparation
    from qoop.query.quick_plans import QuickPlans

MUCH_LESS = 0.8
"""Another plan is tried only if it should take less than this part of the seconds of DuckDB's plan, where these are
known or few: estimates err, and the least of many estimates errs most."""

FAR_BEHIND = 1.1
"""A search among all plans follows only if the best plan of the quick search takes at most this multiple of DuckDB's
plan. Of 66 queries of TPC-DS at scale 10, both find a plan below 0.85 for 12, and the full search for one more."""

COMPARE_SECONDS = 2.0
"""A query that should take DuckDB longer than this on its share, by footers alone, is compared with plans of stages
before it begins, which takes about 50 ms, and 0.3 s where the planner has still to be loaded."""

SEARCHES_FROM = 30.0
"""Seconds that a process must be expected to last for its queries to change plan: a search takes up to a second."""

_GROWS = 4
"""The multiple of the present slots up to which plans are compared, if machines may join."""


class QueryPlanning:
    """The plans of one session. Thread-safe. It has no reference to the session, which jobs would keep alive.

    share: the resources of all jobs together. cost: the machine's constants. stored: the work of earlier runs.
    background: does work for later runs; by default at once.
    """

    def __init__(
        self,
        tables: SessionTables,
        plan_store: PlanStore,
        cost: CostModel,
        config: Config,
        share: Callable[[], Resources],
        stored: StoredWork | None = None,
        background: Planner | None = None,
    ) -> None:
        self._tables = tables
        self._cost = cost
        self._config = config
        self._share = share
        self._background = background or InlinePlanner()
        self._searched: set[str] = set()  # texts whose alternatives are being searched in the background
        self._duckdb_plans = DuckDBPlans(tables, shared=config.reuse or config.checkpoints is not None)
        self._lessons = JobLessons(self._duckdb_plans)
        self._plans = SessionPlans(
            plan_store, tables.catalog, tables.binder, tables.lock, cost, config.statistics, self._lessons.row_seconds
        )
        survive = config.checkpoints is not None or config.ray is not None
        self._earlier = EarlierWork(stored or StoredWork(), self._plans, survive, config.reuse, cost)
        self._expected = 0.0

    @cached_property
    def _preparation(self) -> Preparation:
        from qoop.query.preparation import Preparation  # a plan that is stored needs none

        return Preparation(self._tables, self._cost, self._config.statistics, self._lessons.observations)

    def apart(self, tables: SessionTables) -> QueryPlanning:
        """The same planning for other tables. It shares no plans and no facts with this one."""
        return QueryPlanning(
            tables, PlanStore(), self._cost, self._config, self._share, self._earlier.stored, self._background
        )

    def expect(self, slots: float) -> None:
        """Compare plans on that many slots as well; 0: on at most twice the present slots."""
        self._expected = slots

    def in_life(self, seconds: float, shorter: bool) -> AbstractContextManager[None]:
        """See `EarlierWork.in_life`."""
        return self._earlier.in_life(seconds, shorter)

    @property
    def between_losses(self) -> float:
        """The seconds that queries run between two losses of processes."""
        return self._earlier.losses.between

    @property
    def slowdown(self) -> float:
        """The factor by which the tasks of the session's jobs have taken longer than estimated."""
        return self._lessons.slowdown

    @property
    def cost(self) -> CostModel:
        """The machine's constants."""
        return self._cost

    @property
    def usable(self) -> Resources:
        """The share to plan for: without any slot, that of one."""
        share = self._share()
        return share if share.cpu >= 1.0 else replace(share, cpu=1.0)

    def plan(self, text: str, at: str | None = None) -> Planned:
        """Bind and plan a query in the caller's thread, or find its earlier plan. at: see `Binder.bind`; a text that
        child processes bind has no earlier outputs that depend on it.

        Raises as `Session.submit` does.
        """
        self._tables.check_open()
        self._learn()
        begun = time.perf_counter()
        if self._tables.isolates(text):
            return self._isolated(text, begun)
        text = self._tables.as_read(text)
        share = self.usable
        staged = at is not None or self._in_stages_only(text)
        own = None if staged else self._own(text, int(share.cpu))
        if own is None:
            return self._staged(text, at, share, begun)
        chosen = self._at_once(own, text, share, begun) or self._after_quick_search(own, text, share, begun)
        return replace(chosen, last_resort=own.plan)

    def _isolated(self, text: str, begun: float) -> Planned:
        """The plan of a text that child processes bind and run: DuckDB's, and no other."""
        bound, tables = self._tables.bind_isolated(text)
        slots = possible_slots(int(self.usable.cpu), self._config.slots)
        plan = whole_plan(bound, seconds_of(text, tables), slots, shareable=False, reason=ISOLATED)
        return Planned(bound, plan, tables, time.perf_counter() - begun, 0.0)

    def _own(self, text: str, slots: int) -> DuckDBPlan:
        """DuckDB's own plan for this number of slots."""
        return self._duckdb_plans.of(text, possible_slots(slots, self._config.slots))

    def _in_stages_only(self, text: str) -> bool:
        """True if DuckDB's own plan is not allowed: it would call functions of Python in any order, even slow ones
        first."""
        return bool(self._config.staged or self._tables.binder.functions(text))

    def _staged(self, text: str, at: str | None, share: Resources, begun: float) -> Planned:
        """The query in stages, by the usual plan or its earlier one."""
        if self._earlier.losses.life is not None and self._earlier.goes_on and at is None:
            return self._goes_on(text, share, begun) or self._in_short_tasks(text, share, begun)
        known = self._plans.plan(text, share)
        if known is not None:
            bound, plan, tables = known
            self._tables.pinned(tables)
            adaptive = self._adaptive(text, share, bound, tables)
            plan = self._earlier.with_most_done(text, plan, share, self._grid(share))
            return Planned(bound, plan, tables, time.perf_counter() - begun, 0.0, adaptive, share)
        prepared, plan = self._preparation.planned(self.prepare(text, at), share)
        self._plans.add_plan(text, share, prepared, plan)
        plan = self._earlier.with_most_done(text, plan, share, self._grid(share))
        self._earlier.note_begin(text, prepared, plan)
        adaptive = self._adaptive(text, share, prepared.bound, prepared.tables, prepared)
        seconds = time.perf_counter() - begun - prepared.statistics_seconds
        return Planned(prepared.bound, plan, prepared.tables, seconds, prepared.statistics_seconds, adaptive, share)

    def _goes_on(self, text: str, share: Resources, begun: float) -> Planned | None:
        """The query by the plan of an earlier life that ends first with its outputs, without planning; None if it left
        none, or a task that takes much of a life that has become shorter."""
        found, candidates = self._plans.begun_as(text), self._earlier.plans(text, self._grid(share))
        if found is None or not candidates:
            return None
        (bound, tables), (losses, best, done) = found, self._earlier.first_to_end(candidates, share)
        if not done.parts or (self._earlier.life_is_shorter and not losses.ends(best, share, done)):
            return None
        self._tables.pinned(tables)
        adaptive = self._adaptive_in_life(text, share, bound, tables)
        return Planned(bound, best.plan, tables, time.perf_counter() - begun, 0.0, adaptive, share)

    def _in_short_tasks(self, text: str, share: Resources, begun: float) -> Planned:
        """The query by the plan that ends first if its tasks are lost with processes."""
        from qoop.query.quick_plans import cut_plans

        prepared, _ = self._preparation.planned(self.prepare(text), share)
        grid = self._grid(share)
        candidates = [*cut_plans(prepared, share, grid, self._cost), *self._earlier.plans(text, grid)]
        _, best, _ = self._earlier.first_to_end(candidates, share)
        self._earlier.note_begin(text, prepared, best.plan)
        adaptive = self._adaptive_in_life(text, share, prepared.bound, prepared.tables, prepared)
        spent = prepared.statistics_seconds
        seconds = time.perf_counter() - begun - spent
        return Planned(prepared.bound, best.plan, prepared.tables, seconds, spent, adaptive, share)

    def _adaptive_in_life(
        self, text: str, share: Resources, bound: Bound, tables: Mapping[str, Table], prepared: Prepared | None = None
    ) -> Adaptive | None:
        """As `_adaptive`; None where a search for other plans would take much of the life."""
        if self._earlier.losses.life is not None and self._earlier.losses.life < SEARCHES_FROM:
            return None
        return self._adaptive(text, share, bound, tables, prepared)

    def _at_once(self, own: DuckDBPlan, text: str, share: Resources, begun: float) -> Planned | None:
        """The query by DuckDB's plan, or by another one that is known to be better; None if plans have to be compared
        before it starts.

        A query that is short by its footers runs by DuckDB's plan, and no other is made. Footers say little of joins.
        So a longer query begins by DuckDB's plan, and a quick search for plans of stages runs at the same time
        (:meth:`_search_quickly`). Plans are compared first where a query is long by its footers, or where outputs are
        to survive the process: some may exist from an earlier run. A query whose last run was killed is not short.
        """
        seconds, grid = self._cost.on_threads(own.seconds, share.cpu), self._grid(share)
        short = seconds <= SHORT_SECONDS and not self._earlier.did_not_end(own.bound.text)
        plan = own.plan
        known = self._plans.kept(text, grid) if not short and self._plans.has_alternatives(text, grid) else ()
        if known and not self._earlier.losses.survive:
            plan = self._best(own, known, share)
        elif not short and (
            self._earlier.losses.survive or self._is_long(own, seconds) or self._was_better_in_stages(own, share)
        ):
            return None
        adaptive = self._adaptive(text, share, own.bound, own.tables, at_once=not short, whole=plan.root.whole)
        return Planned(own.bound, plan, own.tables, time.perf_counter() - begun, 0.0, adaptive, share)

    def _is_long(self, own: DuckDBPlan, seconds: float) -> bool:
        """True if the query is so long by its footers alone that comparing plans before it begins is no delay."""
        return not own.runs and seconds > COMPARE_SECONDS

    def _after_quick_search(self, own: DuckDBPlan, text: str, share: Resources, begun: float) -> Planned:
        """The query by the plan that should end first with the outputs that exist: DuckDB's, one of the quick search,
        or one that an earlier session has stored."""
        from qoop.query.quick_plans import best_of

        if self._earlier.has_answer(own.plan):
            return self._by_own(own, text, share, begun)
        quick = self._quick_plans(text, share)
        own = self._estimated(own, text, lambda: quick.prepared or self.prepare(text), quick.spilling(share))
        theirs = self._own_seconds(own, share)
        present = {one.key for one in self._earlier.found(quick.keys())}
        best = best_of(self._earlier.losses.among(quick.candidates, share), share, theirs >= LONG_SECONDS, present)
        seconds = best.seconds if own.staged_seconds is None or best.present else own.staged_seconds
        if quick.prepared is not None:
            self._plans.add_plan(text, share, quick.prepared, best.candidate.plan)
        tolerance = self._earlier.losses.tolerance(theirs, self._earlier.did_not_end(own.bound.text))
        if not best.present and seconds > theirs * tolerance:
            return self._by_own(own, text, share, begun)
        if quick.prepared is not None:
            self._earlier.note_begin(text, quick.prepared, best.candidate.plan)
        adaptive = self._adaptive(text, share, quick.bound, quick.tables, quick.prepared)
        spent = 0.0 if quick.prepared is None else quick.prepared.statistics_seconds
        planning = time.perf_counter() - begun - spent
        return Planned(quick.bound, best.candidate.plan, quick.tables, planning, spent, adaptive, share)

    def _by_own(self, own: DuckDBPlan, text: str, share: Resources, begun: float) -> Planned:
        """The query by DuckDB's plan, after a comparison with plans of stages."""
        adaptive = self._adaptive(text, share, own.bound, own.tables, whole=True)
        return Planned(own.bound, own.plan, own.tables, time.perf_counter() - begun, 0.0, adaptive, share)

    def _quick_plans(self, text: str, share: Resources) -> QuickPlans:
        """The plans of stages that earlier runs have stored, and, if none had these resources, of a quick search."""
        from qoop.query.quick_plans import QuickPlans, quick_plans

        grid, stored = self._grid(share), self._plans.plan(text, share)
        if stored is None:
            prepared, plan = self._preparation.planned(self.prepare(text), share)
            quick = quick_plans(prepared, plan, share, grid, self._cost)
            return replace(quick, candidates=(*quick.candidates, *self._earlier.plans(text, grid)))
        bound, plan, tables = stored
        self._tables.pinned(tables)
        kept = self._plans.kept(text, grid) if self._earlier.losses.survive else ()
        before = Candidate(plan, "before", grid.machine, self._cost)
        stages = [one for one in (*kept, *self._earlier.plans(text, grid)) if not one.plan.root.whole]
        return QuickPlans(bound, tables, (before, *stages))

    def _grid(self, share: Resources) -> Grid:
        """The shares that plans are compared on. No plan is a single task where no node has all slots, or where only
        stages are allowed and their outputs are to survive."""
        lone = self._config.ray is None and not (self._earlier.losses.survive and self._config.staged)
        return local_grid(share, lone, max(self._expected, 0.0 if self._config.ray is None else _GROWS * share.cpu))

    def _was_better_in_stages(self, own: DuckDBPlan, share: Resources) -> bool:
        """True if the query took less in stages than DuckDB's plan takes, by plans that are no longer stored."""
        return own.staged_seconds is not None and own.staged_seconds < self._own_seconds(own, share)

    def _own_seconds(self, own: DuckDBPlan, share: Resources) -> float:
        """The seconds that DuckDB's plan should take on a share, with the expected work lost with the process."""
        return self._earlier.losses.with_losses(self._cost.on_threads(own.seconds, share.cpu))

    def _best(self, own: DuckDBPlan, others: Sequence[Candidate], share: Resources) -> Plan:
        """DuckDB's plan, or one of the others: the one that took less. A plan with few runs is tried again if it may
        take less, so a query settles on the better one even if the estimates are wrong."""
        best = min(others, key=lambda one: one.finish.seconds(share))
        if own.staged_seconds is None:
            much_less = MUCH_LESS / self._duckdb_plans.slowdown_of_others(own)
            return best.plan if best.finish.seconds(share) < much_less * self._own_seconds(own, share) else own.plan
        hopeful = own.hopeful()
        if not self._was_better_in_stages(hopeful, share):
            return hopeful.plan
        [best] = as_they_turned_out([best], own.staged_seconds, share)
        return best.plan

    def _estimated(
        self, own: DuckDBPlan, text: str, prepare: Callable[[], Prepared], spilling: float = 0.0
    ) -> DuckDBPlan:
        """DuckDB's plan with its best estimate: measured, or by statistics. spilling: seconds of one thread for rows
        beyond the memory."""
        if own.estimated is not None:
            return own
        from qoop.planner.planner import as_duckdb_reads

        prepared = prepare()
        relation = as_duckdb_reads(prepared.bound, self._tables.binder.describe)
        if relation is None:
            return own
        seconds = prepared.planning().duckdb_seconds(relation)
        return self._duckdb_plans.add_estimate(own, seconds, spilling)

    def estimated_seconds(self, planned: Planned) -> float:
        """The seconds that a plan should take on the present share."""
        return finish_time(planned.plan, Done(), self.usable)

    def with_plan(self, text: str, plan: Plan, at: str | None = None) -> Planned:
        """The query with a plan that was made for it. Raises QueryError for a plan of another query."""
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
        if self._tables.isolates(text):
            return self._only(self._isolated(self._tables.one_query(text), time.perf_counter()).plan, grid)
        query = self._tables.as_read(query_text(text))
        return self._alternatives(query, grid or self._grid(self.usable), at is None, lambda: self.prepare(query, at))

    def _only(self, plan: Plan, grid: Grid | None) -> Alternatives:
        """The alternatives of a query that has one plan."""
        grid = grid or self._grid(self.usable)
        return Alternatives(Pool(grid, (Candidate(plan, "DuckDB", grid.machine, self._cost),)), (0,))

    def _alternatives(self, text: str, grid: Grid, now: bool, prepare: Callable[[], Prepared]) -> Alternatives:
        """The plans of a text worth keeping; with DuckDB's own, unless the query is bound at an earlier time."""

        def well_prepared() -> Prepared:
            prepared = prepare()
            return self._preparation.after_pilots(prepared, lambda: prepared.planning().plan(Variant(), self.usable))

        found = self._plans.alternatives(text, grid, well_prepared)
        if not now or self._in_stages_only(text):
            return found
        own = self._estimated(self._own(text, grid.threads), text, prepare)
        return found.and_first(Candidate(own.plan, "DuckDB", grid.machine, self._cost))

    def prepare(self, text: str, at: str | None = None) -> Prepared:
        """As `Session.prepare`. Where a table changes meanwhile, the query is bound again."""
        return self._preparation.prepare(text, at)

    def row_seconds(self) -> Mapping[str, float]:
        """The seconds that functions of Python have taken for a row, by their keys."""
        self._learn()
        return self._lessons.row_seconds()

    def started(self, planned: Planned, job: JobHandle) -> None:
        """A job runs a plan: later plans use its facts once it has ended."""
        self._lessons.started(planned, job)

    def learn(self, text: str) -> int:
        """Use the present outputs of a query for later plans. Returns the number of stages with outputs."""
        query, found = self._tables.as_read(query_text(text)), 0
        usual = self.plan(query)
        share = self.usable
        for plan in (usual.plan, *(one.plan for one in self.alternatives(query).kept)):
            stages, far_off = self._lessons.add_outputs(plan, self._earlier.stored.present)
            found += stages
            if far_off:
                self._plans.forget(query, share, self._grid(share))
        return found

    def _learn(self) -> None:
        """Use the facts from jobs that have ended, and drop the plans that were far off."""
        for one in self._lessons.learn():
            self._plans.forget(one.text, one.share, self._grid(one.share))

    def _adaptive(
        self,
        text: str,
        share: Resources,
        bound: Bound,
        tables: Mapping[str, Table],
        prepared: Prepared | None = None,
        at_once: bool = False,
        whole: bool = False,
    ) -> Adaptive | None:
        """The parts that a job of the text needs to change plan, None if it may not. at_once: the search for other
        plans begins at the start, however long it takes. whole: it begins by DuckDB's plan."""
        if not self._config.replan:
            return None
        grid, policy = self._grid(share), policy_named(self._config.policy)
        adaptive = Adaptive(
            partial(weakly(self._find), text, grid, versions(tables), bound, prepared, whole),
            share,
            at_once=at_once or self._plans.has_alternatives(text, grid),
            policy=policy,
            known=self._known_best(text, share),
        )
        if not whole or not isinstance(policy, Greedy):
            return adaptive  # another policy also decides on slots
        return replace(
            adaptive, quick_search=partial(weakly(self._search_quickly), text, grid, versions(tables), bound)
        )

    def _known_best(self, text: str, share: Resources) -> Known | None:
        """The best plan of a text that has run to its end here."""
        if self._in_stages_only(text):
            return None
        own = self._own(text, int(share.cpu))
        return known_best(own, self._cost.on_threads(own.seconds, share.cpu))

    def _search_quickly(
        self, text: str, grid: Grid, tables: Mapping[str, str], planned: Bound, run_for: float
    ) -> Sequence[Candidate] | None:
        """The plans of a quick search, and DuckDB's plan, which has run for some seconds, with its best estimate.

        Empty if they should take so much longer that a comparison waits for the next event. None if all plans have to
        be compared: some are known, or have run.

        tables, planned: as for `_find`.
        """
        from qoop.query.quick_plans import best_of

        try:
            own = self._own(text, grid.threads)
        except (BindError, CatalogError):
            return ()  # one of its tables is gone
        if not about(own.plan, tables, planned.settings):
            return ()
        share = self.usable
        seconds = self._own_seconds(own, share)
        if own.runs and seconds < LONG_SECONDS and run_for < GOES_ON * seconds:
            self._search_in_background(text, grid)
            return ()
        if own.staged_seconds is not None or self._plans.has_alternatives(text, grid):
            return None
        if own.others_estimated is not None and own.others_estimated[0] == share.cpu:
            return () if self._are_behind(own, share, run_for) else None
        quick = self._quick_plans(text, share)
        if not all(about(one.plan, tables, planned.settings) for one in quick.candidates):
            return ()  # a table or a setting has changed since it began
        own = self._estimated(own, text, lambda: quick.prepared or self.prepare(text), quick.spilling(share))
        doubted = not own.runs and self._own_seconds(own, share) >= LONG_SECONDS
        own = self._duckdb_plans.add_estimate_of_others(
            own, share.cpu, best_of(quick.candidates, share, doubted).seconds
        )
        if self._are_behind(own, share, run_for):
            return ()
        factor = self._duckdb_plans.slowdown_of_others(own)
        others = self._earlier.losses.among([one.slower(factor) for one in quick.candidates], share)
        return [Candidate(own.plan, "DuckDB", grid.machine, self._cost), *others]

    def _search_in_background(self, text: str, grid: Grid) -> None:
        """Search the alternatives of a short query for its next run. During a run of half a second, the search would
        take a third of its time; a job leaves DuckDB's plan of such a query only when that is overdue."""
        if text in self._searched or self._plans.has_alternatives(text, grid):
            return
        searched = self._searched
        searched.add(text)
        search = partial(weakly(self._alternatives), text, grid, True, partial(weakly(self.prepare), text))
        self._background.ask(search, lambda _: searched.discard(text))  # its next run raises what is wrong

    def _are_behind(self, own: DuckDBPlan, share: Resources, run_for: float) -> bool:
        """True if the plans of the quick search should take so much longer than DuckDB's that a search among all plans
        should find no better one. run_for: seconds that DuckDB's plan has run."""
        assert own.others_estimated is not None
        theirs = max(self._own_seconds(own, share), GOES_ON * run_for)
        return own.others_estimated[1] * self._duckdb_plans.slowdown_of_others(own) > FAR_BEHIND * theirs

    def _find(
        self,
        text: str,
        grid: Grid,
        tables: Mapping[str, str],
        planned: Bound,
        prepared: Prepared | None,
        whole: bool,
        observed: Observations,
    ) -> Sequence[Candidate]:
        """The plans of a query worth keeping, by estimates and by the observations since it was planned.

        tables, planned: versions by name, and the query, with the options and functions that it was planned with: only
        plans with the same inputs can take its place. whole: the job began with DuckDB's plan: stages that have not
        run so far must be much better than that, as at the start.
        """
        if self._tables.binder.functions(text) != planned.functions:
            return ()
        if self.usable.memory / self.usable.cpu < min(point.memory / point.cpu for point in grid.points):
            grid = self._grid(self.usable)  # tasks of plans for the memory of the start would not fit

        def prepare() -> Prepared:
            return prepared or self.prepare(text)

        if observed.by_signature or observed.calls:
            from qoop.planner.search.alternatives import keep, pool

            found = keep(pool(prepare().planning(observed), grid))
        else:
            found = self._alternatives(text, grid, True, prepare)
        kept = [one for one in found.kept if about(one.plan, tables, planned.settings)]
        if self._in_stages_only(text):
            return self._earlier.losses.among(kept, self.usable)
        own = self._own(text, grid.threads)
        if whole and own.staged_seconds is not None:
            own = own.hopeful()
            kept = [replace(one, plan=own.plan) if one.plan.root.whole else one for one in kept]
        if not whole and not own.runs and self._own_seconds(own, self.usable) >= LONG_SECONDS:
            # as it was held against the stages that the query began with
            kept = [one.slower(BOTH_ERR) if one.plan.root.whole else one for one in kept]
        untried = MUCH_LESS / self._duckdb_plans.slowdown_of_others(own) if whole else 1.0
        turned_out = as_they_turned_out(kept, own.staged_seconds, self.usable, untried)
        return self._earlier.losses.among(turned_out, self.usable)
