"""The cluster: jobs, machines and the scheduler that shares the machines between the jobs.

One thread owns the backend and all runs. Callers talk to it through a mailbox: `submit` and the methods of a
:class:`JobHandle` may be called from any thread. The way of one turn of the loop (`step`)::

    backend.wait() -> events -> runs -> commands -> backend      engine/driver.py
messages, deadlines, jobs that have ended
    if jobs or capacity changed: fair shares -> ShareChanged -> runs
    until nothing fits: scheduler.next_grant(requests, available, now) -> Grant -> run -> Start -> backend

What comes out of a tick follows from the time, the events, the messages and what the backend answers when asked, and
from nothing else; a trace holds all of these, so that the turn can be gone through again
(:mod:`qoop.adaptive.retrace.rerun`).
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent import futures
from itertools import count
from typing import TYPE_CHECKING

from qoop.adaptive.cluster.active_job import ActiveJob, active_job
from qoop.adaptive.cluster.backend_size import BackendSize
from qoop.adaptive.cluster.fair_shares import FairShares
from qoop.adaptive.cluster.granting.granter import Granter
from qoop.adaptive.cluster.granting.tenant_limits import Owner
from qoop.adaptive.cluster.job_handle import WAKE_SECONDS, JobHandle
from qoop.adaptive.cluster.job_status import EndedJob, JobStatus
from qoop.adaptive.cluster.job_table import Entrance, JobTable, resolve
from qoop.adaptive.cluster.options import ClusterOptions
from qoop.adaptive.cluster.past_jobs import PastJobs
from qoop.adaptive.cluster.planner_requests import PlannerRequests
from qoop.adaptive.cluster.planner_thread import InlinePlanner, Planner, PlannerThread
from qoop.adaptive.cluster.recording.journal import Journal
from qoop.adaptive.cluster.recording.messages import (
    CancelRequested,
    CloseRequested,
    JobRequest,
    MachineSlept,
    Message,
    PauseRequested,
    PinRequested,
    PlannerReplied,
    ProgramMessage,
    ReconsiderRequested,
    ReleaseRequested,
    ResizeRequested,
    SampleOffered,
    SlotsAnnounced,
    Submitted,
    SuspendRequested,
)
from qoop.adaptive.cluster.recording.recorder import ProgramLog, Recorder
from qoop.adaptive.cluster.recording.ticks import JobEnded, Opened
from qoop.adaptive.cluster.time_limits import DeadlineWatch, TimeLimits
from qoop.adaptive.monitor.sleep import SleepMeter
from qoop.adaptive.schedulers.base import Scheduler
from qoop.adaptive.schedulers.max_min import MaxMin
from qoop.adaptive.schedulers.reserving import Reserving
from qoop.catalog.errors import QoopError, SessionClosed
from qoop.catalog.forks import CreatorProcess
from qoop.engine.backends.base import Backend
from qoop.engine.clock import Clock, WallClock
from qoop.engine.driver import Driver
from qoop.engine.events import Release
from qoop.engine.task import JobId, MachineId
from qoop.planner.packing import Available
from qoop.planner.plan import Resources

_SLEEP_CHECK = 5.0
"""Seconds that the loop waits for an end of a time limit at most: the machine may have slept meanwhile."""
_GRACE = 10.0
"""Seconds that `close` waits for the backend to report the attempts that were stopped."""

if TYPE_CHECKING:
    from qoop.adaptive.cluster.recording.trace import Trace
    from qoop.adaptive.cluster.tenants import TenantStatus
    from qoop.adaptive.program_log import MessageLog
    from qoop.engine.node_queues.ticket import JobLeft


class Cluster:
    """Runs jobs on the machines of one backend, which it owns and closes.

    trace: where to record all that goes into each turn and comes out of it. owners: of outputs.
    thread: True: a thread of its own turns the loop. False: the caller does, by `step` (simulations).
    planner: where decisions are worked out; by default in a thread of its own if the cluster has one.
    """

    def __init__(
        self,
        backend: Backend,
        scheduler: Scheduler | None = None,
        clock: Clock | None = None,
        trace: Trace | None = None,
        thread: bool = True,
        planner: Planner | None = None,
        options: ClusterOptions | None = None,
    ) -> None:
        self.creator_process = CreatorProcess()
        self._lock = threading.RLock()
        self._entrance = Entrance(self.creator_process)
        self._backend = backend
        self._scheduler = scheduler or Reserving(MaxMin())
        self._clock = clock or WallClock()
        self._options = options = options or ClusterOptions()
        self._recorder = Recorder(trace, self._clock.now())
        self.opened = self._recorder.now
        self.wall = time.time() if thread else None
        self._driver = Driver(backend, self._recorder.note)
        if options.queueing is not None:
            from qoop.engine.node_queues.view import NodesView  # most machines begin what they get

            self._driver.nodes = NodesView()
        self._table = JobTable(backend, self._driver, self._recorder, options.most_jobs)
        self._jobs, self._coming, self.owners = self._table.active, self._table.coming, self._table.owners
        self._granter = Granter(
            self._jobs, self._driver, self._scheduler, self._table.order, self._recorder.note_tick, options
        )
        self.shares = FairShares(self._jobs, self._driver, self._scheduler, self._granter, self.opened, self._lock)
        self._size = BackendSize(backend, self._driver, self._recorder, self.shares)
        self._limits = TimeLimits(self._jobs, self._driver, self._table.order, options.wait_for_capacity)
        self._deadlines = DeadlineWatch(self._jobs, self._driver, options.watch_deadlines)
        self._past = PastJobs(detailed=thread)
        self._planner_requests = PlannerRequests(
            self._table, self._driver, planner or (PlannerThread() if thread else InlinePlanner()), self._recorder,
            self.post,
        )  # fmt: skip
        self._mail: deque[Message] = deque()
        self._numbers = count(1)
        self._program_log = ProgramLog(options.program_kinds, self.post) if trace is not None else None
        self._give_up_at: float | None = None
        self._late: QoopError | None = None
        if trace is not None:
            self._recorder.open(self._opened(options))
        self._journal = Journal() if thread else None  # a simulation logs nothing
        self._sleep = SleepMeter() if thread else None
        self._thread: threading.Thread | None = None
        if thread:
            self._thread = threading.Thread(target=self._loop, name="qoop-cluster", daemon=True)
            self._thread.start()

    def _opened(self, options: ClusterOptions) -> Opened:
        return Opened(
            self.opened, dict(self._backend.machines()), options.wait_for_capacity, repr(self._scheduler),
            options.extra_slots, dict(options.tenants), options.most_jobs, self.wall,
            repr(options.queueing) if options.queueing is not None else "",
        )  # fmt: skip

    @property
    def lock(self) -> threading.RLock:
        """Held while anything of the jobs is read or changed. Raises SessionClosed in a forked process."""
        self.creator_process.check()
        return self._lock

    # --- for any thread -------------------------------------------------------------------------------------

    def submit(self, request: JobRequest) -> JobHandle:
        """Start a job.

        Raises SessionClosed after `close`, ExecutionError if the cluster's loop has failed, Overloaded if the queue is
        full.
        """
        if self._table.admission is not None:  # the lock is the loop's, which a busy one takes again at once
            with self.lock:
                self._table.check_queue(self._options.most_queued)
        number = next(self._numbers)
        return self.enter(Submitted(f"job{number}", number, self._clock.now(), request))

    @property
    def overloaded(self) -> bool:
        """True while a job that comes has to queue, since as many run as may."""
        with self.lock:
            return self._table.is_full

    def ended_early(self, tenant: str, part: float) -> None:
        """An answer of a tenant ended early for others. part: of its table that was not read."""
        with self.lock:
            self._past.ended_early(tenant, part)

    def enter(self, message: Submitted) -> JobHandle:
        """Start a job that has a name already. Raises as `submit` does."""
        most_memory = self._granter.limits.most_memory(message.request.terms)
        job = active_job(message, self, self._clock, self._driver, most_memory)
        with self._entrance.opened():
            self._coming[message.job] = job
            self.post(message)
        return job.handle

    def resize(self, slots: int | None = None, memory: int | None = None, notice: float = 0.0, why: str = "") -> None:
        """Change how many slots and bytes of memory the backend has; None: leave that as it is.

        Returns once it is done: attempts that no longer fit were stopped, and nothing more will be started in
        their place. With a notice in seconds it is only announced (see qoop/adaptive/cluster/granting/revocation.py)
        and done when they have passed, unless another call says otherwise before. why: for the record, a clause. Raises
        ConfigError for a size that cannot be, SessionClosed, ExecutionError as `submit` does.
        """
        message = ResizeRequested(slots, memory, notice, why)
        self._post_open(message)
        while not futures.wait([message.done], WAKE_SECONDS).done:
            if self._thread is not None and not self._thread.is_alive():
                self._entrance.check()
        message.done.result()

    def expect(self, course: Sequence[tuple[float, float]]) -> None:
        """Announce how many slots all machines together should have: (seconds from now, slots), in order of time.

        It takes the place of what was expected before. Raises SessionClosed, ExecutionError as `submit` does.
        """
        self._post_open(SlotsAnnounced(tuple(course)))

    def _post_open(self, message: Message) -> None:
        """Post a message to a cluster that is open; without a thread it is opened at once."""
        with self._entrance.opened():
            self.post(message)
        if self._thread is None:
            self.step(0.0)

    def limit(self, owner: Owner, slots: float = math.inf, memory: float = math.inf) -> None:
        """Let all jobs of a tenant, or a user, together hold that many slots, and bytes of memory, at most; infinite:
        any number. Where a user has a limit and its tenant as well, both hold.

        From the next task on. One that needs more slots runs alone, and one of a job that is there already that needs
        more memory.
        """
        with self.lock:
            self._granter.limits.limit(owner, slots, memory)

    def post(self, message: Message) -> None:
        """Have the loop's thread open a message in its next tick. May be called from any thread."""
        self.creator_process.check()
        self._mail.append(message)
        self._backend.wake()

    def program_log(self) -> MessageLog | None:
        """Takes each message to a program above jobs, so that the trace has it; None: there is no trace."""
        return self._program_log.opened() if self._program_log is not None else None

    def wait_for_planner(self) -> None:
        """Block until all requests to the planner have replies, also those of jobs that have ended."""
        self._planner_requests.wait()

    def close(self) -> None:
        """Cancel all jobs, wait until their attempts have reported, end the loop and close the backend.

        Raises, once all that is done, what the backend had still to report: DiskFull, for an output that was to
        be durable and is not.
        """
        if self._entrance.close():
            self.post(CloseRequested())
            if self._thread is None:
                self._loop()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        late, self._late = self._late, None
        if late is not None:
            raise late

    # --- its state ------------------------------------------------------------------------------------------

    def now(self) -> float:
        """The time of the cluster's clock, in seconds."""
        return self._clock.now()

    @property
    def busy(self) -> bool:
        """True while a job has not ended or mail waits."""
        return bool(self._jobs or self._mail)

    @property
    def waits(self) -> bool:
        """True if the next turn has something to do, or a moment to wait for, even if no event comes."""
        return bool(self._mail) or self._patience(None) is not None

    def check(self) -> None:
        """Raise AssertionError unless all invariants of the runs, and of the machines' resources, hold."""
        with self.lock:
            self._driver.check()

    def used_by(self, job: JobId) -> Resources:
        """The resources that the running attempts of a job take."""
        found = self._jobs.get(job)
        extra = [one.resources for one in found.run.running() if one.extra] if found is not None else []
        return sum(extra, self._driver.used_by(job))

    def place_in_queue(self, job: JobId) -> int | None:
        """The place of a job among those that wait to be admitted, from 1; None if it does not."""
        return self._table.admission.place(job) if self._table.admission is not None else None

    def blocked_by(self, job: JobId) -> tuple[JobId, ...]:
        """The jobs that have the slots for which a job with nothing running waits; none if it does not wait."""
        run = self._jobs[job].run if job in self._jobs else None
        if run is None or run.alive or not run.ready():
            return ()
        return tuple(name for name in self._jobs if self.used_by(name).cpu)

    def preemptions(self, job: JobId) -> int:
        """The number of times that a task of the job was interrupted for another job."""
        return self._granter.extra.preemptions(job) if self._granter.extra is not None else 0

    def is_long(self, job: JobId) -> bool:
        """True for a job that was not believed to be short when it got its last slot. For any thread."""
        return job in self._granter.long

    def is_short(self, job: JobId) -> bool:
        """True for a job that `ExtraGrants.is_short` held for when it got its last slot. For any thread."""
        return job in self._granter.short

    def has_short(self, tenant: str) -> bool:
        """See `ExtraGrants.has_short`."""
        return self._granter.extra is not None and self._granter.extra.has_short(tenant)

    def left_of(self, job: JobId) -> JobLeft | None:
        """The work that a job has left, as it is reported to machines where its tasks wait; None: it has ended."""
        found = self._jobs.get(job)
        return found.run.job_left if found is not None else None

    def demand(self) -> Mapping[str, float]:
        """By tenant the slots that its jobs together have a use for: those of all tasks that have not ended."""
        with self.lock:
            return self._table.demand()

    def jobs(self) -> list[JobHandle | EndedJob]:
        """The jobs that there are, and those that ended last, in the order in which they came."""
        with self.lock:
            there = [job.handle for job in (*self._jobs.values(), *self._coming.values())]
            return [*self._past.ended(), *there]

    def machines(self) -> Mapping[MachineId, Available]:
        """The resources of every machine, and those that are free."""
        with self.lock:
            return dict(self._driver.availability())

    def sizes(self) -> list[tuple[float, Resources]]:
        """The resources of all machines together: from when on, by the cluster's clock, and what."""
        with self.lock:
            return self.shares.sizes()

    def tenants(self, known: Mapping[JobId, JobStatus] | None = None) -> list[TenantStatus]:
        """The status of every tenant that has or had a job, by name. known: the status of jobs, as far as it is."""
        known = known or {}
        with self.lock:
            active = [(job.tenant, known.get(name) or job.handle.status()) for name, job in self._jobs.items()]
            return self._past.tenants(active, self._options.tenants)

    # --- for the loop's thread ------------------------------------------------------------------------------

    def step(self, timeout: float | None = None) -> None:
        """One turn: wait for events at most `timeout` seconds, take them, and start what can be started."""
        events = self._backend.wait(self._patience(timeout) if not self._mail else 0.0)
        with self._lock:
            self._granter.waiting.now = now = self._clock.now()
            self._recorder.begin(now)
            self.shares.stale |= self._driver.take(events, now)
            if self._sleep is not None and (slept := self._sleep.slept()):
                self._mail.appendleft(MachineSlept(slept))
            while self._mail:
                message = self._mail.popleft()
                self._recorder.note(message)
                self._open(message, now)
            self._size.carry_out(now)
            self._limits.apply(now)
            for job in self._table.take_ended():
                self._end(job)
            self.shares.stale |= self._table.admit()
            self.shares.divide(self._table.queued, now)
            self._check_deadlines(now)
            self._planner_requests.tick(now)
            self._granter.grant(now)
            if self._journal is not None:
                self._journal.log_all((name, job.run.history) for name, job in self._jobs.items())
            self._recorder.end()

    def _open(self, message: Message, now: float) -> None:
        match message:
            case Submitted(name):
                self._admit(self._coming.pop(name), now)
            case CancelRequested(name, error):
                self._table.cancel(name, now, error)
            case PauseRequested(name, on):
                self._table.hold(name, on)
            case SuspendRequested():
                self._table.suspend(message)
            case ReleaseRequested(name, keys):
                self._driver.obey([Release(name, keys)])
            case ReconsiderRequested(name, why):
                self._table.reconsider(name, why, now)
            case SampleOffered():
                self._deadlines.take(message)
            case ProgramMessage():
                if self._program_log is not None:
                    self._recorder.note(self._program_log.take(message))
            case PinRequested(name, done):
                self._table.pin(name, done)
            case SlotsAnnounced(course):
                self._driver.expect([(now + after, Resources(slots)) for after, slots in course])
                self.shares.stale = True
            case MachineSlept(seconds):
                self._count_sleep(seconds, now)
            case ResizeRequested():
                self._size.take(message, now)
            case PlannerReplied():
                self._planner_requests.take(message, now)
            case CloseRequested():
                self._give_up_at = now + _GRACE
                self._table.cancel_all(now)

    def _admit(self, job: ActiveJob, now: float) -> None:
        """A job has come: it begins, or queues."""
        self._jobs[job.run.job] = job
        if self._journal is not None:
            self._journal.begin(job.run.job, job.request.text)
        self._limits.add(job)
        self._deadlines.add(job, now)
        self._driver.add(job.run, now)
        self.shares.stale = True
        self._table.put_in_queue(job, self._options.tenants.get(job.tenant, 1.0))
        self._table.begin(job, now)

    def _end(self, job: ActiveJob) -> None:
        """Nothing of a job is left running."""
        name = job.run.job
        if self._journal is not None:
            self._journal.end(name, job.run.history)
        self._granter.ended(job)
        self._past.put(job)
        self._planner_requests.forget(name)
        self._limits.remove(name)
        self._deadlines.remove(name)
        self._driver.remove(name)
        self.shares.stale = True
        self._recorder.note(JobEnded(name, job.run.state.value, job.run.error))
        resolve(job)

    def _check_deadlines(self, now: float) -> None:
        """Warn jobs that will miss their deadlines, where that is news: then another plan may end in time."""
        if not self._deadlines.is_due(now):
            return
        self._recorder.note_tick()
        for run, verdict in self._deadlines.verdicts(now):
            run.note(verdict, now=now)
            self._table.touch(run.job)

    def _count_sleep(self, seconds: float, now: float) -> None:
        """The time in which the machine slept counts for timeouts and deadlines, but for no pace."""
        self._limits.slept(seconds)
        self._table.slept(seconds, now)
        self._deadlines.slept(now)

    def _patience(self, timeout: float | None) -> float | None:
        """The time that the loop may wait for events: until the next moment, at most `timeout`."""
        first = min(self._moments(), default=None)
        if first is None:
            return timeout
        left = max(0.0, first - self._clock.now())
        left = left if self._sleep is None else min(left, _SLEEP_CHECK)
        return left if timeout is None else min(left, timeout)

    def _moments(self) -> Iterator[float]:
        """The times at which a turn has something to do, though no event comes."""
        yield from self._planner_requests.moments()
        yield from self._limits.moments()
        yield from (at for at in self._granter.moments() if at < math.inf)
        yield from self._deadlines.moments()
        yield from (at for at in (self._give_up_at, self._size.next_at) if at is not None)

    def _loop(self) -> None:
        try:
            while not self._over():
                self.step()
        except BaseException as error:
            self._fail_all(error)
        finally:
            self._close_backend()  # without the lock: threads that it joins may be about to ask for the demand
            with self.lock:
                self._table.abandon(SessionClosed("the session was closed"))

    def _over(self) -> bool:
        if not self._entrance.closed or self._mail:
            return False
        late = self._give_up_at is not None and self._clock.now() >= self._give_up_at
        return late or not self._jobs

    def _close_backend(self) -> None:
        self._planner_requests.close()
        try:
            self._backend.close()
        except QoopError as error:
            self._late = error  # raised by `close`: nothing reads what this thread raises

    def _fail_all(self, cause: BaseException) -> None:
        """The loop cannot go on: no job may wait for ever."""
        broken = self._entrance.fail(cause)
        with self.lock:
            self._driver.stop_all()
            self._table.abandon(broken)
