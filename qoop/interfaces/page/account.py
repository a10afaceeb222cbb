"""The history of one job, added up record by record: tasks, finished parts, plans, shares, decisions.

Pure: records in, and an account that can be looked at after any of them. So a job that runs, one that has ended and one
of a trace at any time of it are the same to those who look.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from qoop.adaptive.replanning.end_seconds import EndSeconds
from qoop.adaptive.replanning.slowdown import NEVER_OVER
from qoop.catalog.errors import QoopError, Revoked, Suspended
from qoop.engine.events import Committed
from qoop.engine.history import (
    Began,
    CapacityAnnounced,
    CapacityReported,
    Continued,
    DeadlineReported,
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
    ShareReported,
    Started,
    Stopped,
    Succeeded,
    Switched,
    Waiting,
)
from qoop.engine.task import (
    AttemptId,
    CheckpointKey,
    Content,
    MachineId,
    TaskAccount,
    TaskProfile,
    content_of,
    together,
)
from qoop.planner.packing import on_threads
from qoop.planner.plan import Plan, Resources, Stage

_STEP = 0.02
"""The part of a task that must be over before that is told again."""

_EVENTS = (
    CapacityAnnounced, CapacityReported, Continued, DeadlineReported, Ended, Lost, MemoryExhausted, MemoryRaised,
    NotContinued, Redone, NotSaved,
)  # fmt: skip


@dataclass(slots=True)
class Task:
    """One attempt. begun: when it was granted its slots, or waited no more at its machine; state: QUEUED until then.
    plan: the place of the plan it was started for among those that ran. version: of the account, when
    it changed last. fraction: of its work that is done, by the time it has taken. account: its seconds, once it is
    done. profile: what DuckDB told of it, under EXPLAIN ANALYZE.
    """

    attempt: AttemptId
    key: CheckpointKey
    plan: int
    machine: MachineId
    resources: Resources
    begun: float
    version: int
    ended: float | None = None
    state: str = "RUNNING"
    made: Committed | None = None
    fraction: float | None = None
    error: str | None = None
    account: TaskAccount | None = None
    profile: TaskProfile | None = None


@dataclass(slots=True)
class Parts:
    """The parts of the output of a stage that are present. seconds, rows, bytes: of all
    that was made of it."""

    present: set[int] = field(default_factory=set)
    seconds: float = 0.0
    rows: int = 0
    bytes: int = 0
    profile: TaskProfile | None = None
    begun: bool = False
    plan: int = 0


class Account:
    """A job, as far as records were `taken`. Times are seconds since the job began.

    names: of the plans that ran, in order. version: counts changes, so that who has seen the account before can ask for
    the tasks that have changed since.
    """

    def __init__(self) -> None:
        self.taken = 0
        self.version = 0
        self.state = "STARTING"
        self.error: QoopError | None = None
        self.ended: float | None = None
        self.first_task: float | None = None
        self.names: list[str] = []
        self.tasks: dict[AttemptId, Task] = {}
        self.running: dict[AttemptId, Task] = {}
        self.parts: dict[Content, Parts] = {}
        self.shares: list[tuple[float, Resources]] = []
        self.machines: dict[MachineId, Resources] = {}
        self.decisions: list[Decided] = []
        self.events: list[Record] = []
        self._chosen: str | None = None
        self._carried = 0

    def take(self, records: Iterable[Record]) -> None:
        """Add what happened next."""
        for record in records:
            self.taken += 1
            self.version += 1
            self._take(record)

    def go_on(self, at: float, plan: Plan | None, fraction: float | None = None) -> None:
        """Tasks that run are as far as the time that they have taken tells.

        at: seconds since the job began. plan: the one that runs. fraction: of its work that is done, if that is known:
        DuckDB's own plan is one task.
        """
        for task in self.running.values():
            stage = plan.by_id.get(task.attempt.task.stage) if plan is not None and task.plan == self.plan else None
            if stage is None or task.state == "QUEUED":
                continue
            part = _part_over(stage, at - task.begun, task.resources.cpu)
            if stage.whole and fraction is not None:
                part = fraction
            if abs(part - (task.fraction or 0.0)) >= _STEP:
                self.version += 1
                task.fraction, task.version = part, self.version

    @property
    def plan(self) -> int:
        """The place of the plan that runs."""
        return len(self.names) - 1

    @property
    def waits(self) -> bool:
        """True if it has a plan, and no slot has begun a task of it."""
        return bool(self.names) and all(task.state == "QUEUED" for task in self.tasks.values())

    @property
    def used(self) -> Resources:
        """The resources of running tasks."""
        return sum((task.resources for task in self.running.values()), Resources())

    def _take(self, record: Record) -> None:
        match record:
            case Switched():
                self._switch()
            case Started(at, attempt, key, machine, resources):
                self._start(Task(attempt, key, self.plan, machine, resources, at, self.version))
            case Waiting(_, attempt):
                if attempt in self.running:
                    self._changed(self.running[attempt]).state = "QUEUED"
            case Began(at, attempt):
                if attempt in self.running:
                    self._began(self._changed(self.running[attempt]), at)
            case Regranted(_, attempt, _, _, resources):
                if attempt in self.running:
                    self._changed(self.running[attempt]).resources = resources
            case Succeeded(at, attempt, committed, used, spent, profile):
                if attempt in self.running:
                    self.running[attempt].account, self.running[attempt].profile = spent, profile
                self._make(committed, profile) if used else None
                self._end(attempt, at, "SUCCEEDED" if used else "STOPPED", committed)
            case Failed(at, attempt, _, error):
                self._end(attempt, at, "STOPPED" if isinstance(error, Revoked) else "FAILED", None, str(error))
            case Stopped(at, attempt):
                self._end(attempt, at, "STOPPED")
            case Lost(_, key):
                self._lose([key])
            case Redone(_, _, keys):
                self._lose(keys)
            case ShareReported(at, share):
                self.shares.append((at, share))
            case CapacityReported(_, machine, capacity):
                self.machines.pop(machine, None)
                if capacity is not None:
                    self.machines[machine] = capacity
            case Decided():
                self.decisions.append(record)
                self._chosen = record.chosen if record.switched else None
            case Ended(at, state, error):
                self.ended, self.error = at, error
                self.state = "SUSPENDED" if isinstance(error, Suspended) else state
        if isinstance(record, _EVENTS):
            self.events.append(record)

    def _switch(self) -> None:
        """A plan begins. What was made of the same under another stays, and is carried over."""
        self.state = "RUNNING"
        self.names.append(self._chosen or ("A" if not self.names else f"no. {len(self.names) + 1}"))
        self._chosen = None

    def carry(self, plans: Sequence[Plan]) -> None:
        """Mark the tasks of earlier plans whose outputs the last plan has taken over."""
        if self.plan <= self._carried or len(plans) <= self.plan:
            return
        self._carried = self.plan
        wanted = {content_of(stage) for stage in plans[self.plan].stages}
        for task in self.tasks.values():
            if task.plan < self.plan and task.state == "SUCCEEDED" and task.key.content in wanted:
                self.version += 1
                task.state, task.version = "CARRIED", self.version

    def _start(self, task: Task) -> None:
        if self.first_task is None:
            self.first_task = task.begun
        self.tasks[task.attempt] = self.running[task.attempt] = task
        self._of(task.key).begun = True

    def _began(self, task: Task, at: float) -> None:
        if task.begun == self.first_task:
            began = [one.begun for one in self.tasks.values() if one is not task and one.state != "QUEUED"]
            self.first_task = min(began, default=at)
        task.begun, task.state = at, "RUNNING"

    def _end(
        self, attempt: AttemptId, at: float, state: str, made: Committed | None = None, error: str | None = None
    ) -> None:
        task = self.running.pop(attempt, None) or self.tasks.get(attempt)
        if task is not None:
            self._changed(task)
            task.ended, task.state, task.made, task.error = at, state, made, error

    def _changed(self, task: Task) -> Task:
        task.version = self.version
        return task

    def _of(self, key: CheckpointKey) -> Parts:
        found = self.parts.get(key.content)
        if found is None:
            found = self.parts[key.content] = Parts(plan=self.plan)
        return found

    def _make(self, made: Committed, profile: TaskProfile | None) -> None:
        parts = self._of(made.key)
        parts.present.add(made.key.part)
        parts.seconds += made.seconds
        parts.rows += sum(made.rows)
        parts.bytes += sum(made.bytes)
        parts.profile = together([parts.profile, profile])

    def _lose(self, keys: Iterable[CheckpointKey]) -> None:
        for key in keys:
            self._of(key).present.discard(key.part)


def done_of(account: Account, plan: Plan, over: bool) -> dict[str, int]:
    """By stage the parts that need not be made any more. over: the plan has come to its end.

    A stage is done, too, if all that reads it is, and as soon as one that reads it as a whole has begun: then its
    output was there, wherever it came from.
    """
    done: dict[str, int] = {}
    readers = _readers(plan)
    for stage in reversed(plan.stages):
        parts = account.parts.get(content_of(stage))
        found = len(parts.present) if parts is not None else 0
        if over or _needless(stage, readers[stage.id], done, account):
            found = stage.width
        done[stage.id] = found
    return done


def _part_over(stage: Stage, spent: float, slots: float) -> float:
    """The part of a task that is over while it runs, by its estimate."""
    seconds = on_threads(stage.estimate.task_seconds, max(1.0, slots))
    if stage.whole and seconds > 0:
        seconds = EndSeconds.of(seconds, stage.estimate.doubt, spent, None).at(0.5)
    return min(NEVER_OVER, max(0.0, spent) / seconds) if seconds > 0 else 0.0


def fraction_of(account: Account, plan: Plan, done: Mapping[str, int]) -> float:
    """The estimated work of a plan that is done, as a part of all of it; tasks that run count as far as they are."""
    total = sum(stage.width * stage.estimate.task_seconds for stage in plan.stages)
    made = sum(done[stage.id] * stage.estimate.task_seconds for stage in plan.stages)
    seconds = {content_of(stage): stage.estimate.task_seconds for stage in plan.stages}
    under_way = sum((task.fraction or 0.0) * seconds.get(task.key.content, 0.0) for task in account.running.values())
    return min(1.0, (made + under_way) / total) if total > 0 else 0.0


def _needless(stage: Stage, readers: Sequence[tuple[Stage, bool]], done: Mapping[str, int], account: Account) -> bool:
    if not readers:
        return False
    if all(done[reader.id] >= reader.width for reader, _ in readers):
        return True
    begun = (account.parts.get(content_of(reader)) for reader, forward in readers if not forward)
    return any(parts is not None and (parts.begun or parts.present) for parts in begun)


def _readers(plan: Plan) -> dict[str, list[tuple[Stage, bool]]]:
    found: dict[str, list[tuple[Stage, bool]]] = {stage.id: [] for stage in plan.stages}
    for stage in plan.stages:
        for item in stage.stage_inputs:
            found[item.stage].append((stage, item.mode == "forward"))
    return found
