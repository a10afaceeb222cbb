"""The plans of a query and their estimates: before it begins, and while it runs.

The planner thread calls these for a job that runs (:class:`~qoop.adaptive.replanning.adaptive.Adaptive`)::

    _search_quickly   DuckDB's plan runs: is there one of stages that ends much earlier? Some 50 ms.
    _find             all plans worth keeping, by what the job has observed so far. Up to a second.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar

from qoop.adaptive.cluster.planner_thread import Background, InlinePlanner
from qoop.adaptive.replanning.adaptive import Adaptive, Known
from qoop.adaptive.replanning.answers import search_seconds
from qoop.adaptive.replanning.greedy import BOTH_ERR, LONG_SECONDS, Greedy
from qoop.adaptive.replanning.policies import policy_named
from qoop.catalog.errors import BindError, CatalogError
from qoop.catalog.interrupts import meanwhile
from qoop.planner.collector import collector_waits
from qoop.planner.ending import never, until
from qoop.planner.estimate.cost import CostModel
from qoop.planner.estimate.observed import Observations
from qoop.planner.plan import Resources
from qoop.planner.search.candidate import Alternatives, Candidate, Grid, local_grid
from qoop.planner.sql.bind import Bound, in_zone
from qoop.planner.sql.sources import is_long
from qoop.planner.variants import Variant
from qoop.query.config import Config
from qoop.query.duckdb_plans import (
    GOES_ON,
    DuckDBPlan,
    DuckDBPlans,
    as_they_turned_out,
    known_best,
    possible_slots,
)
from qoop.query.earlier_work import EarlierWork, StoredWork
from qoop.query.job import Prepared
from qoop.query.job_lessons import JobLessons
from qoop.query.plan_keys import about, versions
from qoop.query.plan_store import PlanStore, SessionPlans
from qoop.query.tables import SessionTables, weakly

if TYPE_CHECKING:
    from qoop.catalog.table import Table
    from qoop.query.preparation import Preparation
    from qoop.query.quick_plans import QuickPlans

MUCH_LESS = 0.8
"""Another plan is tried only if it should take less than this part of the seconds of DuckDB's plan, where these are
known or few: estimates err, and the least of many estimates errs most."""

FAR_BEHIND = 1.1
"""A search among all plans follows only if the best plan of the quick search takes at most this multiple of DuckDB's
plan. Of 66 queries of TPC-DS at scale 10, both find a plan below 0.85 for 12, and the full search for one more."""

SEARCH_PART = 0.1
"""The part of the CPU time of a query that a search for other plans may take while it runs."""
_MOST_SEARCHES = 100  # that wait
_PLANNER = "qoop.planner.planner"

_GROWS = 4
"""The multiple of the present slots up to which plans are compared, if machines may join."""

T = TypeVar("T")


def _in_zone_of(planned: Bound, search: Callable[..., T], *arguments: object) -> T:
    """The result of a search in the time zone of the query, which may be that of one client."""
    with in_zone(dict(planned.settings).get("timezone")):
        return search(*arguments)


class PlanSearch:
    """The searches of one session. Thread-safe. It has no reference to the session, which jobs would keep alive.

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
        background: Background | None = None,
    ) -> None:
        self._tables = tables
        self._cost = cost
        self._config = config
        self._share = share
        self._background = background or InlinePlanner()
        self._searched: set[str] = set()  # texts whose alternatives are being searched in the background
        self._duckdb_plans = DuckDBPlans(tables, config.reuse or config.checkpoints is not None, self._background)
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

        config = self._config
        return Preparation(self._tables, self._cost, config.statistics, self._lessons.observations, not config.staged)

    @property
    def cost(self) -> CostModel:
        """The machine's constants."""
        return self._cost

    @property
    def usable(self) -> Resources:
        """The share to plan for: without any slot, that of one."""
        share = self._share()
        return share if share.cpu >= 1.0 else replace(share, cpu=1.0)

    def _own(self, text: str, slots: int) -> DuckDBPlan:
        """DuckDB's own plan for this number of slots."""
        return self._duckdb_plans.of(text, possible_slots(slots, self._config.slots))

    def _in_stages_only(self, text: str) -> bool:
        """True if DuckDB's own plan is not allowed: it would call functions of Python in any order, even slow ones
        first."""
        return bool(self._config.staged or self._tables.binder.functions(text))

    def _own_seconds(self, own: DuckDBPlan, share: Resources) -> float:
        """The seconds that DuckDB's plan should take on a share, with the expected work lost with the process."""
        return self._earlier.losses.with_losses(self._cost.on_threads(own.seconds, share.cpu))

    def _was_better_in_stages(self, own: DuckDBPlan, share: Resources) -> bool:
        """True if the query took less in stages than DuckDB's plan takes, by plans that are no longer stored."""
        return own.staged_seconds is not None and own.staged_seconds < self._own_seconds(own, share)

    def _grid(self, share: Resources) -> Grid:
        """The shares that plans are compared on. No plan is a single task where no node has all slots, or where only
        stages are allowed and their outputs are to survive."""
        lone = self._config.ray is None and not (self._earlier.losses.survive and self._config.staged)
        return local_grid(share, lone, max(self._expected, 0.0 if self._config.ray is None else _GROWS * share.cpu))

    def _quick_plans(self, text: str, share: Resources) -> QuickPlans:
        """The plans of stages that earlier runs have stored, and, if none had these resources, of a quick search."""
        from qoop.query.quick_plans import QuickPlans, quick_plans

        grid, stored = self._grid(share), self._plans.plan(text, share)
        if stored is None:
            prepared, plan = self._preparation.planned(self.prepare(text), share)
            self._earlier.note_begin(text, prepared, plan)  # a process that is killed meanwhile leaves a plan, too
            quick = quick_plans(prepared, plan, share, grid, self._cost)
            return replace(quick, candidates=(*quick.candidates, *self._earlier.plans(text, grid)))
        bound, plan, tables = stored
        self._tables.pinned(tables)
        kept = self._plans.kept(text, grid) if self._earlier.losses.survive else ()
        before = Candidate(plan, "before", grid.machine, self._cost)
        stages = [one for one in (*kept, *self._earlier.plans(text, grid)) if not one.plan.root.whole]
        return QuickPlans(bound, tables, (before, *stages))

    def _with_quick_plans(self, own: DuckDBPlan, text: str, share: Resources) -> tuple[DuckDBPlan, QuickPlans]:
        """DuckDB's plan with its best estimate, and the plans of stages to compare it with.

        DuckDB explains its plan while Python makes the others: a fifth of the time.
        """
        explaining = meanwhile(partial(self._explained, own))
        with nullcontext() if self._stored_estimate(own, text) is not None else explaining as explained:
            quick = self._quick_plans(text, share)
            prepare = lambda: quick.prepared or self.prepare(text)  # noqa: E731
            return self._estimated(own, text, prepare, quick.spilling(share), explained), quick

    def _stored_estimate(self, own: DuckDBPlan, text: str) -> float | None:
        """Seconds of one thread that DuckDB's plan should take, if they were estimated before."""
        return own.estimated if own.estimated is not None else self._plans.duckdb_seconds(text, self.usable)

    def _estimated(
        self,
        own: DuckDBPlan,
        text: str,
        prepare: Callable[[], Prepared],
        spilling: float = 0.0,
        explained: Callable[[], str | None] | None = None,
    ) -> DuckDBPlan:
        """DuckDB's plan with its best estimate: measured, or by statistics, which may be stored. spilling: seconds of
        one thread for rows beyond the memory. explained: waits for DuckDB's plan, if it is being explained."""
        if own.estimated is not None:
            return own
        stored = self._stored_estimate(own, text)
        if stored is not None:
            return self._duckdb_plans.add_stored_estimate(own, stored)
        from qoop.planner.planner import as_duckdb_reads

        prepared = prepare()
        relation = as_duckdb_reads(prepared.bound, self._tables.binder.describe)
        if relation is None:
            return own
        shown = None
        if prepared.bound.ast is not None:  # else only DuckDB can read it, and its plan is of no use
            shown = self._explained(own) if explained is None else explained()
        seconds = prepared.planning().duckdb_seconds(relation, shown)
        return self._duckdb_plans.add_estimate(own, seconds, spilling)

    def _explained(self, own: DuckDBPlan) -> str | None:
        """DuckDB's plan of a query by its EXPLAIN; None where that is not known. The DuckDB that explains may open all
        files, so it gets no text of a session that is locked. A long one is costly to parse."""
        if self._tables.locked or is_long(own.bound.text):
            return None
        return self._tables.catalog.duckdb_plan(own.bound.text, own.tables)

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
            partial(_in_zone_of, bound, weakly(self._find), text, grid, versions(tables), bound, prepared, whole),
            share,
            at_once=at_once or self._plans.has_alternatives(text, grid),
            policy=policy,
            known=self._known_best(text, share),
        )
        if not whole or not isinstance(policy, Greedy):
            return adaptive  # another policy also decides on slots
        made: list[QuickPlans] = []
        search = partial(
            _in_zone_of, bound, weakly(self._search_quickly), text, grid, share, versions(tables), bound, made
        )
        return replace(adaptive, quick_search=search)

    def _known_best(self, text: str, share: Resources) -> Known | None:
        """The best plan of a text that has run to its end here."""
        if self._in_stages_only(text):
            return None
        own = self._own(text, int(share.cpu))
        return known_best(own, self._cost.on_threads(own.seconds, share.cpu))

    @collector_waits()
    def _search_quickly(
        self,
        text: str,
        grid: Grid,
        begun: Resources,
        tables: Mapping[str, str],
        planned: Bound,
        made: list[QuickPlans],
        run_for: float,
    ) -> Sequence[Candidate] | None:
        """The plans of a quick search, and DuckDB's plan, which has run for some seconds, with its best estimate.

        Empty if they should take so much longer that a comparison waits for the next event. None if all plans have to
        be compared: some are known, or have run.

        begun: the share at the begin. tables, planned: as for `_find`. made: the plans of the job's last quick search.
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
        as_before = seconds < LONG_SECONDS or share.cpu >= begun.cpu  # else it takes longer than it is known to
        if own.runs and as_before and run_for < GOES_ON * seconds:
            self._search_in_background(own, text, grid)
            return ()
        if own.staged_seconds is not None or self._plans.has_alternatives(text, grid):
            return None
        known = own.others_estimated is not None and own.others_estimated[0] == share.cpu
        if known and self._are_behind(own, share, run_for):
            return ()
        if known:
            quick = made[0] if made else self._quick_plans(text, share)
        else:
            own, quick = self._with_quick_plans(own, text, share)
        made[:] = [quick]
        if not all(about(one.plan, tables, planned.settings) for one in quick.candidates):
            return ()  # a table or a setting has changed since it began
        if not known:
            doubted = not own.runs and self._own_seconds(own, share) >= LONG_SECONDS
            best = best_of(quick.candidates, share, doubted)
            own = self._duckdb_plans.add_estimate_of_others(own, share.cpu, best.seconds)
            if self._are_behind(own, share, run_for):
                return ()
        factor = self._duckdb_plans.slowdown_of_others(own)
        others = self._earlier.losses.among([one.slower(factor) for one in quick.candidates], share)
        return [Candidate(own.plan, "DuckDB", grid.machine, self._cost), *others]

    def _search_in_background(self, own: DuckDBPlan, text: str, grid: Grid) -> None:
        """Search the alternatives of a query for its next run: what DuckDB's plan takes is known, and a job leaves it
        only when it is overdue. To leave it in the middle for plans that have not run cost as much again.

        If the search takes much of the CPU time of a run, or has to load the planner, it waits until no job runs.
        """
        waiting = len(self._searched) >= _MOST_SEARCHES
        if waiting or text in self._searched or self._plans.has_alternatives(text, grid):
            return
        searched = self._searched
        searched.add(text)
        search = partial(weakly(self._alternatives), text, grid, True, partial(weakly(self.prepare), text))
        is_costly = search_seconds(own.plan) > SEARCH_PART * own.seconds or _PLANNER not in sys.modules
        ask = self._background.ask_when_idle if is_costly else self._background.ask
        ask(search, lambda _: searched.discard(text))  # its next run raises what is wrong

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
            with until(never):  # later runs of the query have a use for them, too
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
