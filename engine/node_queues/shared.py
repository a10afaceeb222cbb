"""One node for several sessions: their tasks that run there, and those that wait there. Pure, as the queue of one.

Sessions take turns by weight: of those whose tasks wait, the one begins a task that has had the least slot seconds for
its weight. Within a session its own order decides. A session that comes, or that comes back, begins with as much as the
one that has had least, so idle time earns no turns.

A short task of a session of which nothing runs here begins next to long ones, without a slot: it would else wait until
one of them ends. One such runs at a time, and another one if its session has just come, or had nothing to do for a
second: a newcomer would else wait for the short tasks of those that are always there. Its session pays for it with its
next turns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from qoop.catalog.errors import ConfigError
from qoop.catalog.value import value
from qoop.engine.node_queues.policy import NodeQueueing
from qoop.engine.node_queues.queue import NodeQueue
from qoop.engine.node_queues.ticket import Ticket
from qoop.engine.task import AttemptId
from qoop.planner.plan import Resources

WINDOW = 1.0
"""Seconds over which shares hold: a session counts as having had so much of each slot that it has now."""

SHORT = 1.0
"""Seconds that a task may take which begins next to others."""

NEXT_TO_OTHERS = 2
"""Tasks that may run next to those that have the node's slots."""

_SOON = 0.05  # seconds for which a task waits rather than begin next to others


@value
class Member:
    """A session at a node. tenant: its owner; sessions of one tenant share the weight of that."""

    name: str
    tenant: str = ""
    weight: float = 1.0


@dataclass(slots=True)
class _Running:
    """The resources of an attempt that runs. ends: when it should end, if that is known."""

    resources: Resources
    ends: float


@dataclass(slots=True)
class _Party:
    """A member. spent: slot seconds for its weight. comes: nothing of it has begun since it came, or had nothing to do
    for a while. idle_since: when it had something to do last, if it has not now."""

    member: Member
    number: int
    queue: NodeQueue
    spent: float
    comes: bool = True
    idle_since: float = 0.0
    running: dict[AttemptId, _Running] = field(default_factory=dict)

    @property
    def active(self) -> bool:
        """True if something of it runs or waits."""
        return bool(self.running) or len(self.queue) > 0

    @property
    def slots(self) -> float:
        """The slots that it has now."""
        return sum(held.resources.cpu for held in self.running.values())


Begun = tuple[str, AttemptId]
"""A task that begins: the session's name, and the attempt."""


class SharedNode:
    """The tasks of all sessions at a machine of that capacity. Raises ConfigError where a session is not known."""

    def __init__(self, capacity: Resources) -> None:
        self.capacity = capacity
        self._parties: dict[str, _Party] = {}
        self._numbers = 0
        self._counted = 0.0  # until when slot seconds are counted
        self._floor = 0.0  # what the active session that has had least has had

    def __len__(self) -> int:
        return len(self._parties)

    def __contains__(self, name: str) -> bool:
        return name in self._parties

    def join(self, member: Member, queueing: NodeQueueing) -> None:
        """A session's tasks may come from now on."""
        if member.name in self._parties:
            raise ConfigError(f"the session {member.name} is at this node already")
        self._numbers += 1
        self._parties[member.name] = _Party(member, self._numbers, queueing.queue(), self._floor)

    def leave(self, name: str, now: float) -> list[Begun]:
        """A session is gone, with all that it had here; returns what begins in its place."""
        self._count(now)
        self._parties.pop(name, None)
        return self.begin(now)

    def arrive(self, name: str, ticket: Ticket, now: float) -> list[Begun]:
        """A task has come; returns those that begin now, as a rule this one or none."""
        self._count(now)
        party = self._party(name)
        if not party.active:
            party.spent = max(party.spent, self._floor)
            party.comes = party.comes or now - party.idle_since > WINDOW
        party.queue.put(ticket, forced=True)
        party.queue.hear(ticket.job, ticket.left)
        return self.begin(now)

    def begin(self, now: float) -> list[Begun]:
        """The waiting tasks that begin now."""
        self._count(now)
        begun: list[Begun] = []
        while (found := self._next(now)) is not None:
            begun.append(found)
        return begun

    def hold(self, name: str, attempt: AttemptId, resources: Resources, now: float) -> list[Begun]:
        """An attempt that runs has these resources from now on; returns what begins in those that it gave back."""
        self._count(now)
        party = self._parties.get(name)
        if party is not None and attempt in party.running:
            party.running[attempt].resources = resources
        return self.begin(now)

    def release(self, name: str, attempt: AttemptId, now: float) -> list[Begun]:
        """An attempt has ended; returns those that begin in its place."""
        self._count(now)
        party = self._parties.get(name)
        if party is not None:
            party.running.pop(attempt, None)
            party.idle_since = now
        return self.begin(now)

    def withdraw(self, name: str, attempt: AttemptId, now: float) -> bool:
        """Call a waiting task back. False if it does not wait here."""
        self._count(now)
        return self._party(name).queue.withdraw(attempt)

    def slots(self) -> dict[str, float]:
        """The slots that each session has now."""
        return {name: party.slots for name, party in self._parties.items()}

    def _party(self, name: str) -> _Party:
        party = self._parties.get(name)
        if party is None:
            raise ConfigError(f"no session {name} is at this node; there are {', '.join(self._parties) or 'none'}")
        return party

    def _count(self, now: float) -> None:
        """Charge what was used since this was done last."""
        passed, self._counted = max(0.0, now - self._counted), now
        for party in self._parties.values():
            party.spent += party.slots * passed / self._weight(party)
        self._floor = max(self._floor, min((one.spent for one in self._active()), default=0.0))

    def _active(self) -> Iterator[_Party]:
        return (party for party in self._parties.values() if party.active)

    def _weight(self, party: _Party) -> float:
        """Its part of its tenant's weight."""
        tenant = party.member.tenant
        sharing = sum(one is not party and one.member.tenant == tenant for one in self._active()) if tenant else 0
        return party.member.weight / (1 + sharing)

    def _next(self, now: float) -> Begun | None:
        """The task that begins next, which runs from now on; None: none can. No session is passed over in its turn."""
        waiting = [party for party in self._parties.values() if len(party.queue)]
        if not waiting:
            return None
        party = min(waiting, key=self._turn)
        ticket = party.queue.take(self._free(), now)
        if ticket is None:
            party, ticket = self._next_to(waiting, now)
        if ticket is None:
            return None
        party.comes = False
        party.running[ticket.attempt] = _Running(ticket.resources, now + ticket.seconds)
        return party.member.name, ticket.attempt

    def _turn(self, party: _Party) -> tuple[float, int]:
        return party.spent + party.slots * WINDOW / self._weight(party), party.number

    def _used(self) -> Resources:
        held = (one.resources for party in self._parties.values() for one in party.running.values())
        return sum(held, Resources())

    def _free(self) -> Resources:
        return self.capacity - self._used()

    def _next_to(self, waiting: list[_Party], now: float) -> tuple[_Party, Ticket | None]:
        """The task that begins without a slot, and whose it is."""
        first = min(waiting, key=lambda party: (not party.comes, bool(party.running), self._turn(party)))
        ticket = first.queue.next(now)
        if ticket is None or first.running or not 0.0 < ticket.seconds <= SHORT or self._ends_soon(now):
            return first, None
        more = self._free() + Resources(NEXT_TO_OTHERS if first.comes else 1.0)
        return first, first.queue.take(more, now)

    def _ends_soon(self, now: float) -> bool:
        """True if a slot should come free by itself before long."""
        return any(
            0.0 <= held.ends - now < _SOON for party in self._parties.values() for held in party.running.values()
        )
