"""The jobs of an open session, for the page. One thread uses it.

A request adds the new records of a job to its progress; without requests nothing runs.
"""

from __future__ import annotations

import time
import weakref
from typing import TYPE_CHECKING

import qoop
from qoop.adaptive.cluster.cluster import Cluster
from qoop.adaptive.cluster.job_handle import JobHandle
from qoop.adaptive.cluster.job_status import EndedJob
from qoop.catalog.errors import ConfigError, SessionClosed
from qoop.engine.task import JobId
from qoop.interfaces.page.job_progress import JobProgress
from qoop.interfaces.page.plan_map import PlanMaps
from qoop.interfaces.page.snapshot import Expected, Snapshot, snapshot_of
from qoop.interfaces.page.views import JobFacts, Json, Powers, job_line, job_view, overview, view_lags

if TYPE_CHECKING:
    from qoop.programs.sweeps.study import Study
    from qoop.session.session import Session

_BUDGET = 0.0005
"""Seconds of work on a map of plans at a time."""
_SWEEPS = 5
"""The most sweeps that a page shows."""


class Live:
    """powers: the changes that the page may make. The session is held by a weak reference."""

    def __init__(self, session: Session, powers: Powers) -> None:
        self.powers = powers
        self._session = weakref.ref(session)
        self._cluster: Cluster = session.cluster
        self._progress: dict[JobId, JobProgress] = {}
        self._maps = PlanMaps(_BUDGET)
        self._sweeps: dict[str, Study] = {}
        self._rhos: dict[JobId, float | None] = {}
        self._lines: dict[JobId, Json] = {}  # of jobs that have ended, which change no more
        self._head: Json = {"name": _name(session), "version": qoop.__version__, "wall": self._cluster.wall}

    def overview(self, at: float | None = None) -> Json:
        """All jobs. at: is ignored; a session has only its current state."""
        jobs = self._cluster.jobs()
        for gone in self._progress.keys() - {job.id for job in jobs}:
            self._maps.forget(gone)
            self._rhos.pop(gone, None)
            self._lines.pop(gone, None)
            del self._progress[gone]
        now = self._snapshot(jobs)
        lines = (self._line(job, now) for job in jobs)
        return overview(self._head, now, lines, self.powers, views=self._views(), sweeps=self._sweep_views())

    def job(self, id: JobId, at: float | None = None, since: int | None = None) -> Json:
        """One job; see `job_view`. Raises ConfigError."""
        found = self._find(id)
        now = self._snapshot([found], tenants=False)
        facts = self._facts(found, now)
        return job_view(facts, self._maps.of(facts, [size for _, size in now.sizes]), since)

    def cancel(self, id: JobId) -> Json:
        """Stop a job. Raises ConfigError."""
        self._running(id).cancel()
        return {}

    def suspend(self, id: JobId) -> Json:
        """Suspend a job to a new folder, and return that. Raises ConfigError, DiskFull."""
        from qoop.catalog.paths import cache_directory

        self._running(id)
        job = next((job for job in self._open().jobs() if job.id == id), None)
        if job is None:
            raise ConfigError(f"{id} has no Job in this session any more, so it cannot be suspended")
        folder = cache_directory() / "suspended" / f"{id}-{time.time_ns() // 1_000_000}"
        job.suspend(folder)
        return {"path": str(folder)}

    def resize(self, slots: int | None, memory: int | None) -> Json:
        """Change the resources of all jobs together. Raises ConfigError."""
        self._open().resize(slots, memory)
        return {}

    def _open(self) -> Session:
        session = self._session()
        if session is None:
            raise SessionClosed("the session was closed")
        return session

    def _running(self, id: JobId) -> JobHandle:
        found = self._find(id)
        if not isinstance(found, JobHandle):
            raise ConfigError(f"{id} has ended")
        return found

    def _find(self, id: JobId) -> JobHandle | EndedJob:
        found = next((job for job in self._cluster.jobs() if job.id == id), None)
        if found is None:
            raise ConfigError(f"there is no job {id} here")
        return found

    def _snapshot(self, jobs: list[JobHandle | EndedJob], tenants: bool = True) -> Snapshot:
        session = self._session()
        why = session.held_back if session is not None else ""
        return snapshot_of(self._cluster, [job for job in jobs if isinstance(job, JobHandle)], why, tenants)

    def _views(self) -> list[Json]:
        session, opened = self._session(), self._cluster.wall
        if session is None or opened is None:
            return []
        return [view_lags(one, opened) for one in session.materialized.histories()]

    def _line(self, job: JobHandle | EndedJob, now: Snapshot) -> Json:
        if not isinstance(job, EndedJob):
            return job_line(self._facts(job, now))
        if job.id not in self._lines:
            self._lines[job.id] = job_line(self._facts(job, now))
        return self._lines[job.id]

    def _facts(self, job: JobHandle | EndedJob, now: Snapshot) -> JobFacts:
        progress = self._progress.setdefault(job.id, JobProgress())
        progress.take(job.news(progress.taken))
        zero = self._cluster.opened
        facts = JobFacts(
            job.id, job.text, job.terms, job.submitted - zero, job.began - zero, progress, job.plans(), job.options(),
            now.expected.get(job.id, Expected()), self._rho(job) if isinstance(job, EndedJob) else None,
        )  # fmt: skip
        progress.estimate_running(now.at - facts.offset, facts.plan, facts.expected.fraction)
        return facts

    def _sweep_views(self) -> list[Json]:
        """The sweeps that this page has seen, the last first."""
        session = self._session()
        found = {study.name: study for study in (session.sweeps() if session is not None else ())}
        if not (self._sweeps or found):
            return []
        from qoop.interfaces.page.sweeps import sweep_view  # few sessions have one

        ended = {name: study for name, study in self._sweeps.items() if name not in found}
        self._sweeps = dict([*ended.items(), *found.items()][-_SWEEPS:])
        return [sweep_view(study) for study in reversed(self._sweeps.values())]

    def _rho(self, job: EndedJob) -> float | None:
        if job.id not in self._rhos:
            self._rhos[job.id] = job.past.rho
        return self._rhos[job.id]


def _name(session: Session) -> str:
    return repr(session).strip("<>")
