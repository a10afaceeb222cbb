"""The times at which jobs fail: of their timeouts, and when there was no slot for too long."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from qoop.catalog.errors import NoCapacity, Timeout

if TYPE_CHECKING:
    from qoop.adaptive.cluster.active_job import ActiveJob, Order
    from qoop.engine.driver import Driver
    from qoop.engine.task import JobId


class TimeLimits:
    """Fails jobs whose time is over. wait_for_capacity: see `ClusterOptions`."""

    def __init__(self, jobs: Mapping[JobId, ActiveJob], driver: Driver, order: Order, wait_for_capacity: float) -> None:
        self._jobs = jobs
        self._driver = driver
        self._order = order
        self._wait_for_capacity = wait_for_capacity
        self._timeouts: dict[JobId, float] = {}
        self._empty_since: float | None = None  # when the last slot went, while there is none

    def add(self, job: ActiveJob) -> None:
        """A job has come."""
        if job.ends_at is not None:
            self._timeouts[job.run.job] = job.ends_at

    def remove(self, job: JobId) -> None:
        """The job has ended."""
        self._timeouts.pop(job, None)

    def slept(self, seconds: float) -> None:
        """The machine slept for these seconds, which count for timeouts."""
        self._timeouts = {job: at - seconds for job, at in self._timeouts.items()}

    def apply(self, now: float) -> None:
        """Fail the jobs that have run, or have waited for a slot, for long enough."""
        for name, ends_at in self._timeouts.items():
            job = self._jobs[name]
            if now >= ends_at and not job.run.ending:
                error = Timeout(f"the job did not end within {job.request.timeout:g} seconds")
                self._order(name, job.run.fail(error, now=now))
        self._end_starved_jobs(now)

    def _end_starved_jobs(self, now: float) -> None:
        if self._driver.capacity.cpu >= 1:
            self._empty_since = None
            return
        if self._empty_since is None:
            self._empty_since = now
        for job in self._jobs.values():
            if now >= self._starved_at(job, self._empty_since) and not job.run.ending:
                error = NoCapacity(f"there was no slot for {self._wait_for_capacity:g} seconds")
                self._order(job.run.job, job.run.fail(error, now=now))

    def _starved_at(self, job: ActiveJob, empty_since: float) -> float:
        return max(empty_since, job.submitted) + self._wait_for_capacity

    def moments(self) -> Iterable[float]:
        """The times at which jobs will fail."""
        for name, at in self._timeouts.items():
            if not self._jobs[name].run.ending:
                yield at
        if self._empty_since is not None and self._wait_for_capacity < math.inf:
            for job in self._jobs.values():
                if not job.run.ending:
                    yield self._starved_at(job, self._empty_since)
