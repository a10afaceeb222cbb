"""The progress of one job, folded from its history record by record: tasks, finished parts, plans, decisions.

A pure fold that can be read after any record. A running job, an ended one and one of a trace share this code.
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
    Decided,
    Ended,
    Failed,
    Lost,
    MemoryExhausted,
    MemoryRaised,
    Record,
    Redone,
    Regranted,
    Started,
    Stopped,
    Succeeded,
    Switched,
    Waiting,
)
from qoop.engine.notices import Continued, DeadlineReported, NotContinued, NotSaved, Slept
from qoop.engine.replay import AttemptReplay, JobReplay
from qoop.engine.task import (
    AttemptId,
    CheckpointKey,
    Content,
    MachineId,
    TaskProfile,
    content_of,
    together,
)
from qoop.planner.packing import on_threads
from qoop.planner.plan import Plan, Resources, Stage

_STEP = 0.02
"""The smallest change of a task's done fraction that counts as a change."""

_EVENTS = (
    CapacityAnnounced, CapacityReported, Continued, DeadlineReported, Ended, Lost, MemoryExhausted, MemoryRaised,
    NotContinued, Redone, NotSaved, Slept,
)  # fmt: skip


@dataclass(slots=True)
class Task:
    """One attempt. version: of the job's progress at the task's last change. fraction: done work, estimated by elapsed
    time. carried: a later plan reuses its output."""

    replay: AttemptReplay
    version: int
    fraction: float | None = None
    carried: bool = False

    @property
    def attempt(self) -> AttemptId:
        return self.replay.attempt

    @property
    def key(self) -> CheckpointKey:
        return self.replay.key

    @property
    def plan(self) -> int:
        """The position of its plan among those that ran."""
        return self.replay.plan

    @property
    def machine(self) -> MachineId:
        return self.replay.machine

    @property
    def resources(self) -> Resources:
        return self.replay.resources

    @property
    def begun(self) -> float:
        """The time when it began; while it is queued at its machine, the time of its grant."""
        return self.replay.began if self.replay.began is not None else self.replay.granted

    @property
    def ended(self) -> float | None:
        return self.replay.end.at if self.replay.end is not None else None

    @property
    def state(self) -> str:
        match self.replay.end:
            case None:
                return "QUEUED" if self.replay.is_queued else "RUNNING"
            case Succeeded(used=True):
                return "CARRIED" if self.carried else "SUCCEEDED"
            case Failed(error=error) if not isinstance(error, Revoked):
                return "FAILED"
        return "STOPPED"

    @property
    def success(self) -> Succeeded | None:
        """The record of its success: output, seconds, and the profile under EXPLAIN ANALYZE."""
        return self.replay.end if isinstance(self.replay.end, Succeeded) else None

    @property
    def error(self) -> str | None:
        return str(self.replay.end.error) if isinstance(self.replay.end, Failed) else None


@dataclass(slots=True)
class Parts:
    """The parts of a stage's output that are present. seconds, rows, bytes: totals of all finished parts."""

    present: set[int] = field(default_factory=set)
    seconds: float = 0.0
    rows: int = 0
    bytes: int = 0
    profile: TaskProfile | None = None
    begun: bool = False
    plan: int = 0


class JobProgress:
    """The state of a job after the records `taken` so far. Times are seconds since the job began.

    names: of the plans that ran, in order. version: counts changes, so a reader can request only the tasks that changed
    since an earlier version.
    """

    def __init__(self) -> None:
        self.replay = JobReplay()
        self.version = 0
        self.state = "STARTING"
        self.names: list[str] = []
        self.tasks: dict[AttemptId, Task] = {}
        self.running: dict[AttemptId, Task] = {}
        self.parts: dict[Content, Parts] = {}
        self.decisions: list[Decided] = []
        self.events: list[Record] = []
        self._chosen: str | None = None
        self._carried = 0

    @property
    def taken(self) -> int:
        """The number of records."""
        return self.replay.taken

    @property
    def error(self) -> QoopError | None:
        """The error of a failed or cancelled job."""
        return self.replay.ended.error if self.replay.ended is not None else None

    @property
    def ended(self) -> float | None:
        """The time when the job ended."""
        return self.replay.ended.at if self.replay.ended is not None else None

    def take(self, records: Iterable[Record]) -> None:
        """Add the next records of the history."""
        for record in records:
            self.version += 1
            self.replay.take([record])
            self._take(record)

    def estimate_running(self, at: float, plan: Plan | None, fraction: float | None = None) -> None:
        """Estimate the done fraction of running tasks by their elapsed time.

        at: seconds since the job began. plan: the running one. fraction: known progress of DuckDB's own plan, which is
        one task.
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
        """The position of the running plan."""
        return len(self.names) - 1

    @property
    def waits(self) -> bool:
        """True if the job has a plan, and no task of it has begun."""
        return bool(self.names) and all(task.state == "QUEUED" for task in self.tasks.values())

    @property
    def used(self) -> Resources:
        """The resources of running tasks."""
        return sum((task.resources for task in self.running.values()), Resources())

    def _take(self, record: Record) -> None:
        match record:
            case Switched():
                self._switch()
            case Started(_, attempt, key):
                self.tasks[attempt] = self.running[attempt] = Task(self.replay.attempts[attempt], self.version)
                self._of(key).begun = True
            case Waiting() | Began() | Regranted():
                self._touch(record.attempt)
            case Succeeded() | Failed() | Stopped():
                self._touch(record.attempt)
                self.running.pop(record.attempt, None)
                if isinstance(record, Succeeded) and record.used:
                    self._make(record.committed, record.profile)
            case Lost(_, key):
                self._lose([key])
            case Redone(_, _, keys):
                self._lose(keys)
            case Decided():
                self.decisions.append(record)
                self._chosen = record.chosen if record.switched else None
            case Ended(_, state, error):
                self.state = "SUSPENDED" if isinstance(error, Suspended) else state
        if isinstance(record, _EVENTS):
            self.events.append(record)

    def _switch(self) -> None:
        """Enter the next plan. Outputs that earlier plans share with it stay."""
        self.state = "RUNNING"
        self.names.append(self._chosen or ("A" if not self.names else f"no. {len(self.names) + 1}"))
        self._chosen = None

    def carry(self, plans: Sequence[Plan]) -> None:
        """Mark the tasks of earlier plans whose outputs the last plan reuses."""
        if self.plan <= self._carried or len(plans) <= self.plan:
            return
        self._carried = self.plan
        contents = {content_of(stage) for stage in plans[self.plan].stages}
        for task in self.tasks.values():
            if task.plan < self.plan and task.state == "SUCCEEDED" and task.key.content in contents:
                self.version += 1
                task.carried, task.version = True, self.version

    def _touch(self, attempt: AttemptId) -> None:
        """Give a task the current version."""
        if attempt in self.tasks:
            self.tasks[attempt].version = self.version

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


def done_of(progress: JobProgress, plan: Plan, over: bool) -> dict[str, int]:
    """The number of finished or unneeded parts by stage. over: the plan has ended.

    A stage also counts as done when all its readers are done, or when a reader of the whole output has begun.
    """
    done: dict[str, int] = {}
    readers = _readers(plan)
    for stage in reversed(plan.stages):
        parts = progress.parts.get(content_of(stage))
        found = len(parts.present) if parts is not None else 0
        if over or _needless(stage, readers[stage.id], done, progress):
            found = stage.width
        done[stage.id] = found
    return done


def _part_over(stage: Stage, spent: float, slots: float) -> float:
    """The estimated done fraction of a running task."""
    seconds = on_threads(stage.estimate.task_seconds, max(1.0, slots))
    if stage.whole and seconds > 0:
        seconds = EndSeconds.of(seconds, stage.estimate.doubt, spent, None).at(0.5)
    return min(NEVER_OVER, max(0.0, spent) / seconds) if seconds > 0 else 0.0


def fraction_of(progress: JobProgress, plan: Plan, done: Mapping[str, int]) -> float:
    """The done fraction of a plan's estimated work; running tasks count by their own fraction."""
    total = sum(stage.width * stage.estimate.task_seconds for stage in plan.stages)
    made = sum(done[stage.id] * stage.estimate.task_seconds for stage in plan.stages)
    seconds = {content_of(stage): stage.estimate.task_seconds for stage in plan.stages}
    under_way = sum((task.fraction or 0.0) * seconds.get(task.key.content, 0.0) for task in progress.running.values())
    return min(1.0, (made + under_way) / total) if total > 0 else 0.0


def _needless(
    stage: Stage, readers: Sequence[tuple[Stage, bool]], done: Mapping[str, int], progress: JobProgress
) -> bool:
    if not readers:
        return False
    if all(done[reader.id] >= reader.width for reader, _ in readers):
        return True
    begun = (progress.parts.get(content_of(reader)) for reader, forward in readers if not forward)
    return any(parts is not None and (parts.begun or parts.present) for parts in begun)


def _readers(plan: Plan) -> dict[str, list[tuple[Stage, bool]]]:
    found: dict[str, list[tuple[Stage, bool]]] = {stage.id: [] for stage in plan.stages}
    for stage in plan.stages:
        for item in stage.stage_inputs:
            found[item.stage].append((stage, item.mode == "forward"))
    return found
