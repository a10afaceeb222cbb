"""Events (past tense), commands (imperative), and the demands and grants that pass between a run and the scheduler.

Backends report events; :class:`qoop.engine.run.Run` turns them into commands; backends obey. Reports that
come late or twice are legal.
"""

from __future__ import annotations

from dataclasses import field

from qoop.catalog.errors import QoopError
from qoop.catalog.value import value
from qoop.engine.digest import Digest
from qoop.engine.functions.measured import FunctionCalls
from qoop.engine.task import AttemptId, CheckpointKey, JobId, MachineId, TaskAccount, TaskId, TaskProfile, TaskSpec
from qoop.planner.plan import Resources


@value
class Committed:
    """The facts of one committed output: rows and bytes of every partition, cost of making it.

    seconds: wall time of the attempt; cpu_seconds: of the thread(s), if known; peak_memory: bytes, if known.
    width: how many such outputs make the stage; 0 if it must not serve another job. finished: False: the rows
        mean something only in this layout. digest: of the rows, if it was computed.
    called: the functions of Python that it called. maker: the job that made it; empty: an earlier process.
    """

    key: CheckpointKey
    rows: tuple[int, ...]
    bytes: tuple[int, ...]
    seconds: float
    cpu_seconds: float = 0.0
    peak_memory: int = 0
    width: int = 0
    finished: bool = False
    digest: Digest | None = field(default=None, compare=False)
    called: tuple[FunctionCalls, ...] = ()
    maker: JobId = field(default="", compare=False)


@value
class Queued:
    """The attempt waits at its machine, until `Begun`: for a free worker, or for a kernel to be opened.

    An attempt without this report begins when it is started; most do.
    """

    attempt: AttemptId


@value
class Begun:
    """The attempt, which was queued, is being worked on; that cannot be taken back."""

    attempt: AttemptId


@value
class TaskSucceeded:
    """The attempt's output is committed. account: where its seconds went, if its machine tells. profile: what DuckDB
    tells of it, where that was wanted."""

    attempt: AttemptId
    committed: Committed
    account: TaskAccount | None = None
    profile: TaskProfile | None = None


@value
class CallsObserved:
    """The calls of functions of Python that an attempt has made so far. Some attempts never tell."""

    attempt: AttemptId
    called: tuple[FunctionCalls, ...]


@value
class WorkObserved:
    """The progress of an attempt that goes on for longer than a moment.

    part: of its work that DuckDB believes to be over, above 0 and up to 1; None: it does not say, as of stages. slowed:
    the factor by which threads of its machine's process take longer of late because others use the CPUs. cpu_seconds:
    that it has used; None: it has no process of its own.
    """

    attempt: AttemptId
    part: float | None
    slowed: float = 1.0
    cpu_seconds: float | None = None


@value
class TaskFailed:
    """The attempt ended without output. retryable: the machine or the resources were at fault, not the work."""

    attempt: AttemptId
    error: QoopError
    retryable: bool


@value
class TaskStopped:
    """The attempt was stopped on request and left nothing behind."""

    attempt: AttemptId


@value
class TaskRegranted:
    """The attempt goes on with these resources, after a regrant, or because its machine has become smaller."""

    attempt: AttemptId
    resources: Resources


@value
class MachineJoined:
    """A machine with this capacity can be used."""

    machine: MachineId
    capacity: Resources


@value
class MachineLost:
    """The machine is gone, with all its attempts."""

    machine: MachineId


@value
class SlotsChanged:
    """The machine now has this capacity. Attempts that no longer fit are being made smaller where they are elastic, and
    stopped else; each keeps its resources until that is reported, so what is used may exceed the capacity for a while.
    why: as a clause; empty: it was requested."""

    machine: MachineId
    capacity: Resources
    why: str = ""


@value
class CapacityNotice:
    """The machine will have another capacity (none: it will be gone) from `at` on, seconds of the session's clock.

    Until then it has what it has. SlotsChanged or MachineLost follows, and ends the notice.
    """

    machine: MachineId
    capacity_after: Resources
    at: float


@value
class CapacityExpected:
    """All machines together should have these resources from these times on, by an announcement.

    course: (seconds of the session's clock, resources), in order of time; it takes the place of what was expected
    before. It is no promise: what does not come is no longer expected once its time is over, and tasks are begun
    only on present capacity. Where resources tell slots alone, all else goes with these as it does now.
    """

    course: tuple[tuple[float, Resources], ...]


@value
class CheckpointLost:
    """An output that was committed can no longer be read."""

    key: CheckpointKey


@value
class CheckpointSaved:
    """A durable output of these jobs is on disk; until now a killed process would have lost it.

    behind: seconds since it was committed; seconds: of these, those that writing took. kept: False: it was not
    written. why: not, as a clause.
    """

    jobs: tuple[JobId, ...]
    key: CheckpointKey
    bytes: int
    behind: float
    kept: bool
    seconds: float = 0.0
    why: str = ""


@value
class ShareChanged:
    """The scheduler's fair share of a job is now this: a guaranteed minimum, not a cap.

    coming: (seconds of the session's clock, share): what it should be from some later times on, if as much as is
    expected of machines comes.
    """

    job: JobId
    share: Resources
    coming: tuple[tuple[float, Resources], ...] = ()


Event = (
    Queued
    | Begun
    | TaskSucceeded
    | TaskFailed
    | TaskStopped
    | TaskRegranted
    | CallsObserved
    | WorkObserved
    | MachineJoined
    | MachineLost
    | SlotsChanged
    | CapacityNotice
    | CapacityExpected
    | CheckpointLost
    | CheckpointSaved
    | ShareChanged
)


@value
class Start:
    """Run this attempt on this machine."""

    machine: MachineId
    spec: TaskSpec


@value
class Stop:
    """Stop this attempt; its report (stopped, or a last-moment success) follows."""

    attempt: AttemptId


@value
class Regrant:
    """Let this attempt, which is elastic, go on with these resources; the report of what it has then follows, unless it
    has ended."""

    attempt: AttemptId
    resources: Resources


@value
class Release:
    """The job no longer needs these outputs; a store may drop what nothing else holds."""

    job: JobId
    keys: tuple[CheckpointKey, ...]


Command = Start | Stop | Regrant | Release


@value
class Demand:
    """A ready task and the least resources it needs. All that a scheduler may see of a job's work (no plan).

    seconds: it should take with these resources: as long as the longest task of its stage that has ended; by estimate
        while none has.
    """

    job: JobId
    task: TaskId
    resources: Resources
    seconds: float = 0.0


@value
class Running:
    """An attempt that has neither ended nor been stopped. seconds: it should take in all (see `Demand`).

    started: when it was granted its resources, or began where it had to wait after that. queued: it waits still.
    most: slots that it can be granted while it runs; 0: it keeps its resources to the end. extra: it runs on a slot
    that its machine has not got. cpu_seconds: that it has used, as last reported; None: no report says.
    """

    attempt: AttemptId
    machine: MachineId
    resources: Resources
    started: float
    seconds: float
    most: int = 0
    extra: bool = False
    queued: bool = False
    cpu_seconds: float | None = None

    def spent(self, now: float) -> float:
        """Seconds that it has run."""
        return 0.0 if self.queued else now - self.started


@value
class Grant:
    """A scheduler's decision: this task may run on this machine with these resources. extra: on a slot that the machine
    has not got. waits: in the queue of the machine, until others that run there have ended."""

    job: JobId
    task: TaskId
    machine: MachineId
    resources: Resources
    extra: bool = False
    waits: bool = False
