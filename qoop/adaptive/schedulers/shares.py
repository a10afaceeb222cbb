"""Shares of the capacity by weight: of tenants first, then of the jobs of each.

Source: weighted max-min fairness in dominant shares (DRF: Ghodsi et al., NSDI 2011), at both levels as in H-DRF
(Bhattacharya et al., SoCC 2013).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from qoop.planner.plan import Resources

if TYPE_CHECKING:
    from qoop.adaptive.schedulers.base import Request
    from qoop.engine.task import JobId


def even_shares(requests: Sequence[Request], capacity: Resources) -> dict[JobId, Resources]:
    """The capacity by the weights of tenants, and the part of each by the weights of its jobs."""
    if not requests:
        return {}
    tenants: dict[str, list[Request]] = {}
    for request in requests:
        tenants.setdefault(request.tenant, []).append(request)
    whole = 1.0 / sum(jobs[0].tenant_weight for jobs in tenants.values())
    shares: dict[JobId, Resources] = {}
    for jobs in tenants.values():
        part = whole * jobs[0].tenant_weight
        each = 1.0 / sum(request.weight for request in jobs)
        shares |= {request.job: times(capacity, each * request.weight * part) for request in jobs}
    return {request.job: shares[request.job] for request in requests}


def parts(requests: Sequence[Request], shares: Mapping[JobId, Resources], capacity: Resources) -> dict[JobId, float]:
    """The part of the slots that each job's share is; by weight, where there are none."""
    if not capacity.cpu:
        return {name: share.cpu for name, share in even_shares(requests, Resources(1.0)).items()}
    return {name: share.cpu / capacity.cpu for name, share in shares.items()}


def whole_slot(share: Resources) -> Resources:
    """The share; in place of one of less than a slot a slot, which its job has for a part of the time.

    No task runs on less, so plans are compared on that.

    >>> whole_slot(Resources(0.25, 100)), whole_slot(Resources(2, 100)).cpu
    (Resources(cpu=1.0, memory=400.0, disk=0.0, network=0.0), 2)
    """
    return times(share, 1.0 / share.cpu) if 0 < share.cpu < 1 else share


def times(resources: Resources, factor: float) -> Resources:
    """The resources, multiplied."""
    return Resources(
        resources.cpu * factor, resources.memory * factor, resources.disk * factor, resources.network * factor
    )
