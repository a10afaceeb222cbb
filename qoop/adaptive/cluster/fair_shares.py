"""The fair shares of a cluster's jobs, and what the machines had together over time."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from qoop.adaptive.cluster.past_jobs import REMEMBERED
from qoop.adaptive.schedulers.shares import parts, times
from qoop.engine.events import ShareChanged

if TYPE_CHECKING:
    from qoop.adaptive.cluster.active_job import ActiveJob
    from qoop.adaptive.cluster.granting.granter import Granter
    from qoop.adaptive.cluster.job_group import JobGroup
    from qoop.adaptive.schedulers.base import Scheduler
    from qoop.adaptive.schedulers.terms import Terms
    from qoop.engine.driver import Driver
    from qoop.engine.task import JobId
    from qoop.planner.plan import Resources


class FairShares:
    """Divides the machines between the jobs.

    stale: jobs or the capacity have changed since the last division. opened: the time at which the cluster began.
    lock: of the cluster.
    """

    def __init__(
        self,
        jobs: Mapping[JobId, ActiveJob],
        driver: Driver,
        scheduler: Scheduler,
        granter: Granter,
        opened: float,
        lock: AbstractContextManager[object],
    ) -> None:
        self._jobs = jobs
        self._driver = driver
        self._scheduler = scheduler
        self._granter = granter
        self._lock = lock
        self.stale = False
        self._groups: list[JobGroup] = []
        self._numbers = 0  # of the groups so far
        self._sizes = deque([(opened, driver.capacity)], maxlen=REMEMBERED)

    def divide(self, queued: Container[JobId], now: float) -> None:
        """Report its share to each job, if one may have changed. queued: jobs that are not admitted: they have none."""
        if not self.stale:
            return
        self._note_size(now)
        self.stale = False
        requests = [self._granter.request(job) for name, job in self._jobs.items() if name not in queued]
        promised = self._driver.promised
        for group in self._groups:
            group.divide(self._jobs, requests, promised)
        if requests:
            shares = self._scheduler.fair_shares(requests, promised, now)
            later = self._driver.coming(now)
            # the scheduler divides one capacity: the shares of announced ones are in proportion
            part = parts(requests, shares, promised) if later else {}
            changes = [
                ShareChanged(name, share, tuple((at, times(capacity, part[name])) for at, capacity in later))
                for name, share in shares.items()
            ]
            self._driver.take(changes, now)

    def slots_for(self, terms: Terms) -> float:
        """The slots that a tenant would have next to those whose jobs are there now. terms: of a job of it.

        For any thread."""
        with self._lock:
            others = {job.tenant: self._granter.tenant_weight(job.request.terms) for job in self._jobs.values()}
            others.pop(terms.tenant, None)
            own = self._granter.tenant_weight(terms)
            return self._driver.capacity.cpu * own / (own + sum(others.values()))

    def others_run(self, terms: Terms) -> bool:
        """True while jobs of other tenants are there. terms: of a job of a tenant.

        For any thread."""
        with self._lock:
            return any(job.tenant != terms.tenant for job in self._jobs.values())

    @contextmanager
    def group(self, terms: Terms, slots: int) -> Iterator[JobGroup]:
        """Within the block, jobs with the terms of the group have the weight of one. slots: until the next division.

        For any thread."""
        from qoop.adaptive.cluster.job_group import JobGroup  # few sessions have one

        with self._lock:
            self._numbers += 1
            made = JobGroup(f"group{self._numbers}", terms, self._granter.tenant_weight(terms), slots)
            self._groups.append(made)
            self.stale = True
        try:
            yield made
        finally:
            with self._lock:
                self._groups.remove(made)

    def _note_size(self, now: float) -> None:
        if self._driver.capacity != self._sizes[-1][1]:
            self._sizes.append((now, self._driver.capacity))

    def sizes(self) -> list[tuple[float, Resources]]:
        """The resources of all machines together: from when on, by the cluster's clock, and what."""
        return list(self._sizes)
