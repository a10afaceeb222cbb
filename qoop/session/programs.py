"""Programs of a session above its jobs: answers that grow, repeated steps, and sweeps."""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from qoop.catalog.errors import ConfigError
from qoop.catalog.interrupts import interruptible
from qoop.query.statements.statement import query_text
from qoop.session.options import JobTerms, SweepTerms, parted
from qoop.session.registration import Registration
from qoop.session.texts import with_parameters

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from qoop.adaptive.cluster.cluster import Cluster
    from qoop.adaptive.schedulers.terms import Terms
    from qoop.planner.plan import Resources
    from qoop.programs.approximate.answer import Answer
    from qoop.programs.approximate.planning import SessionQueries
    from qoop.programs.iterate.curves import Kind
    from qoop.programs.iterate.iteration import Iteration
    from qoop.programs.sweeps.named import NamedSweeps
    from qoop.programs.sweeps.study import Study
    from qoop.query.job import Job, Planned
    from qoop.query.planning import QueryPlanning
    from qoop.query.result import Result
    from qoop.query.statements.parameters import Parameters
    from qoop.session.options import SessionOptions
    from qoop.session.parts import SessionParts
    from qoop.session.starting import StartOptions


class Programs(Registration):
    """Programs above the jobs of a session: its base."""

    planning: QueryPlanning
    cluster: Cluster
    _options: SessionOptions
    _parts: SessionParts

    if TYPE_CHECKING:

        def sql(self, text: str) -> Result: ...

        def submit(self, text: str, *, resume: bool | None = None, **terms: Unpack[JobTerms]) -> Job: ...

        def start(self, planned: Planned, terms: Terms | None = None, **options: Unpack[StartOptions]) -> Job: ...

        @property
        def available(self) -> Resources: ...

        def _written_out(self, text: str) -> AbstractContextManager[str]: ...

    @interruptible()
    def approximate(
        self,
        text: str,
        error: float | None = None,
        confidence: float | None = None,
        *,
        parameters: Parameters = (),
        resume: bool | None = None,
        seed: int | None = None,
        if_busy: bool = False,
        **terms: Unpack[JobTerms],
    ) -> Answer:
        """Start a query whose answer grows more certain, and return at once; see docs/growing.md.

        error: the distance between an estimate and each end of its interval, relative to the estimate. The answer ends
        once all intervals are that narrow; 0: once it is exact. By default the session's `error_goal`.
        confidence: the probability that all published intervals of a figure contain its true value; by default the
        session's.
        seed: of the random order in which pieces are read; by default one of the text and the tables.
        parameters, resume, terms: as for `submit`.
        if_busy: the answer ends early only while other queries have to queue (`most_jobs`); else it is exact, at the
        cost of any query.

        A query without partial answers runs as usual, and its only edition states the reason. Raises as `submit` does.
        """
        from qoop.programs.approximate.start import start_answer
        from qoop.programs.approximate.target import AnswerOptions, Target

        chosen = self._options.terms_with(**terms)
        goal = self._options.goal
        target = Target(goal["error_goal"], goal["confidence"]).overridden(error, confidence)
        begun, reuse = time.monotonic(), self.config.reuse if resume is None else resume

        def begin(planned: Planned, *, follows: bool = False, gain: float | None = None) -> Job:
            left = chosen.later(time.monotonic() - begun)
            return self.start(planned, resume=reuse, terms=left, follows=follows, gain=gain)

        busy = (lambda: self.cluster.overloaded) if if_busy else None
        ended_early = partial(self.cluster.ended_early, chosen.tenant) if if_busy else None
        within, log = goal["exact_within"], self.cluster.program_log()
        options = AnswerOptions(target, seed, within, chosen.deadline, busy, ended_early, log)
        with self._written_out(query_text(with_parameters(text, parameters))) as query:
            return start_answer(query, self._queries(), options, begin)

    def _queries(self) -> SessionQueries:
        from qoop.programs.approximate.planning import SessionQueries

        return SessionQueries(self._tables, self.planning, self.config.ray is not None)

    @interruptible()
    def iterate(
        self,
        step: str,
        start: object,
        *,
        loss: str = "loss",
        until: float = 1e-3,
        most: int = 100,
        former: str = "former",
        curve: Kind | None = None,
        **terms: Unpack[JobTerms],
    ) -> Iteration:
        """Repeat a query over its own result until a loss stops falling, and return at once; see docs/growing.md.

        step: the query. It reads tables, and the result of the previous step as the table `former`.
        start: what the first step reads there: a query, or data as for `register`.
        loss: the column of the step's rows whose sum is its loss.
        until: the end, where the loss changes by no more than that part of its largest fall in a step. most: steps.
        curve: the way in which the loss falls, for `scheduler="quality"`: "sublinear" (gradient descent), "superlinear"
        (quasi-Newton methods); None: whichever fits.
        terms: as for `submit`.

        Raises as `submit` does, and ConfigError.
        """
        from qoop.programs.iterate.iteration import StepOptions
        from qoop.programs.iterate.start import iterated

        first = self.sql(start) if isinstance(start, str) else start
        begin = partial(self.start, resume=False, terms=self._options.terms_with(**terms))
        options, log = StepOptions(loss, until, most, former, curve), self.cluster.program_log()
        with self._written_out(query_text(_step(step))) as text:
            return iterated(text, first, self._tables, self.planning, options, begin, log)

    @interruptible()
    def sweep(
        self,
        step: str,
        params: object,
        *,
        metric: str,
        start: object = None,
        trials: int | None = None,
        **options: Unpack[SweepTerms],
    ) -> Study:
        """Run a query with many settings at once, of which only those that are good cost; returns at once.

        step: a query with parameters such as `$rate`. It may read the result of its previous step as the table
        `former`; without that each trial is one query.
        params: a list of values, :func:`qoop.uniform`, `log_uniform` or `int_uniform` for each parameter; or rows with
        a setting each. trials: the number of settings; by default a whole grid, or all rows.
        metric: a column of the step's only row, or a query for one number, which reads the rows of a step as `former`.
        start: what first steps read as `former`: a query, or data as for `register`.
        options: see :class:`~qoop.session.options.SweepTerms`.

        Raises as `submit` does, and ConfigError.
        """
        from qoop.programs.sweeps.start import SweepOptions, begun

        slots = max(1, int(self.available.cpu))
        folder = self.config.checkpoints if isinstance(self.config.checkpoints, Path) else None
        own, terms = parted(options)
        group = self.cluster.shares.group(self._options.terms_with(**terms), slots)
        first = self.sql(start) if isinstance(start, str) else start
        begin, log = partial(self.start, resume=False), self.cluster.program_log()
        goal = self._options.goal
        races = goal["confidence"], goal["exact_within"], self.config.ray is not None
        prepare = own.get("prepare")
        prepared = None if prepare is None else self.submit(prepare, resume=True, **terms).result()
        with ExitStack() as texts:
            step = texts.enter_context(self._written_out(_step(step)))
            if isinstance(metric, str) and not metric.isidentifier():
                metric = texts.enter_context(self._written_out(metric))
            chosen = SweepOptions(params, trials, metric, slots, folder, *races, prepared=prepared, **own)
            study = begun(step, first, self._tables, self.planning, chosen, begin, group, log)
        self._named_sweeps.add(study, chosen.name)
        return study

    def sweeps(self) -> list[Study]:
        """The sweeps that run, or that the program still refers to; `FROM sweep('name')` reads their trials."""
        return self._named_sweeps.all() if "_named_sweeps" in vars(self) else []

    @cached_property
    def _named_sweeps(self) -> NamedSweeps:
        from qoop.programs.sweeps.named import NamedSweeps

        made = NamedSweeps()
        self._parts.sweeps.append(made)
        return made

    def _sweep_rows(self, expression: str) -> pa.Table:
        return self._named_sweeps.rows(expression)


def _step(text: object) -> str:
    """The text of a step. Raises ConfigError."""
    if not isinstance(text, str):
        raise ConfigError(f"step must be a query, not {text!r}")
    return text
