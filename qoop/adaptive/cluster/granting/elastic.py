"""Elastic attempts: lone tasks with all slots, as of DuckDB's own plan, whose slots change while they run."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from qoop.adaptive.cluster.granting.spare_resources import regranted
from qoop.engine.task import JobId

if TYPE_CHECKING:
    from qoop.adaptive.cluster.active_job import ActiveJob, Order
    from qoop.adaptive.cluster.granting.tenant_limits import TenantLimits
    from qoop.engine.driver import Driver
    from qoop.engine.events import Running


class ElasticAttempts:
    """Lets the attempts of a cluster whose resources can change have those of their share."""

    def __init__(self, jobs: Mapping[JobId, ActiveJob], driver: Driver, limits: TenantLimits, order: Order) -> None:
        self._jobs = jobs
        self._driver = driver
        self._limits = limits
        self._order = order
        self._elastic: set[JobId] = set()  # jobs that may have such attempts

    @property
    def any(self) -> bool:
        """True if a job may have such an attempt."""
        return bool(self._elastic)

    def begun(self, job: JobId) -> None:
        """The job has an elastic attempt."""
        self._elastic.add(job)

    def regrant(self, waiting: AbstractSet[JobId], now: float) -> None:
        """Let attempts have fewer slots as soon as another job waits for them, more as soon as they are free."""
        for name in list(self._elastic):
            job = self._jobs.get(name)
            found = job.run.elastic() if job is not None else ()
            if job is None or not (found or job.run.alive):
                self._elastic.discard(name)
                continue
            for running in found:
                self._regrant_one(job, running, bool(waiting - {name}), now)

    def _regrant_one(self, job: ActiveJob, running: Running, others_wait: bool, now: float) -> None:
        slots = self._slots_of(job, running)
        if slots < running.resources.cpu and not others_wait:
            return
        allowed = self._limits.memory(job, running.resources.memory)
        resources = regranted(running, slots, self._driver.available(running.machine), allowed)
        if resources is not None:
            self._order(job.run.job, job.run.regrant(running.attempt, resources, now=now))

    def _slots_of(self, job: ActiveJob, running: Running) -> float:
        """The slots that an attempt is to have: those of its job's share, within the limits of its tenant and plan."""
        slots = self._limits.bounded(job, job.run.slots_of_share(running.most), running.resources.cpu)
        if job.replanner is None or job.replanner.slots is None:
            return slots
        return max(1.0, min(slots, job.replanner.slots))
