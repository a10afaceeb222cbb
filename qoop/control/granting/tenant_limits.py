"""The slots that all jobs of a tenant together may hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from qoop.engine.task import JobId
from qoop.planner.plan import Resources

if TYPE_CHECKING:
    from qoop.control.active_job import ActiveJob
    from qoop.engine.driver import Driver
    from qoop.engine.events import Demand


class TenantLimits:
    """Limits by tenant, over the jobs of a cluster. Those who have none may hold any number of slots."""

    def __init__(self, jobs: Mapping[JobId, ActiveJob], driver: Driver) -> None:
        self._jobs = jobs
        self._driver = driver
        self._slots: dict[str, float] = {}

    def limit(self, tenant: str, slots: float) -> None:
        """Let all jobs of a tenant together hold that many slots at most, from the next task on; infinite: any number.
        A task that needs more runs alone."""
        self._slots[tenant] = slots

    def with_limited(self, jobs: Sequence[ActiveJob]) -> Sequence[ActiveJob]:
        """The jobs, and all of tenants that have limits: what one of these holds, or gave back, is not the others'."""
        if not self._slots:
            return jobs
        limited = [job for job in self._jobs.values() if job.tenant in self._slots]
        return [*jobs, *(job for job in limited if job not in jobs)]

    def allowed(self, job: ActiveJob, ready: tuple[Demand, ...]) -> tuple[Demand, ...]:
        """The demands of a job that its tenant's limit allows."""
        if job.tenant not in self._slots:
            return ready
        return within(ready, self._held(job.tenant), self._slots[job.tenant])

    def bounded(self, job: ActiveJob, slots: float, had: float = 0.0) -> float:
        """The slots of a number that a task of the job may have; at least one. had: those that it holds already."""
        if job.tenant not in self._slots:
            return slots
        return max(1.0, min(slots, self._slots[job.tenant] - self._held(job.tenant).cpu + had))

    def _held(self, tenant: str) -> Resources:
        jobs = (job for job in self._jobs.values() if job.tenant == tenant)
        return sum((self._driver.used_by(job.run.job) for job in jobs), Resources())


def within(ready: Sequence[Demand], used: Resources, slots: float) -> tuple[Demand, ...]:
    """The demands for which a job that takes no more than that many slots has any left.

    A task that needs more runs alone.
    """
    return tuple(one for one in ready if not used.cpu or used.cpu + one.resources.cpu <= slots)
