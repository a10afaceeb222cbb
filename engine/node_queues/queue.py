"""The bounded queue of one node. No clock, no thread, no IO: a simulated node and a real one can hold it."""

from __future__ import annotations

from collections.abc import Iterator

from qoop.catalog.errors import PlanError
from qoop.engine.node_queues.ordering import Ordering
from qoop.engine.node_queues.ticket import JobLeft, Ticket
from qoop.engine.task import AttemptId, JobId
from qoop.planner.plan import Resources


class NodeQueue:
    """Granted tasks of all jobs that wait at one node for a slot.

    length: the most that wait; infinite: any number. What jobs have left may be reported late (`hear`): that changes
    which is first, and never loses a task.

    >>> from qoop.engine.task import TaskId
    >>> queue = NodeQueue(Ordering("shortest-task"), length=2)
    >>> for number, seconds in enumerate((5.0, 1.0)):
    ...     queue.put(Ticket(AttemptId(TaskId("job", "s", number), number), 1, seconds, 0.0, JobLeft(6.0, 2)))
    >>> queue.take(Resources(1.0), now=0.0).seconds
    1.0
    """

    def __init__(self, ordering: Ordering, length: float) -> None:
        self._ordering = ordering
        self._length = length
        self._tickets: dict[AttemptId, Ticket] = {}
        self._left: dict[JobId, JobLeft] = {}

    def __len__(self) -> int:
        return len(self._tickets)

    def __iter__(self) -> Iterator[Ticket]:
        return iter(self._tickets.values())

    def __contains__(self, attempt: AttemptId) -> bool:
        return attempt in self._tickets

    @property
    def full(self) -> bool:
        """True if no other task may wait here."""
        return len(self._tickets) >= self._length

    def put(self, ticket: Ticket, forced: bool = False) -> None:
        """A task waits from now on. forced: though the queue be full, as two may have been sent for one slot.

        Raises PlanError if the queue is full, or if the task waits already.
        """
        if ticket.attempt in self._tickets:
            raise PlanError(f"{ticket.attempt} waits already")
        if self.full and not forced:
            raise PlanError(f"{ticket.attempt} cannot wait: {len(self)} tasks do, and no more may")
        self._tickets[ticket.attempt] = ticket

    def next(self, now: float) -> Ticket | None:
        """The task that would begin now; None: nothing waits."""
        return self._ordering.first(self, self._left, now) if self._tickets else None

    def take(self, free: Resources, now: float) -> Ticket | None:
        """The task that begins now in what is free; it waits no more. None: nothing waits, or the first needs more: it
        is not passed over, or it might wait for ever."""
        first = self.next(now)
        if first is None or not first.resources.fits(free):
            return None
        return self._tickets.pop(first.attempt)

    def withdraw(self, attempt: AttemptId) -> bool:
        """Call a task back. False if it does not wait here: it has begun, or never came."""
        return self._tickets.pop(attempt, None) is not None

    def hear(self, job: JobId, left: JobLeft) -> None:
        """The job has that much left. Of jobs of which nothing waits here, nothing is kept."""
        if any(ticket.job == job for ticket in self):
            self._left[job] = left
        else:
            self._left.pop(job, None)
