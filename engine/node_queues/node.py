"""A node with a queue: the tasks that run there, and those that wait. Pure: a simulated node and a real one hold it."""

from __future__ import annotations

from qoop.engine.node_queues.policy import NodeQueueing
from qoop.engine.node_queues.ticket import Ticket
from qoop.engine.task import AttemptId
from qoop.planner.plan import Resources


class QueueingNode:
    """The tasks that run on a machine, and those that wait there until these leave them resources.

    capacity: what tasks may have together; less than the machine's where others share it.
    """

    def __init__(self, capacity: Resources, queueing: NodeQueueing) -> None:
        self.capacity = capacity
        self.queue = queueing.queue()
        self._held: dict[AttemptId, Resources] = {}
        self._used = Resources()

    @property
    def busy(self) -> bool:
        """True if something runs."""
        return bool(self._held)

    def arrive(self, ticket: Ticket, now: float) -> list[AttemptId]:
        """A task has come; returns those that begin now, as a rule this one or none.

        A scheduler that has not heard of the last start may have sent two tasks for one slot: so what comes may wait in
        a queue that is full.
        """
        self.queue.put(ticket, forced=True)
        return self.begin(now)

    def begin(self, now: float) -> list[AttemptId]:
        """The waiting tasks that begin now."""
        begun: list[AttemptId] = []
        while (ticket := self.queue.take(self.capacity - self._used, now)) is not None:
            self.hold(ticket.attempt, ticket.resources)
            begun.append(ticket.attempt)
        return begun

    def hold(self, attempt: AttemptId, resources: Resources) -> None:
        """The attempt has these resources from now on."""
        self.release(attempt)
        self._held[attempt] = resources
        self._used = self._used + resources

    def release(self, attempt: AttemptId) -> None:
        """It neither runs nor waits any more; attempts that are not known are ignored."""
        self.queue.withdraw(attempt)
        held = self._held.pop(attempt, None)
        if held is not None:
            self._used = self._used - held if self._held else Resources()
