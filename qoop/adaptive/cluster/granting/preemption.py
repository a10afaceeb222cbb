"""Preemption: a running task is interrupted for a job that waits with nothing running, as no extra slot is left.

What is lost must be less than what the job would wait by estimate; where a task takes longer than estimated, less than
what the job has waited. Every interruption doubles the time for which the tasks of the job that it hits run before the
next one. So two jobs that interrupt each other lose no more than half of their time, and both end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from qoop.adaptive.schedulers.base import Request
from qoop.engine.events import Running
from qoop.engine.task import JobId, MachineId
from qoop.planner.packing import Available

PATIENCE_SECONDS = 5.0
"""A job waits for so long with nothing running, and a task runs for so long, before it is interrupted."""

CHECK_SECONDS = 0.5
"""Time between looks at whether an interruption has become worth it."""


class Preemption:
    """Chooses the task to interrupt, and counts by job how often that was done.

    served: the job for which it was done last, as long as it waits. next_at: the time of the next check; None: no job
        waits.
    """

    def __init__(self) -> None:
        self.served: JobId | None = None
        self.next_at: float | None = None
        self._since: Mapping[JobId, float] = {}
        self._times: dict[JobId, int] = {}

    def times(self, job: JobId) -> int:
        """The number of times that a task of the job was interrupted for another job."""
        return self._times.get(job, 0)

    def waiting(self, since: Mapping[JobId, float], now: float) -> None:
        """These jobs wait now with nothing running, each since then."""
        self._since = since
        self.next_at = min((max(at + PATIENCE_SECONDS, now + CHECK_SECONDS) for at in since.values()), default=None)
        if self.served not in since:
            self.served = None

    def waited(self, job: JobId, now: float) -> float:
        """Seconds for which the job has waited with nothing running."""
        return now - self._since.get(job, now)

    def choose(
        self, request: Request, running: Iterable[Running], availability: Mapping[MachineId, Available], now: float
    ) -> Running | None:
        """The task whose slot the job should have, the one that loses least; None: none is worth it yet."""
        waited = self.waited(request.job, now)
        if waited < PATIENCE_SECONDS:
            return None
        found = [
            one
            for one in running
            if request.least.fits(one.resources + availability[one.machine].free) and self._is_worth(one, waited, now)
        ]
        return min(found, key=lambda one: one.spent(now), default=None)

    def interrupted(self, job: JobId, other: JobId) -> None:
        """A task of the job was interrupted for the other."""
        self._times[job] = self.times(job) + 1
        self.served = other

    def forget(self, job: JobId) -> None:
        """The job has ended."""
        self._times.pop(job, None)

    def _is_worth(self, one: Running, waited: float, now: float) -> bool:
        lost = one.spent(now)
        left = one.seconds - lost
        worth = lost <= (left if left > 0 else waited)  # the end of a late one is unknown
        return worth and lost >= PATIENCE_SECONDS * 2 ** self.times(one.attempt.task.job)
