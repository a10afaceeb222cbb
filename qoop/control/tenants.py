"""Tenants: who several jobs are for. Resources are shared between tenants first, then between the jobs of each.

Each job has a weight, its part of its tenant as jobs come and go, so schedulers need not know of tenants. Somebody with
twenty queries has one share. What a job has no use for goes to all others by their weights, not to its tenant's first.
"""

from __future__ import annotations

from qoop.engine.task import JobId


class Tenants:
    """The active jobs of a cluster by tenant. Jobs that name none belong to the same one."""

    def __init__(self) -> None:
        self._jobs: dict[JobId, tuple[str, float]] = {}
        self._weights: dict[str, float] = {}

    def add(self, job: JobId, tenant: str, weight: float) -> None:
        """A job of that weight within its tenant takes part from now on."""
        self._jobs[job] = tenant, weight
        self._sum_up()

    def remove(self, job: JobId) -> None:
        """It takes no more part."""
        if self._jobs.pop(job, None) is not None:
            self._sum_up()

    def weight(self, job: JobId) -> float:
        """The weight of a job among all jobs: each tenant has one in all.

        Of a single tenant it is the job's own.

        >>> tenants = Tenants()
        >>> for job, tenant in (("a", "x"), ("b", "x"), ("c", "y")):
        ...     tenants.add(job, tenant, 1.0)
        >>> [tenants.weight(job) for job in "abc"]
        [0.5, 0.5, 1.0]
        """
        tenant, weight = self._jobs[job]
        return weight if len(self._weights) < 2 else weight / self._weights[tenant]

    def _sum_up(self) -> None:
        """Added up again each time: sums of floats do not come back."""
        self._weights = {}
        for tenant, weight in self._jobs.values():
            self._weights[tenant] = self._weights.get(tenant, 0.0) + weight
