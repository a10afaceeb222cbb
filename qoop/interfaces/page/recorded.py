"""The jobs of a trace, as the page shows them at any time of it.

The trace is replayed once (:func:`qoop.adaptive.retrace.rerun.rerun`): the same core takes the same decisions. The
replay yields the histories of all jobs, from which each job's state at any time follows. Snapshots taken on the way
keep the rest, such as expected finish times.
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
from qoop.interfaces.page.job_progress import JobProgress
from qoop.interfaces.page.plan_map import PlanMaps
from qoop.interfaces.page.snapshot import Expected, Snapshot, snapshot_of
from qoop.interfaces.page.views import JobFacts, Json, Powers, job_line, job_view, overview
from qoop.programs.kinds import program_kinds

_SNAPSHOTS = 500
"""Snapshots of the cluster in the replay of a trace."""
_LEAST = 0.1  # seconds between two of them
_BUDGET = 0.05
"""Seconds of work on a map of plans at a time; longer than on a session, since no query runs here."""


class Recorded:
    """name: of the trace, as the page shows it. Jobs of the past cannot be changed, so there are no powers."""

    powers = Powers()

    def __init__(self, recording: Recording, name: str) -> None:
        self._snapshots = _Snapshots(recording)
        found = rerun(recording, observer=self._snapshots.observe, program_kinds=program_kinds)
        self.remarks = [*recording.remarks(), *([] if found.difference is None else [str(found.difference)])]
        self._zero = recording.opened.at
        self._jobs = {handle.id: handle for handle in self._snapshots.jobs}
        last = max([at for at, _ in self._snapshots.taken], default=0.0)
        self._span = (0.0, ceil(last * 1e4) / 1e4)  # not before the last snapshot
        self._maps = PlanMaps(_BUDGET)
        self._over: dict[str, tuple[float, JobFacts]] = {}  # jobs whose history is complete, and its end
        self._head: Json = {
            "name": name, "version": recording.versions.get("qoop", ""), "wall": recording.opened.wall,
            "remarks": self.remarks,
        }  # fmt: skip

    def overview(self, at: float | None = None) -> Json:
        """All jobs submitted by then; at: by default the end."""
        until = self._until(at)
        snapshot = self._snapshots.before(until)
        now = Snapshot(until, snapshot.machines, snapshot.tenants, snapshot.expected, snapshot.sizes)
        there = [job for job in self._jobs.values() if job.submitted - self._zero <= until]
        return overview(self._head, now, [job_line(self._facts(job, now)) for job in there], self.powers, self._span)

    def job(self, id: str, at: float | None = None, since: int | None = None) -> Json:
        """One job as it was then; see `job_view`. Raises ConfigError."""
        job, until = self._jobs.get(id), self._until(at)
        if job is None or job.submitted - self._zero > until:
            raise ConfigError(f"there is no job {id} at that time; there are {', '.join(self._jobs) or 'none'}")
        snapshot = self._snapshots.before(until)
        facts = self._facts(job, Snapshot(until, (), (), snapshot.expected, snapshot.sizes))
        return job_view(facts, self._maps.of(facts, [size for _, size in self._snapshots.last.sizes]), since)

    def cancel(self, id: str) -> Json:
        raise ConfigError("the jobs of a trace are over; they cannot be changed")

    suspend = cancel

    def resize(self, slots: int | None, memory: int | None) -> Json:
        raise ConfigError("the jobs of a trace are over; they cannot be changed")

    def _until(self, at: float | None) -> float:
        return self._span[1] if at is None else min(max(at, 0.0), self._span[1])

    def _facts(self, job: JobHandle, now: Snapshot) -> JobFacts:
        over, known = self._over.get(job.id, (inf, None))
        if known is not None and over <= now.at + 1e-6:
            return known
        progress, offset, records = JobProgress(), job.began - self._zero, job.news(0)
        progress.take(takewhile(lambda record: record.at + offset <= now.at + 1e-6, records))
        plans = job.plans()[: max(1, progress.plan + 1)]
        facts = JobFacts(
            job.id, job.text, job.terms, job.submitted - self._zero, offset, progress, plans, job.options(),
            now.expected.get(job.id, Expected()) if progress.ended is None else Expected(),
        )  # fmt: skip
        progress.estimate_running(now.at - offset, facts.plan)
        if progress.ended is not None and progress.taken == len(records):
            self._over[job.id] = records[-1].at + offset, facts
        return facts


class _Snapshots:
    """Observes a cluster that replays a trace. taken: snapshots with their times."""

    def __init__(self, recording: Recording) -> None:
        last = recording.ticks[-1].at if recording.ticks else recording.opened.at
        self._every = max(_LEAST, (last - recording.opened.at) / _SNAPSHOTS)
        self._next = 0.0
        self.jobs: Sequence[JobHandle] = ()
        self.taken: list[tuple[float, Snapshot]] = []
        self.last = Snapshot(0.0)

    def observe(self, cluster: Cluster, jobs: Sequence[JobHandle], over: bool) -> None:
        """Take a snapshot after a tick, if one is due. over: it was the last tick."""
        at = cluster.now() - cluster.opened
        self.jobs = jobs
        if at >= self._next or over:
            self._next = at + self._every
            self.last = snapshot_of(cluster, [job for job in jobs if not job.state.final])
            self.taken.append((at, self.last))

    def before(self, at: float) -> Snapshot:
        """The last snapshot up to a time."""
        place = bisect_right(self.taken, at + 1e-6, key=lambda one: one[0])
        return self.taken[place - 1][1] if place else Snapshot(0.0)
