"""A job's history, replayed: its attempts with their intervals, its shares, the capacity, the stages that were done.

    Run.history ──JobReplay.take──> attempts, shares, capacity, stages …

A replay takes records in their order, all at once or as they come, and costs the same for each. The timeline, the page,
spans, waiting times and thread seconds read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from qoop.catalog.value import value
from qoop.engine.history import (
    Began,
    CapacityReported,
    Ended,
    Failed,
    Record,
    Regranted,
    ShareReported,
    StageDone,
    Started,
    Stopped,
    Succeeded,
    Switched,
    Waiting,
)
from qoop.engine.notices import DeadlineReported, Notice, Slept
from qoop.engine.task import AttemptId, CheckpointKey, MachineId
from qoop.planner.packing import on_threads
from qoop.planner.plan import Resources, StageId

AttemptEnd = Succeeded | Failed | Stopped


@dataclass(slots=True)
class Interval:
    """A time in which an attempt had the same resources. end: None: it lasts. queued: it waited at its machine."""

    begin: float
    end: float | None
    resources: Resources
    queued: bool = False


@dataclass(slots=True)
class AttemptReplay:
    """One attempt. plan: the place of the plan that it was started for, among those that ran. end: None: it goes on."""

    attempt: AttemptId
    key: CheckpointKey
    machine: MachineId
    plan: int
    intervals: list[Interval]
    end: AttemptEnd | None = None

    @property
    def granted(self) -> float:
        """The time when it was granted its slots."""
        return self.intervals[0].begin

    @property
    def began(self) -> float | None:
        """The time when it began on its slots; None: it has not."""
        return next((one.begin for one in self.intervals if not one.queued), None)

    @property
    def is_queued(self) -> bool:
        """True while it waits at its machine."""
        return self.end is None and self.intervals[-1].queued

    @property
    def resources(self) -> Resources:
        """The resources that it has, or had last."""
        return self.intervals[-1].resources

    @property
    def kept_its_slots(self) -> bool:
        """True if it has run with the same slots from its beginning."""
        return len({one.resources.cpu for one in self.intervals}) == 1

    def thread_seconds(self, until: float) -> float:
        """Seconds of one thread that it had on its slots, up to a time."""
        return sum(
            (min(until, one.end if one.end is not None else until) - one.begin) / on_threads(1.0, one.resources.cpu)
            for one in self.intervals
            if not one.queued and one.begin < until
        )

    def _change(self, at: float, resources: Resources, queued: bool) -> None:
        last = self.intervals[-1]
        if last.begin == at:  # no time has passed: there was no interval
            last.resources, last.queued = resources, queued
        else:
            last.end = at
            self.intervals.append(Interval(at, None, resources, queued))

    def _has_waited(self) -> None:
        """It waits: it has not begun since it was granted its slots."""
        for one in self.intervals:
            one.queued = True

    def _finish(self, end: AttemptEnd) -> None:
        self.end, self.intervals[-1].end = end, end.at


@value
class StageInterval:
    """A stage that was done. begin: when its first attempt was granted. rows: of its output."""

    stage: StageId
    begin: float
    end: float
    rows: int


@dataclass(slots=True)
class JobReplay:
    """A job, as its records add up. Times are seconds since it began.

    taken: the number of records. last_at: the time of the last one.
    attempts: in the order in which they were granted their slots. plans: the number that ran.
    shares: from when on the job had which. machines: the present capacity of each.
    capacity: from when on all machines together had which. stages: those that were done.
    deadline: the last verdict about it. ended: the last record of a job that has ended.
    """

    taken: int = 0
    last_at: float = 0.0
    attempts: dict[AttemptId, AttemptReplay] = field(default_factory=dict)
    shares: list[tuple[float, Resources]] = field(default_factory=list)
    machines: dict[MachineId, Resources] = field(default_factory=dict)
    capacity: list[tuple[float, Resources]] = field(default_factory=list)
    stages: list[StageInterval] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    slept: float = 0.0
    plans: int = 0
    deadline: DeadlineReported | None = None
    ended: Ended | None = None
    _stage_begins: dict[StageId, float] = field(default_factory=dict)
    _granted: dict[AttemptId, float] = field(default_factory=dict)
    _first_began: float | None = None

    @classmethod
    def of(cls, history: Iterable[Record]) -> JobReplay:
        """The replay of all these records."""
        replay = cls()
        replay.take(history)
        return replay

    def take(self, records: Iterable[Record]) -> None:
        """Add the records that came next."""
        for record in records:
            self.taken += 1
            self.last_at = max(self.last_at, record.at)
            self._take(record)

    def succeeded(self) -> Iterator[tuple[AttemptReplay, Succeeded]]:
        """The attempts that have succeeded, with their last records, in the order in which they were granted."""
        for one in self.attempts.values():
            if isinstance(one.end, Succeeded):
                yield one, one.end

    @property
    def first_began(self) -> float | None:
        """The time when the first task began; None: none has. One that waits at its machine has not."""
        return self._first_began if self._first_began is not None else min(self._granted.values(), default=None)

    def waited(self, until: float) -> float:
        """Seconds before the first task began; `until` if none has."""
        began = self.first_began
        return until if began is None else began

    def mean_share(self, until: float) -> float:
        """The slots of the job's share in the mean over its life, up to a time."""
        if not self.shares:
            return 0.0
        first, last = self.shares[0][0], self.shares[-1][1]
        if until <= first:
            return last.cpu
        ends = [*(at for at, _ in self.shares[1:]), until]
        return sum(share.cpu * (end - at) for (at, share), end in zip(self.shares, ends, strict=True)) / (until - first)

    @property
    def helps(self) -> tuple[str, ...]:
        """The ways for the job to meet its deadline, by the last verdict; none if it will be met."""
        return self.deadline.helps if self.deadline is not None else ()

    def _take(self, record: Record) -> None:
        match record:
            case Started(at, attempt, key, machine, resources):
                self.attempts[attempt] = AttemptReplay(
                    attempt, key, machine, max(0, self.plans - 1), [Interval(at, None, resources)]
                )
                self._stage_begins.setdefault(attempt.task.stage, at)
                if self._first_began is None:
                    self._granted[attempt] = at
            case Waiting(_, attempt) if attempt in self.attempts:
                self.attempts[attempt]._has_waited()
                self._granted.pop(attempt, None)
            case Began(at, attempt) if attempt in self.attempts:
                one = self.attempts[attempt]
                one._change(at, one.resources, queued=False)
                self._fix_first(at)
            case Regranted(at, attempt, _, _, resources) if attempt in self.attempts:
                one = self.attempts[attempt]
                one._change(at, resources, one.intervals[-1].queued)
            case Succeeded() | Failed() | Stopped() if record.attempt in self.attempts:
                self.attempts[record.attempt]._finish(record)
                if self._granted:
                    self._fix_first(record.at)
            case Switched():
                self.plans = max(self.plans, record.number)
            case ShareReported(at, share):
                self.shares.append((at, share))
            case CapacityReported(at, machine, capacity):
                self.machines.pop(machine, None)
                if capacity is not None:
                    self.machines[machine] = capacity
                self.capacity.append((at, sum(self.machines.values(), Resources())))
            case StageDone(at, stage, _, rows):
                if stage in self._stage_begins:
                    self.stages.append(StageInterval(stage, self._stage_begins.pop(stage), at, rows))
            case DeadlineReported():
                self.deadline = record
            case Ended():
                self.ended = record
        if isinstance(record, Notice):
            self.notices.append(record.notice)
        if isinstance(record, Slept):
            self.slept += record.seconds

    def _fix_first(self, at: float) -> None:
        """The first task has begun at that time, or when another was granted its slots before."""
        if self._first_began is None:
            self._first_began = min(self._granted.values(), default=at)
            self._granted.clear()
