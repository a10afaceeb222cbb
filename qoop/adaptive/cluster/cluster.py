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
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent import futures
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from qoop.adaptive.cluster.active_job import ActiveJob
from qoop.adaptive.cluster.announcements import AnnouncedSize, Announcements
from qoop.adaptive.cluster.granting.granter import Granter, touched
from qoop.adaptive.cluster.job_handle import LOOK, JobHandle
from qoop.adaptive.cluster.job_status import EndedJob, JobStatus
from qoop.adaptive.cluster.journal import Journal
from qoop.adaptive.cluster.messages import (
    Answered,
    CancelAsked,
    CloseAsked,
    ExpectAsked,
    HoldAsked,
    JobRequest,
    Message,
    PinAsked,
    ProgramTold,
    ReconsiderAsked,
    ReleaseAsked,
    ResizeAsked,
    SampleTold,
    Submitted,
    SuspendAsked,
)
from qoop.adaptive.cluster.past_jobs import REMEMBERED, PastJobs
from qoop.adaptive.cluster.planner_thread import InlinePlanner, Planner, PlannerThread
from qoop.adaptive.cluster.questions import Questions
from qoop.adaptive.cluster.recorder import Recorder
from qoop.adaptive.cluster.remaining_work import RunRemainingWork
from qoop.adaptive.cluster.ticks import Found, JobEnded, Opened, ProgramStepped, Refused, Resizing
from qoop.adaptive.replanning.decision import Option
from qoop.adaptive.replanning.replanner import Replanner
from qoop.adaptive.schedulers.base import Scheduler
from qoop.adaptive.schedulers.max_min import MaxMin
from qoop.adaptive.schedulers.reserving import Reserving
from qoop.adaptive.schedulers.shares import parts, times
from qoop.catalog.errors import (
    Cancelled,
    ConfigError,
    ExecutionError,
    GuardMismatch,
    NoCapacity,
    Overloaded,
    QoopError,
    SessionClosed,
    Timeout,
)
from qoop.catalog.forks import CreatorProcess
from qoop.catalog.value import changed
from qoop.engine.backends.base import Backend
from qoop.engine.clock import Clock, WallClock
from qoop.engine.driver import Driver
from qoop.engine.events import Command, Committed, Event, Release, ShareChanged, SlotsChanged
from qoop.engine.history import NotContinued
from qoop.engine.run import Run
from qoop.engine.state import State
from qoop.engine.storage.guard import complete
from qoop.engine.task import CheckpointKey, JobId, MachineId, checkpoint_key, own_non_deterministic
from qoop.planner.packing import Available
from qoop.planner.plan import STORE_PER_KERNEL, Plan, Resources
from qoop.planner.search.candidate import Candidate

_GRACE = 10.0
"""Seconds that `close` gives the backend to report the attempts it was told to stop."""

if TYPE_CHECKING:
    from qoop.adaptive.cluster.admission import Admission
    from qoop.adaptive.cluster.deadlines import Deadlines, Running
    from qoop.adaptive.cluster.tenants import TenantStatus
    from qoop.adaptive.cluster.trace import Trace
    from qoop.adaptive.program_log import ProgramKinds, Programs, Tell
    from qoop.engine.node_queues.policy import NodeQueueing
    from qoop.engine.node_queues.ticket import JobLeft
    from qoop.engine.node_queues.view import NodesView


class Cluster:
    """Runs jobs on the machines of one backend, which it owns and closes.

    thread: True: a thread of its own turns the loop. False: the caller does, by `step` (simulations).
    trace: where to record all that goes into each turn and comes out of it.
    planner: where decisions are worked out; by default in a thread of its own if the cluster has one.
    extra_slots: True: a job that waits with nothing running gets a slot on top of those there are
        (:mod:`qoop.adaptive.cluster.granting.extra_slots`).
    wait_for_capacity: seconds that a job waits while there is no slot at all, after which it fails with NoCapacity.
    tenants: weights, above 0; those of others are 1.
    watch_deadlines: whether jobs are told that they will miss their deadlines.
    most_jobs: that run at a time; others queue (:mod:`qoop.adaptive.cluster.admission`). most_queued: that wait; more
        are refused.
    queueing: how granted tasks wait at machines, if the backend can have them wait; None: they begin at once.
    """

    def __init__(
        self,
        backend: Backend,
        scheduler: Scheduler | None = None,
        clock: Clock | None = None,
        trace: Trace | None = None,
        thread: bool = True,
        wait_for_capacity: float = math.inf,
        planner: Planner | None = None,
        extra_slots: bool = False,
        tenants: Mapping[str, float] | None = None,
        watch_deadlines: bool = True,
        most_jobs: float = math.inf,
        most_queued: float = math.inf,
        queueing: NodeQueueing | None = None,
        program_kinds: ProgramKinds = tuple,
    ) -> None:
        self.creator_process = CreatorProcess()
        self._lock = threading.RLock()
        self._backend = backend
        self._scheduler = scheduler or Reserving(MaxMin())
        self._clock = clock or WallClock()
        self._recorder = Recorder(trace, self._clock.now())
        self._driver = Driver(backend, self._recorder.note)
        if queueing is not None:
            self._driver.nodes = _nodes_view()
        self._jobs: dict[JobId, ActiveJob] = {}
        self._coming: dict[JobId, ActiveJob] = {}  # whose message has not been opened
        self._tenant_weights = dict(tenants or {})
        self._granter = Granter(
            self._jobs, self._driver, self._scheduler, self._order, self._recorder.note_tick, self._tenant_weights,
            queueing, extra_slots,
        )  # fmt: skip
        self._past = PastJobs(told=thread)
        self._timeouts: dict[JobId, float] = {}
        self._watch_deadlines = watch_deadlines
        self._admission = _admission(most_jobs) if most_jobs < math.inf else None
        self._most_queued = most_queued
        self._deadlines: Deadlines | None = None
        self._mail: deque[Message] = deque()
        self._numbers, self._program_numbers = count(1), count(1)
        self._shares_stale = False
        self._wait_for_capacity = wait_for_capacity
        self._announcements = Announcements(self._tell_size)
        self._empty_since: float | None = None  # when the last slot went, while there is none
        self._program_kinds = program_kinds
        self._programs: Programs | None = None
        self._closing = False
        self._give_up_at: float | None = None
        self._broken: ExecutionError | None = None
        self._late: QoopError | None = None
        self._questions = Questions(
            self._jobs, self._driver, planner or (PlannerThread() if thread else InlinePlanner()), self._recorder,
            self._found, self._order, self.post,
        )  # fmt: skip
        self.opened = self._recorder.now
        self.wall = time.time() if thread else None
        self._sizes = deque([(self.opened, self._driver.capacity)], maxlen=REMEMBERED)
        if trace is not None:
            machines, policy, weights = dict(backend.machines()), repr(self._scheduler), self._tenant_weights
            queues = repr(queueing) if queueing is not None else ""
            capacity = self.opened, machines, wait_for_capacity
            self._recorder.open(Opened(*capacity, policy, extra_slots, weights, most_jobs, self.wall, queues))
        self._journal = Journal() if thread else None  # a simulation is nobody's news
        self._thread: threading.Thread | None = None
        if thread:
            self._thread = threading.Thread(target=self._loop, name="qoop-cluster", daemon=True)
            self._thread.start()

    @property
    def lock(self) -> threading.RLock:
        """Held while anything of the jobs is looked at or changed. Raises SessionClosed in a forked process."""
        self.creator_process.check()
        return self._lock

    def submit(self, request: JobRequest) -> JobHandle:
        """Start a job.

        Raises SessionClosed after `close`, ExecutionError if the cluster's loop has failed, Overloaded if the queue is
        full.
        """
        self._check_queue()
        number = next(self._numbers)
        return self.enter(Submitted(f"job{number}", number, self._clock.now(), request))

    def _check_queue(self) -> None:
        if self._admission is None or self._most_queued == math.inf:
            return
        with self.lock:
            waiting = len(self._admission) + len(self._coming)
            if waiting < self._most_queued or len(self._jobs) + len(self._coming) < self._admission.most:
                return
            work = sum(job.run.work_left for job in self._jobs.values())
            seconds = work / max(1.0, self._driver.capacity.cpu)
        raise Overloaded(
            f"{len(self._jobs) - len(self._admission)} jobs run and {waiting} wait, which is all that may: try again "
            f"in about {max(1.0, seconds / 2):.0f} s, or raise most_jobs or most_queued"
        )

    @property
    def overloaded(self) -> bool:
        """True while a job that comes has to queue, since as many run as may."""
        if self._admission is None:
            return False
        with self.lock:
            return len(self._jobs) + len(self._coming) >= self._admission.most

    def cut_short(self, tenant: str, part: float) -> None:
        """An answer of a tenant ended early for others. part: of its table that was not read."""
        with self.lock:
            self._past.cut_short(tenant, part)

    def enter(self, message: Submitted) -> JobHandle:
        """Start a job that has a name already. Raises as `submit` does."""
        job = self._made(message)
        with self.lock:
            self._check_open()
            self._coming[message.job] = job
            self.post(message)
        return job.handle

    def _made(self, message: Submitted) -> ActiveJob:
        name, request, adaptive = message.job, message.request, message.request.adaptive
        most, changes = self._granter.limits.most_memory(request.terms.tenant), adaptive is not None
        limits = request.limits
        limits = changed(
            limits,
            most_memory=most,
            keep_checkpoints=changes or limits.keep_checkpoints,
            leave_exhausted=changes or limits.leave_exhausted,
        )
        last = request.last_resort and own_non_deterministic(request.last_resort, name)
        about = request.settings, request.durable, limits, request.saving, request.functions, last
        run = Run(name, request.tables, *about)
        ends_at = message.at + request.timeout if request.timeout is not None else None
        request = changed(request, plan=own_non_deterministic(request.plan, name))
        replanner = Replanner(name, adaptive, run, request.plan, request.pace) if adaptive is not None else None
        launch = (Option("", Candidate(request.plan, "launch"), pace=request.pace),)
        remaining_work = RunRemainingWork(
            run,
            self._clock,
            lambda: self._driver.served(name, self._clock.now()),
            lambda: replanner.kept if replanner is not None else launch,
        )
        runs, options = partial(_runs, run, replanner, request.pace), partial(_options, replanner)
        handle = JobHandle(
            self, name, run, message.at, request.terms, remaining_work.alone, request.text, runs, options
        )
        return ActiveJob(handle, run, request, message.arrival, message.at, ends_at, replanner, remaining_work)

    def resize(self, slots: int | None = None, memory: int | None = None, notice: float = 0.0, why: str = "") -> None:
        """Change how many slots and bytes of memory the backend has; None: leave that as it is.

        Returns once it is done: what no longer fits has been told to go, and nothing more will be started in
        its place. With a notice in seconds it is only announced (see qoop/adaptive/cluster/granting/revocation.py) and
        done when they have passed, unless another call says otherwise before. why: for the record, a clause. Raises
        ConfigError for a size that cannot be, SessionClosed, ExecutionError as `submit` does.
        """
        asked = ResizeAsked(slots, memory, notice, why)
        with self.lock:
            self._check_open()
            self.post(asked)
        if self._thread is None:
            self.step(0.0)
        while not futures.wait([asked.done], LOOK).done:
            if self._thread is not None and not self._thread.is_alive():
                self._check_open()
        asked.done.result()

    def expect(self, course: Sequence[tuple[float, float]]) -> None:
        """Tell how many slots all machines together should have: (seconds from now, slots), in order of time.

        It takes the place of what was expected before. Raises SessionClosed, ExecutionError as `submit` does.
        """
        with self.lock:
            self._check_open()
            self.post(ExpectAsked(tuple(course)))
        if self._thread is None:
            self.step(0.0)

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

    def close(self) -> None:
        """Cancel all jobs, wait until their attempts have reported, end the loop and close the backend.

        Raises, once all that is done, what the backend had still to tell: DiskFull, for an output that was to
        be durable and is not.
        """
        with self.lock:
            first, self._closing = not self._closing, True
        if first:
            self.post(CloseAsked())
            if self._thread is None:
                self._loop()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        late, self._late = self._late, None
        if late is not None:
            raise late

    def wait_for_planner(self) -> None:
        """Block until all that was asked of the planner so far is answered, also what no job waits for any more."""
        self._questions.wait()

    def now(self) -> float:
        """The time of the cluster's clock, in seconds."""
        return self._clock.now()

    def used_by(self, job: JobId) -> Resources:
        """The resources that the running attempts of a job take."""
        found = self._jobs.get(job)
        extra = [one.resources for one in found.run.running() if one.extra] if found is not None else []
        return sum(extra, self._driver.used_by(job))

    def place_in_queue(self, job: JobId) -> int | None:
        """The place of a job among those that wait to be admitted, from 1; None if it does not."""
        return self._admission.place(job) if self._admission is not None else None

    def waits_for(self, job: JobId) -> tuple[JobId, ...]:
        """The jobs that have the slots for which a job with nothing running waits; none if it does not wait."""
        run = self._jobs[job].run if job in self._jobs else None
        if run is None or run.alive or not run.ready():
            return ()
        return tuple(name for name in self._jobs if self.used_by(name).cpu)

    def gave_way(self, job: JobId) -> int:
        """The number of times that a task of the job was interrupted for another job."""
        return self._granter.extra.gave_way(job) if self._granter.extra is not None else 0

    def wanted(self) -> Mapping[str, float]:
        """By tenant the slots that its jobs together have a use for: those of all tasks that have not ended."""
        with self.lock:
            found: dict[str, float] = {}
            for job in self._jobs.values():
                slots = sum(stage.slots * count for stage, count in job.run.left())
                found[job.tenant] = found.get(job.tenant, 0.0) + slots
            return found

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
            return list(self._sizes)

    def tenants(self, known: Mapping[JobId, JobStatus] | None = None) -> list[TenantStatus]:
        """The status of every tenant that has or had a job, by name. known: the status of jobs, as far as it is."""
        known = known or {}
        with self.lock:
            active = [(job.tenant, known.get(name) or job.handle.status()) for name, job in self._jobs.items()]
            return self._past.tenants(active, self._tenant_weights)

    # --- for the loop's thread ------------------------------------------------------------------------------

    def post(self, message: Message) -> None:
        """Have the loop's thread open a message in its next tick. May be called from any thread."""
        self.creator_process.check()
        self._mail.append(message)
        self._backend.wake()

    def telling(self) -> Tell | None:
        """Takes each message to a program above jobs, so that the trace has it; None: there is no trace."""
        if not self._recorder.is_on:
            return None
        from qoop.adaptive.program_log import telling  # few sessions are traced

        name = f"program{next(self._program_numbers)}"
        return telling(lambda message, began: self.post(ProgramTold(name, message, began)))

    def step(self, timeout: float | None = None) -> None:
        """One turn: wait for events at most `timeout` seconds, take them, and start what can be started."""
        events = self._backend.wait(self._patience(timeout) if not self._mail else 0.0)
        with self._lock:
            self._granter.waiting.now = now = self._clock.now()
            self._recorder.begin(now)
            self._shares_stale |= self._driver.take(events, now)
            while self._mail:
                message = self._mail.popleft()
                self._recorder.note(message)
                self._open(message, now)
            self._announcements.carry_out(now)
            if self._timeouts:
                self._end_late_jobs(now)
            self._end_starved_jobs(now)
            self._finish_ended_jobs()
            if self._admission:
                self._let_in(self._admission)
            if self._shares_stale:
                self._tell_shares(now)
            if self._deadlines is not None and now >= self._deadlines.next_at:
                self._look_at_deadlines(self._deadlines, now)
            self._questions.tick(now)
            self._granter.grant(now)
            if self._journal is not None:
                for job in self._jobs.values():
                    self._journal.tell(job.run.job, job.run.history)
            self._recorder.end()

    def _look_at_deadlines(self, deadlines: Deadlines, now: float) -> None:
        """Tell jobs whether they will meet them, where that is news: then another plan may end in time."""
        self._recorder.note_tick()
        for run, told in deadlines.look(now):
            run.note(told, now=now)
            self._touch(run.job)

    def _open(self, message: Message, now: float) -> None:
        match message:
            case Submitted(name):
                self._admit(self._coming.pop(name), now)
            case CancelAsked(name, error):
                self._stop_job(name, now, error)
            case HoldAsked(name, on):
                self._hold_job(name, on)
            case SuspendAsked():
                self._suspend_job(message)
            case ReleaseAsked(name, keys):
                self._driver.obey([Release(name, keys)])
            case ReconsiderAsked(name, why):
                if name in self._jobs and (replanner := self._jobs[name].replanner) is not None:
                    replanner.reconsider(why, now)
                    self._touch(name)
            case SampleTold():
                if self._deadlines is not None:
                    self._deadlines.sample(message)
            case ProgramTold():
                self._take_program(message)
            case PinAsked(name, done):
                self._pin(name, done)
            case ExpectAsked(course):
                self._driver.expect([(now + after, Resources(slots)) for after, slots in course])
                self._shares_stale = True
            case ResizeAsked(slots, memory, notice, why, done):
                self._resize(AnnouncedSize(slots, memory, now + notice, why), now, done)
            case Answered():
                self._questions.take(message, now)
            case CloseAsked():
                self._stop_all(now)

    def _take_program(self, told: ProgramTold) -> None:
        """The steps of a program go into the trace, as what comes of a turn."""
        if self._programs is None:
            from qoop.adaptive.program_log import Programs  # few sessions are traced

            self._programs = Programs(self._program_kinds())
        steps = self._programs.take(told.program, told.message, told.began)
        self._recorder.note(ProgramStepped(told.program, steps))

    def _stop_job(self, job: JobId, now: float, error: Cancelled | None = None) -> None:
        if job in self._jobs:
            self._order(job, self._jobs[job].run.cancel(now=now, error=error))

    def _hold_job(self, job: JobId, on: bool) -> None:
        if job in self._jobs and (self._admission is None or job not in self._admission):
            run = self._jobs[job].run
            run.hold() if on else run.go_on()
            self._touch(job)

    def _order(self, job: JobId, commands: Iterable[Command]) -> None:
        """Obey what a job's run says after something was done to it."""
        self._touch(job)
        self._driver.obey(commands)

    def _touch(self, job: JobId) -> None:
        """The rest of the turn is to look at this job: something was done to it."""
        self._driver.touched[job] = None

    def _pin(self, job: JobId, done: Future[bool]) -> None:
        found = self._jobs.get(job)
        pinned = found is not None and found.run.lasting and bool(found.run.first_outputs)
        if found is not None and pinned and found.replanner is not None:
            found.replanner.pin()
        done.set_result(pinned)

    def _suspend_job(self, message: SuspendAsked) -> None:
        """Hold a job, if it is still there; tell which of its outputs may serve elsewhere."""
        found = self._jobs.get(message.job)
        if found is None or found.run.ending:
            message.kept.set_result(())
            return
        keys = [output.key for output in found.run.progress().present if output.width]
        try:
            message.kept.set_result(tuple(self._backend.present(keys, message.owner)))
        except QoopError as error:
            message.kept.set_exception(error)
        self._hold_job(message.job, on=True)

    def _check_open(self) -> None:
        if self._broken is not None:
            raise ExecutionError(str(self._broken)) from self._broken
        if self._closing:
            raise SessionClosed("the session was closed")

    def _resize(self, size: AnnouncedSize, now: float, done: Future[None]) -> None:
        try:
            self._announcements.resize(size, now)
        except ConfigError as error:
            done.set_exception(error)
        else:
            done.set_result(None)

    def _tell_size(self, size: AnnouncedSize, now: float) -> None:
        """Tell the backend, and the jobs what comes of it. Raises ConfigError if it cannot be so."""
        self._recorder.note(Resizing(size.slots, size.memory, size.at))
        try:
            if size.at > now:
                self._backend.announce(size.slots, size.memory, size.at)
            else:
                self._backend.resize(size.slots, size.memory)
        except ConfigError as error:
            self._recorder.note(Refused(str(error)))
            raise
        events = [_because(size.why, event) for event in self._backend.wait(0.0)]
        self._shares_stale |= self._driver.take(events, now)  # before anything is granted

    def _loop(self) -> None:
        try:
            while not self._over():
                self.step()
        except BaseException as error:
            self._fail_all(error)
        finally:
            self._close_backend()  # without the lock: threads that it joins may be about to ask what is wanted
            with self.lock:
                self._abandon(SessionClosed("the session was closed"))

    def _close_backend(self) -> None:
        self._questions.close()
        try:
            self._backend.close()
        except QoopError as error:
            self._late = error  # nobody looks at what this thread raises

    def _over(self) -> bool:
        if not self._closing or self._mail:
            return False
        late = self._give_up_at is not None and self._clock.now() >= self._give_up_at
        return late or not self._jobs

    def _admit(self, job: ActiveJob, now: float) -> None:
        run, plan = job.run, job.request.plan
        self._jobs[run.job] = job
        if self._journal is not None:
            self._journal.begin(run.job, job.request.text)
        if job.ends_at is not None:
            self._timeouts[run.job] = job.ends_at
        needed_at = job.submitted + job.request.terms.deadline
        if self._watch_deadlines and needed_at < math.inf:
            self._deadlines = self._deadlines or _deadlines(self._running, lambda: self._driver.promised)
            given = job.request.terms.deadline
            self._deadlines.add(run, partial(_runs, run, job.replanner, job.request.pace), needed_at, given, now)
        self._driver.add(run, now)
        self._shares_stale = True
        if self._admission is not None and not job.request.follows:
            terms = job.request.terms
            weight = self._tenant_weights.get(terms.tenant, 1.0)
            self._admission.put(run.job, job.arrival, terms.tenant, weight)
            run.hold()
        try:
            found = self._found(job, _keys(plan)) if job.request.reuse else ()
            self._order(run.job, run.switch(plan, found, now=now))
            if job.request.earlier and not run.continued:
                run.note(NotContinued(0.0, job.request.earlier), now=now)
        except QoopError as error:
            self._order(run.job, run.fail(error, now=now))

    def _running(self) -> Iterable[Running]:
        return [(job.run, partial(_runs, job.run, job.replanner, job.request.pace)) for job in self._jobs.values()]

    def _let_in(self, admission: Admission) -> None:
        """Let jobs that queue begin, as far as may be."""
        active = [job for name, job in self._jobs.items() if name not in admission]
        most = STORE_PER_KERNEL * self._driver.capacity.memory
        crowded = sum(job.run.present_bytes for job in active) > most
        for name in admission.admit([job.tenant for job in active], crowded):
            self._jobs[name].run.go_on()
            self._touch(name)
            self._shares_stale = True

    def _found(self, job: ActiveJob, keys: Sequence[CheckpointKey]) -> Sequence[Committed]:
        """Those of the outputs that the backend has already; they are kept for the job."""
        try:
            found = tuple(self._backend.present(keys, job.run.job))
        except QoopError as error:
            self._recorder.note(Found(job.run.job, (), error))
            raise
        self._recorder.note(Found(job.run.job, found))
        return found

    def _stop_all(self, now: float) -> None:
        self._give_up_at = now + _GRACE
        for name in list(self._jobs):
            self._stop_job(name, now)

    def _end_late_jobs(self, now: float) -> None:
        for name, ends_at in self._timeouts.items():
            job = self._jobs[name]
            if now >= ends_at and not job.run.ending:
                error = Timeout(f"the job did not end within {job.request.timeout:g} seconds")
                self._order(name, job.run.fail(error, now=now))

    def _end_starved_jobs(self, now: float) -> None:
        """Fail the jobs that have waited for a slot long enough."""
        if self._driver.capacity.cpu >= 1:
            self._empty_since = None
            return
        if self._empty_since is None:
            self._empty_since = now
        for job in self._jobs.values():
            if now >= self._starved_at(job, self._empty_since) and not job.run.ending:
                error = NoCapacity(f"there was no slot for {self._wait_for_capacity:g} seconds")
                self._order(job.run.job, job.run.fail(error, now=now))

    def _starved_at(self, job: ActiveJob, empty_since: float) -> float:
        return max(empty_since, job.submitted) + self._wait_for_capacity

    def _finish_ended_jobs(self) -> None:
        for job in touched(self._jobs, self._driver):
            if job.run.state.final:
                name = job.run.job
                del self._jobs[name]
                if self._journal is not None:
                    self._journal.end(name, job.run.history)
                self._granter.forget(name)
                self._past.put(job)
                self._questions.forget(name)
                self._timeouts.pop(name, None)
                if self._deadlines is not None:
                    self._deadlines.remove(name)
                self._driver.remove(name)
                if self._admission is not None:
                    self._admission.remove(name)
                self._shares_stale = True
                self._recorder.note(JobEnded(name, job.run.state.value, job.run.error))
                _resolve(job)

    def _tell_shares(self, now: float) -> None:
        self._note_size(now)
        self._shares_stale = False
        queued = self._admission or ()
        requests = [self._granter.request(job) for name, job in self._jobs.items() if name not in queued]
        if requests:
            promised = self._driver.promised
            shares = self._scheduler.fair_shares(requests, promised, now)
            later = self._driver.coming(now)
            # the scheduler is not asked of other capacities: what it hears of it may count on
            part = parts(requests, shares, promised) if later else {}
            told = [
                ShareChanged(name, share, tuple((at, times(capacity, part[name])) for at, capacity in later))
                for name, share in shares.items()
            ]
            self._driver.take(told, now)

    def _note_size(self, now: float) -> None:
        if self._driver.capacity != self._sizes[-1][1]:
            self._sizes.append((now, self._driver.capacity))

    def limit_tenant(self, tenant: str, slots: float = math.inf, memory: float = math.inf) -> None:
        """Let all jobs of a tenant together hold that many slots, and bytes of memory, at most; infinite: any number.

        From the next task on. One that needs more slots runs alone, and one of a job that is there already that needs
        more memory.
        """
        with self.lock:
            self._granter.limits.limit(tenant, slots, memory)

    def left_of(self, job: JobId) -> JobLeft | None:
        """The work that a job has left, as machines are told where its tasks wait; None: it has ended."""
        found = self._jobs.get(job)
        return found.run.job_left if found is not None else None

    def _patience(self, timeout: float | None) -> float | None:
        """The time that the loop may wait for events: until the next deadline, at most `timeout`."""
        moments = list(self._questions.moments())
        if self._timeouts:
            moments += [at for name, at in self._timeouts.items() if not self._jobs[name].run.ending]
        if self._deadlines is not None and self._deadlines.next_at < math.inf:
            moments.append(self._deadlines.next_at)
        if self._empty_since is not None and self._wait_for_capacity < math.inf:
            going_on = [job for job in self._jobs.values() if not job.run.ending]
            moments += [self._starved_at(job, self._empty_since) for job in going_on]
        if self._give_up_at is not None:
            moments.append(self._give_up_at)
        moments += [at for at in self._granter.moments() if at < math.inf]
        if (announced := self._announcements.next_at) is not None:
            moments.append(announced)
        if not moments:
            return timeout
        left = max(0.0, min(moments) - self._clock.now())
        return left if timeout is None else min(left, timeout)

    def _fail_all(self, cause: BaseException) -> None:
        """The loop cannot go on: no job may wait for ever."""
        with self.lock:
            self._broken = ExecutionError(f"the engine's loop failed: {type(cause).__name__}: {cause}")
            self._broken.__cause__ = cause
            self._driver.stop_all()
            self._abandon(self._broken)

    def _abandon(self, error: QoopError) -> None:
        for job in (*self._jobs.values(), *self._coming.values()):
            if not job.handle.done.done():
                job.handle.done.set_exception(error)
        self._jobs.clear()
        self._coming.clear()


def _admission(most: float) -> Admission:
    from qoop.adaptive.cluster.admission import Admission  # few sessions have a limit

    return Admission(most)


def _nodes_view() -> NodesView:
    from qoop.engine.node_queues.view import NodesView  # most machines begin what they get

    return NodesView()


def _deadlines(active: Callable[[], Iterable[Running]], capacity: Callable[[], Resources]) -> Deadlines:
    from qoop.adaptive.cluster.deadlines import Deadlines  # few jobs have one

    return Deadlines(active, capacity)


def _because(why: str, event: Event) -> Event:
    return replace(event, why=why) if why and isinstance(event, SlotsChanged) else event


def _runs(run: Run, replanner: Replanner | None, pace: float) -> Option:
    return replanner.option if replanner is not None else Option("", Candidate(run.plan, ""), pace=pace)


def _options(replanner: Replanner | None) -> Sequence[Option]:
    return replanner.options if replanner is not None else ()


def _keys(plan: Plan) -> list[CheckpointKey]:
    return [checkpoint_key(stage, part) for stage in plan.stages for part in range(stage.width)]


def _resolve(job: ActiveJob) -> None:
    """Tell the owner how the job ended."""
    if job.run.state is State.SUCCEEDED:
        job.handle.done.set_result(job.run.outputs)
    else:
        assert job.run.error is not None
        if isinstance(job.run.error, GuardMismatch):
            from qoop.planner.plan_json import dump

            complete(job.run.error, {"query": job.request.text, "plans": [dump(job.run.plan)]})
        job.handle.done.set_exception(job.run.error)
