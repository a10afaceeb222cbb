"""A job that the cluster's loop has, with all that belongs to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qoop.adaptive.cluster.job_handle import JobHandle, JobLoop
from qoop.adaptive.cluster.remaining_work import RunRemainingWork
from qoop.adaptive.replanning.decision import Option
from qoop.adaptive.replanning.replanner import Replanner
from qoop.catalog.value import changed
from qoop.engine.run import Run
from qoop.engine.task import JobId, own_non_deterministic
from qoop.planner.search.candidate import Candidate

if TYPE_CHECKING:
    from qoop.adaptive.cluster.recording.messages import JobRequest, Submitted
    from qoop.engine.clock import Clock
    from qoop.engine.driver import Driver
    from qoop.engine.events import Command

Order = Callable[[JobId, "Iterable[Command]"], None]
"""Obeys what a job's run says after something was done to it."""


class JobPlans:
    """The plans of a job. replanner: None: the job keeps its plan."""

    def __init__(self, run: Run, replanner: Replanner | None, request: JobRequest) -> None:
        self._run = run
        self._replanner = replanner
        self._slowdown = request.slowdown
        self._first = Option("", Candidate(request.plan, "launch"), slowdown=request.slowdown)

    @property
    def running(self) -> Option:
        """The plan that the job runs, once it runs one."""
        if self._replanner is not None:
            return self._replanner.option
        return Option("", Candidate(self._run.plan, ""), slowdown=self._slowdown)

    @property
    def known(self) -> Sequence[Option]:
        """The plans that the job may run, as far as they are known."""
        return self._replanner.options if self._replanner is not None else ()

    @property
    def kept(self) -> Sequence[Option]:
        """The plans that the job may still change to, the one that runs first."""
        return self._replanner.kept if self._replanner is not None else (self._first,)


@dataclass(slots=True)
class ActiveJob:
    """A job from its submission to its end.

    arrival: its place in the order of jobs. submitted, ends_at: seconds of the cluster's clock; ends_at: it fails then,
    None: it may take any time. slept: seconds in which the machine slept, and the clock stood still.
    """

    handle: JobHandle
    run: Run
    request: JobRequest
    arrival: int
    submitted: float
    ends_at: float | None
    replanner: Replanner | None
    plans: JobPlans
    remaining_work: RunRemainingWork
    slept: float = 0.0

    @property
    def tenant(self) -> str:
        """The tenant of the job."""
        return self.request.terms.tenant

    @property
    def needed_at(self) -> float:
        """The time when its answer is needed, by the cluster's clock; infinite: at any time."""
        return self.submitted + self.request.terms.deadline - self.slept


def active_job(message: Submitted, loop: JobLoop, clock: Clock, driver: Driver, most_memory: float) -> ActiveJob:
    """The job that a message submits. loop: the one that will run it. most_memory: bytes that its tasks may take."""
    name, request = message.job, message.request
    run = _run(name, request, most_memory)
    if not request.limits.goes_on:
        request = changed(request, plan=own_non_deterministic(request.plan, name))
    adaptive = request.adaptive
    replanner = Replanner(name, adaptive, run, request.plan, request.slowdown) if adaptive is not None else None
    plans = JobPlans(run, replanner, request)
    work = RunRemainingWork(run, clock, lambda: driver.served(name, clock.now()), lambda: plans.kept)
    handle = JobHandle(loop, message, run, plans, work.alone)
    ends_at = message.at + request.timeout if request.timeout is not None else None
    return ActiveJob(handle, run, request, message.arrival, message.at, ends_at, replanner, plans, work)


def _run(name: JobId, request: JobRequest, most_memory: float) -> Run:
    changes, limits = request.adaptive is not None, request.limits
    limits = changed(
        limits,
        most_memory=most_memory,
        keep_checkpoints=changes or limits.keep_checkpoints,
        leave_exhausted=changes or limits.leave_exhausted,
    )
    fallback = request.fallback and own_non_deterministic(request.fallback, name)
    options = request.settings, request.durable, limits, request.saving, request.functions, fallback
    return Run(name, request.tables, *options)
