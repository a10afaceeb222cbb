"""DuckDB's own plans of a session's queries: made at once from the footers of files, and stored with their measured
seconds.

text ──bind by DuckDB──> Bound ──rows and columns of its tables──> seconds ──> plan of one stage
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from math import inf, pow
from typing import TYPE_CHECKING, Literal

import duckdb

from qoop.adaptive.replanning.adaptive import Known
from qoop.adaptive.replanning.slowdown import CARRIED
from qoop.catalog.opening import EXTENSIONS
from qoop.catalog.value import changed, value
from qoop.engine.history import Decided, Ended, Record, Switched
from qoop.engine.replay import JobReplay
from qoop.engine.state import State
from qoop.planner.estimate.cost import DEFAULT
from qoop.planner.sql.bind import at_present
from qoop.planner.whole_query import TableSize, possible_pairs, seconds_from_footers, whole_plan
from qoop.query.statements.normal_text import is_steady, normal_text

if TYPE_CHECKING:
    from qoop.adaptive.cluster.job_handle import JobHandle
    from qoop.adaptive.cluster.planner_thread import Background
    from qoop.catalog.statistics.unchanged_columns import UnchangedColumns
    from qoop.catalog.table import Table
    from qoop.planner.plan import Plan, Resources
    from qoop.planner.search.candidate import Candidate
    from qoop.planner.sql.bind import Bound
    from qoop.query.tables import SessionTables

SHORT_SECONDS = 0.25
"""A query that should take DuckDB less than this on its share runs by DuckDB's plan, and no other is made. These are 13
of the 99 queries of TPC-DS at scale 10. By footers, all but one of those that take over two seconds exceed it."""

_REMEMBERED, _CHARACTERS = 512, 1 << 22
"""Plans that are stored, and the characters of all their texts together, at most."""
_RECENT_RUNS, _FEWEST_RUNS = 64, 5
"""Runs whose slowdowns are stored, and the least number for an estimate: a single run may be an outlier."""

HOPE = (0.7, 0.85, 1.0)
STAGED_HOPE = (1.0, 0.85, 1.0)
"""The part of its seconds that a way may take the next time, after no run to its end, one, or more: by DuckDB's plan,
whose first run the search for others often disturbs, and in stages. A way that takes as long again as the first time
costs at most 1 / 0.85 of the other."""

GOES_ON = 1.5
"""The factor from the time that DuckDB's plan had run to its expected total, if the job left it: an overdue task is
expected to take half as long again."""

KERNEL_PART = 1.65 if duckdb.__version__.startswith("1.") else 1.1
"""The seconds that DuckDB's plan takes for each that statistics tell, whose constants are those of tasks: its join
orders are its own, and 2.0 rewrites more. The geometric mean over the 30 longest queries of TPC-DS at scale 10."""

MOST_SPILLING = 1.0
"""The part of its seconds that rows beyond the memory add to DuckDB's plan at most: queries 23 and 78 of TPC-DS
at scale 30 take 1.8 and 1.6 times their estimates in 1 GB, where by bytes it would be 1.5 and 2.3."""

GROWTH = 2
"""The factor by which the slots of a task of DuckDB's plan may grow after planning. To divide the work by four times
the present threads costs a tenth; by twice as many, a twentieth."""

STATISTICS_DOUBT = 0.7
"""The standard deviation of the logarithm of the seconds of DuckDB's plan by statistics, over those that it takes: 0.68
over the 20 long queries of TPC-DS at scale 10, on DuckDB 2.0.1 with 2 GB."""

RUN_DOUBT = 0.35
"""The standard deviation of the logarithm of the seconds of a plan that has run: caches may be warm by now, and the
load of other programs on disk and memory differs."""

Basis = Literal["footers", "statistics", "run"]

_Key = tuple[str, tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]


@value
class DuckDBPlan:
    """A query as DuckDB would run it.

    seconds: of one thread. basis: the source of that estimate. estimated: seconds of one thread by statistics, if
    known; others_estimated: slots, and the seconds from begin to end that the best plan of a quick search should take
    on them.
    staged_seconds: from begin to end, the least time in stages; None: not run so far; infinite: a stage
    failed by what it computes. runs, staged_runs: how often it ran to its end either way.
    """

    bound: Bound
    tables: Mapping[str, Table]
    plan: Plan
    basis: Basis = "footers"
    estimated: float | None = None
    staged_seconds: float | None = None
    runs: int = 0
    staged_runs: int = 0
    others_estimated: tuple[float, float] | None = None

    @property
    def seconds(self) -> float:
        """Seconds of one thread that the plan should take."""
        return self.plan.root.estimate.task_seconds

    def hopeful(self) -> DuckDBPlan:
        """The same with optimistic seconds for both DuckDB's plan and stages: a first run is often disturbed by the
        search for other plans, or reads its files for the first time (optimism under uncertainty, as of bandits)."""
        staged = None if self.staged_seconds is None else STAGED_HOPE[min(self.staged_runs, 2)] * self.staged_seconds
        return replace(self.taking(HOPE[min(self.runs, 2)] * self.seconds, self.basis), staged_seconds=staged)

    def taking(self, seconds: float, basis: Basis) -> DuckDBPlan:
        """The same with other seconds of one thread."""
        root = self.plan.root
        if basis == self.basis and seconds == root.estimate.task_seconds:
            return self
        doubt = {"run": RUN_DOUBT, "statistics": STATISTICS_DOUBT}.get(basis, root.estimate.doubt)
        stage = changed(root, estimate=changed(root.estimate, task_seconds=seconds, doubt=doubt))
        return changed(self, plan=changed(self.plan, stages=(stage,)), basis=basis)


class DuckDBPlans:
    """DuckDB's own plans of the queries of one session. Thread-safe.

    shared: outputs may serve other jobs, so the meaning of a text must not depend on the time or the session.
    background: does work for later runs.
    """

    def __init__(self, tables: SessionTables, shared: bool, background: Background) -> None:
        self._tables = tables
        self._shared = shared
        self._background = background
        self._unchanged: UnchangedColumns | None = None  # of the first answer that serves again
        self._lock = threading.Lock()
        self._known: OrderedDict[_Key, DuckDBPlan] = OrderedDict()
        self._characters = 0  # of their texts
        self._slowdowns: deque[float] = deque(maxlen=_RECENT_RUNS)

    @property
    def slowdown(self) -> float:
        """The factor by which DuckDB's plans took longer than estimated: the median of recent runs."""
        with self._lock:
            known = sorted(self._slowdowns)
        return known[len(known) // 2] if len(known) >= _FEWEST_RUNS else 1.0

    def slowdown_of_others(self, known: DuckDBPlan) -> float:
        """The factor by which other plans of the query should take longer than estimated, relative to DuckDB's plan.

        It follows the slowdown of other queries, and in part that of DuckDB's plan of this query.
        """
        if known.basis != "run":
            return 1.0
        if not known.estimated or not known.seconds:
            return self.slowdown
        return pow(self.slowdown, 1 - CARRIED) * pow(known.seconds / known.estimated, CARRIED)

    def of(self, text: str, slots: int) -> DuckDBPlan:
        """The plan of a query, whose task can use that many slots. Raises ParseError, BindError, CatalogError."""
        key = self._key(text, self._tables.named(text), self._tables.binder.settings)
        found = self._find(key)
        if found is not None and found.plan.root.slots == slots:
            return changed(found, bound=at_present(found.bound))
        made = self._made(text, slots)
        key = self._key_of(made)  # the tables may have changed meanwhile
        found = self._find(key)
        if found is not None:
            made = replace(found, bound=made.bound, tables=made.tables, plan=made.plan).taking(
                found.seconds, found.basis
            )
        self._keep(key, made)
        return made

    def note_served(self, own: DuckDBPlan) -> None:
        """The answer to a query was there again."""
        if self._unchanged is None:
            from qoop.catalog.statistics.unchanged_columns import UnchangedColumns
            from qoop.planner.sql.columns_read import columns_read

            self._unchanged = UnchangedColumns(columns_read, lambda work: self._background.ask(work, lambda _: None))
        self._unchanged.note_served(own.plan.root.signature, own.bound.text, own.tables)

    def add_estimate(self, known: DuckDBPlan, seconds: float, spilling: float = 0.0) -> DuckDBPlan:
        """Store the estimate by statistics for DuckDB's plan, in seconds of one thread.

        seconds: without those of `spilling`, which are for rows beyond the memory.
        """
        return self.add_stored_estimate(known, KERNEL_PART * (seconds + min(spilling, MOST_SPILLING * seconds)))

    def add_stored_estimate(self, known: DuckDBPlan, seconds: float) -> DuckDBPlan:
        """The same with the seconds of a plan that has such an estimate, in this or another process."""
        key = self._key_of(known)
        known = self._latest(key, known)
        estimated = changed(known, estimated=seconds)
        if known.basis == "footers":
            estimated = estimated.taking(seconds, "statistics")
        self._keep(key, estimated)
        return estimated

    def add_estimate_of_others(self, known: DuckDBPlan, slots: float, seconds: float) -> DuckDBPlan:
        """Store the estimate for the best plan of a quick search on these slots, from begin to end."""
        key = self._key_of(known)
        estimated = changed(self._latest(key, known), others_estimated=(slots, seconds))
        self._keep(key, estimated)
        return estimated

    def _latest(self, key: _Key, known: DuckDBPlan) -> DuckDBPlan:
        """The newest facts of a plan: its run may have ended since."""
        found = self._find(key)
        return found if found is not None and found.plan.root.slots == known.plan.root.slots else known

    def _find(self, key: _Key) -> DuckDBPlan | None:
        """The plan that is stored under a key, if it has the text, tables and settings of the key."""
        with self._lock:
            found = self._known.get(key)
            if found is not None:
                self._known.move_to_end(key)
        return found if found is not None and self._key_of(found) == key else None

    def learn(self, bound: Bound, job: JobHandle) -> None:
        """Store the measured seconds of a query: of DuckDB's plan or of stages, whichever the job ended with, without
        those by which other programs slowed it.

        A job whose tables have changed since has no effect.
        """
        named = self._tables.named(bound.text)
        found = self._find(key := self._key(bound.text, named, bound.settings))
        if found is None or any(found.bound.tables.get(name) != known for name, known in bound.tables.items()):
            return
        plans, history, slowed = job.plans(), job.history(), job.slowed
        whole, staged = whole_seconds(plans, history), _staged_seconds(plans, history)
        if staged is None:
            staged = _seconds_of_trial(plans, history)
        if staged is not None:
            staged /= slowed
            least = staged if staged == inf else min(staged, found.staged_seconds or inf)
            found = replace(found, staged_seconds=least, staged_runs=found.staged_runs + 1)
        if whole is not None:
            whole /= slowed
            if found.estimated and not found.runs:
                self._slowdowns.append(whole / found.estimated)
            least = min(whole, found.seconds) if found.runs else whole
            found = changed(found.taking(least, "run"), runs=found.runs + 1)
        elif staged not in (None, inf) and not found.runs:
            found = found.taking(max(found.seconds, GOES_ON * _seconds_until_left(plans, history) / slowed), "run")
        self._keep(key, found)

    def _key_of(self, known: DuckDBPlan) -> _Key:
        return self._key(known.bound.text, known.tables, known.bound.settings)

    def _key(self, text: str, named: Mapping[str, Table], settings: tuple[tuple[str, str], ...]) -> _Key:
        versions = tuple(sorted((name, table.version) for name, table in named.items()))
        calls = tuple((function.name, function.key) for function in self._tables.binder.functions(text).values())
        return normal_text(text).digest, settings, versions + calls

    def _made(self, text: str, slots: int) -> DuckDBPlan:
        bound, tables = self._tables.bind_whole(text)
        shareable = self._shareable(bound)
        unchanged = self._unchanged if shareable and not bound.functions else None
        named_by = {} if unchanged is None else unchanged.first_versions(bound.text, tables)
        plan = whole_plan(bound, seconds_of(text, tables), slots, shareable, named_by=named_by)
        return DuckDBPlan(bound, tables, plan)

    def _shareable(self, bound: Bound) -> bool:
        """True if other queries may use its output. Whether its text is steady is checked last: that takes DuckDB 10
        ms."""
        deterministic = all(function.deterministic for function in bound.functions.values())
        extended = EXTENSIONS in dict(bound.settings)  # by functions that nothing here knows
        return self._shared and deterministic and not extended and is_steady(bound.text)

    def _keep(self, key: _Key, plan: DuckDBPlan) -> None:
        with self._lock:
            self._forget(key)
            self._known[key] = plan
            self._characters += len(plan.bound.text)
            while len(self._known) > _REMEMBERED or (self._characters > _CHARACTERS and len(self._known) > 1):
                self._forget(next(iter(self._known)))

    def _forget(self, key: _Key) -> None:
        known = self._known.pop(key, None)
        if known is not None:
            self._characters -= len(known.bound.text)


def seconds_of(text: str, tables: Mapping[str, Table]) -> float:
    """Seconds of one thread that DuckDB should take for a text over these tables, by their footers."""
    return seconds_from_footers(text, _sizes(tables))


def may_pair_rows(own: DuckDBPlan) -> bool:
    """True if the query may be long although its tables are small: it may try all pairs of their rows."""
    if own.basis != "footers":
        return False
    return possible_pairs(own.bound.text, _sizes(own.tables)) * DEFAULT.nested_pair > SHORT_SECONDS


def _sizes(tables: Mapping[str, Table]) -> dict[str, TableSize]:
    return {name: TableSize(table.rows, tuple(column for column, _ in table.columns)) for name, table in tables.items()}


def known_best(own: DuckDBPlan, own_seconds: float) -> Known | None:
    """The best plan of a query among those that ran to their end; None: there is none. own_seconds: that DuckDB's plan
    takes."""
    ways = [Known(own_seconds, True)] if own.runs else []
    if own.staged_seconds is not None and own.staged_seconds < inf:
        ways.append(Known(own.staged_seconds, False))
    return min(ways, key=lambda one: one.seconds, default=None)


def possible_slots(slots: int, at_first: int) -> int:
    """The slots that a task may have later in its run: those at the start of the session, or twice the present ones, if
    the machine has them. The present limits of this process may change."""
    return max(slots, at_first, min(GROWTH * slots, _cpus()))


@cache
def _cpus() -> int:
    return os.cpu_count() or 1


def as_they_turned_out(
    candidates: Sequence[Candidate], staged_seconds: float | None, share: Resources, untried: float = 1.0
) -> Sequence[Candidate]:
    """Candidates with their estimates multiplied by the error of the best of them.
    untried: the factor if none of them has run.

    Otherwise a query would leave DuckDB's plan for stages that are known to take longer, or the reverse.
    """
    staged = [one.finish.seconds(share) for one in candidates if not one.plan.root.whole]
    if not staged:
        return candidates
    factor = 1.0 / untried if staged_seconds is None else staged_seconds / min(staged)
    if factor == 1.0:
        return candidates
    if factor == inf:
        return [one for one in candidates if one.plan.root.whole]
    return [one if one.plan.root.whole else one.slower(factor) for one in candidates]


def _staged_seconds(plans: Sequence[Plan], history: Sequence[Record]) -> float | None:
    """Seconds of the stages of a job up to its answer; infinite if they failed and DuckDB's plan did not; None without
    an answer, or if stages did not give it.

    For a job that left DuckDB's plan, they count from the switch: stages use no output of that plan.
    """
    ends = [one.at for one in history if isinstance(one, Ended) and one.state == State.SUCCEEDED.value]
    whole = [plan.root.whole for plan in plans]
    if any(isinstance(one, Switched) and one.why for one in history):
        return inf if ends else None
    if not ends or whole[-1] or whole != sorted(whole, reverse=True):
        return None
    return ends[-1] - (_begun(history, sum(whole) + 1) if any(whole) else 0.0)


def _seconds_of_trial(plans: Sequence[Plan], history: Sequence[Record]) -> float | None:
    """Estimated seconds of the stages of a job that switched to DuckDB's plan; None: it did not.

    The estimate is that of the decision.
    """
    if plans[0].root.whole or not plans[-1].root.whole or any(isinstance(one, Switched) and one.why for one in history):
        return None
    left = [one for one in history if isinstance(one, Decided) and one.switched]
    if not left:
        return None
    return left[-1].at + next(one.seconds for one in left[-1].candidates if one.plan == left[-1].running)


def _seconds_until_left(plans: Sequence[Plan], history: Sequence[Record]) -> float:
    """Seconds of one thread that DuckDB's plan had run before a switch to another plan; 0 without one."""
    whole = [plan.root.signature for plan in plans if plan.root.whole]
    attempts = [one for one in JobReplay.of(history).attempts.values() if one.key.signature in whole]
    if not attempts or len(whole) == len(plans):  # it may have waited for a slot until another took its place
        return 0.0
    return attempts[0].thread_seconds(_begun(history, len(whole) + 1))


def _begun(history: Sequence[Record], number: int) -> float:
    """The time of a job's switch to the plan of that number, in its seconds."""
    return next(one.at for one in history if isinstance(one, Switched) and one.number == number)


def whole_seconds(plans: Sequence[Plan], history: Sequence[Record]) -> float | None:
    """Seconds of one thread that DuckDB's plan took, if it gave the answer or another's task did not end first."""
    roots = {plan.root.signature for plan in plans if plan.root.whole}
    for attempt, end in JobReplay.of(history).succeeded():
        if end.key.signature in roots and attempt.began is not None:
            return attempt.thread_seconds(attempt.began + end.committed.seconds)
    return None
