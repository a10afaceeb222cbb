"""The start of a job: the request to the cluster, and its record in the folder of checkpoints."""

from __future__ import annotations

import math
import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict, Unpack

from qoop.adaptive.cluster.job_handle import JobHandle
from qoop.adaptive.cluster.owners import owner_of
from qoop.adaptive.cluster.recording.messages import JobRequest, SampleOffered
from qoop.adaptive.replanning.policies import by_deadline
from qoop.adaptive.replanning.worthwhile import Worthwhile
from qoop.adaptive.schedulers.terms import Terms
from qoop.catalog.errors import QueryError, Timeout
from qoop.engine.state import Limits
from qoop.engine.task import checkpoint_keys
from qoop.query.config import Config
from qoop.query.job import Planned
from qoop.query.output_losses import BETWEEN_LOSSES
from qoop.query.planning import QueryPlanning
from qoop.session.parts import SessionParts

if TYPE_CHECKING:
    from qoop.adaptive.replanning.adaptive import Adaptive
    from qoop.session.earlier_runs import EarlierRuns


_DOUBTFUL = 0.1
"""The part of the time until its deadline that a query is estimated to take, from which a sample is offered."""

_SAMPLE_ERROR = 0.05
"""The relative error of the approximate answer that is offered where a deadline will be missed."""

_LASTING = 10 * BETWEEN_LOSSES
"""Seconds between two losses from which on not all outputs are worth writing."""


class StartOptions(TypedDict, total=False):
    """The options of one start, as arguments of `Session.start`.

    timeout: see `Session.submit`. resume: use the outputs of earlier queries; by default not. own_outputs: of these,
    only those of the same tenant and user.
    follows: the job continues another one, and does not queue again. gain: see `JobRequest`.
    profiled: its history has DuckDB's profiles of its tasks.
    """

    timeout: float | None
    resume: bool
    own_outputs: bool
    follows: bool
    gain: float | None
    profiled: bool


_LITTLE = 0.1
"""Seconds of planning that do not count for timeouts."""


def time_left(timeout: float | None, begun: float) -> float | None:
    """The seconds that are left of a timeout; all of it where little time has gone, so that messages name it as it was
    set. begun: when it began, by `time.monotonic`. Raises Timeout."""
    if timeout is None or not timeout > 0:  # the request names the fault
        return timeout
    spent = time.monotonic() - begun
    if spent <= min(_LITTLE, timeout / 20):
        return timeout
    left = timeout - spent
    if left <= 0:
        raise Timeout(f"the query has taken more than {timeout:g} s before it began")
    return left


class JobStarts:
    """Starts the jobs of one session on its cluster.

    earlier_runs: the unfinished runs of the folder of checkpoints; None: there is no folder on this machine.
    """

    def __init__(
        self, config: Config, parts: SessionParts, planning: QueryPlanning, earlier_runs: EarlierRuns | None
    ) -> None:
        self._config = config
        self._backend = parts.backend
        self._cluster = parts.cluster
        self._tables = parts.tables
        self._planning = planning
        self.earlier_runs = earlier_runs

    def start(self, planned: Planned, terms: Terms, **options: Unpack[StartOptions]) -> JobHandle:
        """Start a query by its plan. Raises as `Session.submit` does."""
        request = self._request(planned, terms, options)
        if request.reuse:
            self._backend.verify(checkpoint_keys(planned.plan.root))
        handle = self._reading(request, planned)
        self._planning.started(planned, handle)
        return handle

    def _reading(self, request: JobRequest, planned: Planned) -> JobHandle:
        """Submit the job. The files that it reads stay until it ends."""
        if not any(getattr(table.source, "manifest", "") for table in planned.tables.values()):
            return self._submitted(request, planned)
        from qoop.catalog.sources.created import in_use  # few tables have files that may go

        with ExitStack() as uses:
            uses.enter_context(in_use(planned.tables.values()))
            handle = self._submitted(request, planned)
            end = uses.pop_all().close
        handle.done.add_done_callback(lambda _: end())
        return handle

    def offer_sample(self, job: str, planned: Planned, deadline: float, confidence: float) -> None:
        """Report the part of the tables that an approximate answer would read, in case that the deadline is missed."""
        from qoop.programs.approximate.planning import SessionQueries
        from qoop.programs.approximate.start import part_to_read
        from qoop.programs.approximate.target import Target

        if self._planning.estimated_seconds(planned) < _DOUBTFUL * deadline:
            return
        with suppress(QueryError):  # the job runs, and reports what is wrong
            queries = SessionQueries(self._tables, self._planning, self._config.ray is not None)
            part = part_to_read(planned.bound.text, queries, Target(_SAMPLE_ERROR, confidence))
            if part is not None:
                self._cluster.post(SampleOffered(job, _SAMPLE_ERROR, part))

    def _request(self, planned: Planned, terms: Terms, options: StartOptions) -> JobRequest:
        return JobRequest(
            planned.plan,
            planned.tables,
            planned.bound.settings,
            options.get("timeout"),
            durable=self._config.checkpoints is not None,
            saving=self._saving(planned),
            reuse=options.get("resume", False),
            own_outputs=options.get("own_outputs", False),
            adaptive=_for_deadline(planned.adaptive, terms.deadline),
            text=planned.bound.text,
            limits=self._limits(options.get("profiled", False), planned.slice_seconds),
            functions=tuple(planned.bound.functions.values()),
            terms=terms,
            follows=options.get("follows", False),
            gain=options.get("gain"),
            fallback=planned.last_resort,
            slowdown=self._planning.slowdown,
        )

    def _saving(self, planned: Planned) -> Worthwhile | None:
        """The rule for the outputs that go to the folder of checkpoints; None: all do."""
        if self._config.persist == "worthwhile":
            return Worthwhile()
        between = self._planning.between_losses
        if self._config.persist == "all" or self.earlier_runs is None or between < _LASTING:
            return None
        return None if self.earlier_runs.is_unfinished(planned.bound.text) else Worthwhile(between)

    def _limits(self, profiled: bool, slice_seconds: float) -> Limits:
        config = self._config
        return Limits(
            near=config.ray is not None,
            locked=config.locked,
            profiled=profiled,
            all_saved=config.checkpoint_full == "error",
            slice_seconds=slice_seconds,
        )

    def _submitted(self, request: JobRequest, planned: Planned) -> JobHandle:
        """Submit the job. If its outputs may serve another run of the text, the folder of checkpoints gets a record of
        it."""
        if self.earlier_runs is None or not (request.durable and request.reuse):
            return self._cluster.submit(request)
        begun = self.earlier_runs.begin(planned, owner_of(request.terms))
        own = request.own_outputs and not begun.continues  # what this user's killed run left is not known to be theirs
        request = replace(request, earlier=begun.why, own_outputs=own)
        try:
            if begun.alone and not own and self._config.ray is None:  # other nodes would read the files of a lost one
                request = self._going_on(request)
            handle = self._cluster.submit(request)
        except BaseException:
            begun.end(answered=True)
            raise
        handle.done.add_done_callback(lambda done: begun.end(answered=done.exception() is None))
        return handle

    def _going_on(self, request: JobRequest) -> JobRequest:
        """The request with a plan of which more outputs may exist, and will serve another process."""
        from qoop.engine.running.going_on import going_on  # few queries have such stages

        plan = going_on(request.plan, request.text, self._planning.present)
        return request if plan is None else replace(request, plan=plan, limits=replace(request.limits, goes_on=True))


def _for_deadline(adaptive: Adaptive | None, deadline: float) -> Adaptive | None:
    """The settings by which a job with a deadline may change plan."""
    if adaptive is None or deadline == math.inf:
        return adaptive
    return replace(adaptive, policy=by_deadline(adaptive.policy, deadline))
