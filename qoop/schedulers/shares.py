"""Shares of the capacity by weight: of tenants first, then of the jobs of each, none above what it has a use for.

Source: max-min fairness with limits by progressive filling (Bertsekas and Gallager, "Data Networks", 1992, section
6.5.2), in dominant shares (DRF: Ghodsi et al., NSDI 2011), at both levels as in H-DRF (Bhattacharya et al., SoCC 2013).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from qoop.planner.plan import Resources

if TYPE_CHECKING:
    from qoop.engine.task import JobId
    from qoop.schedulers.base import Request


def even_shares(requests: Sequence[Request], capacity: Resources) -> dict[JobId, Resources]:
    """The capacity by the weights of tenants, and the part of each by the weights of its jobs."""
    return limited_shares(requests, capacity, [1.0] * len(requests))


def limited_shares(requests: Sequence[Request], capacity: Resources, limits: Sequence[float]) -> dict[JobId, Resources]:
    """The same, where each job has a use for that part of the capacity at most.

    What a job leaves goes to the others of its tenant first; what all of these leave goes to other tenants.
    """
    tenants: dict[str, list[int]] = {}
    for i, request in enumerate(requests):
        tenants.setdefault(request.tenant, []).append(i)
    wants = [min(1.0, sum(limits[i] for i in jobs)) for jobs in tenants.values()]
    parts = filled([requests[jobs[0]].tenant_weight for jobs in tenants.values()], wants)
    shares: dict[JobId, Resources] = {}
    for jobs, part in zip(tenants.values(), parts, strict=True):
        of_part = [limits[i] / part if part > 0 else 1.0 for i in jobs]
        for i, own in zip(jobs, filled([requests[i].weight for i in jobs], of_part), strict=True):
            shares[requests[i].job] = times(capacity, own * part)
    return {request.job: shares[request.job] for request in requests}


def filled(weights: Sequence[float], limits: Sequence[float]) -> list[float]:
    """Parts of 1 in proportion to the weights, none above its limit; what is left if all are at it goes by weight.

    >>> filled([1, 1, 1], [0.1, 1, 1])
    [0.1, 0.45, 0.45]
    >>> filled([1, 1], [0.25, 0.25])
    [0.5, 0.5]
    """
    parts = [0.0] * len(weights)
    left, open_ = 1.0, sorted(range(len(weights)), key=lambda i: limits[i] / weights[i])
    while open_:
        level = left / sum(weights[i] for i in open_)
        first = open_[0]
        if limits[first] >= level * weights[first]:
            for i in open_:
                parts[i] = level * weights[i]
            return parts
        parts[first] = limits[first]
        left -= limits[first]
        open_ = open_[1:]
    total = sum(weights)
    return [part + left * weight / total for part, weight in zip(parts, weights, strict=True)]


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
