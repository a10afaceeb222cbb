"""Messages of callers and the planner to the cluster's loop, which opens them one after the other.

Messages are values, so that a trace can hold them and a rerun open them again (:mod:`qoop.adaptive.retrace.rerun`).
What only the sender can use, such as the promise of a reply, is a field that is neither compared nor written.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import field

from qoop.adaptive.replanning.adaptive import Adaptive
from qoop.adaptive.replanning.answers import Answer, Useful
from qoop.adaptive.replanning.worthwhile import Worthwhile
from qoop.adaptive.schedulers.terms import Terms
from qoop.catalog.errors import Cancelled, ConfigError, QoopError
from qoop.catalog.functions.function import UserFunction
from qoop.catalog.table import Table
from qoop.catalog.value import value
from qoop.engine.events import Committed
from qoop.engine.state import Limits
from qoop.engine.task import CheckpointKey, JobId
from qoop.planner.plan import Plan
from qoop.planner.search.candidate import Candidate


@value
class JobRequest:
    """A job to run, and how.

    tables: the pinned tables by name. settings: SET options besides those of the plan.
    timeout: seconds after which the job fails with Timeout.
    durable: outputs must survive the process. saving: which stages' that is worthwhile for; None: all must.
    reuse: look for checkpoints that the backend has already. own_outputs: of these, use only what jobs of the same
    tenant and user have made.
    adaptive: how it may change plan while it runs; None: it keeps the plan.
    text: of the query, for the record. functions: of Python, that its stages may call.
    follows: it goes on with what a job that was admitted began, and does not queue again.
    earlier: the reason why it can use nothing of an unfinished run of the same text, as a clause; empty: there is none.
    slowdown: by which factor its tasks should take longer than estimated, as those of jobs before it.
    gain: the part of the way to its program's goal that the job should bring; None: it is a query by itself.
    fallback: the plan that runs where a stage fails by what it computes; None: the job fails.
    """

    plan: Plan
    tables: Mapping[str, Table] = field(default_factory=dict)
    settings: tuple[tuple[str, str], ...] = ()
    timeout: float | None = None
    durable: bool = False
    reuse: bool = False
    text: str = ""
    limits: Limits = field(default_factory=Limits)
    adaptive: Adaptive | None = None
    saving: Worthwhile | None = None
    functions: tuple[UserFunction, ...] = ()
    terms: Terms = Terms()
    follows: bool = False
    gain: float | None = None
    fallback: Plan | None = None
    slowdown: float = 1.0
    earlier: str = ""
    own_outputs: bool = False

    def __post_init__(self) -> None:
        if self.timeout is not None and not self.timeout > 0:
            raise ConfigError(f"the timeout of a job must be above 0 seconds, not {self.timeout}")


@value
class Submitted:
    """Run a job. arrival: its place in the order of jobs. at: the time of the submission, by the session's clock."""

    job: JobId
    arrival: int
    at: float
    request: JobRequest


@value
class CancelRequested:
    """Cancel the job. error: the one that the job ends with; None: "it was cancelled"."""

    job: JobId
    error: Cancelled | None = None


@value
class PauseRequested:
    """Begin no further task of the job. on: False: resume it."""

    job: JobId
    on: bool = True


@value
class SuspendRequested:
    """Pause the job, which another session will continue. owner: the job that its reusable outputs are kept for.

    kept: these outputs; none if the job has ended. Once they are safe, the job can be cancelled.
    """

    job: JobId
    owner: JobId
    kept: Future[tuple[Committed, ...]] = field(default_factory=Future, compare=False, repr=False)


@value
class ReleaseRequested:
    """Release these outputs of the job."""

    job: JobId
    keys: tuple[CheckpointKey, ...]


@value
class ReconsiderRequested:
    """Decide about the job's plan now. why: as a clause."""

    job: JobId
    why: str


@value
class SlotsAnnounced:
    """Announced slots of all machines together. course: (seconds from now, slots), in order of time."""

    course: tuple[tuple[float, float], ...]


@value
class MachineSlept:
    """The machine slept for these seconds, which the session's clock does not count."""

    seconds: float


@value
class SampleOffered:
    """An approximate answer of the job's query is possible. part: of the tables that it reads for an error `within`."""

    job: JobId
    within: float
    part: float


@value
class ProgramMessage:
    """A message to a program above jobs (:mod:`qoop.programs`), for the trace; the owner of the program does its steps.

    began: the state before its first message; empty: it had begun. Both texts are a `repr`.
    """

    program: str
    message: str
    began: str = ""


@value
class PinRequested:
    """Pin the present rows of the root, which are handed out: the job changes only to plans that take them over.

    done: False if there are none yet, or they depend on a non-deterministic stage (law 12), which may give other rows.
    """

    job: JobId
    done: Future[bool] = field(default_factory=Future, compare=False, repr=False)


@value
class ResizeRequested:
    """Resize the backend in `notice` seconds. slots, memory (bytes): None: unchanged. why: as a clause, or empty."""

    slots: int | None
    memory: int | None
    notice: float
    why: str = ""
    done: Future[None] = field(default_factory=Future, compare=False, repr=False)


@value
class PlannerReplied:
    """The planner's reply to a request about a job.

    found: the plans that it has searched for, None if it has not. error: why there is no answer.
    seconds: what it took; searching: of these, for the search. quick_search: the plans are those of a first look. The
        rest of the answer follows from the question; it is `answer`.
    """

    job: JobId
    found: tuple[Candidate, ...] | None
    error: QoopError | None
    seconds: float
    searching: float = 0.0
    quick_search: bool = False
    answer: Answer | Useful | None = field(default=None, compare=False, repr=False)


@value
class CloseRequested:
    """Cancel all jobs."""


Message = (
    Submitted
    | CancelRequested
    | PauseRequested
    | SuspendRequested
    | ReleaseRequested
    | ReconsiderRequested
    | SampleOffered
    | ProgramMessage
    | PinRequested
    | ResizeRequested
    | SlotsAnnounced
    | MachineSlept
    | PlannerReplied
    | CloseRequested
)
