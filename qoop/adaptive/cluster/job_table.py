"""The jobs of a cluster: each comes in, begins, is held or cancelled, and ends here, always in the loop's thread."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING

from qoop.adaptive.cluster.granting.granter import dirty_jobs
from qoop.adaptive.cluster.owners import OutputOwners
from qoop.adaptive.cluster.recording.ticks import OutputsFound
from qoop.catalog.errors import Cancelled, ExecutionError, GuardMismatch, Overloaded, QoopError, SessionClosed
from qoop.engine.notices import NotContinued, Slept
from qoop.engine.state import State
from qoop.engine.storage.guard import complete
from qoop.engine.task import CheckpointKey, JobId, checkpoint_keys
from qoop.planner.plan import STORE_PER_KERNEL

if TYPE_CHECKING:
    from qoop.adaptive.cluster.active_job import ActiveJob
    from qoop.adaptive.cluster.admission import Admission
    from qoop.adaptive.cluster.recording.messages import SuspendRequested
    from qoop.adaptive.cluster.recording.recorder import Recorder
    from qoop.catalog.forks import CreatorProcess
    from qoop.engine.backends.base import Backend
    from qoop.engine.driver import Driver
    from qoop.engine.events import Command, Committed


class Entrance:
    """The way into a cluster, from any thread, until that is closed or its loop has failed.

    It has a lock of its own: the cluster's is taken again at once by a busy loop, and callers that brought a job waited
    for it for 0.08 s next to ten bombs. process: in which the cluster was made.
    """

    def __init__(self, process: CreatorProcess) -> None:
        self.closed = False
        self._process = process
        self._lock = threading.Lock()
        self._failure: ExecutionError | None = None

    def check(self) -> None:
        """Raise SessionClosed once the cluster is closed, or in a forked process; ExecutionError if its loop failed."""
        self._process.check()
        if self._failure is not None:
            raise ExecutionError(str(self._failure)) from self._failure
        if self.closed:
            raise SessionClosed("the session was closed")

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Within it the cluster stays open. Raises as `check`."""
        self._process.check()  # in a forked process the lock may never be released
        with self._lock:
            self.check()
            yield

    def close(self) -> bool:
        """Let nothing in from now on. False if that was so before."""
        self._process.check()
        with self._lock:
            before, self.closed = self.closed, True
        return not before

    def fail(self, cause: BaseException) -> ExecutionError:
        """Let nothing in, since the loop has failed; returns the error for all that is there."""
        with self._lock:
            self._failure = ExecutionError(f"the engine's loop failed: {type(cause).__name__}: {cause}")
            self._failure.__cause__ = cause
            return self._failure


class JobTable:
    """The jobs of a cluster.

    active: those that the loop has, by name; other parts of the loop read it. coming: those whose message has not been
    opened. admission: the queue of jobs, where their number is limited. owners: of outputs, where users share them.
    """

    def __init__(self, backend: Backend, driver: Driver, recorder: Recorder, most_jobs: float) -> None:
        self.active: dict[JobId, ActiveJob] = {}
        self.coming: dict[JobId, ActiveJob] = {}
        self.admission = _admission(most_jobs) if most_jobs < math.inf else None
        self._backend = backend
        self._driver = driver
        self._recorder = recorder
        self.owners = OutputOwners()

    def __len__(self) -> int:
        return len(self.active) + len(self.coming)

    @property
    def queued(self) -> Admission | tuple[()]:
        """The jobs that are not admitted yet."""
        return self.admission if self.admission is not None else ()

    @property
    def is_full(self) -> bool:
        """True while a job that comes has to queue."""
        return self.admission is not None and len(self) >= self.admission.most

    def check_queue(self, most_queued: float) -> None:
        """Raise Overloaded if `most_queued` jobs queue already."""
        if self.admission is None or not self.is_full:
            return
        waiting = len(self.admission) + len(self.coming)
        if waiting < most_queued:
            return
        work = sum(job.run.work_left for job in self.active.values())
        seconds = work / max(1.0, self._driver.capacity.cpu)
        raise Overloaded(
            f"{len(self.active) - len(self.admission)} jobs run and {waiting} wait, which is all that may: try again "
            f"in about {max(1.0, seconds / 2):.0f} s, or raise most_jobs or most_queued"
        )

    def demand(self) -> Mapping[str, float]:
        """By tenant the slots of all tasks of its jobs that have not ended."""
        found: dict[str, float] = {}
        for job in self.active.values():
            slots = sum(stage.slots * count for stage, count in job.run.left())
            found[job.tenant] = found.get(job.tenant, 0.0) + slots
        return found

    def order(self, job: JobId, commands: Iterable[Command]) -> None:
        """Obey what a job's run says after something was done to it."""
        self.touch(job)
        self._driver.obey(commands)

    def touch(self, job: JobId) -> None:
        """Mark a job as changed: the rest of the turn deals with it."""
        self._driver.dirty_jobs[job] = None

    def put_in_queue(self, job: ActiveJob, weight: float) -> None:
        """Hold a job until it is admitted, where the number of jobs is limited. weight: of its tenant."""
        if self.admission is not None and not job.request.follows:
            self.admission.put(job.run.job, job.arrival, job.tenant, weight)
            job.run.pause()

    def begin(self, job: ActiveJob, now: float) -> None:
        """Begin the plan of a job, with the outputs that are present."""
        run, plan = job.run, job.request.plan
        try:
            found = self.present(job, checkpoint_keys(*plan.stages)) if job.request.reuse else ()
            self.order(run.job, run.switch(plan, found, now=now))
            if job.request.earlier and not run.continued:
                run.note(NotContinued(0.0, job.request.earlier), now=now)
        except QoopError as error:
            self.order(run.job, run.fail(error, now=now))

    def present(self, job: ActiveJob, keys: Sequence[CheckpointKey]) -> Sequence[Committed]:
        """Those of the outputs that the backend has already; they are kept for the job. Raises QoopError."""
        try:
            present = tuple(self._backend.present(keys, job.run.job))
        except QoopError as error:
            self._recorder.note(OutputsFound(job.run.job, (), error))
            raise
        found = self.owners.readable(job, present)
        if len(found) < len(present):
            readable = {one.key for one in found}
            self._backend.release(job.run.job, [one.key for one in present if one.key not in readable])
        self._recorder.note(OutputsFound(job.run.job, found))
        return found

    def admit(self) -> bool:
        """Let jobs that queue begin, as far as may be. True if one does."""
        if not self.admission:
            return False
        active = [job for name, job in self.active.items() if name not in self.admission]
        most = STORE_PER_KERNEL * self._driver.capacity.memory
        crowded = sum(job.run.present_bytes for job in active) > most
        admitted = list(self.admission.admit([job.tenant for job in active], crowded))
        for name in admitted:
            self.active[name].run.resume()
            self.touch(name)
        return bool(admitted)

    def cancel(self, job: JobId, now: float, error: Cancelled | None = None) -> None:
        """Cancel a job, unless it has ended."""
        if job in self.active:
            self.order(job, self.active[job].run.cancel(now=now, error=error))

    def cancel_all(self, now: float) -> None:
        """Cancel all jobs that have not ended."""
        for name in list(self.active):
            self.cancel(name, now)

    def hold(self, job: JobId, on: bool) -> None:
        """Begin nothing new of a job; on: False: begin it again."""
        if job in self.active and (self.admission is None or job not in self.admission):
            run = self.active[job].run
            run.pause() if on else run.resume()
            self.touch(job)

    def reconsider(self, job: JobId, why: str, now: float) -> None:
        """Have the choice of a job's plan decided again."""
        if job in self.active and (replanner := self.active[job].replanner) is not None:
            replanner.reconsider(why, now)
            self.touch(job)

    def pin(self, job: JobId, done: Future[bool]) -> None:
        """Keep the parts of the root that are present, whatever plan runs."""
        found = self.active.get(job)
        pinned = found is not None and found.run.lasting and bool(found.run.first_outputs)
        if found is not None and pinned:
            found.run.pin()
            if found.replanner is not None:
                found.replanner.pin()
        done.set_result(pinned)

    def suspend(self, message: SuspendRequested) -> None:
        """Hold a job, unless it has ended; its outputs that may serve elsewhere are the result of the promise."""
        found = self.active.get(message.job)
        if found is None or found.run.ending:
            message.kept.set_result(())
            return
        keys = [output.key for output in found.run.progress().present if output.width]
        try:
            message.kept.set_result(tuple(self._backend.present(keys, message.owner)))
        except QoopError as error:
            message.kept.set_exception(error)
        self.hold(message.job, on=True)

    def slept(self, seconds: float, now: float) -> None:
        """The machine slept: no task went on."""
        for name, job in self.active.items():
            job.slept += seconds
            job.run.note(Slept(0.0, seconds), now=now)
            self.touch(name)

    def take_ended(self) -> Iterator[ActiveJob]:
        """The jobs of which nothing is left running; the table has them no more."""
        for job in dirty_jobs(self.active, self._driver):
            if job.run.state.final:
                del self.active[job.run.job]
                if job.run.state is State.SUCCEEDED:
                    kept = (job.run.plan, job.request.fallback)  # the answer may be kept as that of the other plan
                    stages = [stage for plan in kept if plan is not None for stage in plan.stages]
                    self.owners.add(job, checkpoint_keys(*stages))
                if self.admission is not None:
                    self.admission.remove(job.run.job)
                yield job

    def abandon(self, error: QoopError) -> None:
        """Forget all jobs; they fail with the error."""
        for job in (*self.active.values(), *self.coming.values()):
            if not job.handle.done.done():
                job.handle.done.set_exception(error)
        self.active.clear()
        self.coming.clear()


def resolve(job: ActiveJob) -> None:
    """Report to the owner how the job ended."""
    if job.run.state is State.SUCCEEDED:
        job.handle.done.set_result(job.run.outputs)
    else:
        assert job.run.error is not None
        if isinstance(job.run.error, GuardMismatch):
            from qoop.planner.plan_json import dump

            complete(job.run.error, {"query": job.request.text, "plans": [dump(job.run.plan)]})
        job.handle.done.set_exception(job.run.error)


def _admission(most: float) -> Admission:
    from qoop.adaptive.cluster.admission import Admission  # few sessions have a limit

    return Admission(most)
