"""All that a scheduler knows of the nodes between their reports: what it has granted, less what it has heard of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from qoop.engine.node_queues.ticket import Ticket
from qoop.engine.task import AttemptId, MachineId

_NOTHING: Mapping[AttemptId, Ticket] = {}


@dataclass(slots=True)
class _Node:
    """ends: of running attempts, when each should end. queued: those that wait."""

    ends: dict[AttemptId, float] = field(default_factory=dict)
    queued: dict[AttemptId, Ticket] = field(default_factory=dict)


class NodesView:
    """Running and waiting attempts by node. A grant counts at once, so that several between two reports do not all go
    to one node; what ends counts when it is heard of."""

    def __init__(self) -> None:
        self._nodes: dict[MachineId, _Node] = {}
        self._places: dict[AttemptId, tuple[MachineId, float]] = {}

    def granted(self, machine: MachineId, ticket: Ticket, now: float) -> None:
        """The attempt runs at the node from now on, or waits there."""
        node = self._nodes.setdefault(machine, _Node())
        self._places[ticket.attempt] = machine, ticket.seconds
        if ticket.waits:
            node.queued[ticket.attempt] = ticket
        else:
            node.ends[ticket.attempt] = now + ticket.seconds

    def begun(self, attempt: AttemptId, now: float) -> None:
        """It waits no more, but runs."""
        machine, seconds = self._places.get(attempt, (None, 0.0))
        if machine is not None and self._nodes[machine].queued.pop(attempt, None) is not None:
            self._nodes[machine].ends[attempt] = now + seconds

    def ended(self, attempt: AttemptId) -> None:
        """It has reported; attempts that are not known are ignored."""
        machine, _ = self._places.pop(attempt, (None, 0.0))
        if machine is not None:
            self._nodes[machine].queued.pop(attempt, None)
            self._nodes[machine].ends.pop(attempt, None)

    def lost(self, machine: MachineId) -> None:
        """The node is gone, with all that it had."""
        node = self._nodes.pop(machine, _Node())
        for attempt in (*node.ends, *node.queued):
            del self._places[attempt]

    def waiting(self) -> Iterator[tuple[AttemptId, MachineId]]:
        """The attempts that wait, with their nodes."""
        for machine, node in self._nodes.items():
            for attempt in node.queued:
                yield attempt, machine

    def queued(self, machine: MachineId) -> Mapping[AttemptId, Ticket]:
        """The attempts that wait at a node, in the order in which they were sent."""
        node = self._nodes.get(machine)
        return node.queued if node is not None else _NOTHING

    def running(self, machine: MachineId, now: float) -> list[float]:
        """Seconds that each attempt which runs at a node should have left; negative: it is late."""
        node = self._nodes.get(machine)
        return [end - now for end in node.ends.values()] if node is not None else []

    def next_end(self, machine: MachineId, now: float) -> float:
        """Seconds until the first attempt that runs at a node should end; 0 where none runs."""
        return max(0.0, min(self.running(machine, now), default=0.0))
