"""Requests to the planner about jobs that run, and what its replies change.

::

    replanner.tick(now) -> Work -> planner -> PlannerReplied, by mail -> replanner.take(answer) -> commands
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from qoop.adaptive.cluster.granting.granter import dirty_jobs
from qoop.adaptive.cluster.recording.messages import PlannerReplied
from qoop.adaptive.cluster.recording.ticks import PlanDecided, PlannerRequested
from qoop.adaptive.replanning.answers import Answer, Useful, Work
from qoop.catalog.errors import ExecutionError, QoopError
from qoop.engine.history import Decided
from qoop.engine.task import JobId
from qoop.planner.ending import go_on, until

if TYPE_CHECKING:
    from qoop.adaptive.cluster.active_job import ActiveJob
    from qoop.adaptive.cluster.job_table import JobTable
    from qoop.adaptive.cluster.planner_thread import Planner
    from qoop.adaptive.cluster.recording.recorder import Recorder
    from qoop.adaptive.replanning.replanner import Replanner
    from qoop.engine.driver import Driver


class PlannerRequests:
    """The requests to the planner about a cluster's jobs. post: sends the loop a message, from any thread."""

    def __init__(
        self,
        jobs: JobTable,
        driver: Driver,
        planner: Planner,
        recorder: Recorder,
        post: Callable[[PlannerReplied], None],
    ) -> None:
        self._jobs = jobs
        self._driver = driver
        self.planner = planner
        self._recorder = recorder
        self._post = post
        self._over: dict[JobId, threading.Event] = {}  # by job with a request
        self._due: dict[JobId, float] = {}  # when jobs must be decided about at the latest

    def tick(self, now: float) -> None:
        """Hand what has to be thought over to the planner; its answers come by mail."""
        for name, due in self._due.items():
            if now >= due:
                self._recorder.note_tick()  # a rerun has no turn that is not in the trace, and this one changes state
                self._driver.dirty_jobs[name] = None
        for job in dirty_jobs(self._jobs.active, self._driver):
            if job.replanner is not None:
                self._tick_one(job, job.replanner, now)

    def _tick_one(self, job: ActiveJob, replanner: Replanner, now: float) -> None:
        work, name = replanner.tick(now), job.run.job
        if replanner.due is None:
            self._due.pop(name, None)
        else:
            self._due[name] = replanner.due
        if work is not None:
            self._request(name, work)

    def _request(self, job: JobId, work: Work) -> None:
        self._recorder.note(PlannerRequested(job))
        over = self._over.setdefault(job, threading.Event())

        def while_running() -> Answer | Useful:
            with until(over.is_set):
                go_on()
                return work()

        self.planner.ask(while_running, lambda outcome: self._post(answered(job, outcome)))

    def take(self, message: PlannerReplied, now: float) -> None:
        """Do what an answer says."""
        job = self._jobs.active.get(message.job)
        if job is None or job.replanner is None:
            return
        before = len(job.run.history)
        try:
            if message.error is not None:
                raise message.error
            assert message.answer is not None
            found = self._adopted(job, job.replanner, message.answer, now)
            commands = job.replanner.take(message.answer, now, found)
        except Exception as error:
            commands = job.run.fail(no_choice(error), now=now)
        for record in job.run.history[before:]:
            if isinstance(record, Decided):
                self._recorder.note(PlanDecided(message.job, record))
        self._jobs.order(message.job, commands)

    def _adopted(self, job: ActiveJob, replanner: Replanner, answer: Answer | Useful, now: float) -> int:
        """Pin the outputs that the backend has of plans that have just become known; returns their number."""
        unseen = replanner.unseen(answer) if job.request.reuse else []
        if not unseen:
            return 0
        try:
            found = self._jobs.present(job, unseen)
        except QoopError:  # it has been noted; the job does without
            return 0
        job.run.adopt(found, now=now)
        return len(found)

    def forget(self, job: JobId) -> None:
        """The job has ended: what the planner does for it is of no use."""
        self._due.pop(job, None)
        over = self._over.pop(job, None)
        if over is not None:
            over.set()

    def moments(self) -> Iterable[float]:
        """Seconds of the clock by which jobs are to be decided about."""
        return self._due.values()

    def wait(self) -> None:
        """Block until all requests so far are answered, or over."""
        over = threading.Event()
        self.planner.ask(lambda: None, lambda _: over.set())
        over.wait()

    def close(self) -> None:
        """End the planner."""
        self.planner.close()


def answered(job: JobId, outcome: Answer | Useful | Exception) -> PlannerReplied:
    """The message with what the planner made of a question about a job."""
    match outcome:
        case Answer():
            first = outcome.question.quick_search
            return PlannerReplied(job, outcome.searched, None, outcome.seconds, outcome.searching, first, outcome)
        case Useful():
            return PlannerReplied(job, None, None, 0.0, answer=outcome)
    return PlannerReplied(job, None, no_choice(outcome), 0.0)


def no_choice(error: Exception) -> QoopError:
    """An error of ours that says why no plan could be chosen."""
    if isinstance(error, QoopError):
        return error
    failure = ExecutionError(f"choosing another plan failed: {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure
