"""The slots and the memory that all jobs of a tenant together may hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from qoop.engine.task import JobId
from qoop.planner.plan import Resources

if TYPE_CHECKING:
    from qoop.adaptive.cluster.active_job import ActiveJob
    from qoop.engine.driver import Driver
    from qoop.engine.events import Demand


NO_LIMIT = Resources(math.inf, math.inf, math.inf, math.inf)


class TenantLimits:
    """Limits by tenant, over the jobs of a cluster. A tenant without a limit may hold all resources."""

    def __init__(self, jobs: Mapping[JobId, ActiveJob], driver: Driver) -> None:
        self._jobs = jobs
        self._driver = driver
        self._most: dict[str, Resources] = {}

    def limit(self, tenant: str, slots: float, memory: float) -> None:
        """As `Cluster.limit_tenant`."""
        self._most[tenant] = Resources(slots, memory, math.inf, math.inf)

    @property
    def any(self) -> bool:
        """True if there is a limit: mostly there is none, and this is asked for with every task."""
        return bool(self._most)

    def most_memory(self, tenant: str) -> float:
        """The bytes that one task of a tenant may have."""
        return self._most.get(tenant, NO_LIMIT).memory

    def with_limited(self, jobs: Sequence[ActiveJob]) -> Sequence[ActiveJob]:
        """The jobs, and all of tenants that have limits: what one of these holds, or gave back, is not the others'."""
        limited = [job for job in self._jobs.values() if job.tenant in self._most]
        return [*jobs, *(job for job in limited if job not in jobs)]

    def allowed(self, job: ActiveJob, ready: tuple[Demand, ...]) -> tuple[Demand, ...]:
        """The demands of a job that its tenant's limit allows."""
        if not self._most or job.tenant not in self._most:
            return ready
        return within(ready, self._held(job.tenant), self._most[job.tenant])

    def bounded(self, job: ActiveJob, slots: float, had: float = 0.0) -> float:
        """The slots of a number that a task of the job may have; at least one. had: those that it holds already."""
        return max(1.0, min(slots, self._left(job.tenant).cpu + had) if self._most else slots)

    def memory(self, job: ActiveJob, had: float = 0.0) -> float:
        """The bytes that a task of the job may have. had: those that it holds already."""
        return self._left(job.tenant).memory + had if self._most else NO_LIMIT.memory

    def _left(self, tenant: str) -> Resources:
        """The resources that a tenant may still take; below 0 while it holds more than it may."""
        return self._most[tenant] - self._held(tenant) if tenant in self._most else NO_LIMIT

    def _held(self, tenant: str) -> Resources:
        """The resources that the jobs of a tenant hold, on extra slots, too."""
        runs = [job.run for job in self._jobs.values() if job.tenant == tenant]
        extra = (one.resources for run in runs for one in run.running() if one.extra)
        return sum((*extra, *(self._driver.used_by(run.job) for run in runs)), Resources())


def within(ready: Sequence[Demand], used: Resources, most: Resources) -> tuple[Demand, ...]:
    """The demands that fit with what is used into the most that may be. A task that needs more runs alone."""
    return tuple(one for one in ready if not used.cpu or (used + one.resources).fits(most))
