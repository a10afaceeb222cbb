"""Accounts of the jobs that have ended: how fairly they were served, and what was skipped for others."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from qoop.control.job_status import EndedJob, EndedJobs, JobStatus, PastJob, mean_share
from qoop.control.latest import Latest, characters

if TYPE_CHECKING:
    from qoop.control.active_job import ActiveJob
    from qoop.control.tenants import TenantStatus

REMEMBERED = 500
"""Jobs that have ended whose fairness can be told."""
_MOST_BYTES = 10_000_000
"""The same of the texts of their plans."""


class PastJobs:
    """The jobs of a cluster that have ended, by tenant. Not thread-safe.

    told: somebody may ask for more than counts; nobody does in a simulation.
    """

    def __init__(self, told: bool) -> None:
        self._told = told
        self._past = Latest[PastJob](REMEMBERED, _MOST_BYTES)
        self._ended = EndedJobs()
        self._done: Counter[str] = Counter()
        self._cut: Counter[str] = Counter()  # answers that ended early for others
        self._skipped: defaultdict[str, float] = defaultdict(float)  # the parts of tables that they did not read

    def put(self, job: ActiveJob) -> None:
        """Keep what is needed to say how fairly a job was served, which is worked out when somebody asks."""
        self._done[job.tenant] += 1
        if self._told:
            history = job.run.history
            seconds = history[-1].at if history else 0.0
            past = PastJob(job.tenant, seconds, mean_share(history, seconds), job.remaining_work.alone_later())
            ended = EndedJob.of(job.handle, past)
            self._past.put(past, characters(option.candidate.plan for option in ended.known))
            self._ended.put(ended)

    def cut_short(self, tenant: str, part: float) -> None:
        """An answer of a tenant ended early for others. part: of its table that was not read."""
        self._cut[tenant] += 1
        self._skipped[tenant] += part

    def ended(self) -> Iterable[EndedJob]:
        """The jobs that ended last, in the order in which they came."""
        return self._ended

    def tenants(self, active: Iterable[tuple[str, JobStatus]], weights: Mapping[str, float]) -> list[TenantStatus]:
        """The status of every tenant that has or had a job, by name. active: the jobs that there are, with their
        tenants."""
        from qoop.control.tenants import tenant_status  # few ask

        jobs: dict[str, list[JobStatus]] = {name: [] for name in self._done}
        for tenant, status in active:
            jobs.setdefault(tenant, []).append(status)
        return [
            tenant_status(
                name,
                weights.get(name, 1.0),
                running,
                [one for one in self._past if one.tenant == name],
                self._done[name],
                self._cut[name],
                self._skipped[name],
            )
            for name, running in sorted(jobs.items())
        ]
