"""The state machine of one job: reports in, commands out; no IO, no clock, no thread (law 2).

The states of a job are in :mod:`~qoop.engine.state`.

A driver passes events to `handle`, obeys the commands that come back, shows `ready` to a
scheduler, applies its grants with `grant`, and passes the time (seconds of any clock) to each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from qoop.catalog.errors import (
    Cancelled,
    CheckpointError,
    DiskFull,
    ExecutionError,
    OutOfMemory,
    PlanError,
    QoopError,
    Revoked,
)
from qoop.catalog.functions.function import UserFunction
from qoop.catalog.table import Table
from qoop.engine.data_locality import DataLocality
from qoop.engine.events import (
    Begun,
    CallsObserved,
    CapacityNotice,
    CheckpointLost,
    CheckpointSaved,
    Command,
    Committed,
    Event,
    MachineJoined,
    MachineLost,
    Queued,
    Release,
    ShareChanged,
    SlotsChanged,
    Start,
    TaskFailed,
    TaskRegranted,
    TaskStopped,
    TaskSucceeded,
    WorkObserved,
)
from qoop.engine.frontier import TaskNode
from qoop.engine.history import (
    Called,
    CapacityAnnounced,
    CapacityReported,
    Decided,
    Ended,
    Failed,
    Lost,
    Saved,
    ShareReported,
    Started,
    Stopped,
    Succeeded,
    Switched,
)
from qoop.engine.notices import DeadlineReported, NotContinued, NotSaved, Slept, not_saved
from qoop.engine.running.attempts import Attempt
from qoop.engine.running.task_specs import TaskSpecs
from qoop.engine.running.view import RunView
from qoop.engine.state import TRANSITIONS, USUAL_LIMITS, Limits, Saving, State
from qoop.engine.task import AttemptId, CheckpointKey, Content, JobId, MachineId, TaskId
from qoop.planner.plan import Plan, Resources


class Run(RunView):
    """One run of a query. Public attributes are for reading only.

    tables: the pinned tables by name. settings: SET options besides those of the plan.
    durable: outputs must survive the process. saving: which stages' need, of a plan; None: all.
    functions: of Python, that its stages may call.
    fallback_plan: used once, for the rest of the job, when a stage raises an evaluation error: one plan may evaluate
    what another need not, as an expression over rows that a join drops. None: the job fails.
    """

    def __init__(
        self,
        job: JobId,
        tables: Mapping[str, Table],
        settings: tuple[tuple[str, str], ...] = (),
        durable: bool = False,
        limits: Limits = USUAL_LIMITS,
        saving: Saving | None = None,
        functions: tuple[UserFunction, ...] = (),
        fallback_plan: Plan | None = None,
    ) -> None:
        super().__init__(job, limits)
        self._specs = TaskSpecs(tables, settings, functions, durable, saving, limits)
        self._fallback_plan = fallback_plan
        self._data_locality = DataLocality() if limits.near else None
        self._all_saved = True
        self._paused = False
        self._switches = 0

    # --- what the driver calls ------------------------------------------------------------------------------

    def pause(self) -> None:
        """Start nothing new until `resume`, whichever plan comes meanwhile; attempts under way go on."""
        self._paused = True
        if self.state is State.RUNNING:
            self._move(State.SWITCHING)

    def resume(self) -> None:
        """Start what is ready again."""
        self._paused = False
        if self.state is State.SWITCHING and self._frontier is not None:
            self._move(State.RUNNING)

    def switch(self, plan: Plan, found: Iterable[Committed] = (), *, now: float) -> list[Command]:
        """Start the plan, or change to it: run what its root needs beyond the checkpoints there are.

        found: checkpoints from outside; those this run has already need not be named. Attempts that the plan does
        not need, or would make of other things, are stopped; those that it shares go on. What depends on a
        non-deterministic stage (law 12) is taken over only where the plan stays the same. A run on its fallback plan
        keeps that. Raises PlanError if a stage reads a table that the job does not have.
        """
        self._log.tick(now)
        if self._outcome is None and not self.state.final and not self.on_fallback:
            self._change(plan, found)
        return self._log.flush()

    def _change(self, plan: Plan, found: Iterable[Committed] = (), why: str = "") -> None:
        """As `switch`, while an event is taken."""
        if self.state is State.RUNNING:
            self._move(State.SWITCHING)
        self._outputs.add_found(found)  # first, since they are released at the end, however it comes
        self._specs.need_tables(plan)
        self._running_plan.change(plan)
        self.plans.append(plan)
        self._demands.forget()
        self._ready.forget()
        if not self._paused:
            self._move(State.RUNNING)
        self._record_switch(why)
        self._clear_up()

    def pin(self) -> None:
        """Parts of the answer are handed out from now on: no other plan may make the answer again."""
        self.pinned = True

    def adopt(self, found: Iterable[Committed], *, now: float) -> None:
        """Hold outputs that were found outside and that are `missing`: plans that it may change to can use them."""
        self._log.tick(now)
        self._outputs.add_found(found)

    def keep_only(self, useful: frozenset[Content], *, now: float) -> list[Command]:
        """Of the outputs that the plan needs no more, keep these alone (where `Limits.keep_checkpoints` says to)."""
        self._log.tick(now)
        self._outputs.useful = useful
        if not self.ending:
            self._running_plan.release_useless()
        return self._log.flush()

    def note(self, record: Decided | DeadlineReported | NotContinued | Slept, *, now: float) -> None:
        """Put down what was decided about this job's plan, or is known of its deadline, of an earlier run or of the
        machine; `at` is filled in."""
        self._log.tick(now)
        self._log.note(replace(record, at=self._log.at))

    def handle(self, *events: Event, now: float) -> list[Command]:
        """Take note of what happened and return what is to be done about it."""
        self._log.tick(now)
        for event in events:
            if self.state.final:
                self._take_late(event)
            else:
                self._take(event)
                self._clear_up()
        return self._log.flush()

    def grant(
        self, task: TaskId, machine: MachineId, resources: Resources, extra: bool = False, *, now: float
    ) -> Start:
        """Begin an attempt at a ready task with these resources, or at another of its stage whose input is nearer.
        extra: on a slot that the machine has not got. Raises PlanError if the task is not ready."""
        self._log.tick(now)
        node = self._ready_node(task)
        if self._data_locality is not None:
            node = self._data_locality.nearest(node, machine, self._running_plan.started, self._outputs.present)
            task = replace(task, part=node.part)
        attempt = Attempt(
            AttemptId(task, self._attempts.next_number()), node.key, node.stage, machine, resources,
            granted=now, started=now, virtual_start=now, most=node.stage.stage.elastic_slots, extra=extra,
        )  # fmt: skip
        self._attempts.add(attempt)
        frontier = self._running_plan.started
        frontier.begin(node)
        self._log.note(Started(self._log.at, attempt.id, node.key, machine, resources, extra))
        return Start(
            machine,
            self._specs.make(attempt, node, frontier, self.share, self._outputs.facts, self._running_plan.goes_on),
        )

    def give_up(self, attempts: Iterable[AttemptId], why: str, *, now: float) -> list[Command]:
        """Stop these attempts; once they have reported, their tasks are ready again."""
        self._log.tick(now)
        for id in attempts:
            attempt = self._attempts.get(id)
            if attempt is not None:
                self._attempts.stop(attempt, why)
        return self._log.flush()

    def regrant(self, id: AttemptId, resources: Resources, *, now: float) -> list[Command]:
        """Let an elastic attempt go on with other resources, as soon as it says that it has them."""
        self._log.tick(now)
        return [*self._attempts.regrant(id, resources)]

    def promote(self, id: AttemptId) -> None:
        """An attempt that ran on an extra slot has one of its machine's from now on."""
        self._attempts.promote(id)

    def cancel(self, *, now: float, error: Cancelled | None = None) -> list[Command]:
        """Stop everything; the job is CANCELLED, with this error, when all attempts have reported."""
        self._log.tick(now)
        self._decide(State.CANCELLED, error or Cancelled("the job was cancelled"))
        return self._log.flush()

    def fail(self, error: QoopError, *, now: float) -> list[Command]:
        """Stop everything; the job is FAILED with this error when all attempts have reported."""
        self._log.tick(now)
        self._decide(State.FAILED, error)
        return self._log.flush()

    # --- events ---------------------------------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        match event:
            case Queued(id):
                self._attempts.queue(id)
            case Begun(id):
                self._attempts.begin(id)
            case TaskSucceeded():
                self._succeeded(event)
            case CallsObserved(id, called) if id.task.job == self.job and self._attempts.get(id):
                self._log.note(Called(self._log.at, id, called))
            case WorkObserved(id) if id.task.job == self.job and (attempt := self._attempts.get(id)):
                attempt.work, self._slowed = event, event.slowed
            case TaskFailed(id, error, retryable):
                self._failed(id, error, retryable)
            case TaskStopped(id):
                self._stopped(id)
            case TaskRegranted(id, resources):
                self._attempts.regranted(id, resources)
            case CheckpointLost(key):
                self._lost(key)
            case CheckpointSaved(jobs, key, bytes_, behind, kept, seconds, why) if self.job in jobs:
                self._log.note(Saved(self._log.at, key, bytes_, behind, kept, seconds))
                if why:
                    self._not_saved(bytes_, why)
            case MachineLost(machine):
                self._machine_lost(machine)
            case MachineJoined(machine, capacity) | SlotsChanged(machine, capacity):
                self._demands.machine(machine, capacity)
                if self._data_locality is not None:
                    self._data_locality.machine(machine, there=True)
                self._retries.exhausted.clear()  # there may be more memory now
                why = event.why if isinstance(event, SlotsChanged) else ""
                self._log.note(CapacityReported(self._log.at, machine, capacity, why))
            case CapacityNotice(machine, capacity, moment):
                self._demands.expect_less(machine, capacity)
                self._log.note(CapacityAnnounced(self._log.at, machine, capacity, max(0.0, moment - self._log.now)))
            case ShareChanged(job, share, coming) if job == self.job:
                self.share = share
                self._coming = tuple((at - self.began, share) for at, share in coming)
                self._log.note(ShareReported(self._log.at, share, self._coming))

    def _take_late(self, event: Event) -> None:
        """Reports about a job that has ended change no state. The output of a late writer is given back; what is
        lost of the answer is no longer present."""
        if isinstance(event, TaskSucceeded) and event.committed.key not in self._outputs.present:
            self._log.command(Release(self.job, (event.committed.key,)))
        elif isinstance(event, CheckpointLost):
            task = self._running_plan.node(event.key)
            if self._outputs.drop(event.key) is not None and task is not None:
                self._running_plan.started.lose(task)

    def _succeeded(self, event: TaskSucceeded) -> None:
        """Take the output if it is new and may be used; give it back to the store if it will never be read.

        A report of an attempt that is not alive (a duplicate, or of a machine thought lost) proves nothing:
        its output may have been released since. So it is given back, unless another attempt is about to put
        out the same.
        """
        id, committed, account = event.attempt, event.committed, event.account
        key = committed.key
        task = self._running_plan.node(key)
        attempt = self._attempts.remove(id)
        taken = attempt is not None and not attempt.void and not self.ending and key not in self._outputs.present
        if attempt is not None and not (taken and task is not None):
            self._running_plan.end(attempt)
        used = taken and task is not None and task.active
        if attempt is not None:
            self._demands.took(attempt.stage, committed.seconds)
            if self._data_locality is not None:
                self._data_locality.made(key, attempt.machine)
        self._log.note(Succeeded(self._log.at, id, committed, used, account, event.profile))
        if taken:
            self._outputs.add(committed, account)
            if task is not None:
                self._running_plan.started.succeed(task)
                self._outputs.note_done(task.stage)
            elif not self._outputs.keeps(key):
                self._running_plan.release([key])
        elif key not in self._outputs.present:
            self._outputs.strays.add(key)
            if task is not None and task.stage.dependent:
                self._running_plan.void_attempts_at(key)
            self._running_plan.release_stray(key)

    def _failed(self, id: AttemptId, error: QoopError, retryable: bool) -> None:
        attempt = self._end_attempt(id)
        if attempt is not None:
            self._note_failed(attempt, error, retryable)
            self._judge(attempt, error, retryable)

    def _note_failed(self, attempt: Attempt, error: QoopError, retryable: bool) -> None:
        self._log.note(Failed(self._log.at, attempt.id, attempt.key, error, retryable))
        self._running_plan.release_stray(attempt.key)

    def _judge(self, attempt: Attempt, error: QoopError, retryable: bool) -> None:
        """Act on the failure of an attempt: the consequences for the job."""
        if attempt.stopping or self.ending:
            return
        if isinstance(error, OutOfMemory | Revoked):
            self._retries.note_interrupted(attempt)
        if isinstance(error, OutOfMemory):
            self._fail_for(self._retries.out_of_memory(attempt, error))
        elif isinstance(error, Revoked | CheckpointError):  # no fault of the task
            self._fail_for(self._retries.revoked(attempt, error))
        elif retryable:
            self._fail_for(self._retries.failed(attempt, error))
        elif self._fallback_plan is not None and self._may_go_over(attempt, error):
            self.on_fallback = True
            self._change(self._fallback_plan, why=str(error))
        else:
            self._decide(State.FAILED, error)

    def _fail_for(self, final: QoopError | None) -> None:
        if final is not None:
            self._decide(State.FAILED, final)

    def _may_go_over(self, attempt: Attempt, error: QoopError) -> bool:
        """True if another plan may compute what this one cannot, and no row of the answer has been handed out."""
        computing = type(error) is ExecutionError and not attempt.stage.stage.whole
        return computing and not self.on_fallback and not self.pinned

    def _stopped(self, id: AttemptId) -> None:
        attempt = self._end_attempt(id)
        if attempt is not None:
            self._log.note(Stopped(self._log.at, id, attempt.key))
            self._running_plan.release_stray(attempt.key)

    def _lost(self, key: CheckpointKey) -> None:
        if self._outputs.drop(key) is None:
            return
        self._log.note(Lost(self._log.at, key))
        task = self._running_plan.node(key)
        if task is not None:
            self._running_plan.started.lose(task)
            if self._outcome is State.SUCCEEDED and not self.state.final:
                self._outcome = None  # it was part of the answer
        self._fail_for(self._retries.lost(key))

    def _machine_lost(self, machine: MachineId) -> None:
        self._demands.machine(machine, None)
        if self._data_locality is not None:
            self._data_locality.machine(machine, there=False)
        self._log.note(CapacityReported(self._log.at, machine, None))
        error = Revoked(f"machine {machine} was lost")
        lost = [attempt for attempt in self._attempts if attempt.machine == machine]
        for attempt in lost:
            self._end_attempt(attempt.id)
            self._note_failed(attempt, error, retryable=True)
        for attempt in lost:  # now that none of them is left to be stopped
            self._judge(attempt, error, retryable=True)

    # --- consequences ---------------------------------------------------------------------------------------

    def _clear_up(self) -> None:
        """Stop and release what the last event left without use; end if all is done."""
        if self._frontier is None or self.state.final:  # then nothing is left
            return
        self._running_plan.clear_up()
        if self._frontier.root.complete:
            self._decide(State.SUCCEEDED, None)
        elif self.ending:
            self._conclude()

    def _decide(self, outcome: State, error: QoopError | None) -> None:
        if self._outcome is None:
            self._outcome = outcome
            self.error = error
            for attempt in self._attempts:
                self._attempts.stop(attempt, f"the job is {outcome}")
        self._conclude()

    def _conclude(self) -> None:
        """Enter the decided state once nothing is alive."""
        if self._outcome is None or self._attempts or self.state.final:
            return
        answer = {fact.key for fact in self.outputs} if self._outcome is State.SUCCEEDED else set()
        self._running_plan.release([key for key in self._outputs.present if key not in answer])
        self._move(self._outcome)
        self._log.note(Ended(self._log.at, self._outcome.value, self.error))

    # --- helpers --------------------------------------------------------------------------------------------

    def _move(self, state: State) -> None:
        if state not in TRANSITIONS[self.state]:
            raise PlanError(f"job {self.job} is {self.state} and cannot become {state}")
        self.state = state

    def _record_switch(self, why: str) -> None:
        self._switches += 1
        tasks = list(self._running_plan.started.tasks())
        carried = tuple(attempt.id for attempt in self._attempts.going_on())
        stopped = tuple(attempt.id for attempt in self._attempts if attempt.stopping)
        active, kept = sum(task.active for task in tasks), sum(task.present for task in tasks)
        self._log.note(Switched(self._log.at, self._switches, active, kept, carried, stopped, why))
        self._outputs.note_continued(self._running_plan.started.by_key, active, self._demands.slots)

    def _end_attempt(self, id: AttemptId) -> Attempt | None:
        attempt = self._attempts.remove(id)
        if attempt is not None:
            self._running_plan.end(attempt)
        return attempt

    def _not_saved(self, bytes_: int, why: str) -> None:
        """An output does not outlive the process, though the job is durable."""
        if self._all_saved:
            self._all_saved = False
            self._log.note(NotSaved(self._log.at, bytes_, why))
        if self._limits.all_saved:
            self._decide(State.FAILED, DiskFull(not_saved(bytes_, why)))

    def _ready_node(self, task: TaskId) -> TaskNode:
        node = self._running_plan.started.nodes.get(task.stage)
        if node is None or not 0 <= task.part < len(node.tasks) or not node.tasks[task.part].ready:
            raise PlanError(f"task {task} was granted resources but is not ready")
        return node.tasks[task.part]
