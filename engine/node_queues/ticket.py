"""A task that may wait at a node, and the work that its job has left. Pure values."""

from __future__ import annotations

from qoop.catalog.value import value
from qoop.engine.task import AttemptId, JobId
from qoop.planner.plan import Resources


@value
class JobLeft:
    """The work that a job has left, as reported some time ago: estimated slot seconds, and tasks that have not
    ended."""

    seconds: float
    tasks: int


ONE_SLOT = Resources(1.0)


@value
class Ticket:
    """A task that waits at a node.

    arrival: counts jobs in the order in which they came. seconds: the task should take. since: when it came to the
    node. left: of its job, when it was granted. resources: those granted. waits: its scheduler knows that it has to
    wait, so `Begun` is reported when it begins. path: seconds from its beginning to the end of the job.
    """

    attempt: AttemptId
    arrival: int
    seconds: float
    since: float
    left: JobLeft
    resources: Resources = ONE_SLOT
    waits: bool = False
    path: float = 0.0

    @property
    def job(self) -> JobId:
        """Its job."""
        return self.attempt.task.job
