"""The slots and the memory that all jobs of a tenant, or of a user, together may hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from qoop.catalog.value import value
from qoop.engine.task import JobId
from qoop.planner.plan import Resources

if TYPE_CHECKING:
    from qoop.adaptive.cluster.active_job import ActiveJob
    from qoop.adaptive.schedulers.terms import Terms
    from qoop.engine.driver import Driver
    from qoop.engine.events import Demand


TENANT, USER = "tenant", "user"
"""The kinds of owners, as the terms of a job name them."""


@value
class Owner:
    """A tenant, or a user. kind: which of these."""

    kind: str
    name: str


class TenantLimits:
    """Limits by tenant and by user, over the jobs of a cluster. Without a limit an owner may hold all resources."""

    def __init__(self, jobs: Mapping[JobId, ActiveJob], driver: Driver) -> None:
        self._jobs = jobs
        self._driver = driver
        self._most: dict[Owner, Resources] = {}

    def limit(self, owner: Owner, slots: float, memory: float) -> None:
        """As `Cluster.limit`."""
        self._most.pop(owner, None)
        if min(slots, memory) < math.inf:
            self._most[owner] = Resources(slots, memory, math.inf, math.inf)

    @property
    def any(self) -> bool:
        """True if there is a limit: mostly there is none, and this is asked for with every task."""
        return bool(self._most)

    def most_memory(self, terms: Terms) -> float:
        """The bytes that one task of a job with these terms may have."""
        return min((self._most[one].memory for one in self._limited(terms)), default=math.inf)

    def with_limited(self, jobs: Sequence[ActiveJob]) -> Sequence[ActiveJob]:
        """The jobs, and all of owners that have limits: what one of these holds, or gave back, is not the others'."""
        limited = [job for job in self._jobs.values() if self._limited(job.request.terms)]
        return [*jobs, *(job for job in limited if job not in jobs)]

    def allowed(self, job: ActiveJob, ready: tuple[Demand, ...]) -> tuple[Demand, ...]:
        """The demands of a job that the limits of its owners allow."""
        for owner in self._limited(job.request.terms):
            ready = within(ready, self._held(owner), self._most[owner])
        return ready

    def bounded(self, job: ActiveJob, slots: float, had: float = 0.0) -> float:
        """The slots of a number that a task of the job may have; at least one. had: those that it holds already."""
        return max(1.0, min([slots, *(left.cpu + had for left in self._left(job))]))

    def memory(self, job: ActiveJob, had: float = 0.0) -> float:
        """The bytes that a task of the job may have. had: those that it holds already."""
        return min((left.memory + had for left in self._left(job)), default=math.inf)

    def _limited(self, terms: Terms) -> list[Owner]:
        """The owners of a job that have a limit."""
        if not self._most:
            return []
        owners = (Owner(TENANT, terms.tenant), Owner(USER, terms.user))
        return [one for one in owners if one in self._most]

    def _left(self, job: ActiveJob) -> list[Resources]:
        """The resources that each owner of a job with a limit may still take; below 0 while it holds more."""
        return [self._most[one] - self._held(one) for one in self._limited(job.request.terms)]

    def _held(self, owner: Owner) -> Resources:
        """The resources that the jobs of an owner hold, on extra slots, too."""
        runs = [job.run for job in self._jobs.values() if getattr(job.request.terms, owner.kind) == owner.name]
        extra = (one.resources for run in runs for one in run.running() if one.extra)
        return sum((*extra, *(self._driver.used_by(run.job) for run in runs)), Resources())


def within(ready: Sequence[Demand], used: Resources, most: Resources) -> tuple[Demand, ...]:
    """The demands that fit with what is used into the most that may be. A task that needs more runs alone."""
    return tuple(one for one in ready if not used.cpu or (used + one.resources).fits(most))
