"""A submitted job as its owner sees it."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from qoop.adaptive.cluster.job_status import (
    Alone,
    JobStatus,
    remaining_time,
    rho_of,
    work_done,
)
from qoop.adaptive.cluster.recording.messages import (
    CancelRequested,
    PauseRequested,
    PinRequested,
    ReconsiderRequested,
    ReleaseRequested,
    SuspendRequested,
)
from qoop.catalog.errors import Cancelled, ConfigError, QoopError, Suspended
from qoop.engine.events import Committed
from qoop.engine.history import Record
from qoop.engine.progress import Finished, Progress
from qoop.engine.replay import JobReplay
from qoop.engine.run import Run
from qoop.engine.state import State
from qoop.engine.task import CheckpointKey, JobId
from qoop.planner.plan import Plan

if TYPE_CHECKING:
    import threading

    from qoop.adaptive.cluster.active_job import JobPlans
    from qoop.adaptive.cluster.recording.messages import Message, Submitted
    from qoop.adaptive.replanning.decision import Option
    from qoop.catalog.forks import CreatorProcess
    from qoop.planner.plan import Resources

WAKE_SECONDS = 0.1
"""Seconds between checks for Ctrl-C: one that comes just before the main thread begins to wait does not wake it."""

_PAUSE = 0.01
"""Seconds between looks at whether attempts have ended that are let finish."""

_STREAM_PAUSE = 0.02
"""Seconds between looks for outputs that can be handed out before the job has ended."""


class JobLoop(Protocol):
    """The loop that runs a job, for its handle: a mailbox, and facts of the job that only the loop knows."""

    creator_process: CreatorProcess

    @property
    def lock(self) -> threading.RLock: ...

    def now(self) -> float: ...

    def post(self, message: Message) -> None: ...

    def used_by(self, job: JobId) -> Resources: ...

    def place_in_queue(self, job: JobId) -> int | None: ...

    def blocked_by(self, job: JobId) -> tuple[JobId, ...]: ...

    def preemptions(self, job: JobId) -> int: ...


class JobHandle:
    """A submitted job as its owner sees it. All methods may be called from any thread."""

    def __init__(self, cluster: JobLoop, message: Submitted, run: Run, plans: JobPlans, alone: Alone) -> None:
        """message: the submission. alone: the seconds that the job takes alone on a number of slots."""
        self.id = message.job
        self.terms = message.request.terms
        self.text = message.request.text
        self.done: Future[tuple[Committed, ...]] = Future()
        self._cluster = cluster
        self._run = run
        self._submitted = message.at
        self._plans = plans
        self._alone = alone
        self._replay = JobReplay()
        self._least: tuple[int, float, float] = (0, 0.0, 0.0)

    def check(self) -> None:
        """Raise SessionClosed in a process that was forked from the job's."""
        self._cluster.creator_process.check()

    @property
    def state(self) -> State:
        """RUNNING, SWITCHING, SUCCEEDED, FAILED or CANCELLED; final only once nothing of the job is left running."""
        return self._run.state

    @property
    def slowed(self) -> float:
        """The factor by which other programs slowed its tasks, as last reported; 1 for a short job."""
        return self._run.slowed

    @property
    def display_state(self) -> str:
        """The state for people: a job that has no plan yet is STARTING, one none of whose tasks has begun QUEUED, one
        that was suspended SUSPENDED."""
        state = self._run.state
        if not state.final and self._blocked_by_its_turn():
            return "QUEUED"
        if state is State.SWITCHING and not self._run.plans:
            return "STARTING"
        return "SUSPENDED" if state.final and isinstance(self._run.error, Suspended) else state.value

    def _blocked_by_its_turn(self) -> bool:
        """True if the job is not admitted yet, or has a plan and no task that a slot has begun; False in a forked
        process, which cannot look."""
        if not self._cluster.creator_process.is_here:
            return False
        with self._cluster.lock:
            if self._cluster.place_in_queue(self.id) is not None:
                return True
            return bool(self._run.plans) and self._replayed().first_began is None

    @property
    def error(self) -> QoopError | None:
        """The error that the job failed or was cancelled with; None if it succeeded or has not ended."""
        self.check()
        if not self.done.done():
            return None
        error = self.done.exception()
        assert error is None or isinstance(error, QoopError)
        return error

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the job has ended, at most `timeout` seconds. True if it has ended, however it did."""
        self.check()
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.done.done():
            left = WAKE_SECONDS if deadline is None else min(WAKE_SECONDS, deadline - time.monotonic())
            if left < 0:
                return False
            futures.wait([self.done], left)  # raises no TimeoutError of its own: one is an alarm of the program
        return True

    def outputs(self) -> tuple[Committed, ...]:
        """Wait for the end and return the root's outputs, in order of parts. Raises the job's error."""
        self.wait()
        return self.done.result()

    def stream(self) -> Iterator[Committed]:
        """The root's outputs in order of parts, each as soon as it is there and will not be made again.

        Once one was handed out the job changes only to plans that keep it. Raises the job's error.
        """
        streamed, pinned = 0, False
        while not self.wait(self._stream_pause()):
            pinned = pinned or (self._run.answer_parts > 1 and self._pin())
            if pinned:
                parts = self._first_outputs()[streamed:]
                yield from parts
                streamed += len(parts)
        yield from self.done.result()[streamed:]

    def _stream_pause(self) -> float:
        """Seconds until the next look. An answer of one part is there at the end, of which a job tells by itself: many
        clients that look for it often would hold up the loop."""
        return _STREAM_PAUSE if self._run.answer_parts > 1 else WAKE_SECONDS

    def _first_outputs(self) -> tuple[Committed, ...]:
        with self._cluster.lock:
            return self._run.first_outputs

    def _pin(self) -> bool:
        """Have the parts of the root kept that there are; False if there are none or the job has ended."""
        if not self._first_outputs():
            return False
        message = PinRequested(self.id)
        self._cluster.post(message)
        while not (message.done.done() or self.done.done()):
            futures.wait([message.done], WAKE_SECONDS)
        return message.done.done() and message.done.result()

    def cancel(self, error: Cancelled | None = None) -> None:
        """Stop the job; returns at once. Does nothing if it has ended. error: the reason that the job reports."""
        self._cluster.post(CancelRequested(self.id, error))

    @contextlib.contextmanager
    def pinned(self, owner: JobId, grace: float) -> Iterator[tuple[Committed, ...]]:
        """Begin nothing new of the job; yield the outputs that may serve elsewhere, kept for `owner` meanwhile. If the
        block fails the job goes on; if it does not, the job is to be cancelled.

        grace: seconds that attempts under way may go on before. Raises ConfigError if the job has ended,
        CheckpointError if the outputs cannot be looked up.
        """
        message = SuspendRequested(self.id, owner)
        try:
            if grace > 0:
                self._cluster.post(PauseRequested(self.id))
            deadline = time.monotonic() + grace
            while time.monotonic() < deadline and self._is_busy() and not self.done.done():
                time.sleep(_PAUSE)
            self._cluster.post(message)
            while not (message.kept.done() or self.done.done()):
                futures.wait([message.kept, self.done], WAKE_SECONDS, futures.FIRST_COMPLETED)
            if self.done.done():
                raise ConfigError(f"the job {self.id} has {self.state.lower()}: it cannot be suspended any more")
            yield message.kept.result()
        except BaseException:
            self._cluster.post(PauseRequested(self.id, on=False))
            raise
        finally:
            message.kept.add_done_callback(partial(self._unpin, owner))  # at once, or when the message is opened

    def _unpin(self, owner: JobId, kept: Future[tuple[Committed, ...]]) -> None:
        if kept.exception() is None:
            self._cluster.post(ReleaseRequested(owner, tuple(output.key for output in kept.result())))

    def _is_busy(self) -> bool:
        with self._cluster.lock:
            return bool(self._run.alive)

    def when_ended(self, then: Callable[[], object]) -> None:
        """Have something done, in whatever thread, once the job has ended; at once if it has."""
        self.check()
        self.done.add_done_callback(lambda _: then())

    def release(self) -> None:
        """The owner needs the outputs no more; the store may drop them."""
        self.check()
        if self.done.done() and self.done.exception() is None:
            keys = tuple(fact.key for fact in self.done.result())
            self._cluster.post(ReleaseRequested(self.id, keys))

    def progress(self) -> Progress:
        """The progress of the job, as its status has it."""
        return self.status().progress

    def status(self) -> JobStatus:
        """The state of the job, and the time when it will end."""
        with self._cluster.lock:
            now, run, progress = self._cluster.now(), self._run, self._run.progress()
            used = self._cluster.used_by(self.id)
            going_on = run.plans and not run.ending and run.share is not None
            blocked_by, preemptions = self._cluster.blocked_by(self.id), self._cluster.preemptions(self.id)
            finished = run.finished(now) if going_on and not blocked_by else None
            coming = run.expected(now)
            elapsed = run.history[-1].at if run.state.final and run.history else now - self._submitted
            replay, place = self._replayed(), self._cluster.place_in_queue(self.id)
            waited, mean_share = replay.waited(elapsed), replay.mean_share(elapsed)
            helps, notices = replay.helps, tuple(replay.notices)
            plan = self._plans.running if finished is not None else None
        left = None
        if finished is not None and plan is not None and run.share is not None:
            left = remaining_time(plan, finished, run.share, coming)
            progress = self._by_work(progress, plan, finished, run.share)
        takes = elapsed + (left.likely if left is not None else 0.0)
        ends = left is not None or run.state.final
        return JobStatus(
            progress, elapsed, run.share, used, left, blocked_by, preemptions,
            waited=waited,
            place=place,
            deadline=self.terms.deadline - elapsed - replay.slept if self.terms.deadline < math.inf else None,
            rho=rho_of(takes, mean_share, self._alone) if ends and run.plans else None,
            helps=helps if self.terms.deadline < math.inf and not run.state.final else (),
            notices=notices,
        )  # fmt: skip

    def _by_work(self, progress: Progress, plan: Option, finished: Finished, share: Resources) -> Progress:
        """The progress by the work that is done, in place of the tasks that have ended."""
        done = work_done(plan, finished, progress.fraction, share)
        done = self._not_less(len(self._run.plans), progress.fraction, done)
        stages = progress.stages
        if plan.by_duckdb:
            stages = tuple(replace(stage, within=done if stage.running else 0.0) for stage in stages)
        return replace(progress, fraction=done, stages=stages)

    def _not_less(self, plans: int, ended: float, done: float) -> float:
        """The part of the work that is done, never less than reported before, unless outputs were lost or the plan
        changed since: a share that falls or a task that is overdue undoes nothing.

        plans: how many have run. ended: the part of the tasks that have ended.
        """
        before, ended_before, least = self._least
        if plans == before and ended >= ended_before:
            done = max(done, least)
        self._least = plans, ended, done
        return done

    def _replayed(self) -> JobReplay:
        """The replay of the history so far. The cluster's lock is held."""
        self._replay.take(self._run.history[self._replay.taken :])
        return self._replay

    def history(self) -> list[Record]:
        """The events so far, as records that print as sentences."""
        return self.news(0)

    def news(self, since: int) -> list[Record]:
        """The events after the first `since`. The list only grows, and is copied in one step of Python: under the lock,
        which the loop of a busy cluster takes again at once, a copy waited for 0.07 s next to ten bombs."""
        self.check()
        return self._run.history[since:]

    @property
    def submitted(self) -> float:
        """The time of its submission, by the cluster's clock."""
        return self._submitted

    @property
    def began(self) -> float:
        """The time at which the seconds of its history begin, by the cluster's clock."""
        return self._run.began if self._run.history else self._submitted

    def options(self) -> Sequence[Option]:
        """The plans that it may run, as far as they are known."""
        with self._cluster.lock:
            return self._plans.known

    def plans(self) -> tuple[Plan, ...]:
        """The plans it has run, in order; without the lock, as `news`."""
        self.check()
        return tuple(self._run.plans)

    def reconsider(self, why: str = "it was asked for") -> None:
        """Have the choice of the plan thought over now. Does nothing if the job may not change plan."""
        self._cluster.post(ReconsiderRequested(self.id, why))

    def story(self, key: CheckpointKey) -> str:
        """All that happened to one checkpoint, a sentence a line."""
        with self._cluster.lock:
            return self._run.story(key)
