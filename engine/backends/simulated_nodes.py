"""The queue of a simulated machine, and when its scheduler and it hear of each other."""

from __future__ import annotations

import math
from zlib import crc32

from qoop.catalog.value import value
from qoop.engine.node_queues.policy import NodeQueueing
from qoop.engine.node_queues.ticket import Ticket
from qoop.engine.task import AttemptId, MachineId
from qoop.planner.plan import Resources


@value
class Heartbeats:
    """The time that words take between a scheduler and its nodes.

    seconds: between two reports of a node, each at moments of its own; 0: it reports at once. launching: seconds from
    a grant until the task is at its node.

    >>> beats = Heartbeats(3.0)
    >>> beats.next("m1", 10.0) > 10.0, beats.next("m1", 10.0) <= 13.0
    (True, True)
    """

    seconds: float = 0.0
    launching: float = 0.0

    def next(self, machine: MachineId, now: float) -> float:
        """The moment at which a node reports what happens now."""
        if not self.seconds:
            return now
        phase = crc32(machine.encode()) / 2**32
        beats = math.floor(now / self.seconds - phase) + 1
        at = (beats + phase) * self.seconds
        return at if at > now else at + self.seconds


class SimulatedNode:
    """The tasks that run on a machine, and those that wait there."""

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
