"""Accounts of the jobs that have ended: how fairly they were served, and what was skipped for others."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

from qoop.adaptive.cluster.job_status import EndedJob, JobStatus, PastJob
from qoop.engine.replay import JobReplay

if TYPE_CHECKING:
    from qoop.adaptive.cluster.active_job import ActiveJob
    from qoop.adaptive.cluster.tenants import TenantStatus
    from qoop.planner.plan import Plan

REMEMBERED = 500
"""Jobs that have ended whose fairness can be told."""
_ENDED = 200
"""Those whose story is kept."""
_GROUPS = 20
"""Groups of jobs, such as the steps of a sweep, of each of which the story of the last job is kept."""
_MOST_BYTES, _RECORD = 10_000_000, 200
"""Bytes that either may have of records and of texts, and those of a record, about."""

_T = TypeVar("_T")


class Latest(Generic[_T]):
    """The last things of a kind, in the order they came in: of no more than this number and size, but one. Not
    thread-safe.

    >>> latest = Latest(most=3, most_bytes=10)
    >>> for name, size in (("a", 1), ("b", 8), ("c", 1), ("d", 1)):
    ...     latest.put(name, size)
    >>> list(latest), latest.put("e", 100), list(latest)
    (['b', 'c', 'd'], None, ['e'])
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._things: deque[tuple[_T, int]] = deque()
        self._bytes = 0

    def put(self, thing: _T, size: int) -> None:
        """Keep one more. size: its bytes, about."""
        self._things.append((thing, size))
        self._bytes += size
        while len(self._things) > self._most or (self._bytes > self._most_bytes and len(self._things) > 1):
            self._bytes -= self._things.popleft()[1]

    def __iter__(self) -> Iterator[_T]:
        return iter([thing for thing, _ in self._things])


class PastJobs:
    """The jobs of a cluster that have ended, by tenant. Not thread-safe.

    detailed: keep full records; off in simulations.
    """

    def __init__(self, detailed: bool) -> None:
        self._detailed = detailed
        self._past = Latest[PastJob](REMEMBERED, _MOST_BYTES)
        self._ended = Latest[EndedJob](_ENDED, _MOST_BYTES)
        self._of_groups: dict[str, EndedJob] = {}
        self._done: Counter[str] = Counter()
        self._cut: Counter[str] = Counter()  # answers that ended early for others
        self._skipped: defaultdict[str, float] = defaultdict(float)  # the parts of tables that they did not read

    def put(self, job: ActiveJob) -> None:
        """Keep what the fairness of a job is computed from, which is done on request."""
        self._done[job.tenant] += 1
        if self._detailed:
            replay = JobReplay.of(job.run.history)
            seconds = replay.last_at
            past = PastJob(job.tenant, seconds, replay.mean_share(seconds), job.remaining_work.alone_later())
            ended = EndedJob.of(job.handle, past)
            options = [option.candidate.plan for option in ended.known]
            self._past.put(past, _characters(options))
            if ended.terms.group:
                self._put_last(ended)
            else:
                records = len(ended.records) * _RECORD
                self._ended.put(ended, records + len(ended.text) + _characters([*ended.run, *options]))

    def _put_last(self, ended: EndedJob) -> None:
        """Keep the last job of a group, which may have thousands."""
        self._of_groups.pop(ended.terms.group, None)
        self._of_groups[ended.terms.group] = ended
        if len(self._of_groups) > _GROUPS:
            del self._of_groups[next(iter(self._of_groups))]

    def ended_early(self, tenant: str, part: float) -> None:
        """An answer of a tenant ended early for others. part: of its table that was not read."""
        self._cut[tenant] += 1
        self._skipped[tenant] += part

    def ended(self) -> Iterable[EndedJob]:
        """The jobs that ended last, in the order in which they came."""
        return sorted((*self._ended, *self._of_groups.values()), key=lambda job: job.submitted)

    def tenants(self, active: Iterable[tuple[str, JobStatus]], weights: Mapping[str, float]) -> list[TenantStatus]:
        """The status of every tenant that has or had a job, by name. active: the jobs that there are, with their
        tenants."""
        from qoop.adaptive.cluster.tenants import tenant_status  # few ask

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


def _characters(plans: Iterable[Plan]) -> int:
    """The characters of the texts of plans, which have stages in common."""
    return sum(len(sql) for sql in {id(stage): stage.sql for plan in plans for stage in plan.stages}.values())
