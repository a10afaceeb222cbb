"""The status of tenants: what each is sure of, uses and has waiting, and how fairly it has been served."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from qoop.adaptive.cluster.job_status import JobStatus, PastJob
from qoop.catalog.value import value
from qoop.planner.plan import Resources


@value
class TenantStatus:
    """A tenant, by name.

    running: its jobs of which tasks run; waiting: those of which none does. share: what these are sure of together;
    used: what their tasks hold. done: jobs that have ended. rho: the time that jobs take over the time that they would
    take alone on their share (:mod:`qoop.adaptive.schedulers.finish_time`), in the mean of those that ended last and of
    those that are expected to end; None: there are none.
    cut: answers that ended early for others (APPROXIMATE … IF BUSY). skipped: the parts of tables that these did not
    read, summed up.
    """

    name: str
    weight: float
    running: int
    waiting: int
    share: Resources
    used: Resources
    done: int
    rho: float | None
    cut: int = 0
    skipped: float = 0.0


def tenant_status(
    name: str,
    weight: float,
    active: Sequence[JobStatus],
    past: Iterable[PastJob],
    done: int,
    cut: int = 0,
    skipped: float = 0.0,
) -> TenantStatus:
    """Of a tenant with these jobs. past: those of its jobs that ended last; done: how many have."""
    running = sum(status.used.cpu > 0 for status in active)
    rhos = [one for one in (*(job.rho for job in past), *(status.rho for status in active)) if one is not None]
    return TenantStatus(
        name, weight, running, len(active) - running,
        sum((status.share for status in active if status.share is not None), Resources()),
        sum((status.used for status in active), Resources()),
        done, sum(rhos) / len(rhos) if rhos else None, cut, skipped,
    )  # fmt: skip
