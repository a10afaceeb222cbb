"""An attempt on a simulated machine."""

from __future__ import annotations

from dataclasses import dataclass

from qoop.engine.backends.efforts import Effort
from qoop.engine.backends.outcomes import Outcome
from qoop.engine.backends.worker_pool import Worker
from qoop.engine.task import MachineId, TaskAccount, TaskSpec


@dataclass(eq=False, slots=True)
class SimulatedAttempt:
    """An attempt on its way.

    effort: None while it waits for a worker, or moves bytes. waited: in the queue of its machine.
    worker: None where there are no crews.
    taken, read, computed: when a worker took it up, and when it had read and computed.
    """

    machine: MachineId
    spec: TaskSpec
    outcome: Outcome
    began: float
    effort: Effort | None = None
    worker: Worker | None = None
    queued: bool = False
    waited: bool = False
    taken: float = 0.0
    read: float = 0.0
    computed: float = 0.0

    def account(self, now: float) -> TaskAccount:
        """Its seconds, if it has come to its end now."""
        wrote = now - self.computed
        return TaskAccount(self.taken - self.began, self.read - self.taken, self.computed - self.read, wrote)
