"""Shares that settle with the plans: what a job's plan has no use for is promised to the others.

The loop of resources and plans, by its two halves (after the primal-dual view in paper section 7):

    shares ──the jobs' policies──> plans ──useful_resources──> what each job wants ──max-min with limits──> shares

A job that hears of its share chooses its plan. The plan's want, a vector and nothing else of it, goes into the next
`fair_shares`, and the jobs hear of the new shares if they differ. Shares are max-min fair with limits, found by
progressive filling (Bertsekas and Gallager, "Data Networks", 1992, section 6.5.2), in dominant shares (DRF: Ghodsi et
al., NSDI 2011).

Why it settles: a job gets no less than the smaller of its want and its equal part. One that has what it wants has a
plan that ends within 5 % as soon as with the larger share it was chosen on, which is less than any policy changes plan
for, so it keeps it and its want; what it leaves can only raise the shares of others. So every round in which a share
changes adds a job to those that have what they want, and there are no more rounds than jobs. Estimates may still change
meanwhile: the cluster tells shares again for wants' sake at most `ROUNDS` times for every change of jobs or machines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qoop.engine.events import Grant
from qoop.engine.task import JobId, MachineId
from qoop.planner.packing import Available
from qoop.planner.plan import Resources
from qoop.schedulers.base import Request, Scheduler


class DemandAware:
    """`policy` grants; the shares that are promised follow what the jobs want."""

    def __init__(self, policy: Scheduler) -> None:
        self._policy = policy

    def next_grant(self, requests: Sequence[Request], availability: Mapping[MachineId, Available]) -> Grant | None:
        return self._policy.next_grant(requests, availability)

    def fair_shares(self, requests: Sequence[Request], capacity: Resources) -> dict[JobId, Resources]:
        parts = filled([request.weight for request in requests], [_limit(request, capacity) for request in requests])
        return {request.job: _times(capacity, part) for request, part in zip(requests, parts, strict=True)}


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


def _limit(request: Request, capacity: Resources) -> float:
    return 1.0 if request.wanted is None else min(1.0, request.wanted.dominant_share(capacity))


def _times(resources: Resources, factor: float) -> Resources:
    return Resources(
        resources.cpu * factor, resources.memory * factor, resources.disk * factor, resources.network * factor
    )
