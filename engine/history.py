"""The actions of a run and their reasons, as records that print as sentences. `at` is seconds since the job began."""

from __future__ import annotations

from typing import Union

from qoop.catalog.errors import Cancelled, QoopError, Revoked
from qoop.catalog.sizes import counted, size, span
from qoop.catalog.value import value
from qoop.engine.events import Committed
from qoop.engine.functions.measured import FunctionCalls
from qoop.engine.notices import Continued, DeadlineReported, NotContinued, NotSaved, Slept
from qoop.engine.task import (
    AttemptId,
    CheckpointKey,
    Content,
    MachineId,
    TaskAccount,
    TaskProfile,
    available_of,
    spent,
)
from qoop.planner.plan import Resources, StageId

Record = Union[
    "Switched", "Started", "Waiting", "Began", "Regranted", "Called", "Succeeded", "Failed", "Stopping", "Stopped",
    "Lost", "Redone", "MemoryRaised", "MemoryExhausted", "Released", "Saved", "ShareReported", "CapacityReported",
    "CapacityAnnounced", "StageDone", "Decided", "DeadlineReported", "Continued", "NotContinued", "NotSaved", "Slept",
    "Ended",
]  # fmt: skip

Coming = tuple[tuple[float, Resources], ...]
"""Shares that a job should have later: (seconds since it began, share), in order of time."""


@value
class Switched:
    """The job began (number 1) or changed plan: a start is a switch (law 4).

    why: the error of a stage, where the run changed to its fallback plan; empty where a decision says why.
    """

    at: float
    number: int
    tasks: int
    kept: int
    carried: tuple[AttemptId, ...]
    stopped: tuple[AttemptId, ...]
    why: str = ""

    def __str__(self) -> str:
        what = "started" if self.number == 1 else "the other plan began"
        what, why = ("DuckDB's own plan began", f", since {self.why}") if self.why else (what, "")
        kept = f"{counted(self.kept, 'checkpoint')} kept, {counted(len(self.carried), 'attempt')} carried on"
        left = counted(self.tasks, "task")
        return f"at {self.at:.3f} s {what}: {left} to run, {kept}, {len(self.stopped)} stopped{why}"


@value
class Started:
    """extra: on a slot that the machine has not got: all it has were taken."""

    at: float
    attempt: AttemptId
    key: CheckpointKey
    machine: MachineId
    resources: Resources
    extra: bool = False

    def __str__(self) -> str:
        available = available_of(self.resources)
        extra = ", on an extra slot" if self.extra else ""
        return f"at {self.at:.3f} s {self.attempt} started on {self.machine} with {available}{extra}"


@value
class Waiting:
    """A granted attempt waits at its machine until a worker is free."""

    at: float
    attempt: AttemptId
    key: CheckpointKey
    machine: MachineId

    def __str__(self) -> str:
        return f"at {self.at:.3f} s {self.attempt} is queued on {self.machine}"


@value
class Began:
    """An attempt that was waiting at its machine waits no more. waited: seconds."""

    at: float
    attempt: AttemptId
    key: CheckpointKey
    machine: MachineId
    waited: float

    def __str__(self) -> str:
        return f"at {self.at:.3f} s {self.attempt} began on {self.machine}, {span(self.waited)} after it was granted"


@value
class Regranted:
    """An attempt went on with other resources: it lost nothing."""

    at: float
    attempt: AttemptId
    key: CheckpointKey
    machine: MachineId
    resources: Resources

    def __str__(self) -> str:
        return f"at {self.at:.3f} s {self.attempt} went on with {available_of(self.resources)}"


@value
class Succeeded:
    """used: False: nothing of the plan needed the output (any more). account: where the seconds went, if known.
    profile: DuckDB's, under EXPLAIN ANALYZE."""

    at: float
    attempt: AttemptId
    committed: Committed
    used: bool
    account: TaskAccount | None = None
    profile: TaskProfile | None = None

    @property
    def key(self) -> CheckpointKey:
        return self.committed.key

    def __str__(self) -> str:
        rows = counted(sum(self.committed.rows), "row")
        note = "" if self.used else "; nothing needed it any more"
        parts = f" ({spent(self.account)})" if self.account is not None else ""
        return f"at {self.at:.3f} s {self.attempt} put out {rows} in {self.committed.seconds:.3f} s{parts}{note}"


@value
class Called:
    """A running attempt reported the time of its Python functions so far."""

    at: float
    attempt: AttemptId
    called: tuple[FunctionCalls, ...]

    def __str__(self) -> str:
        sentence = ", ".join(f"{one.function} for {one.rows:,} rows in {span(one.seconds)}" for one in self.called)
        return f"at {self.at:.3f} s {self.attempt} had called {sentence}"


@value
class Failed:
    at: float
    attempt: AttemptId
    key: CheckpointKey
    error: QoopError
    retryable: bool

    def __str__(self) -> str:
        return f"at {self.at:.3f} s {self.attempt} {self.how}: {self.error}"

    @property
    def how(self) -> str:
        """The end of the attempt in words: to have been interrupted, because its slot was needed, is no failure."""
        if isinstance(self.error, Revoked):
            return "was interrupted and runs again"
        return f"failed{' and may be retried' if self.retryable else ''}"


@value
class Stopping:
    at: float
    attempt: AttemptId
    key: CheckpointKey
    reason: str

    def __str__(self) -> str:
        return f"at {self.at:.3f} s {self.attempt} is stopped: {self.reason}"


@value
class Stopped:
    at: float
    attempt: AttemptId
    key: CheckpointKey

    def __str__(self) -> str:
        return f"at {self.at:.3f} s {self.attempt} stopped"


@value
class Lost:
    at: float
    key: CheckpointKey

    def __str__(self) -> str:
        return f"at {self.at:.3f} s checkpoint {self.key} was lost"


@value
class Redone:
    """An output that cannot be made twice the same is made again, so all that was derived from it goes."""

    at: float
    stages: tuple[StageId, ...]
    keys: tuple[CheckpointKey, ...]

    def __str__(self) -> str:
        return (
            f"at {self.at:.3f} s {', '.join(self.stages)} began again: what they rest on cannot be made twice the same"
        )


@value
class MemoryRaised:
    at: float
    stage: StageId
    before: float
    after: float

    def __str__(self) -> str:
        return (
            f"at {self.at:.3f} s stage {self.stage} ran out of {size(self.before)}; it now asks for {size(self.after)}"
        )


@value
class MemoryExhausted:
    """A task had all the memory that the largest machine has, and it was too little: only another plan can help."""

    at: float
    stage: StageId
    had: float

    def __str__(self) -> str:
        return f"at {self.at:.3f} s stage {self.stage} ran out of {size(self.had)}, which is all there is"


@value
class Saved:
    """An output is safe from the end of the process. behind: seconds after it was committed; seconds: of these, those
    that writing took. kept: False: there was no space for it."""

    at: float
    key: CheckpointKey
    bytes: int
    behind: float
    kept: bool
    seconds: float = 0.0

    def __str__(self) -> str:
        if not self.kept:
            return f"at {self.at:.3f} s the directory of checkpoints had no space for {self.key} of {size(self.bytes)}"
        return f"at {self.at:.3f} s checkpoint {self.key} of {size(self.bytes)} was on disk, {self.behind:.3f} s behind"


@value
class Released:
    at: float
    keys: tuple[CheckpointKey, ...]

    def __str__(self) -> str:
        return f"at {self.at:.3f} s {len(self.keys)} checkpoints were released"


@value
class ShareReported:
    """coming: what it should be later."""

    at: float
    share: Resources
    coming: Coming = ()

    def __str__(self) -> str:
        sentence = f"at {self.at:.3f} s the share became {available_of(self.share)} for tasks"
        return f"{sentence}; {expected(self.coming, self.at)}" if self.coming else sentence


def expected(coming: Coming, now: float = 0.0) -> str:
    """A clause about the shares that should come: the first and the last of them.

    >>> expected(((30.0, Resources(2, 10**9)), (90.0, Resources(4, 2 * 10**9))))
    '2 slots and 1 GB are expected in 30 s, 4 slots and 2 GB in 90 s'
    """
    (first, share), (last, most) = coming[0], coming[-1]
    sentence = f"{available_of(share)} are expected in {first - now:.3g} s"
    return f"{sentence}, {available_of(most)} in {last - now:.3g} s" if len(coming) > 1 else sentence


@value
class CapacityReported:
    """capacity: what the machine has from now on, for all jobs together; None: it is gone. why: see `SlotsChanged`."""

    at: float
    machine: MachineId
    capacity: Resources | None
    why: str = ""

    def __str__(self) -> str:
        if self.capacity is None:
            return f"at {self.at:.3f} s machine {self.machine} was lost"
        available = available_of(self.capacity)
        why = f", since {self.why}" if self.why else ""
        return f"at {self.at:.3f} s machine {self.machine} has {available} for tasks{why}"


@value
class StageDone:
    """All parts of a stage are present. rows, bytes: of its whole output; seconds: wall time of its tasks together.

    estimated: the rows it was believed to have. account: where the seconds of its tasks went, as far as it is known.
    """

    at: float
    stage: StageId
    content: Content
    rows: int
    bytes: int
    seconds: float
    estimated: float
    account: TaskAccount | None = None

    def __str__(self) -> str:
        rows = counted(self.rows, "row")
        return f"at {self.at:.3f} s stage {self.stage} was done: {rows}, estimated {self.estimated:,.0f}"


@value
class Remaining:
    """A plan as a decision saw it: its name and the seconds until it would end."""

    plan: str
    seconds: float

    def __str__(self) -> str:
        return f"plan {self.plan} would end {_soon(self.seconds)}"


@value
class Decided:
    """A decision to change the plan or to stay with it.

    cause: the event behind it, as a clause. before, after: the share at the last decision and at this one.
    running: the plan that ran, and chosen: the one that runs from now on. reason: why nothing changes; empty at
    a switch. candidates: every plan considered, the running one too. kept: stages of the chosen plan of which
    something finished is used. work_left_out: seconds of finished work that the chosen plan has no use for
    (backtracking). planner_seconds: what deciding took, aside from the work of the job; search_seconds: of these, for
    plans that were not known before. stages_back: how many finished stages, one above the other, the chosen plan goes
    back from what the running one had reached. coming: shares that the ends of plans count on.
    """

    at: float
    cause: str
    before: Resources | None
    after: Resources | None
    running: str
    chosen: str
    reason: str
    candidates: tuple[Remaining, ...]
    kept: tuple[StageId, ...]
    work_left_out: float
    planner_seconds: float
    search_seconds: float = 0.0
    stages_back: int = 0
    coming: Coming = ()

    @property
    def switched(self) -> bool:
        return self.chosen != self.running

    @property
    def backtracked(self) -> bool:
        """True if finished work is left out."""
        return self.switched and self.work_left_out > 0

    def __str__(self) -> str:
        counted_on = expected(self.coming, self.at) if self.coming and "expected in" not in self.cause else ""
        sentence = filter(None, (counted_on, self._compared(), self._done()))
        return f"at {self.at:.3f} s {self.cause}; {'; '.join(sentence)}"

    def _compared(self) -> str:
        shown = {one.plan: one for one in self.candidates}
        running = shown.pop(self.running, None)
        best = shown.get(self.chosen) or min(shown.values(), key=lambda one: (one.seconds, one.plan), default=None)
        ends = f"the running plan {self.running} {_soon(running.seconds)}" if running is not None else ""
        return ", ".join(filter(None, (str(best) if best is not None else "", ends)))

    def _done(self) -> str:
        if not self.switched:
            return f"stayed: {self.reason}"
        left_out = f"leaving out {span(self.work_left_out)} of work" if self.work_left_out >= 0.0005 else ""
        kept = f"keeping {', '.join(self.kept)}" if self.kept else "keeping nothing" if left_out else ""
        return ", ".join(filter(None, ("switched", kept, left_out)))


def _soon(seconds: float) -> str:
    return "never" if seconds == float("inf") else f"in {span(seconds)}"


@value
class CapacityAnnounced:
    """capacity: what the machine will have after these seconds."""

    at: float
    machine: MachineId
    capacity: Resources
    seconds: float

    def __str__(self) -> str:
        available = available_of(self.capacity)
        what = f"machine {self.machine} will have {available} for tasks in {self.seconds:g} s"
        return f"at {self.at:.3f} s it was announced that {what}"


@value
class Ended:
    at: float
    state: str
    error: QoopError | None

    def __str__(self) -> str:
        if isinstance(self.error, Cancelled):
            return f"at {self.at:.3f} s {self.error}"
        return f"at {self.at:.3f} s the job {self.state.lower()}" + (f": {self.error}" if self.error else "")


def mentions(record: Record, key: CheckpointKey) -> bool:
    """True if the record is about this checkpoint."""
    if isinstance(record, Released | Redone):
        return key in record.keys
    return getattr(record, "key", None) == key
