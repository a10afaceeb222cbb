"""The jobs of a trace, as the page shows them at any time of it.

The trace is gone through once (:func:`qoop.adaptive.retrace.rerun.rerun`): the same core decides the same again. What
comes of it are the histories of all jobs, which say what each was like at any time; what they do not say, such as when
a job was expected to end, is looked at now and then on the way.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import takewhile
from math import ceil, inf

from qoop.adaptive.cluster.cluster import Cluster
from qoop.adaptive.cluster.job_handle import JobHandle
from qoop.adaptive.retrace.reading import Recording
from qoop.adaptive.retrace.rerun import rerun
from qoop.catalog.errors import ConfigError
from qoop.interfaces.page.account import Account
from qoop.interfaces.page.moment import Expected, Moment, moment_of
from qoop.interfaces.page.plan_map import PlanMaps
from qoop.interfaces.page.views import Json, Powers, SeenJob, job_line, job_view, overview
from qoop.programs.kinds import program_kinds

_MOMENTS = 500
"""Looks at the cluster on the way through a trace."""
_LEAST = 0.1  # seconds between two of them
_BUDGET = 0.05
"""Seconds of work on a map of plans at a time: nobody's query runs meanwhile."""


class Recorded:
    """name: of the trace, for people. Nothing can be done to what has been: there are no powers."""

    powers = Powers()

    def __init__(self, recording: Recording, name: str) -> None:
        self._moments = _Moments(recording)
        found = rerun(recording, observer=self._moments.look, program_kinds=program_kinds)
        self.remarks = [*recording.remarks(), *([] if found.difference is None else [str(found.difference)])]
        self._zero = recording.opened.at
        self._jobs = {handle.id: handle for handle in self._moments.jobs}
        last = max([at for at, _ in self._moments.taken], default=0.0)
        self._span = (0.0, ceil(last * 1e4) / 1e4)  # not before the last moment
        self._maps = PlanMaps(_BUDGET)
        self._over: dict[str, tuple[float, SeenJob]] = {}  # jobs of which all was told, and by when
        self._head: Json = {
            "name": name, "version": recording.versions.get("qoop", ""), "wall": recording.opened.wall,
            "remarks": self.remarks,
        }  # fmt: skip

    def overview(self, at: float | None = None) -> Json:
        """All jobs that had come by then; at: by default the end."""
        until = self._until(at)
        moment = self._moments.before(until)
        now = Moment(until, moment.machines, moment.tenants, moment.expected, moment.sizes)
        there = [job for job in self._jobs.values() if job.submitted - self._zero <= until]
        return overview(self._head, now, [job_line(self._seen(job, now)) for job in there], self.powers, self._span)

    def job(self, id: str, at: float | None = None, since: int | None = None) -> Json:
        """One job as it was then; see `job_view`. Raises ConfigError."""
        job, until = self._jobs.get(id), self._until(at)
        if job is None or job.submitted - self._zero > until:
            raise ConfigError(f"there is no job {id} at that time; there are {', '.join(self._jobs) or 'none'}")
        moment = self._moments.before(until)
        seen = self._seen(job, Moment(until, (), (), moment.expected, moment.sizes))
        return job_view(seen, self._maps.of(seen, [size for _, size in self._moments.last.sizes]), since)

    def cancel(self, id: str) -> Json:
        raise ConfigError("what a trace tells of is over")

    suspend = cancel

    def resize(self, slots: int | None, memory: int | None) -> Json:
        raise ConfigError("what a trace tells of is over")

    def _until(self, at: float | None) -> float:
        return self._span[1] if at is None else min(max(at, 0.0), self._span[1])

    def _seen(self, job: JobHandle, now: Moment) -> SeenJob:
        over, known = self._over.get(job.id, (inf, None))
        if known is not None and over <= now.at + 1e-6:
            return known
        account, offset, records = Account(), job.began - self._zero, job.news(0)
        account.take(takewhile(lambda record: record.at + offset <= now.at + 1e-6, records))
        plans = job.plans()[: max(1, account.plan + 1)]
        seen = SeenJob(
            job.id, job.text, job.terms, job.submitted - self._zero, offset, account, plans, job.options(),
            now.expected.get(job.id, Expected()) if account.ended is None else Expected(),
        )  # fmt: skip
        account.go_on(now.at - offset, seen.plan)
        if account.ended is not None and account.taken == len(records):
            self._over[job.id] = records[-1].at + offset, seen
        return seen


class _Moments:
    """Looks at a cluster that goes through a trace. taken: the moments, and when they were."""

    def __init__(self, recording: Recording) -> None:
        last = recording.ticks[-1].at if recording.ticks else recording.opened.at
        self._every = max(_LEAST, (last - recording.opened.at) / _MOMENTS)
        self._next = 0.0
        self.jobs: Sequence[JobHandle] = ()
        self.taken: list[tuple[float, Moment]] = []
        self.last = Moment(0.0)

    def look(self, cluster: Cluster, jobs: Sequence[JobHandle], over: bool) -> None:
        """A tick is over. over: it was the last."""
        at = cluster.now() - cluster.opened
        self.jobs = jobs
        if at >= self._next or over:
            self._next = at + self._every
            self.last = moment_of(cluster, [job for job in jobs if not job.state.final])
            self.taken.append((at, self.last))

    def before(self, at: float) -> Moment:
        """The last moment that was then."""
        place = bisect_right(self.taken, at + 1e-6, key=lambda one: one[0])
        return self.taken[place - 1][1] if place else Moment(0.0)
