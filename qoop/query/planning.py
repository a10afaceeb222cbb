"""The planning of a session's queries, with what it learns from those that have run.

    text ──SessionTables──> bound query ──statistics──> Prepared ──planner──> Planned     `plan`, `prepare`
    the same text again, or but for literals ──SessionPlans─> the plans of before              `plan`, `alternatives`
    a job that has ended ──> what its stages turned out to be ──> later plans             `started`

All of it runs in the thread of the caller, but for the search for alternatives of a job that runs: that is handed to
the planner thread with the job (:class:`~qoop.adaptive.replanning.adaptive.Adaptive`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import sqrt
from typing import TYPE_CHECKING

from qoop.adaptive.cluster.job_handle import JobHandle
from qoop.adaptive.cluster.planner_thread import InlinePlanner, Planner
from qoop.adaptive.replanning.adaptive import Adaptive, Known
from qoop.adaptive.replanning.greedy import BOTH_ERR, LONG_SECONDS, Greedy, held_to_take
from qoop.adaptive.replanning.observations import SessionObservations, committed, done_parts, misestimate, outputs
from qoop.adaptive.replanning.observed_seconds import ObservedSeconds
from qoop.adaptive.replanning.policies import policy_named
from qoop.adaptive.replanning.slowdown import MachineSlowdown
from qoop.catalog.errors import BindError, CatalogError, QueryError
from qoop.catalog.value import value
from qoop.engine.events import Committed
from qoop.engine.history import Record
from qoop.engine.task import CheckpointKey, checkpoint_key
from qoop.planner.estimate.cost import CostModel
from qoop.planner.estimate.observed import MISJUDGED, Observations
from qoop.planner.estimate.reestimate import reestimated
from qoop.planner.finish import SPILL_BYTE, Done, finish_time
from qoop.planner.plan import Plan, Resources
from qoop.planner.search.candidate import Alternatives, Candidate, Grid, local_grid
from qoop.planner.variants import Variant
from qoop.query.config import Config
from qoop.query.duckdb_plans import (
    GOES_ON,
    SHORT_SECONDS,
    DuckDBPlan,
    DuckDBPlans,
    as_they_turned_out,
    known_best,
    possible_slots,
)
from qoop.query.job import Planned, Prepared
from qoop.query.plan_keys import about, versions
from qoop.query.plan_store import PlanStore, SessionPlans
from qoop.query.statements.statement import query_text
from qoop.query.tables import SessionTables, weakly

if TYPE_CHECKING:
    from qoop.catalog.statistics.stats import TableStats
    from qoop.catalog.table import Table
    from qoop.planner.sql.bind import Bound

_log = logging.getLogger(__name__)

PILOT_PART = 0.02
"""Part of a query's estimated work that pilots may take: they seldom change its plan."""

UNEVEN_PART = 0.1
"""The same for a first pilot of columns that are joined and are no keys,"""
KNOWN_UNEVEN_PART = 0.5
"""and for pilots of the others, where that has found frequent values: the work is believed to be too little then, since
estimates of such joins may be off by hundreds."""

MUCH_LESS = 0.8
"""The part of the seconds of DuckDB's plan that another may take at most to be tried in its place, where what DuckDB's
takes is known or little: estimates err, and the least of many estimates errs most."""

FAR_BEHIND = 1.1
"""The times that the best plan of the first look may take what DuckDB's plan should, for a search among all plans to
follow. Of 66 queries of TPC-DS at scale 10 the best of the search is below 0.85 for 13: so is that of the first look
for 12 of them, and 0.91 for one. Both are above 1.15 for the same queries."""

COMPARE_SECONDS = 2.0
"""A query that should take DuckDB longer than this on its share, by footers alone, is compared with plans of stages
before it begins, which takes about 50 ms, and 0.3 s where the planner has still to be loaded."""

BETWEEN_LOSSES = 60.0
"""Seconds between the losses of processes that outputs are kept for. The rate is unknown; a folder of checkpoints says
that losses are expected."""

KEEPING_SECONDS = 0.1
"""Seconds that keeping the outputs of one more stage costs."""

FINER = (2, 4)
"""By which factors more slots a plan is made for that divides a long task into more parts. Query 67 at scale 10 takes
4.2 s by such a plan and 7.9 s by the usual one, on two slots and 2 GB."""

WORTH_LOSING = sqrt(2.0 * KEEPING_SECONDS * BETWEEN_LOSSES)
"""Seconds of work that may be lost with a process: the optimal interval between checkpoints (Young, "A First Order
Approximation to the Optimum Checkpoint Interval", 1974)."""

SURVIVING = 1.5
"""The times that stages may be held to take what DuckDB's plan should, where a query takes longer than is worth
losing."""

MOST_SPILLING = 1.0
"""The part of its seconds that what does not fit the memory adds to DuckDB's plan at most: queries 23 and 78 of TPC-DS
at scale 30 take 1.8 and 1.6 times their estimates in 1 GB, where by bytes it would be 1.5 and 2.3."""

_GROWS = 4
"""Times the slots that there are, up to which plans are compared where machines may join."""

Present = Callable[[Sequence[CheckpointKey]], Sequence[Committed]]
"""Those of the keys that are committed."""


class QueryPlanning:
    """The plans of one session. Thread-safe. It does not know the session, which jobs must not keep.

    share: what all jobs together may use now. cost: the machine's constants. present: finds the outputs that are in
    memory and in the folder of checkpoints. unfinished: true for a text of which a run has not ended there; None: no
    folder on this machine. background: does work for later runs; by default at once.
    """

    def __init__(
        self,
        tables: SessionTables,
        plan_store: PlanStore,
        cost: CostModel,
        config: Config,
        share: Callable[[], Resources],
        present: Present = lambda _: (),
        unfinished: Callable[[str], bool] | None = None,
        background: Planner | None = None,
    ) -> None:
        self._tables = tables
        self._cost = cost
        self._config = config
        self._share = share
        self._present = present
        self._unfinished = unfinished
        self._background = background or InlinePlanner()
        self._searched: set[str] = set()  # texts whose alternatives are being searched in the background
        self._seen = SessionObservations()
        self._plans = SessionPlans(
            plan_store, tables.catalog, tables.binder, tables.lock, cost, config.statistics, self._seen.calls
        )
        self._duckdb_plans = DuckDBPlans(tables, shared=config.reuse or config.checkpoints is not None)
        self._machine_slowdown = MachineSlowdown()
        self._expected = 0.0
        self._learning = threading.Lock()
        self._unlearned: list[tuple[Planned, JobHandle]] = []  # jobs whose outputs nobody has looked at yet

    def apart(self, tables: SessionTables) -> QueryPlanning:
        """The planning of other tables, as here; what it learns it keeps for itself."""
        return QueryPlanning(
            tables, PlanStore(), self._cost, self._config, self._share, self._present, self._unfinished,
            self._background,
        )  # fmt: skip

    def expect(self, slots: float) -> None:
        """Plans are to be compared on that many slots as well; 0: on no more than twice those there are."""
        self._expected = slots

    @property
    def slowdown(self) -> float:
        """By which factor the tasks of the session's jobs have taken longer than estimated."""
        with self._learning:
            return self._machine_slowdown.value

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
        """Bind and plan a query in the caller's thread, or find the plan that it had before. at: see `Binder.bind`.

        Raises as `Session.submit` does.
        """
        self._tables.check_open()
        self._learn()
        begun = time.perf_counter()
        text = self._tables.as_read(text)
        share = self.usable
        staged = at is not None or self._in_stages_only(text)
        own = None if staged else self._own(text, int(share.cpu))
        if own is None:
            return self._staged(text, at, share, begun)
        chosen = self._at_once(own, text, share, begun) or self._after_first_look(own, text, share, begun)
        return replace(chosen, last_resort=own.plan)

    def _own(self, text: str, slots: int) -> DuckDBPlan:
        """DuckDB's own plan, where there is this number of slots now."""
        return self._duckdb_plans.of(text, possible_slots(slots, self._config.slots))

    def _in_stages_only(self, text: str) -> bool:
        """True if DuckDB's own plan is no choice: it would call functions of Python in any order, whatever
        they take."""
        return bool(self._config.staged or self._tables.binder.functions(text))

    def _staged(self, text: str, at: str | None, share: Resources, begun: float) -> Planned:
        """The query in stages, by the usual plan or the one that it had before."""
        known = self._plans.plan(text, share)
        if known is not None:
            bound, plan, tables = known
            self._tables.pinned(tables)
            adaptive = self._adaptive(text, share, bound, tables)
            return Planned(bound, plan, tables, time.perf_counter() - begun, 0.0, adaptive, share)
        prepared, plan = self._planned(self.prepare(text, at), share)
        self._plans.add_plan(text, share, prepared, plan)
        adaptive = self._adaptive(text, share, prepared.bound, prepared.tables, prepared)
        seconds = time.perf_counter() - begun - prepared.statistics_seconds
        return Planned(prepared.bound, plan, prepared.tables, seconds, prepared.statistics_seconds, adaptive, share)

    def _at_once(self, own: DuckDBPlan, text: str, share: Resources, begun: float) -> Planned | None:
        """The query by DuckDB's plan, or by another one that is known to be better; None where plans are to be compared
        before it begins.

        A query that is short by its footers runs by DuckDB's plan, and no other is made. Footers tell little of joins,
        so one that is longer begins so, and the first look at plans of stages runs meanwhile (:meth:`_look_meanwhile`).
        It is compared first where it is long by its footers, or where outputs are to survive the process: some may be
        there from an earlier run. One whose last run was killed is not short.
        """
        seconds, grid = self._cost.on_threads(own.seconds, share.cpu), self._grid(share)
        short = seconds <= SHORT_SECONDS and not self._did_not_end(own)
        plan = own.plan
        known = self._plans.kept(text, grid) if not short and self._plans.has_alternatives(text, grid) else ()
        if known and not self._survives:
            plan = self._best(own, known, share)
        elif not short and (self._survives or self._is_long(own, seconds) or self._was_better_in_stages(own, share)):
            return None
        adaptive = self._adaptive(text, share, own.bound, own.tables, at_once=not short, whole=plan.root.whole)
        return Planned(own.bound, plan, own.tables, time.perf_counter() - begun, 0.0, adaptive, share)

    def _did_not_end(self, own: DuckDBPlan) -> bool:
        """True if a run of the query was killed, or failed: it may be longer than its footers tell."""
        return self._unfinished is not None and self._unfinished(own.bound.text)

    def _is_long(self, own: DuckDBPlan, seconds: float) -> bool:
        """True if the query is so long by its footers alone that comparing plans before it begins is no delay."""
        return not own.runs and seconds > COMPARE_SECONDS

    def _after_first_look(self, own: DuckDBPlan, text: str, share: Resources, begun: float) -> Planned:
        """The query by the plan that should end first with the outputs that are there: DuckDB's, one of the first look,
        or one that an earlier session has kept."""
        if self._is_answered(own.plan):
            return self._by_own(own, text, share, begun)
        look = self._first_look(text, share)
        own = self._foretold(own, text, lambda: look.prepared or self.prepare(text), look.spilling(share))
        best, seconds, found = self._soonest(look, self._own_seconds(own, share), share)
        if own.staged_seconds is not None and not found:
            seconds = own.staged_seconds
        if look.prepared is not None:
            self._plans.add_plan(text, share, look.prepared, best.plan)
        if not found and not self._begins_in_stages(own, seconds, share):
            return self._by_own(own, text, share, begun)
        adaptive = self._adaptive(text, share, look.bound, look.tables, look.prepared)
        spent = 0.0 if look.prepared is None else look.prepared.statistics_seconds
        planning = time.perf_counter() - begun - spent
        return Planned(look.bound, best.plan, look.tables, planning, spent, adaptive, share)

    def _begins_in_stages(self, own: DuckDBPlan, seconds: float, share: Resources) -> bool:
        """True if stages, which are held to take some seconds, are the better beginning."""
        theirs = self._own_seconds(own, share)
        lasting = self._survives and (theirs > WORTH_LOSING or self._did_not_end(own))
        return seconds <= (SURVIVING if lasting else 1.0) * theirs

    def _by_own(self, own: DuckDBPlan, text: str, share: Resources, begun: float) -> Planned:
        """The query by DuckDB's plan, which plans of stages were compared with."""
        adaptive = self._adaptive(text, share, own.bound, own.tables, whole=True)
        return Planned(own.bound, own.plan, own.tables, time.perf_counter() - begun, 0.0, adaptive, share)

    def _is_answered(self, plan: Plan) -> bool:
        """True if the answer of DuckDB's plan is there."""
        return plan.root.shareable and bool(self._found([checkpoint_key(plan.root, 0)]))

    def _found(self, keys: Sequence[CheckpointKey]) -> Sequence[Committed]:
        """Those of the outputs that are there, and that the query takes over."""
        return self._present(keys) if self._survives and self._config.reuse else ()

    def _first_look(self, text: str, share: Resources) -> FirstLook:
        """The plans of stages that an earlier run has kept; else the usual one and those of one task, which take half
        the time of a search."""
        grid, known = self._grid(share), self._plans.plan(text, share)
        if known is not None:
            bound, plan, tables = known
            self._tables.pinned(tables)
            kept = self._plans.kept(text, grid) if self._survives else ()
            before = Candidate(plan, "before", grid.machine, self._cost)
            return FirstLook(bound, tables, (before, *(one for one in kept if not one.plan.root.whole)))
        from qoop.planner.search.alternatives import pool
        from qoop.planner.variants import LONE

        prepared, plan = self._planned(self.prepare(text), share)
        lone = pool(prepared.planning(), replace(grid, availability=(share,)), LONE).candidates
        usual = Candidate(plan, "usual", grid.machine, self._cost, available=share)
        finer = self._finer(prepared, usual, share)
        return FirstLook(prepared.bound, prepared.tables, (usual, *finer, *lone), prepared)

    def _finer(self, prepared: Prepared, usual: Candidate, share: Resources) -> Sequence[Candidate]:
        """Plans as for more slots than there are, where the usual plan has a task of more than a second.

        They divide its rows into more parts: less is lost with the process, and less spills.
        """
        if usual.longest_task(share) <= LONG_SECONDS:
            return ()
        sizes = [Resources(factor * share.cpu, share.memory) for factor in FINER]
        plans = [prepared.planning().plan(Variant(), size) for size in sizes]
        return [replace(usual, plan=plan, available=size) for plan, size in zip(plans, sizes, strict=True)]

    def _soonest(self, look: FirstLook, theirs: float, share: Resources) -> tuple[Candidate, float, int]:
        """The plan of a look that should end first, the seconds that it is held to take, and how many of its outputs
        are there. theirs: the seconds that DuckDB's plan should take."""
        keys = [key for one in look.candidates for key in _shareable(one.plan)]
        present = {one.key for one in self._found(list(dict.fromkeys(keys)))}
        candidates = self._at_risk(look.candidates, share)
        parts = [done_parts(one.plan, present) for one in candidates]
        left = [one.finish.seconds(share, Done(there)) for one, there in zip(candidates, parts, strict=True)]
        if theirs >= LONG_SECONDS:
            left = [held_to_take(one, share, seconds) for one, seconds in zip(candidates, left, strict=True)]
        place = min(range(len(left)), key=left.__getitem__)
        return candidates[place], left[place], sum(parts[place].values())

    def _grid(self, share: Resources) -> Grid:
        """The shares that plans are compared on. No plan is a single task where no node has all slots, or stages alone
        are wanted and their outputs are to survive."""
        lone = self._config.ray is None and not (self._survives and self._config.staged)
        return local_grid(share, lone, max(self._expected, 0.0 if self._config.ray is None else _GROWS * share.cpu))

    @property
    def _survives(self) -> bool:
        """True if outputs are to survive a process, of the session's or of a node."""
        return self._config.checkpoints is not None or self._config.ray is not None

    def _was_better_in_stages(self, own: DuckDBPlan, share: Resources) -> bool:
        """True if the query took less in stages than DuckDB's plan takes, by plans that are forgotten since."""
        return own.staged_seconds is not None and own.staged_seconds < self._own_seconds(own, share)

    def _own_seconds(self, own: DuckDBPlan, share: Resources) -> float:
        """The seconds that DuckDB's plan should take on a share, with what would be lost with the process."""
        seconds = self._cost.on_threads(own.seconds, share.cpu)
        return seconds * part_lost(seconds) if self._survives else seconds

    def _best(self, own: DuckDBPlan, others: Sequence[Candidate], share: Resources) -> Plan:
        """DuckDB's plan, or one of the others: whichever took less. One that has hardly been tried is tried again if
        it may take less, so that a query settles on the better one however wrong the estimates are."""
        best = min(others, key=lambda one: one.finish.seconds(share))
        if own.staged_seconds is None:
            much_less = MUCH_LESS / self._duckdb_plans.slowdown_of_others(own)
            return best.plan if best.finish.seconds(share) < much_less * self._own_seconds(own, share) else own.plan
        hopeful = own.hopeful()
        if not self._was_better_in_stages(hopeful, share):
            return hopeful.plan
        [best] = as_they_turned_out([best], own.staged_seconds, share)
        return best.plan

    def _at_risk(self, candidates: Sequence[Candidate], share: Resources) -> Sequence[Candidate]:
        """The candidates with the seconds that they should take with what would be lost with the process: the longer
        their tasks, the more. Plans with tasks of more than is worth losing are left out, where there are others."""
        if not self._survives:
            return candidates
        longest = [one.longest_task(share) for one in candidates]
        most = max(WORTH_LOSING, min(longest, default=0.0))
        pairs = zip(candidates, longest, strict=True)
        return [one.slower(part_lost(seconds)) for one, seconds in pairs if seconds <= most]

    def _foretold(
        self, own: DuckDBPlan, text: str, prepare: Callable[[], Prepared], spilling: float = 0.0
    ) -> DuckDBPlan:
        """DuckDB's plan with the best estimate that there is: what it took, or by statistics. spilling: seconds of one
        thread for what does not fit the memory."""
        if own.foretold is not None:
            return own
        from qoop.planner.planner import as_duckdb_reads

        prepared = prepare()
        relation = as_duckdb_reads(prepared.bound, self._tables.binder.describe)
        if relation is None:
            return own
        seconds = prepared.planning().duckdb_seconds(relation)
        return self._duckdb_plans.foretell(own, seconds + min(spilling, MOST_SPILLING * seconds))

    def foretold(self, planned: Planned) -> float:
        """The seconds that a plan should take on the share that there is now."""
        return finish_time(planned.plan, Done(), self.usable)

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
        return self._alternatives(query, grid or self._grid(self.usable), at is None, lambda: self.prepare(query, at))

    def _alternatives(self, text: str, grid: Grid, now: bool, prepare: Callable[[], Prepared]) -> Alternatives:
        """The plans of a text worth keeping, DuckDB's own among them where the query is about the present."""

        def well_prepared() -> Prepared:
            prepared = prepare()
            return self._after_pilots(prepared, lambda: prepared.planning().plan(Variant(), self.usable))

        found = self._plans.alternatives(text, grid, well_prepared)
        if not now or self._in_stages_only(text):
            return found
        own = self._foretold(self._own(text, grid.threads), text, prepare)
        return found.and_first(Candidate(own.plan, "DuckDB", grid.machine, self._cost))

    def prepare(self, text: str, at: str | None = None) -> Prepared:
        """As `Session.prepare`. Where a table changes meanwhile, the query is bound again."""
        while True:
            bound, tables = self._tables.bind(text, at)
            try:
                return self._prepared(bound, tables)
            except (BindError, CatalogError):
                if self._tables.are_as_before(tables):
                    raise

    def _prepared(self, bound: Bound, tables: Mapping[str, Table]) -> Prepared:
        from qoop.planner.planner import logical, stats_needed  # loads the planner, which a plan found again does not

        relation = logical(bound, self._tables.binder.describe)
        begun = time.perf_counter()
        stats = {name: self._stats(name, columns) for name, columns in stats_needed(relation).items()}
        splits = {name: table.max_parts() for name, table in tables.items()}
        seen = self._seen.over(versions(tables))
        return Prepared(bound, tables, relation, stats, splits, time.perf_counter() - begun, self._cost, seen)

    def _planned(self, prepared: Prepared, share: Resources) -> tuple[Prepared, Plan]:
        """The usual plan of a query; where that takes long and hangs on guesses, made after a pilot has run."""
        from qoop.planner.estimate.doubts import moved

        plan = prepared.planning().plan(Variant(), share)
        better = self._after_pilots(prepared, lambda: plan)
        if better is prepared or not moved(prepared.relation, prepared.stats, better.stats):
            return better, plan
        return better, better.planning().plan(Variant(), share)

    def _after_pilots(self, prepared: Prepared, plan: Callable[[], Plan]) -> Prepared:
        """The query with what pilots tell of the columns that its joins and filters hang on, as far as a plan of it
        takes long enough for these to pay."""
        from qoop.planner.estimate.doubts import doubtful, joined_unevenly, narrowing

        if self._config.statistics != "pilot":
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

    def _uneven(self, joined: Mapping[str, Collection[str]], work: float) -> Collection[str]:
        """The tables of which pilots have told the frequent values. joined: columns by table, the smallest table first:
        where it has no frequent values, those of others change nothing."""
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
        return (catalog.stats if self._config.statistics == "full" else catalog.known_stats)(table, columns)

    def row_seconds(self) -> Mapping[str, float]:
        """The seconds that functions of Python have taken for a row, by their keys."""
        self._learn()
        return self._seen.calls()

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
                self._plans.forget(query, share, self._grid(share))
        return found

    def _learn(self) -> None:
        """Remember what the stages of jobs that have ended turned out to be; forget plans that were far off."""
        with self._learning:
            ended = [item for item in self._unlearned if item[1].done.done()]
            self._unlearned = [item for item in self._unlearned if item not in ended]
        for planned, handle in ended:
            try:
                self._learn_of(planned, handle)
            except Exception:  # the query that is planned now is another one
                _log.exception("nothing is learned of %s", handle.id)

    def _learn_of(self, planned: Planned, handle: JobHandle) -> None:
        """Remember what the stages of a job that has ended turned out to be."""
        self._duckdb_plans.learn(planned.bound, handle)
        self._seen.add_calls(ObservedSeconds.of(handle.history()).calls if planned.bound.functions else {})
        plans = handle.plans()
        staged = [plan for plan in (planned.plan, *plans[1:]) if not plan.root.whole]
        history = handle.history() if staged else ()
        facts = committed(history)
        if staged and len(plans) == 1:
            self._learn_pace(plans[0], history, facts)
        seen = [(plan, outputs(plan, facts)) for plan in staged]
        for plan, rows in seen:
            self._seen.add(plan, rows)
        share = planned.available or (planned.adaptive.available if planned.adaptive is not None else None)
        if share is not None and any(misestimate(plan, rows) > MISJUDGED for plan, rows in seen):
            self._plans.forget(planned.bound.text, share, self._grid(share))

    def _learn_pace(self, plan: Plan, history: Sequence[Record], facts: Sequence[Committed]) -> None:
        """A job has run by one plan. facts: of its outputs."""
        rows = outputs(plan, facts)
        known = {stage.signature: rows[stage.id] for stage in plan.stages if stage.id in rows}
        corrected = reestimated(plan, Observations(known))
        with self._learning:
            self._machine_slowdown.learn(corrected, history)

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
        """The parts that a job of the text needs to change plan, None if it may not. at_once: other plans are wanted
        from the start, whatever the search for them takes. whole: it begins by DuckDB's plan."""
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
            adaptive, quick_search=partial(weakly(self._look_meanwhile), text, grid, versions(tables), bound)
        )

    def _known_best(self, text: str, share: Resources) -> Known | None:
        """The best plan of a text that has run to its end here."""
        if self._in_stages_only(text):
            return None
        own = self._own(text, int(share.cpu))
        return known_best(own, self._cost.on_threads(own.seconds, share.cpu))

    def _look_meanwhile(
        self, text: str, grid: Grid, tables: Mapping[str, str], planned: Bound, run_for: float
    ) -> Sequence[Candidate] | None:
        """The plans of a first look, while DuckDB's plan has run for some seconds, and that with its best estimate.
        Empty if they should take so much longer that none is to be compared before something happens; None if all plans
        are to be compared: some are known, or were tried.

        tables, planned: as for `_find`.
        """
        try:
            own = self._own(text, grid.threads)
        except (BindError, CatalogError):
            return ()  # one of its tables is gone
        if not about(own.plan, tables, planned.settings):
            return ()
        share = self.usable
        if (
            own.runs
            and self._own_seconds(own, share) < LONG_SECONDS
            and run_for < GOES_ON * self._own_seconds(own, share)
        ):
            self._search_in_background(text, grid)
            return ()
        if own.staged_seconds is not None or self._plans.has_alternatives(text, grid):
            return None
        if own.others_foretold is not None and own.others_foretold[0] == share.cpu:
            return () if self._are_behind(own, share, run_for) else None
        look = self._first_look(text, share)
        if not all(about(one.plan, tables, planned.settings) for one in look.candidates):
            return ()  # a table or a setting has changed since it began
        own = self._foretold(own, text, lambda: look.prepared or self.prepare(text), look.spilling(share))
        own = self._duckdb_plans.foretell_others(own, share.cpu, self._least(look, own, share))
        if self._are_behind(own, share, run_for):
            return ()
        factor = self._duckdb_plans.slowdown_of_others(own)
        others = look.candidates if factor == 1.0 else [one.slower(factor) for one in look.candidates]
        return [Candidate(own.plan, "DuckDB", grid.machine, self._cost), *self._at_risk(others, share)]

    def _search_in_background(self, text: str, grid: Grid) -> None:
        """Have the alternatives of a short query for its next run. During a run of half a second the search would take
        a third of its time; DuckDB's plan of such a query is not left before it is overdue."""
        if text in self._searched or self._plans.has_alternatives(text, grid):
            return
        searched = self._searched
        searched.add(text)
        search = partial(weakly(self._alternatives), text, grid, True, partial(weakly(self.prepare), text))
        self._background.ask(search, lambda _: searched.discard(text))  # its next run raises what is wrong

    def _are_behind(self, own: DuckDBPlan, share: Resources, run_for: float) -> bool:
        """True if the plans of the first look should take so much longer than DuckDB's, which has run for some seconds,
        that a search among all should find none that is better."""
        assert own.others_foretold is not None
        theirs = max(self._own_seconds(own, share), GOES_ON * run_for)
        return own.others_foretold[1] * self._duckdb_plans.slowdown_of_others(own) > FAR_BEHIND * theirs

    def _least(self, look: FirstLook, own: DuckDBPlan, share: Resources) -> float:
        """The least that a plan of a look is held to take next to DuckDB's, in seconds."""
        seconds = [(one, one.finish.seconds(share)) for one in look.candidates]
        if own.runs or self._own_seconds(own, share) < LONG_SECONDS:
            return min(taken for _, taken in seconds)
        return min(held_to_take(one, share, taken) for one, taken in seconds)

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
        """The plans of a query worth keeping, given what was seen of it since it was planned.

        tables, planned: versions by name, and the query, with the options and functions that it was planned with: only
        plans that stand on the same can take its place. whole: it was begun by DuckDB's plan, which stages that nobody
        has tried must be much better than, as at the start.
        """
        if self._tables.binder.functions(text) != planned.functions:
            return ()

        def prepare() -> Prepared:
            return prepared or self.prepare(text)

        if observed.by_signature or observed.calls:
            from qoop.planner.search.alternatives import keep, pool

            found = keep(pool(prepare().planning(observed), grid))
        else:
            found = self._alternatives(text, grid, True, prepare)
        kept = [one for one in found.kept if about(one.plan, tables, planned.settings)]
        if self._in_stages_only(text):
            return self._at_risk(kept, self.usable)
        own = self._own(text, grid.threads)
        if whole and own.staged_seconds is not None:
            own = own.hopeful()
            kept = [replace(one, plan=own.plan) if one.plan.root.whole else one for one in kept]
        if not whole and not own.runs and self._own_seconds(own, self.usable) >= LONG_SECONDS:
            # as it was held against the stages that the query began with
            kept = [one.slower(BOTH_ERR) if one.plan.root.whole else one for one in kept]
        untried = MUCH_LESS / self._duckdb_plans.slowdown_of_others(own) if whole else 1.0
        turned_out = as_they_turned_out(kept, own.staged_seconds, self.usable, untried)
        return self._at_risk(turned_out, self.usable)


def _together(some: Mapping[str, frozenset[str]], others: Mapping[str, frozenset[str]]) -> Mapping[str, frozenset[str]]:
    """The columns of both, by table."""
    none: frozenset[str] = frozenset()
    return {table: some.get(table, none) | others.get(table, none) for table in {**some, **others}}


@value
class FirstLook:
    """Plans of stages to compare DuckDB's plan with. prepared: None where they were made before."""

    bound: Bound
    tables: Mapping[str, Table]
    candidates: Sequence[Candidate]
    prepared: Prepared | None = None

    def spilling(self, share: Resources) -> float:
        """Seconds of one thread that DuckDB's plan should take for tables that do not fit the memory: as the plan of
        one task, whose tables are as large. Rows that are sorted for windows cost it next to nothing more."""
        lone = [one.plan.stages for one in self.candidates if one.variant.lone]
        excess = [
            sum(max(0.0, one.estimate.task_wants - share.memory) for one in stages if " OVER (" not in one.sql)
            for stages in lone
        ]
        return share.cpu * SPILL_BYTE * min(excess, default=0.0)


def _shareable(plan: Plan) -> list[CheckpointKey]:
    """The outputs of a plan that other runs may have left."""
    return [checkpoint_key(stage, part) for stage in plan.stages if stage.shareable for part in range(stage.width)]


def part_lost(seconds: float) -> float:
    """By what factor more work has to be done, if tasks of that many seconds are lost with the process now and then.

    >>> part_lost(30.0)
    1.25
    """
    return 1.0 + 0.5 * seconds / BETWEEN_LOSSES
