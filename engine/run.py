"""The state machine of one job: reports in, commands out; no IO, no clock, no thread (law 2).

The states of a job are in :mod:`~qoop.engine.state`.

Who calls what: a driver gives events to `handle`, obeys the commands that come back, shows `ready` to a
scheduler, applies its grants with `grant`, and passes the time (seconds of any clock) to each of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import takewhile
from math import floor
from typing import TYPE_CHECKING

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
from qoop.engine.demand import Demands
from qoop.engine.events import (
    Begun,
    CallsSeen,
    CapacityNotice,
    CheckpointLost,
    CheckpointSaved,
    Command,
    Committed,
    Demand,
    Event,
    MachineJoined,
    MachineLost,
    Queued,
    Regrant,
    Release,
    Running,
    ShareChanged,
    SlotsChanged,
    Start,
    Stop,
    TaskFailed,
    TaskRegranted,
    TaskStopped,
    TaskSucceeded,
    WorkSeen,
)
from qoop.engine.frontier import Frontier, StageNode, TaskNode
from qoop.engine.history import (
    Began,
    Called,
    CapacityAnnounced,
    CapacityTold,
    Coming,
    Continued,
    DeadlineTold,
    Decided,
    Ended,
    Failed,
    Lost,
    MemoryExhausted,
    MemoryRaised,
    NotContinued,
    NotSaved,
    Record,
    Redone,
    Regranted,
    Released,
    Saved,
    ShareTold,
    StageDone,
    Started,
    Stopped,
    Stopping,
    Succeeded,
    Switched,
    Waiting,
    mentions,
    not_saved,
    size,
)
from qoop.engine.progress import Finished, Progress, fraction_of, stages_of, weights_of
from qoop.engine.state import TRANSITIONS, USUAL_LIMITS, Attempt, Limits, Saving, State
from qoop.engine.task import AttemptId, CheckpointKey, Content, JobId, MachineId, TaskAccount, TaskId, TaskSpec
from qoop.planner.packing import duration_ratio
from qoop.planner.plan import Plan, Resources, Stage, StageId, read_by

if TYPE_CHECKING:
    from qoop.engine.node_queues.ticket import JobLeft


class Run:
    """One run of a query. Public attributes are for reading only.

    tables: the pinned tables by name. settings: SET options besides those of the plan.
    durable: outputs must survive the process. saving: which stages' need, of a plan; None: all.
    functions: of Python, that its stages may call.
    last_resort: the plan that it goes over to, once and for all, where a stage fails by what it computes: one plan may
    evaluate what another need not, as an expression over rows that a join drops. None: it fails.
    `settled`: it runs by its last resort. `plans` are those it was given, in order: the n-th is the one of the record
    `Switched` with number n.
    `present_bytes` is the size of the outputs that there are.
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
        last_resort: Plan | None = None,
    ) -> None:
        self.job = job
        self.state = State.SWITCHING
        self.error: QoopError | None = None
        self.share: Resources | None = None
        self._coming: Coming = ()
        self.history: list[Record] = []
        self.plans: list[Plan] = []
        self._tables = tables
        self._settings = settings
        self._durable = durable
        self._saving = saving
        self._functions = functions
        self._last_resort = last_resort
        self.settled = False
        self._saved: tuple[Plan, frozenset[StageId]] | None = None
        self._limits = limits
        self._demands = Demands(limits.min_memory, limits.most_memory)
        self._data_locality = DataLocality() if limits.near else None
        self._shown: dict[StageNode, tuple[int, tuple[Resources, float], Demand]] = {}
        self._ready_now: tuple[Demand, ...] = ()
        self._ready_version = (-1, -1, -1)  # of the frontier, the demands and what is exhausted, when that was
        self._frontier: Frontier | None = None
        self._present: dict[CheckpointKey, Committed] = {}
        self.present_bytes = 0
        self._facts: dict[CheckpointKey, Committed] = {}
        self._accounts: dict[CheckpointKey, TaskAccount] = {}  # of the outputs made here
        self._spent: dict[Content, float] = {}
        self._useful: frozenset[Content] | None = None
        self._exhausted: dict[Content, OutOfMemory] = {}
        self._attempts: dict[int, Attempt] = {}
        self._outside: dict[CheckpointKey, float] = {}  # the slot seconds of outputs that were there before
        self._counted: frozenset[CheckpointKey] = frozenset()  # those of them that `Continued` counts
        self._all_saved = True
        self._slowed = 1.0
        self._strays: set[CheckpointKey] = set()
        self._failures: dict[CheckpointKey, int] = {}
        self._revocations: dict[CheckpointKey, int] = {}
        self._losses: dict[CheckpointKey, int] = {}
        self._on_hold = False
        self._outcome: State | None = None
        self._began: float | None = None
        self._next_attempt = 1
        self._switches = 0
        self._now = self._at = 0.0  # seconds of the clock, and since it began
        self._commands: list[Command] = []

    # --- what the driver calls ------------------------------------------------------------------------------

    def hold(self) -> None:
        """Start nothing new until `go_on`, whichever plan comes meanwhile; attempts under way go on."""
        self._on_hold = True
        if self.state is State.RUNNING:
            self._move(State.SWITCHING)

    def go_on(self) -> None:
        """Start what is ready again."""
        self._on_hold = False
        if self.state is State.SWITCHING and self._frontier is not None:
            self._move(State.RUNNING)

    def switch(self, plan: Plan, found: Iterable[Committed] = (), *, now: float) -> list[Command]:
        """Start the plan, or change to it: run what its root needs beyond the checkpoints there are.

        found: checkpoints from outside; those this run has already need not be named. Attempts that the plan does
        not need, or would make of other things, are stopped; those that it shares go on. What depends on a
        non-deterministic stage (law 12) is taken over only where the plan stays the same. A settled run keeps its plan.
        Raises PlanError if a stage reads a table that the job does not have.
        """
        self._tick(now)
        if self._outcome is None and not self.state.final and not self.settled:
            self._change(plan, found)
        return self._flush()

    def _change(self, plan: Plan, found: Iterable[Committed] = (), why: str = "") -> None:
        """As `switch`, while an event is taken."""
        if self.state is State.RUNNING:
            self._move(State.SWITCHING)
        self._take_found(found)  # first, since they are released at the end, however it comes
        self._need_tables(plan)
        same = self._frontier is not None and self._frontier.plan == plan
        if not same:
            self._drop_dependents()
        busy = {attempt.key for attempt in self._attempts.values()}
        before, self._frontier = self._frontier, Frontier(plan, self._present, busy, reuse_dependents=same)
        if same and before is not None:
            self._frontier.remember_made(before)
        self.plans.append(plan)
        self._demands.forget()
        self._shown.clear()
        self._ready_version = (-1, -1, -1)
        self._useful = None  # until `keep_only` is told what the plans before this one have put out for others
        self._release([key for key in self._present if self._useless(key)])
        if not self._on_hold:
            self._move(State.RUNNING)
        self._stop_useless()
        if before is not None and not same:
            self._stop_otherwise_made(before)
        self._record_switch(why)
        self._clear_up()

    def lacks(self, keys: Iterable[CheckpointKey]) -> list[CheckpointKey]:
        """Those of the keys that it neither holds nor makes under the plan that runs."""
        return [key for key in keys if key not in self._present and self._node(key) is None]

    def adopt(self, found: Iterable[Committed], *, now: float) -> None:
        """Hold outputs that were found outside and that it `lacks`: plans that it may change to can use them."""
        self._tick(now)
        self._take_found(found)

    def keep_only(self, useful: frozenset[Content], *, now: float) -> list[Command]:
        """Of the outputs that the plan needs no more, keep these alone (where `Limits.keep_checkpoints` says to)."""
        self._tick(now)
        self._useful = useful
        if not self.ending:
            self._release([key for key in self._present if self._useless(key)])
        return self._flush()

    @property
    def continued(self) -> bool:
        """True if a plan of it began with outputs that were there before."""
        return bool(self._counted)

    def note(self, record: Decided | DeadlineTold | NotContinued, *, now: float) -> None:
        """Put down what was decided about this job's plan, or is known of its deadline or of an earlier run; `at` is
        filled in."""
        self._tick(now)
        self.history.append(replace(record, at=self._at))

    def handle(self, *events: Event, now: float) -> list[Command]:
        """Take note of what happened and return what is to be done about it."""
        self._tick(now)
        for event in events:
            if self.state.final:
                self._take_late(event)
            else:
                self._take(event)
                self._clear_up()
        return self._flush()

    def ready(self) -> tuple[Demand, ...]:
        """The next ready task of every stage that has one, with the least resources it needs.

        Longest estimated path to the end of the job first, then plan order. A demand never exceeds every
        empty machine: what fits none asks for all that the one with the most memory has.
        """
        if self._frontier is None or self._outcome is not None or self.state is not State.RUNNING:
            return ()
        version = self._frontier.changes, self._demands.changes, len(self._exhausted)
        if version != self._ready_version:
            self._ready_version = version
            stages = self._frontier.ready_stages()
            if self._exhausted:
                stages = [node for node in stages if node.content not in self._exhausted]
            self._ready_now = tuple(map(self._demand, stages))
        return self._ready_now

    def _demand(self, node: StageNode) -> Demand:
        """The demand of a stage's next ready task; made again only if it has changed, for it is asked for often."""
        part, asked = node.next_ready().part, self._demands.asked(node)
        known = self._shown.get(node)
        if known is None or known[0] != part or known[1] is not asked:
            demand = Demand(self.job, TaskId(self.job, node.stage.id, part), *asked)
            known = self._shown[node] = part, asked, demand
        return known[2]

    def grant(
        self, task: TaskId, machine: MachineId, resources: Resources, extra: bool = False, *, now: float
    ) -> Start:
        """Begin an attempt at a ready task with these resources, or at another of its stage whose input is nearer.
        extra: on a slot that the machine has not got. Raises PlanError if the task is not ready."""
        self._tick(now)
        node = self._ready_node(task)
        if self._data_locality is not None:
            node = self._data_locality.nearest(node, machine, self._plan_frontier, self._present)
            task = replace(task, part=node.part)
        attempt = Attempt(
            AttemptId(task, self._next_attempt), node.key, node.stage, machine, resources,
            started=now, most=node.stage.stage.elastic_slots, extra=extra, since=now, granted=now,
        )  # fmt: skip
        self._next_attempt += 1
        self._attempts[attempt.id.number] = attempt
        assert self._frontier is not None
        self._frontier.begin(node)
        self.history.append(Started(self._at, attempt.id, node.key, machine, resources, extra))
        return Start(machine, self._spec(attempt, node))

    def seconds_of(self, task: TaskId) -> float:
        """Seconds that a task of the plan should take: as long as the longest of its stage that has ended; by estimate
        while none has."""
        return self._demands.seconds(self._plan_frontier.nodes[task.stage])

    def path_of(self, task: TaskId) -> float:
        """Estimated seconds from the beginning of a task of the plan to the end of the job, on the longest path."""
        return self._plan_frontier.nodes[task.stage].tail

    def most_slots(self, task: TaskId) -> float:
        """The slots that a task can use: of the share, where it begins on any; else what it asks for."""
        stage = self.plan.by_id[task.stage]
        return self.slots_of_share(stage.slots) if stage.begins_on_any else 0.0

    def give_up(self, attempts: Iterable[AttemptId], why: str, *, now: float) -> list[Command]:
        """Stop these attempts; once they have reported, their tasks are ready again."""
        self._tick(now)
        for id in attempts:
            attempt = self._attempts.get(id.number)
            if attempt is not None:
                self._stop(attempt, why)
        return self._flush()

    def regrant(self, id: AttemptId, resources: Resources, *, now: float) -> list[Command]:
        """Let an elastic attempt go on with other resources, as soon as it says that it has them."""
        self._tick(now)
        attempt = self._attempts.get(id.number)
        if attempt is None or attempt.stopping or not attempt.most:
            return []
        attempt.asked = True
        return [Regrant(id, resources)]

    def elastic(self) -> tuple[Running, ...]:
        """Attempts that can be granted other resources now."""
        return tuple(
            self._running(attempt)
            for attempt in self._attempts.values()
            if attempt.most and not (attempt.stopping or attempt.extra or attempt.asked)
        )

    def settle(self, id: AttemptId) -> None:
        """An attempt that ran on an extra slot has one of its machine's from now on."""
        attempt = self._attempts.get(id.number)
        if attempt is not None:
            attempt.extra = False

    def slots_of_share(self, most: float) -> float:
        """The slots that a task which can use `most` has of the share: one at least."""
        return max(1.0, min(float(most), floor(self.share.cpu) if self.share is not None else 1.0))

    def cancel(self, *, now: float, error: Cancelled | None = None) -> list[Command]:
        """Stop everything; the job is CANCELLED, with this error, when all attempts have reported."""
        self._tick(now)
        self._decide(State.CANCELLED, error or Cancelled("the job was cancelled"))
        return self._flush()

    def fail(self, error: QoopError, *, now: float) -> list[Command]:
        """Stop everything; the job is FAILED with this error when all attempts have reported."""
        self._tick(now)
        self._decide(State.FAILED, error)
        return self._flush()

    # --- what others may ask --------------------------------------------------------------------------------

    @property
    def ending(self) -> bool:
        """The outcome is decided; it is final once `state.final`."""
        return self._outcome is not None

    @property
    def plan(self) -> Plan:
        """The plan that runs. Raises PlanError before the first switch."""
        return self._plan_frontier.plan

    @property
    def exhausted(self) -> frozenset[Content]:
        """The contents that tasks failed to make with all the memory there is."""
        return frozenset(self._exhausted)

    @property
    def stuck(self) -> OutOfMemory | None:
        """The error that keeps the plan from its end; None if there is none."""
        if self._frontier is not None and not self.ending:
            for node in self._frontier.stages:
                error = self._exhausted.get(node.content)
                if error is not None and any(task.active for task in node.tasks):
                    return error
        return None

    @property
    def outputs(self) -> tuple[Committed, ...]:
        """The root's outputs in order of parts, as far as they are present."""
        tasks = self._plan_frontier.root.tasks
        return tuple(self._present[task.key] for task in tasks if task.present)

    @property
    def first_outputs(self) -> tuple[Committed, ...]:
        """The root's outputs from its first part on, up to the first that is not present."""
        if self._frontier is None:
            return ()
        present = takewhile(lambda task: task.present, self._frontier.root.tasks)
        return tuple(self._present[task.key] for task in present)

    @property
    def lasting(self) -> bool:
        """True if the root, run again, would put out the same: it depends on no non-deterministic stage (law 12)."""
        return self._frontier is not None and not self._frontier.root.dependent

    @property
    def alive(self) -> tuple[AttemptId, ...]:
        """Attempts that have not reported their end."""
        return tuple(attempt.id for attempt in self._attempts.values())

    @property
    def stopping(self) -> bool:
        """True while an attempt that was told to stop has not reported its end."""
        return any(attempt.stopping for attempt in self._attempts.values())

    @property
    def began(self) -> float:
        """The time of the first message, at which the seconds of the history begin."""
        return self._began if self._began is not None else self._now

    def running(self) -> tuple[Running, ...]:
        """Attempts that have not been told to stop, in the order in which they began."""
        return tuple(self._running(attempt) for attempt in self._attempts.values() if not attempt.stopping)

    def _running(self, attempt: Attempt) -> Running:
        seconds = self._demands.seconds(attempt.stage)
        return Running(
            attempt.id, attempt.machine, attempt.resources, attempt.started, seconds, attempt.most, attempt.extra,
            attempt.queued,
        )  # fmt: skip

    def left(self) -> tuple[tuple[Stage, int], ...]:
        """Stages of the plan with tasks that have not ended, those that run included, and how many; in plan order."""
        stages = self._frontier.stages if self._frontier is not None and not self.ending else ()
        return tuple((node.stage, node.left) for node in stages if node.left)

    @property
    def job_left(self) -> JobLeft:
        """The work and the tasks that have not ended, as nodes are told where tasks wait there."""
        from qoop.engine.node_queues.ticket import JobLeft  # where tasks wait at nodes

        return JobLeft(self.work_left, sum(node.left for node in self._frontier.stages) if self._frontier else 0)

    @property
    def work_left(self) -> float:
        """Slot seconds of the tasks that have not ended, those that run included, by the plan's estimates."""
        return max(0.0, self._frontier.work) if self._frontier is not None and not self.ending else 0.0

    def progress(self) -> Progress:
        """The progress of the job."""
        if self._frontier is None:
            return Progress(self.state, 0.0, (), (), ())
        running = [attempt for attempt in self._attempts.values() if not attempt.stopping]
        return Progress(
            self.state,
            1.0 if self.state is State.SUCCEEDED else fraction_of(self._frontier, self._facts),
            stages_of(self._frontier, self._facts, {attempt.key: attempt.queued for attempt in running}),
            tuple(self._present.values()),
            tuple((attempt.key, attempt.started) for attempt in running),
        )

    def expected(self, now: float) -> Coming:
        """The shares that should come: (seconds from now, share)."""
        since = now - self.began
        return tuple((at - since, share) for at, share in self._coming if at > since)

    def finished(self, now: float) -> Finished:
        """The work so far, in the terms in which another plan may be judged."""
        frontier = self._plan_frontier
        dependent = {task.key for task in frontier.tasks() if task.stage.dependent}
        running: dict[Content, tuple[float, ...]] = {}
        weights: dict[Content, tuple[float, ...]] = {}
        slots: dict[Content, float] = {}
        seen: dict[Content, WorkSeen] = {}
        for attempt in self._attempts.values():
            if not attempt.stopping:
                content, spent = attempt.key.content, attempt.spent(now)
                if attempt.most:
                    there = self.slots_of_share(attempt.most)
                    spent *= duration_ratio(attempt.resources.cpu, there)
                elif attempt.stage.stage.whole:
                    slots[content] = attempt.resources.cpu
                if attempt.seen is not None:
                    seen[content] = attempt.seen
                running[content] = (*running.get(content, ()), spent)
                weights[content] = (*weights.get(content, ()), self._weight(attempt.key))
        return Finished(
            present=Counter(key.content for key in self._present if key not in dependent),
            spent=dict(self._spent),
            running=running,
            done={id: sum(not task.active for task in node.tasks) for id, node in frontier.nodes.items()},
            memory=dict(self._demands.raised),
            exhausted=self.exhausted,
            slots=slots,
            weights=weights,
            seen=seen,
            slowed=self._slowed,
        )

    def _weight(self, key: CheckpointKey) -> float:
        """The bytes that the task reads, as a multiple of those of a task of its stage in the mean."""
        task = self._node(key)
        if task is None or self._frontier is None:
            return 1.0
        weights = weights_of(task.stage, self._frontier, self._facts)
        return 1.0 if weights is None else weights[task.part]

    def story(self, key: CheckpointKey) -> str:
        """All that happened to one checkpoint, a sentence a line."""
        return "\n".join(str(record) for record in self.history if mentions(record, key))

    def check(self) -> None:
        """Raise AssertionError, with the story of a key where there is one, unless all invariants hold."""
        from qoop.engine.invariants import check_attempts, check_frontier  # tests ask

        attempts = tuple(self._attempts.values())
        check_attempts(attempts, self.story)
        assert self.present_bytes == sum(sum(one.bytes) for one in self._present.values())
        if self.state.final:
            assert not attempts, f"{self.job} has ended, but {self.alive} are alive"
            assert self.state is self._outcome
        if self.ending:
            assert not self.ready()
            assert all(attempt.stopping for attempt in attempts)
        elif self._frontier is not None:
            check_frontier(self._frontier, attempts, self._present, self._limits.keep_checkpoints, self.story)
            waiting = any(task.active for task in self._frontier.tasks())
            going_on = self.ready() or attempts or self.stuck or self.state is State.SWITCHING
            assert not waiting or going_on, f"{self.job}: work is left, but nothing is ready or running"

    # --- events ---------------------------------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        match event:
            case Queued(id):
                self._queued(id)
            case Begun(id):
                self._begun(id)
            case TaskSucceeded():
                self._succeeded(event)
            case CallsSeen(id, called) if id.task.job == self.job and id.number in self._attempts:
                self.history.append(Called(self._at, id, called))
            case WorkSeen(id) if id.task.job == self.job and id.number in self._attempts:
                self._attempts[id.number].seen, self._slowed = event, event.slowed
            case TaskFailed(id, error, retryable):
                self._failed(id, error, retryable)
            case TaskStopped(id):
                self._stopped(id)
            case TaskRegranted(id, resources):
                self._regranted(id, resources)
            case CheckpointLost(key):
                self._lost(key)
            case CheckpointSaved(jobs, key, bytes_, behind, kept, seconds, why) if self.job in jobs:
                self.history.append(Saved(self._at, key, bytes_, behind, kept, seconds))
                if why:
                    self._not_saved(bytes_, why)
            case MachineLost(machine):
                self._machine_lost(machine)
            case MachineJoined(machine, capacity) | SlotsChanged(machine, capacity):
                self._demands.machine(machine, capacity)
                if self._data_locality is not None:
                    self._data_locality.machine(machine, there=True)
                self._exhausted.clear()  # there may be more memory now
                why = event.why if isinstance(event, SlotsChanged) else ""
                self.history.append(CapacityTold(self._at, machine, capacity, why))
            case CapacityNotice(machine, capacity, moment):
                self._demands.expect_less(machine, capacity)
                self.history.append(CapacityAnnounced(self._at, machine, capacity, max(0.0, moment - self._now)))
            case ShareChanged(job, share, coming) if job == self.job:
                self.share = share
                self._coming = tuple((at - self.began, share) for at, share in coming)
                self.history.append(ShareTold(self._at, share, self._coming))

    def _take_late(self, event: Event) -> None:
        """Of a job that has ended nothing is told any more. What a late writer has left behind is given back; what is
        lost of the answer is no longer present."""
        if isinstance(event, TaskSucceeded) and event.committed.key not in self._present:
            self._commands.append(Release(self.job, (event.committed.key,)))
        elif isinstance(event, CheckpointLost):
            task = self._node(event.key)
            if self._drop(event.key) is not None and task is not None:
                self._plan_frontier.lose(task)

    def _queued(self, id: AttemptId) -> None:
        """A report that comes late, or twice, tells nothing new: what has begun cannot be queued again."""
        attempt = self._attempts.get(id.number)
        if attempt is not None and not attempt.queued and not attempt.begun:
            attempt.queued = True
            self.history.append(Waiting(self._at, id, attempt.key, attempt.machine))

    def _begun(self, id: AttemptId) -> None:
        attempt = self._attempts.get(id.number)
        if attempt is None or attempt.begun:
            return
        if attempt.queued:
            waited = self._now - attempt.granted
            self.history.append(Began(self._at, id, attempt.key, attempt.machine, waited))
        attempt.begin(self._now)

    def _succeeded(self, event: TaskSucceeded) -> None:
        """Take the output if it is new and may be used; give it back to the store if nobody will ever read it.

        A report of an attempt that is not alive (a duplicate, or of a machine thought lost) proves nothing:
        its output may have been released since. So it is given back, unless another attempt is about to put
        out the same.
        """
        id, committed, account = event.attempt, event.committed, event.account
        key = committed.key
        task = self._node(key)
        attempt = self._attempts.pop(id.number, None)
        taken = attempt is not None and not attempt.void and not self.ending and key not in self._present
        if attempt is not None and not (taken and task is not None):
            self._end(attempt)
        used = taken and task is not None and task.active
        if attempt is not None:
            self._demands.took(attempt.stage, committed.seconds)
            if self._data_locality is not None:
                self._data_locality.made(key, attempt.machine)
        self.history.append(Succeeded(self._at, id, committed, used, account, event.profile))
        if taken:
            self._add(committed)
            if account is not None:
                self._accounts[key] = account
            if task is not None:
                self._plan_frontier.succeed(task)
                self._note_done(task.stage)
            elif not self._keeps(key):
                self._release([key])
        elif key not in self._present:
            self._strays.add(key)
            if task is not None and task.stage.dependent:
                self._void_attempts_at(key)
            self._release_stray(key)

    def _void_attempts_at(self, key: CheckpointKey) -> None:
        """A store keeps the first of two equal outputs. A late output whose non-deterministic stage has run again is
        not equal, but could displace the one that is being put out under its key."""
        for attempt in self._attempts.values():
            if attempt.key == key:
                attempt.void = True
                self._stop(attempt, "an output that is not to be used came late")

    def _failed(self, id: AttemptId, error: QoopError, retryable: bool) -> None:
        attempt = self._end_attempt(id)
        if attempt is not None:
            self._note_failed(attempt, error, retryable)
            self._judge(attempt, error, retryable)

    def _note_failed(self, attempt: Attempt, error: QoopError, retryable: bool) -> None:
        self.history.append(Failed(self._at, attempt.id, attempt.key, error, retryable))
        self._release_stray(attempt.key)

    def _judge(self, attempt: Attempt, error: QoopError, retryable: bool) -> None:
        """Act on the failure of an attempt: the consequences for the job."""
        if attempt.stopping or self.ending:
            return
        if isinstance(error, OutOfMemory):
            self._raise_memory(attempt, error)
        elif isinstance(error, Revoked | CheckpointError):  # no fault of the task
            self._count(self._revocations, self._limits.max_revocations, attempt, error)
        elif retryable:
            self._count(self._failures, self._limits.max_attempts, attempt, error)
        elif self._last_resort is not None and self._may_go_over(attempt, error):
            self.settled = True
            self._change(self._last_resort, why=str(error))
        else:
            self._decide(State.FAILED, error)

    def _may_go_over(self, attempt: Attempt, error: QoopError) -> bool:
        """True if another plan may compute what this one cannot, and no row of the answer can have been handed out."""
        computing = type(error) is ExecutionError and not attempt.stage.stage.whole
        return computing and not self.settled and not self.first_outputs

    def _stopped(self, id: AttemptId) -> None:
        attempt = self._end_attempt(id)
        if attempt is not None:
            self.history.append(Stopped(self._at, id, attempt.key))
            self._release_stray(attempt.key)

    def _regranted(self, id: AttemptId, resources: Resources) -> None:
        attempt = self._attempts.get(id.number)
        if attempt is None:
            return
        if attempt.resources != resources:
            self.history.append(Regranted(self._at, id, attempt.key, attempt.machine, resources))
        attempt.regrant(resources, self._now)

    def _lost(self, key: CheckpointKey) -> None:
        if self._drop(key) is None:
            return
        self.history.append(Lost(self._at, key))
        task = self._node(key)
        if task is not None:
            self._plan_frontier.lose(task)
            if self._outcome is State.SUCCEEDED and not self.state.final:
                self._outcome = None  # it was part of the answer
        losses = self._losses[key] = self._losses.get(key, 0) + 1
        if losses >= self._limits.max_revocations:
            self._decide(State.FAILED, CheckpointError(f"checkpoint {key} was made and lost {losses} times"))

    def _machine_lost(self, machine: MachineId) -> None:
        self._demands.machine(machine, None)
        if self._data_locality is not None:
            self._data_locality.machine(machine, there=False)
        self.history.append(CapacityTold(self._at, machine, None))
        error = Revoked(f"machine {machine} was lost")
        lost = [attempt for attempt in self._attempts.values() if attempt.machine == machine]
        for attempt in lost:
            self._end_attempt(attempt.id)
            self._note_failed(attempt, error, retryable=True)
        for attempt in lost:  # now that none of them is left to be told to stop
            self._judge(attempt, error, retryable=True)

    def _count(self, counts: dict[CheckpointKey, int], limit: int, attempt: Attempt, error: QoopError) -> None:
        failures = counts[attempt.key] = counts.get(attempt.key, 0) + 1
        if failures >= limit:
            what = f"{_name(attempt.stage.stage)} failed {failures} times in task {attempt.id.task.part}; last: {error}"
            final = ExecutionError(what)
            final.__cause__ = error
            self._decide(State.FAILED, final)

    def _raise_memory(self, attempt: Attempt, error: OutOfMemory) -> None:
        """Ask for more memory next time; give up when the task had a whole machine.

        A single value of twice a machine's memory fails the job, since every plan computes that value.
        """
        stage, had = attempt.stage.stage, attempt.resources.memory
        wanted = self._demands.raise_memory(attempt.stage, max(had, error.single / 2))
        if wanted is not None:
            self.history.append(MemoryRaised(self._at, stage.id, had, wanted))
            return
        if error.single / 2 > had:
            needs = (
                f"{_name(stage)} makes a value of {size(error.single)}, for which no machine has the memory: {error}"
            )
            final = OutOfMemory(needs)
            final.__cause__ = error
            self._decide(State.FAILED, final)
            return
        final = OutOfMemory(
            f"{_name(stage)} needs more than {size(had)} of memory for one task, which is all "
            f"{'it may have' if had >= self._limits.most_memory else 'the largest machine has'}: {error}"
        )
        final.__cause__ = error
        if self._limits.leave_exhausted:
            self._exhausted[attempt.key.content] = final
            self.history.append(MemoryExhausted(self._at, stage.id, had))
        else:
            self._decide(State.FAILED, final)

    # --- consequences ---------------------------------------------------------------------------------------

    def _clear_up(self) -> None:
        """Stop and release what the last event left without use; end if all is done."""
        if self._frontier is None or self.state.final:  # then nothing is left
            return
        if self._frontier.surplus or self._frontier.spare or self._frontier.spoiled:
            self._drain(*self._frontier.drain())
        if self._frontier.root.complete:
            self._decide(State.SUCCEEDED, None)
        elif self.ending:
            self._conclude()

    def _drain(self, surplus: list[TaskNode], spare: list[TaskNode], spoiled: list[TaskNode]) -> None:
        if spoiled:
            self._spoil(spoiled)
        if surplus:
            self._stop_useless()
        if spare:
            idle = [task.key for task in spare if task.present and not task.wanted and not self._keeps(task.key)]
            self._release(dict.fromkeys(idle))

    def _stop_useless(self) -> None:
        """Stop attempts at what the plan does not (any longer) need."""
        for attempt in self._attempts.values():
            task = self._node(attempt.key)
            if task is None or not task.active:
                self._stop(attempt, "the plan does not need it")

    def _stop_otherwise_made(self, before: Frontier) -> None:
        """Stop attempts at what the plan makes of other things than the one before it did.

        One task may make in an hour, of the tables, what another makes in a second of finished stages.
        """
        assert self._frontier is not None
        for attempt in self._attempts.values():
            old, new = before.by_key.get(attempt.key), self._node(attempt.key)
            if old is None or new is None:
                continue
            if read_by(old.stage.stage, before.plan) != read_by(new.stage.stage, self._frontier.plan):
                self._stop(attempt, "the plan makes it of other things")

    def _spoil(self, spoiled: list[TaskNode]) -> None:
        keys = {task.key for task in spoiled}
        for attempt in self._attempts.values():
            if attempt.key in keys:
                attempt.void = True
                self._stop(attempt, "what it reads is being made again")
        self._release([key for key in keys if key in self._present])
        stages = dict.fromkeys(task.stage.stage.id for task in spoiled)
        self.history.append(Redone(self._at, tuple(stages), tuple(keys)))

    def _stop(self, attempt: Attempt, reason: str) -> bool:
        if attempt.stopping:
            return False
        attempt.stopping = True
        self._commands.append(Stop(attempt.id))
        self.history.append(Stopping(self._at, attempt.id, attempt.key, reason))
        return True

    def _release_stray(self, key: CheckpointKey) -> None:
        """Release an output that was reported but not taken, once no attempt at the same key is alive."""
        if key in self._strays and all(attempt.key != key for attempt in self._attempts.values()):
            self._strays.discard(key)
            self._release([key])

    def _release(self, keys: Iterable[CheckpointKey]) -> None:
        """Let go of these outputs, whether they are present or were just reported."""
        gone = tuple(keys)
        for key in gone:
            self._drop(key)
            task = self._node(key)
            if task is not None and task.present:
                self._plan_frontier.release(task)
        if gone:
            self._commands.append(Release(self.job, gone))
            self.history.append(Released(self._at, gone))

    def _decide(self, outcome: State, error: QoopError | None) -> None:
        if self._outcome is None:
            self._outcome = outcome
            self.error = error
            for attempt in self._attempts.values():
                self._stop(attempt, f"the job is {outcome}")
        self._conclude()

    def _conclude(self) -> None:
        """Enter the decided state once nothing is alive."""
        if self._outcome is None or self._attempts or self.state.final:
            return
        answer = {fact.key for fact in self.outputs} if self._outcome is State.SUCCEEDED else set()
        self._release([key for key in self._present if key not in answer])
        self._move(self._outcome)
        self.history.append(Ended(self._at, self._outcome.value, self.error))

    # --- helpers --------------------------------------------------------------------------------------------

    @property
    def _plan_frontier(self) -> Frontier:
        if self._frontier is None:
            raise PlanError(f"job {self.job} has not been given a plan yet")
        return self._frontier

    def _tick(self, now: float) -> None:
        self._now = now
        if self._began is None:
            self._began = now
        self._at = now - self._began

    def _flush(self) -> list[Command]:
        if not self._commands:
            return []
        commands, self._commands = self._commands, []
        return commands

    def _move(self, state: State) -> None:
        if state not in TRANSITIONS[self.state]:
            raise PlanError(f"job {self.job} is {self.state} and cannot become {state}")
        self.state = state

    def _node(self, key: CheckpointKey) -> TaskNode | None:
        return self._frontier.by_key.get(key) if self._frontier is not None else None

    def _end_attempt(self, id: AttemptId) -> Attempt | None:
        attempt = self._attempts.pop(id.number, None)
        if attempt is not None:
            self._end(attempt)
        return attempt

    def _end(self, attempt: Attempt) -> None:
        """The attempt is alive no more."""
        task = self._node(attempt.key)
        if task is not None:
            self._plan_frontier.end(task)

    def _useless(self, key: CheckpointKey) -> bool:
        """True if a checkpoint need not be kept for the plan (or, if all are kept, cannot serve it)."""
        task = self._node(key)
        if task is not None and not task.present and task.stage.dependent:
            return True
        return not self._keeps(key) and (task is None or not task.wanted)

    def _keeps(self, key: CheckpointKey) -> bool:
        """True if an output is kept even where the plan needs it no more."""
        return self._limits.keep_checkpoints and (self._useful is None or key.content in self._useful)

    def _take_found(self, found: Iterable[Committed]) -> None:
        for committed in found:
            if committed.key not in self._present:
                self._add(committed)
                self._outside[committed.key] = max(committed.seconds, committed.cpu_seconds)

    def _add(self, committed: Committed) -> None:
        key = committed.key
        self._present[key] = self._facts[key] = committed
        self.present_bytes += sum(committed.bytes)
        self._strays.discard(key)
        content = key.content
        self._spent[content] = self._spent.get(content, 0.0) + committed.seconds

    def _drop(self, key: CheckpointKey) -> Committed | None:
        """Forget that an output is present; None: it is not."""
        committed = self._present.pop(key, None)
        if committed is not None:
            self.present_bytes -= sum(committed.bytes)
        return committed

    def _note_done(self, node: StageNode) -> None:
        if node.complete:
            facts = [self._facts[task.key] for task in node.tasks]
            accounts = [self._accounts[task.key] for task in node.tasks if task.key in self._accounts]
            self.history.append(
                StageDone(
                    self._at,
                    node.stage.id,
                    facts[0].key.content,
                    rows=sum(sum(fact.rows) for fact in facts),
                    bytes=sum(sum(fact.bytes) for fact in facts),
                    seconds=sum(fact.seconds for fact in facts),
                    estimated=node.stage.estimate.rows,
                    account=sum(accounts, TaskAccount()) if accounts else None,
                )
            )

    def _drop_dependents(self) -> None:
        """Drop non-deterministic stages and what depends on them: another plan must not meet their outputs."""
        if self._frontier is None:
            return
        dependent = {task.key for task in self._frontier.tasks() if task.stage.dependent}
        for attempt in self._attempts.values():
            if attempt.key in dependent:
                attempt.void = True
                self._stop(attempt, "it rests on data that only its own plan may use")
        self._release([key for key in self._present if key in dependent])

    def _need_tables(self, plan: Plan) -> None:
        for stage in plan.stages:
            for item in stage.table_inputs:
                if item.table not in self._tables:
                    known = ", ".join(sorted(self._tables)) or "none"
                    raise PlanError(f"{_name(stage)} reads table {item.table}; the job has {known}")

    def _record_switch(self, why: str) -> None:
        self._switches += 1
        tasks = list(self._plan_frontier.tasks())
        carried = tuple(attempt.id for attempt in self._attempts.values() if not attempt.stopping)
        stopped = tuple(attempt.id for attempt in self._attempts.values() if attempt.stopping)
        active, kept = sum(task.active for task in tasks), sum(task.present for task in tasks)
        self.history.append(Switched(self._at, self._switches, active, kept, carried, stopped, why))
        self._note_continued(active)

    def _note_continued(self, left: int) -> None:
        """The plan begins: note the outputs that were there before, unless all are noted. left: tasks to run."""
        keys = self._plan_frontier.by_key
        found = frozenset(key for key in self._outside if key in keys)
        if not found <= self._counted:
            self._counted |= found
            seconds = sum(self._outside[key] for key in found) / max(1.0, self._demands.slots)
            self.history.append(Continued(self._at, len(found), len(keys), left, seconds))

    def _not_saved(self, bytes_: int, why: str) -> None:
        """An output does not outlive the process, though the job is durable."""
        if self._all_saved:
            self._all_saved = False
            self.history.append(NotSaved(self._at, bytes_, why))
        if self._limits.all_saved:
            self._decide(State.FAILED, DiskFull(not_saved(bytes_, why)))

    def _ready_node(self, task: TaskId) -> TaskNode:
        node = self._plan_frontier.nodes.get(task.stage)
        if node is None or not 0 <= task.part < len(node.tasks) or not node.tasks[task.part].ready:
            raise PlanError(f"task {task} was granted resources but is not ready")
        return node.tasks[task.part]

    def _spec(self, attempt: Attempt, task: TaskNode) -> TaskSpec:
        frontier = self._plan_frontier
        stage = task.stage.stage
        return TaskSpec(
            attempt=attempt.id,
            stage=stage,
            key=task.key,
            inputs=frontier.inputs(task),
            tables={item.table: self._tables[item.table] for item in stage.table_inputs},
            resources=attempt.resources,
            settings=frontier.plan.settings + self._settings,
            # a non-deterministic output is worth nothing to another process
            durable=self._durable and not task.stage.dependent and self._saves(stage.id),
            shared=not task.stage.dependent,
            answer=task.stage is frontier.root,
            locked=self._limits.locked,
            functions=self._functions,
            most=attempt.most,
            extra=attempt.extra,
            profiled=self._limits.profiled,
            path=task.stage.tail,
        )

    def _saves(self, stage: StageId) -> bool:
        """True if the outputs of a stage of this plan are to survive the process."""
        if self._saving is None:
            return True
        if self._saved is None or self._saved[0] is not self.plan:
            self._saved = (self.plan, self._saving.stages(self.plan, self.share or Resources(1.0)))
        return stage in self._saved[1]


def _name(stage: Stage) -> str:
    return f"stage {stage.id} ({stage.label})" if stage.label else f"stage {stage.id}"
