"""A snapshot of a cluster: the state that the histories of its jobs do not record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from qoop.adaptive.cluster.cluster import Cluster
from qoop.adaptive.cluster.job_handle import JobHandle
from qoop.adaptive.cluster.job_status import JobStatus, RemainingTime
from qoop.adaptive.cluster.tenants import TenantStatus
from qoop.catalog.value import value
from qoop.engine.task import JobId, MachineId
from qoop.planner.plan import Resources


@value
class MachineNow:
    """A machine, its resources, and those that tasks use. why: the reason for less capacity than at the start."""

    id: MachineId
    capacity: Resources
    used: Resources
    why: str = ""


@value
class Expected:
    """The expectations of a running job. deadline, late, rho, place, helps: as in :class:`JobStatus`. fraction: done
    work, running tasks included."""

    left: RemainingTime | None = None
    deadline: float | None = None
    late: float | None = None
    rho: float | None = None
    place: int | None = None
    fraction: float | None = None
    helps: tuple[str, ...] = ()


@value
class Snapshot:
    """at: seconds since the cluster was opened."""

    at: float
    machines: tuple[MachineNow, ...] = ()
    tenants: tuple[TenantStatus, ...] = ()
    expected: Mapping[JobId, Expected] = field(default_factory=dict)
    sizes: tuple[tuple[float, Resources], ...] = ()


def snapshot_of(cluster: Cluster, jobs: Iterable[JobHandle], why: str = "", tenants: bool = True) -> Snapshot:
    """The current snapshot. jobs: those that have not ended. why: the reason for less capacity than at the start.
    tenants: include them, which reads all jobs."""
    known = {job.id: job.status() for job in jobs}
    machines = cluster.machines().items()
    return Snapshot(
        cluster.now() - cluster.opened,
        tuple(MachineNow(name, one.capacity, one.capacity - one.free, why) for name, one in machines),
        tuple(cluster.tenants(known)) if tenants else (),
        {name: _expected(status) for name, status in known.items()},
        tuple((at - cluster.opened, size) for at, size in cluster.sizes()),
    )


def _expected(status: JobStatus) -> Expected:
    fraction = status.progress.fraction if status.left is not None else None
    return Expected(status.left, status.deadline, status.late, status.rho, status.place, fraction, status.helps)
