"""The times at which jobs fail: of their timeouts, and when there was no slot for too long. Deadlines only warn."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from qoop.catalog.errors import NoCapacity, Timeout

if TYPE_CHECKING:
    from qoop.adaptive.cluster.active_job import ActiveJob, Order
    from qoop.adaptive.cluster.deadlines import Deadlines
    from qoop.adaptive.cluster.recording.messages import SampleOffered
    from qoop.engine.driver import Driver
    from qoop.engine.notices import DeadlineReported
    from qoop.engine.run import Run
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


class DeadlineWatch:
    """The deadlines of jobs, once a job has one. watches: False: none is watched."""

    def __init__(self, jobs: Mapping[JobId, ActiveJob], driver: Driver, watches: bool) -> None:
        self._jobs = jobs
        self._driver = driver
        self._watches = watches
        self._deadlines: Deadlines | None = None

    def add(self, job: ActiveJob, now: float) -> None:
        """A job has come."""
        if not self._watches or job.needed_at == math.inf:
            return
        from qoop.adaptive.cluster.deadlines import Deadlines  # few jobs have one

        self._deadlines = self._deadlines or Deadlines(self._jobs, lambda: self._driver.promised)
        self._deadlines.add(job, now)

    def remove(self, job: JobId) -> None:
        """The job has ended."""
        if self._deadlines is not None:
            self._deadlines.remove(job)

    def take(self, sample: SampleOffered) -> None:
        """An approximate answer has become possible."""
        if self._deadlines is not None:
            self._deadlines.take(sample)

    def slept(self, now: float) -> None:
        """The machine slept, which counts for deadlines."""
        if self._deadlines is not None:
            self._deadlines.check_at(now)

    def is_due(self, now: float) -> bool:
        """True if there is something to check."""
        return self._deadlines is not None and now >= self._deadlines.next_at

    def verdicts(self, now: float) -> Iterator[tuple[Run, DeadlineReported]]:
        """The jobs that will miss their deadlines, or meet them after all, where that is news."""
        return self._deadlines.verdicts(now) if self._deadlines is not None else iter(())

    def moments(self) -> Iterable[float]:
        """The time of the next check."""
        if self._deadlines is not None and self._deadlines.next_at < math.inf:
            yield self._deadlines.next_at
