"""The planning of a session's queries, with the facts from those that have run.

    text ──SessionTables──> bound query ──Preparation──> Prepared ──planner──> Planned   `plan`, `prepare`
    the same text again, or but for literals ──SessionPlans──> its earlier plans         `plan`, `alternatives`
    a job that has ended ──JobLessons──> observations of its stages ──> later plans      `started`

All of it runs in the thread of the caller. The planner thread searches for other plans of a job that runs
(:mod:`qoop.query.plan_search`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

import duckdb

from qoop.adaptive.cluster.job_handle import JobHandle
from qoop.adaptive.replanning.adaptive import Adaptive
from qoop.adaptive.replanning.greedy import LONG_SECONDS
from qoop.catalog.errors import QueryError
from qoop.planner.collector import collector_waits
from qoop.planner.finish import Done, finish_time
from qoop.planner.plan import ISOLATED, Plan, Resources
from qoop.planner.search.candidate import Alternatives, Candidate, Grid, Pool
from qoop.planner.whole_query import whole_plan
from qoop.query.duckdb_plans import (
    SHORT_SECONDS,
    DuckDBPlan,
    as_they_turned_out,
    may_pair_rows,
    possible_slots,
    seconds_of,
)
from qoop.query.job import Planned, Prepared
from qoop.query.output_losses import GOES_ON_PART
from qoop.query.plan_search import MUCH_LESS, PlanSearch
from qoop.query.plan_store import PlanStore
from qoop.query.statements.statement import query_text
from qoop.query.tables import SessionTables

if TYPE_CHECKING:
    from qoop.catalog.table import Table
    from qoop.engine.events import Committed
    from qoop.engine.task import CheckpointKey
    from qoop.planner.sql.bind import Bound
    from qoop.query.quick_plans import QuickPlans

COMPARE_SECONDS = 1.3
"""A query that should take DuckDB longer than this on its share, by footers alone, is compared with plans of stages
before it begins, which takes about 50 ms, and 0.3 s where the planner has still to be loaded. The six queries of TPC-DS
at scale 10 between this and 2 s take 0.94 times as long as with a search while DuckDB's plan runs."""

TRIAL_PART = 0.5
"""A plan that has run is left for a trial of stages, from the beginning, only if these should take less than this part
of its time: a trial that fails costs up to that time again. Of 20 trials over TPC-DS at scale 1, those below took less
cpu, or as much, in all but two. Of those above, one of seven did."""

SHORT_AGAIN = 0.1
"""The same as `SHORT_SECONDS` for a query that has run: a search for its next run waits until no job runs."""

SEARCH_AT_ONCE = 0.0 if duckdb.__version__.startswith("1.") else 0.6
"""Seconds by footers from which on other plans are searched for at once. On 2.0, of the 99 queries of TPC-DS at scale
10, two below it change to stages. The first runs of 19 others below it, each in a new session, took 1.26 times as long
as DuckDB with a search from the start, and 1.13 with a later one (geometric means). On 1.5.5 stages win more often:
with a later search 13 queries took 1.06 times as long as DuckDB in the sum, and 0.93 with one from the start."""

SEARCH_AFTER = 0.4
"""Seconds that any other query runs before other plans are searched for: most have ended by then. The same holds for
one over small tables that may try all pairs of their rows. Query 95 changes to stages."""

SEARCHES_FROM = 30.0
"""Seconds that a process must be expected to last for its queries to change plan: a search takes up to a second."""


class QueryPlanning(PlanSearch):
    """The plan that a query of the session begins with, and the facts for later plans. Thread-safe."""

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

    def plan(self, text: str, at: str | None = None, reuse: bool = True) -> Planned:
        """Bind and plan a query in the caller's thread, or find its earlier plan. at: see `Binder.bind`; a text that
        child processes bind has no earlier outputs that depend on it. reuse: its answer may be there.

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
        life = self._earlier.expected_life(text) if reuse else inf
        if self._takes_much_of(life, own, text, share):
            with self.in_life(life, self._earlier.is_shorter(text, life)):
                chosen = self._goes_on(text, share, begun) or self._in_short_tasks(text, share, begun)
        elif reuse and self._earlier.has_answer(own.plan):
            self._duckdb_plans.note_served(own)
            chosen = self._by_own(own, text, share, begun)
        else:
            chosen = self._at_once(own, text, share, begun) or self._after_quick_search(own, text, share, begun)
        tables = {**own.tables, **chosen.tables}  # an alias in the text may have the name of a further table
        return replace(chosen, last_resort=own.plan, tables=tables)

    def repeated(self, text: str, before: Bound | None, seconds: float, slots: float) -> Planned:
        """A query by DuckDB's plan, as it has run before, without a comparison with others.

        before: the text bound before, perhaps over other rows. seconds: of one thread that it should take.
        slots: the most that its task can use. Raises as `plan` does.
        """
        self._tables.check_open()
        begun = time.perf_counter()
        bound, tables = self._tables.bind_whole(self._tables.as_read(text), before)
        most = min(slots, possible_slots(int(self.usable.cpu), self._config.slots))
        plan = whole_plan(bound, seconds, int(most), shareable=False)
        return Planned(bound, plan, tables, time.perf_counter() - begun, 0.0)

    def _takes_much_of(self, life: float, own: DuckDBPlan, text: str, share: Resources) -> bool:
        """True if a run of the query was killed, another can use its outputs, and DuckDB's plan takes so much of a life
        that it would be killed again."""
        goes_on = self._earlier.goes_on and own.plan.root.shareable
        if not (life < inf and goes_on) or self._earlier.has_answer(own.plan):
            return False
        seconds = self._plans.duckdb_seconds(text, share) or own.seconds
        return self._cost.on_threads(seconds, share.cpu) > GOES_ON_PART * life

    def _isolated(self, text: str, begun: float) -> Planned:
        """The plan of a text that child processes bind and run: DuckDB's, and no other."""
        bound, tables = self._tables.bind_isolated(text)
        slots = possible_slots(int(self.usable.cpu), self._config.slots)
        plan = whole_plan(bound, seconds_of(text, tables), slots, shareable=False, reason=ISOLATED)
        return Planned(bound, plan, tables, time.perf_counter() - begun, 0.0)

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
        """The query by the plan of an earlier life that ends first with its outputs, without planning; None if there is
        none, or it has a task that takes much of a life, and was made for longer ones."""
        found, candidates = self._plans.begun_as(text), self._earlier.plans(text, self._grid(share))
        if found is None or not candidates:
            return None
        (bound, tables), (losses, best, done) = found, self._earlier.first_to_end(candidates, share)
        for_longer = self._earlier.life_is_shorter or (not done.parts and self._plans.begun_for(text) == inf)
        if for_longer and not losses.ends(best, share, done):
            return None
        self._tables.pinned(tables)
        adaptive = self._adaptive_in_life(text, share, bound, tables)
        seconds = time.perf_counter() - begun
        return Planned(bound, best.plan, tables, seconds, 0.0, adaptive, share, slice_seconds=losses.slice_seconds)

    def _in_short_tasks(self, text: str, share: Resources, begun: float) -> Planned:
        """The query by the plan that ends first if its tasks are lost with processes."""
        from qoop.query.quick_plans import cut_plans

        prepared, usual = self._preparation.planned(self.prepare(text), share)
        grid, life = self._grid(share), self._earlier.expected_life(text)
        self._earlier.note_begin(text, prepared, usual, life)  # a process that is killed meanwhile leaves a plan, too
        candidates = [*cut_plans(prepared, share, grid, self._cost, life), *self._earlier.plans(text, grid)]
        losses, best, _ = self._earlier.first_to_end(candidates, share)
        self._earlier.note_begin(text, prepared, best.plan, life)
        adaptive = self._adaptive_in_life(text, share, prepared.bound, prepared.tables, prepared)
        spent = prepared.statistics_seconds
        planned = Planned(
            prepared.bound, best.plan, prepared.tables, time.perf_counter() - begun - spent, spent, adaptive, share
        )
        return replace(planned, slice_seconds=losses.slice_seconds)

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

        A query that is short by its footers runs by DuckDB's plan, and no other is made, unless it may try all pairs of
        rows. Footers say little of joins.
        So a longer query begins by DuckDB's plan, and a quick search for plans of stages runs at the same time
        (`PlanSearch`). Plans are compared first where a query is long by its footers, or where outputs are
        to survive the process: some may exist from an earlier run. A query whose last run was killed is not short. One
        that only may try all pairs of rows begins at once: it took a tenth of a second by itself, and its comparison 60
        to 100 ms (queries 6, 13, 41 and 65 at scale 1).
        """
        seconds, grid = self._cost.on_threads(own.seconds, share.cpu), self._grid(share)
        least = min(SHORT_AGAIN, SHORT_SECONDS) if own.runs else SHORT_SECONDS
        small = seconds <= least and not self._earlier.did_not_end(own.bound.text)
        short = small and not may_pair_rows(own)
        plan = own.plan
        known = self._plans.kept(text, grid) if not short and self._plans.has_alternatives(text, grid) else ()
        if known and not self._earlier.losses.survive:
            plan = self._best(own, known, share)
        elif not short and (
            (self._earlier.losses.survive and not small)
            or self._is_long(own, seconds)
            or self._was_better_in_stages(own, share)
        ):
            return None
        adaptive = self._adaptive(text, share, own.bound, own.tables, at_once=not short, whole=plan.root.whole)
        if adaptive is not None and not short and not known and (small or seconds < SEARCH_AT_ONCE):
            adaptive = replace(adaptive, search_after=SEARCH_AFTER)
        return Planned(own.bound, plan, own.tables, time.perf_counter() - begun, 0.0, adaptive, share)

    def _is_long(self, own: DuckDBPlan, seconds: float) -> bool:
        """True if the query is so long by its footers alone that comparing plans before it begins is no delay."""
        return not own.runs and seconds > COMPARE_SECONDS

    @collector_waits()
    def _after_quick_search(self, own: DuckDBPlan, text: str, share: Resources, begun: float) -> Planned:
        """The query by the plan that should end first with the outputs that exist: DuckDB's, one of the quick search,
        or one that an earlier session has stored."""
        from qoop.query.quick_plans import best_of

        own, quick = self._with_quick_plans(own, text, share)
        theirs = self._own_seconds(own, share)
        present = {one.key for one in self._earlier.found(quick.keys())}
        losses = self._earlier.losses
        tolerance = losses.tolerance(theirs, self._earlier.did_not_end(own.bound.text))
        candidates = losses.wary(losses.among(quick.candidates, share), tolerance)
        best = best_of(candidates, share, theirs >= LONG_SECONDS, present, losses.free)
        seconds = best.seconds if own.staged_seconds is None or best.present else own.staged_seconds
        if quick.prepared is not None:
            self._plans.add_plan(text, share, quick.prepared, best.candidate.plan, own.estimated)
        by_own = not best.present and seconds > theirs * tolerance
        self._note_begin(text, quick, None if by_own else best.candidate, share, theirs)
        if by_own:
            return self._by_own(own, text, share, begun)
        adaptive = self._adaptive(text, share, quick.bound, quick.tables, quick.prepared)
        spent = 0.0 if quick.prepared is None else quick.prepared.statistics_seconds
        planning = time.perf_counter() - begun - spent
        return Planned(quick.bound, best.candidate.plan, quick.tables, planning, spent, adaptive, share)

    def _note_begin(
        self, text: str, quick: QuickPlans, begins: Candidate | None, share: Resources, theirs: float
    ) -> None:
        """Store the plan that a run begins with; where that is one task, another by which the next process goes on at
        once if this one is killed. begins: None: DuckDB's, which takes `theirs` seconds."""
        if quick.prepared is None or not self._earlier.goes_on:
            return
        if begins is None or begins.variant.lone:
            other = self._earlier.losses.to_go_on(quick.candidates, share, theirs)
            if other is not None:
                self._earlier.note_begin(text, quick.prepared, other.plan)
        if begins is not None:
            self._earlier.note_begin(text, quick.prepared, begins.plan)

    def _by_own(self, own: DuckDBPlan, text: str, share: Resources, begun: float) -> Planned:
        """The query by DuckDB's plan, after a comparison with plans of stages."""
        adaptive = self._adaptive(text, share, own.bound, own.tables, whole=True)
        return Planned(own.bound, own.plan, own.tables, time.perf_counter() - begun, 0.0, adaptive, share)

    def _best(self, own: DuckDBPlan, others: Sequence[Candidate], share: Resources) -> Plan:
        """DuckDB's plan, or one of the others: the one that took less. A plan with few runs is tried again if it may
        take less, so a query settles on the better one even if the estimates are wrong."""
        best = min(others, key=lambda one: one.finish.seconds(share))
        if own.staged_seconds is None:
            much_less = (TRIAL_PART if own.runs else MUCH_LESS) / self._duckdb_plans.slowdown_of_others(own)
            return best.plan if best.finish.seconds(share) < much_less * self._own_seconds(own, share) else own.plan
        hopeful = own.hopeful()
        if not self._was_better_in_stages(hopeful, share):
            return hopeful.plan
        [best] = as_they_turned_out([best], own.staged_seconds, share)
        return best.plan

    def present(self, keys: Sequence[CheckpointKey]) -> Sequence[Committed]:
        """Those of the outputs that exist in this session or its folder of checkpoints."""
        return self._earlier.stored.present(keys)

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
