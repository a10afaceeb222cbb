"""A session: tables, a binder, machines and the jobs that run on them. The face of qoop.

The way of a query through it: `sql` → `submit` → `QueryPlanning.plan` (bind, statistics, plan) → `start` → the cluster
runs the plan → `Job.result` takes the root's output. What names mean is known to :mod:`qoop.query.tables`.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Unpack

import pyarrow as pa

from qoop.adaptive.cluster.job_handle import JobHandle
from qoop.adaptive.cluster.sizing import Auto
from qoop.adaptive.monitor.cgroup import is_limited
from qoop.adaptive.schedulers.terms import Terms
from qoop.catalog.errors import QoopError
from qoop.catalog.interrupts import interruptible
from qoop.catalog.paths import absolute
from qoop.catalog.sizes import counted
from qoop.engine.backends.local import LocalBackend
from qoop.planner.estimate.cost import CostModel
from qoop.planner.plan import Plan, Resources
from qoop.planner.search.candidate import Alternatives, Grid
from qoop.query.calibrated import calibration_path, load
from qoop.query.config import Config, course_of
from qoop.query.earlier_work import keep_answer
from qoop.query.job import Job, Planned, Prepared, answer
from qoop.query.plan_store import PlanStore
from qoop.query.planning import QueryPlanning
from qoop.query.result import Result
from qoop.query.statements.statement import Statement, query_text, statements
from qoop.query.tables import SessionTables, weakly
from qoop.session.execution import Execution
from qoop.session.options import JobTerms, SessionOptions
from qoop.session.parts import VIEWS, SessionParts, capacity, made, stored_work
from qoop.session.programs import Programs
from qoop.session.starting import JobStarts, StartOptions, time_left
from qoop.session.texts import RunQuery, Texts, with_parameters

if TYPE_CHECKING:
    from qoop.adaptive.cluster.tenants import TenantStatus
    from qoop.programs.views.views import MaterializedViews, ViewStatus
    from qoop.query.statements.parameters import Parameters
    from qoop.session.cursors import Cursor
    from qoop.session.pages import OpenPage
    from qoop.session.until_done import Life, UntilDoneOptions


class Session(Programs):
    """Tables and jobs. Usable from several threads; close it, or use it as a context manager.

    planning: how its queries are planned. plan_cache: the plans of texts that were planned before.
    backend: the machines that tasks run on, and the outputs that they hold. cluster: the loop that runs the jobs.
    """

    def __init__(self, config: Config, cost: CostModel | None = None) -> None:
        """cost: the machine's constants; by default those that `qoop calibrate` has stored."""
        self.config = config
        cost = load(calibration_path()) if cost is None else cost
        cost = cost if config.ray is None else cost.across_machines()
        self.plan_cache = PlanStore(config.plan_cache)
        self._tables = SessionTables(self.plan_cache, config.tables, config.locked)
        self._tables.definitions.sweep_rows = weakly(self._sweep_rows)
        self._parts = made(config, self._tables)
        self.backend, self.cluster = self._parts.backend, self._parts.cluster
        earlier_runs = self._parts.earlier_runs
        self._options = SessionOptions(config, self._parts.sizing, self._tables)
        self._texts = Texts(config, self._tables)
        share, stored = partial(capacity, self.backend), stored_work(self.backend, earlier_runs)
        background = self._parts.background
        self.planning = QueryPlanning(self._tables, self.plan_cache, cost, config, share, stored, background)
        self._starts = JobStarts(config, self._parts, self.planning, earlier_runs)
        self._jobs: weakref.WeakValueDictionary[str, Job] = weakref.WeakValueDictionary()
        self._ending = weakref.finalize(self, SessionParts.end, self._parts)  # collected, or at the end of the process
        self._tables.binder.catch_up()
        if config.tables is not None:
            self._open_tables(config.tables)
        if config.watch_machine or (config.watch_machine is None and config.ray is None and is_limited()):
            self._options.watch(True)

    def _open_tables(self, folder: Path) -> None:
        """Know the created tables of a folder, and its views."""
        from qoop.query.statements.created.folder import clean, has_tables, has_views  # few sessions have a folder

        clean(folder)
        if has_tables(folder):
            self.register_folder(folder)
            if has_views(folder):
                _ = self.materialized

    # Queries

    @interruptible()
    def describe(self, text: str) -> tuple[tuple[str, str], ...]:
        """Names and types of the columns of a query, which is not run. Raises ParseError, BindError."""
        with self._written_out(query_text(text)) as query:
            return self._tables.describe(query)

    @interruptible()
    def sql(self, text: str, parameters: Parameters = (), *, watch: Callable[[Job], object] | None = None) -> Result:
        """Run a text and wait for the result; for several statements, that of the last.

        parameters: the values of ``?``, ``$1`` … as a sequence, or of ``$name`` … as a mapping.

        SET, RESET, SHOW TABLES and SHOW FUNCTIONS work too, and EXPLAIN [ANALYZE | ALTERNATIVES | HISTORY |
        APPROXIMATE] answers as DuckDB's EXPLAIN does: a column explain_key and a column explain_value. APPROXIMATE
        SELECT … gives estimates with their intervals, see docs/growing.md. Ctrl-C cancels the running query.

        watch: is called with every job at its start, to show its progress.

        Raises QueryError for a fault of the text, ExecutionError if a task failed, SessionClosed.
        """
        result = None
        for statement in statements(with_parameters(text, parameters)):
            result = self.execute(statement, watch=watch)
        assert result is not None  # a text without statements was refused
        return result

    @interruptible()
    def execute(
        self,
        statement: Statement | str,
        parameters: Parameters = (),
        *,
        watch: Callable[[Job], object] | None = None,
    ) -> Result:
        """Run a text, or one of its :func:`~qoop.query.statements.statement.statements`, which has no parameters;
        otherwise as `sql`."""
        if isinstance(statement, str):
            return self.sql(statement, parameters, watch=watch)
        return self._execution(watch).execute(statement)

    def cursor(self) -> Cursor:
        """A cursor of PEP 249 (:mod:`qoop.interfaces.dbapi`), which runs statements in this session and returns their
        rows; each thread may have one. Its errors are those of that module."""
        from qoop.session.cursors import Connection

        self._tables.check_open()
        return Connection(self, owned=False).cursor()

    @interruptible()
    def submit(
        self,
        text: str,
        *,
        timeout: float | None = None,
        parameters: Parameters = (),
        resume: bool | None = None,
        plan: Plan | None = None,
        watch: Callable[[Job], object] | None = None,
        **terms: Unpack[JobTerms],
    ) -> Job:
        """Start a query and return at once. Several jobs may run at a time; they share the slots fairly.

        timeout: seconds, above 0, after which it is cancelled and `result` raises Timeout; if even its planning takes
        so long, this does. parameters: as for `sql`.
        resume: use the outputs of earlier queries, even of another process, and run only the rest; by default as the
        session's `reuse`. plan: run this plan of the query, one of its `alternatives`, in place of the usual one; then
        outputs are used only if `resume` is true. watch: is called with each job that first finds the values of a
        PIVOT, on the same terms. terms: see :class:`~qoop.session.options.JobTerms`.

        Raises QueryError, CatalogError, ConfigError or SessionClosed; errors of the run come from `Job.result`.
        """
        chosen, begun = self._options.terms_with(**terms), time.monotonic()

        def pivot_values(query: str) -> Result:
            planned = self.planning.plan(query)
            return answer(self.start(planned, chosen, timeout=time_left(timeout, begun)), watch)

        with self._written_out(self._tables.one_query(with_parameters(text, parameters)), pivot_values) as query:
            reuse = resume if resume is not None else self.config.reuse and plan is None
            planned = self.planning.plan(query, reuse=reuse) if plan is None else self.planning.with_plan(query, plan)
            own = resume is None and bool(chosen.user)
            job = self.start(planned, chosen, timeout=time_left(timeout, begun), resume=reuse, own_outputs=own)
            if plan is None and chosen.deadline < math.inf:
                confidence = self._options.goal["confidence"]
                self._starts.offer_sample(job.id, planned, chosen.deadline, confidence)
            return job

    def start(self, planned: Planned, terms: Terms | None = None, **options: Unpack[StartOptions]) -> Job:
        """Start a query by its plan (:attr:`planning`), and return at once; else as `submit`.

        terms: by default the session's. options: see :class:`~qoop.session.starting.StartOptions`.
        """
        self._tables.check_open()
        handle = self._starts.start(planned, self._options.terms if terms is None else terms, **options)
        self._texts.started(handle, planned.tables)

        def to_bundle(path: Path, grace: float, copies: bool) -> None:
            from qoop.session.suspension import suspend

            suspend(handle, planned, self._tables, self.backend, path, grace, copies)

        take = partial(self._take, handle, planned)
        job = self._jobs[handle.id] = Job(handle, planned, take, self.backend.read, to_bundle)
        return job

    @interruptible()
    def bundle(self, text: str, path: str | os.PathLike[str]) -> None:
        """Write a query to the folder `path`, without running it; `resume` runs it, in this or another process.

        Raises ConfigError if `path` exists, or a table is in the memory of this process; DiskFull; otherwise as
        `submit`.
        """
        from qoop.session.suspension import to_bundle

        with self._written_out(query_text(text)) as query:
            to_bundle(self._tables.as_read(query), self._tables, self.backend, absolute(path))

    @interruptible()
    def resume(
        self,
        path: str | os.PathLike[str],
        data: Sequence[str | os.PathLike[str]] = (),
        trust: bool = False,
        *,
        timeout: float | None = None,
        tenant: str | None = None,
        user: str = "",
    ) -> Job:
        """Continue a suspended job (:meth:`qoop.query.job.Job.suspend`), with the best plan for the present resources.

        data: folders or DuckDB files of its tables. Others are registered from where they were, unless this session
        has a table of that name.
        trust: use the outputs of a bundle that does not bear the seal of the user's key. Without it, such a bundle
        gives a warning, and its query runs again from the start.
        timeout, tenant, user: as for `submit`.

        Raises ConfigError if there is no bundle at `path`, SourceError or TableChanged if a table is gone or has
        changed.
        """
        from qoop.session.suspension import Resumption

        terms = self._options.terms_with(tenant=tenant, user=user)
        start = partial(self.start, timeout=timeout, resume=True, terms=terms)
        resumption = Resumption(self._tables, self.planning, self.backend, self.set, start)
        return resumption.resume(absolute(path), data, trust)

    def run_until_done(self, text: str, **options: Unpack[UntilDoneOptions]) -> Life:
        """Run a query in this process and those after it: see :func:`qoop.session.until_done.run_until_done`."""
        from qoop.session.until_done import run_until_done  # few sessions do so

        return run_until_done(self, text, **options)

    @interruptible()
    def alternatives(self, text: str, grid: Grid | None = None) -> Alternatives:
        """The plans of a query worth keeping: for every share of the grid one that is close to the best.

        grid: the shares they are compared on; by default some of this machine. Raises as `submit` does.
        """
        with self._written_out(query_text(text)) as query:
            return self.planning.alternatives(query, grid)

    @interruptible()
    def learn(self, text: str) -> int:
        """Plan a query, from now on, with the measurements of its stages in the folder of checkpoints.

        These are rows, bytes and seconds. Those of the session's own jobs are used without that. Returns the number of
        stages with measurements, of all plans worth keeping. Raises as `submit` does.
        """
        return self.planning.learn(text)

    @interruptible()
    def explain(
        self,
        text: str,
        *,
        alternatives: bool = False,
        analyze: bool = False,
        history: bool = False,
        diff: str | None = None,
        format: str = "text",
    ) -> str:
        """The plan of a query: its stages, their inputs, partitions and estimated costs.

        alternatives: all plans worth keeping instead, and which of them is best on which share of the machine.
        analyze: run the query, and report the measurements of its stages. history: run it, and list the events and
        decisions as sentences (as text only; `Job.timeline` draws it). diff: compare two of the alternatives by name,
        such as "A,B". At most one of these. format: text, json, svg or html.

        Raises ConfigError, and what `submit` and, with analyze, `Job.result` do.
        """
        from qoop.session.explanations import explanation

        with self._written_out(query_text(text)) as query:
            return explanation(self._execution(), query, alternatives, analyze, history, diff, format)

    @property
    def available(self) -> Resources:
        """Slots and memory of tasks on all machines together; on one machine half of the memory of `configured`."""
        self._tables.creator_process.check()
        return capacity(self.backend)

    @property
    def configured(self) -> Resources:
        """Slots and memory as configured; the outputs and the process itself use a part of that memory."""
        return self.backend.configured if isinstance(self.backend, LocalBackend) else self.available

    def resize(self, slots: int | Auto | None = None, memory: int | str | None = None, *, notice: float = 0.0) -> None:
        """Change the resources of all jobs together, from now on; a parameter that is None keeps its value.

        slots: 0 is legal: queries then wait, at most `wait_for_capacity` seconds. memory: as for `connect`.
        "auto", for either: the resources that the machine can give, if it is watched, else those of the start of the
        session. Other numbers hold until the next `resize`.
        Tasks that no longer fit are interrupted and run again where resources are free; the answers stay the same.
        notice: seconds until the change. Meanwhile no task starts that would not end in time, and jobs may switch to a
        plan for the remaining resources.

        Raises ConfigError for an invalid size, SessionClosed.
        """
        self._tables.check_open()
        self._options.resize(slots, memory, notice)

    def expect(self, course: Iterable[tuple[float, int]]) -> None:
        """Announce future slots, for instance of machines that were requested and have not started yet.

        course: (seconds from now, slots of all machines together), in order of time; memory goes with the slots. It
        replaces the previous announcement; empty: no change is expected. Jobs choose the plan that ends first if the
        announcement holds. Tasks start on the present slots. Announced slots that do not appear in time are
        withdrawn.

        Raises ConfigError for invalid times or slots, SessionClosed.
        """
        self._tables.check_open()
        steps = course_of(course)
        self.planning.expect(max((slots for _, slots in steps), default=0))
        self.cluster.expect(steps)

    def jobs(self) -> list[Job]:
        """The jobs that the program still refers to, in the order of their submission."""
        return sorted(self._jobs.values(), key=lambda job: job.number)

    def page(self, port: int = 0, open: bool = False) -> OpenPage:
        """Show the jobs that run, wait or have ended, in a browser on this machine; see docs/page.md.

        port: to listen at; 0: any that is free, and the page that is open if there is one. open: show it in the user's
        browser. The `url` contains a secret, which gives access to all queries, and the right to stop them. `close`
        ends the page, as the end of the session does.

        Raises ConfigError if the port is taken, or the extra ``qoop[server]`` is missing; SessionClosed.
        """
        self._tables.check_open()
        from qoop.session.pages import page_module

        there = [page for page in self._parts.pages if not page.closed and port in (0, page.port)]
        page: OpenPage = there[0] if there else page_module().of_session(self, port)
        if not there:
            self._parts.pages.append(page)
        if open:
            page.show()
        return page

    @property
    def held_back(self) -> str:
        """The reason that queries have fewer resources now than at the start, if the machine is watched; else empty."""
        return self._parts.sizing.held_back

    def prepare(self, text: str, at: str | None = None) -> Prepared:
        """Bind a query and find the statistics that its planning needs. at: the value of ``now()``, as a TIMESTAMPTZ;
        None: the present time. Raises as `submit` does."""
        return self.planning.prepare(self._tables.as_read(query_text(text)), at)

    def tenants(self) -> list[TenantStatus]:
        """The status of every tenant that has or had a job here: its jobs, its share of the slots, its use of
        them, and the fairness of its service."""
        return self.cluster.tenants()

    def set(self, name: str, value: object) -> None:
        """Set an option that changes results, such as TimeZone, for the queries to come; None: its default.

        slots and memory are options, too, with the effect of `resize`; their default is "auto". So are watch_machine,
        tenant, priority and deadline, see `connect`, and error_goal, confidence and exact_within, of answers that grow.

        Raises ConfigError for an unknown option, with the list of options, or for an invalid value.
        """
        self._options.set(name, value)

    def materialized_views(self) -> list[ViewStatus]:
        """The materialized views: how old each is, how it is refreshed, and what its last refresh took."""
        return self.materialized.statuses()

    def close(self) -> None:
        """Cancel the jobs that run, join all threads and remove temporary files. Results stay valid.

        Raises DiskFull, after all that, if a checkpoint could not be written and no job has reported it."""
        if not self._tables.creator_process.is_here:  # it is the parent's to close
            return
        self._tables.shut()
        if self._ending.detach() is not None:
            self._parts.close()

    def __del__(self) -> None:
        ending = self.__dict__.get("_ending")
        if ending is not None and ending.alive and self._tables.creator_process.is_here:
            warnings.warn(f"a session of {self.config.slots} slots was not closed", ResourceWarning, 2, source=self)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        try:
            self.close()
        except QoopError as late:
            if error is None:
                raise
            error.add_note(f"Then, while the session was closed: {late}")

    def __repr__(self) -> str:
        state = "closed" if self._tables.closed else counted(len(self._tables.catalog.tables()), "table")
        if self.config.ray is not None:
            return f"<Session on {counted(len(self.backend.machines()), 'Ray node')}, {state}>"
        return f"<Session with {counted(self.config.slots, 'slot')}, {self.config.memory / 1e9:.1f} GB, {state}>"

    # Inside

    @property
    def materialized(self) -> MaterializedViews:
        """The materialized views, for their statements."""
        with self._tables.naming():
            if not self._parts.views:
                from qoop.programs.views.planning import ViewSession
                from qoop.programs.views.views import MaterializedViews

                terms = self._options.terms_with(tenant=VIEWS)
                start = partial(weakly(self.start), resume=self.config.reuse, terms=terms)
                session = ViewSession(
                    self._tables, self.planning, start, self.config.tables, self.cluster.program_log,
                    partial(self.cluster.shares.slots_for, terms), partial(self.cluster.shares.others_run, terms),
                    self.config.view_sharing,
                )  # fmt: skip
                self._parts.views.append(MaterializedViews(session))
            return self._parts.views[0]

    def _execution(self, watch: Callable[[Job], object] | None = None) -> Execution:
        return Execution(self, self._tables, self._options, self._texts, watch)

    def _written_out(self, text: str, run_query: RunQuery | None = None) -> contextlib.AbstractContextManager[str]:
        """The text to plan: see `Texts.written_out`. run_query: runs a query, by default as `sql`."""
        return self._texts.written_out(text, run_query or self.sql)

    def _take(self, handle: JobHandle, planned: Planned) -> pa.Table:
        """The root's output; from now on the caller owns its memory."""
        parts = [self.backend.read(output.key) for output in handle.outputs()]
        if self.config.reuse:
            keep_answer(self.backend, handle, planned, parts)
        handle.release()
        return pa.concat_tables(parts)
