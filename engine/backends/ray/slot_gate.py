"""The slots of a node, in front of the backends of all sessions that are there.

What a session sends comes here first, and goes on to the session's own backend when it has a slot. Locks are taken in
one order: the gate's, then a backend's. A backend reports ends while it holds none.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from qoop.engine.backends.local import LocalBackend
from qoop.engine.events import Queued, TaskFailed, TaskStopped
from qoop.engine.failures import to_failure
from qoop.engine.node_queues.policy import NodeQueueing
from qoop.engine.node_queues.shared import Begun, Member, SharedNode
from qoop.engine.node_queues.ticket import JobLeft, Ticket
from qoop.engine.task import AttemptId, MachineId, TaskSpec
from qoop.planner.plan import Resources

if TYPE_CHECKING:
    from qoop.engine.backends.local_attempt import Ahead


@dataclass(slots=True)
class _Waiting:
    """An attempt that has no slot yet. informed: its session knows that it waits. ahead: of its inputs."""

    spec: TaskSpec
    informed: bool
    ahead: Ahead | None = None


class SlotGate:
    """Lets attempts of several sessions into a machine of that capacity, as :class:`SharedNode` says."""

    def __init__(self, capacity: Resources) -> None:
        self._node = SharedNode(capacity)
        self._clients: dict[str, GateClient] = {}
        self._lock = threading.RLock()

    def open(self, member: Member, queueing: NodeQueueing) -> GateClient:
        """The way in for a session. Raises ConfigError if it has one."""
        with self._lock:
            self._node.join(member, queueing)
            client = self._clients[member.name] = GateClient(self, member.name)
            return client

    def shut(self, name: str) -> None:
        """The session has left; what waited is forgotten, and its slots are free."""
        with self._lock:
            self._clients.pop(name, None)
            self._begin(self._node.leave(name, time.monotonic()))

    def slots(self) -> dict[str, float]:
        """The slots that each session has now."""
        with self._lock:
            return self._node.slots()

    def waiting(self) -> dict[str, int]:
        """The tasks of each session that wait now."""
        with self._lock:
            return {name: len(client.waiting) for name, client in self._clients.items()}

    def arrive(self, client: GateClient, spec: TaskSpec, informed: bool) -> None:
        """An attempt has come, and begins at once or when there is a slot for it. What it reads is kept from now on."""
        client.backend.store.hold(spec.attempt.task.job, [key for item in spec.inputs for key in item.keys])
        with self._lock:
            waiting = client.waiting[spec.attempt] = _Waiting(spec, informed)
            self._begin(self._node.arrive(client.name, _ticket(spec), time.monotonic()))
            if spec.attempt in client.waiting:
                waiting.ahead = client.backend.fetch_ahead(spec)
                if not informed:
                    waiting.informed = True
                    client.backend.report(Queued(spec.attempt))

    def withdraw(self, client: GateClient, attempt: AttemptId) -> bool:
        """True if the attempt waited, which it does no more."""
        with self._lock:
            if client.waiting.pop(attempt, None) is None:
                return False
            now = time.monotonic()
            self._node.withdraw(client.name, attempt, now)
            self._begin(self._node.begin(now))
            return True

    def ended(self, client: GateClient, attempt: AttemptId) -> None:
        """An attempt has no slot any more."""
        with self._lock:
            self._begin(self._node.release(client.name, attempt, time.monotonic()))

    def changed(self, client: GateClient, attempt: AttemptId, resources: Resources) -> None:
        """An attempt has other resources than before."""
        with self._lock:
            self._begin(self._node.hold(client.name, attempt, resources, time.monotonic()))

    def _begin(self, begun: Iterable[Begun]) -> None:
        coming = deque(begun)
        while coming:
            coming.extend(self._start(*coming.popleft()))

    def _start(self, name: str, attempt: AttemptId) -> Sequence[Begun]:
        """Begin an attempt; what begins in its place if it cannot."""
        client = self._clients[name]
        one = client.waiting.pop(attempt)
        try:
            client.backend.start(client.machine, one.spec, one.informed, one.ahead)
        except Exception as error:  # it may be another session's turn that led to this
            client.backend.report(TaskFailed(attempt, *to_failure(error, one.spec)))
            return self._node.release(name, attempt, time.monotonic())
        return ()


@dataclass(eq=False)
class GateClient:
    """The gate, for one session whose attempts run in `backend`."""

    gate: SlotGate
    name: str
    machine: MachineId = ""
    backend: LocalBackend = field(init=False)
    waiting: dict[AttemptId, _Waiting] = field(default_factory=dict)

    def start(self, spec: TaskSpec, informed: bool) -> None:
        """Begin an attempt when it has a slot. informed: its session knows that it waits."""
        self.gate.arrive(self, spec, informed or spec.waits)

    def stop(self, attempt: AttemptId) -> None:
        """Interrupt an attempt; one that waits has ended at once."""
        if self.gate.withdraw(self, attempt):
            self.backend.report(TaskStopped(attempt))
        else:
            self.backend.stop(attempt)

    def ended(self, attempt: AttemptId) -> None:
        """Its backend is done with an attempt."""
        self.gate.ended(self, attempt)

    def changed(self, attempt: AttemptId, resources: Resources) -> None:
        """Its backend has given an attempt other resources."""
        self.gate.changed(self, attempt, resources)


def _ticket(spec: TaskSpec) -> Ticket:
    """The ticket of an attempt, since now. One that was thought to begin at once has none yet."""
    now, seconds = time.monotonic(), spec.stage.estimate.task_seconds
    if spec.ticket is not None:
        return replace(spec.ticket, since=now)
    return Ticket(spec.attempt, 0, seconds, now, JobLeft(seconds, 1), spec.resources, path=spec.path)
