"""Shares that settle with the plans: what a job's plan has no use for is promised to the others.

The loop of resources and plans, by its two halves (after the primal-dual view in paper section 7):

    shares ──the jobs' policies──> plans ──useful_resources──> what each job wants ──max-min with limits──> shares

A job that hears of its share chooses its plan. The plan's want, a vector and nothing else of it, goes into the next
`fair_shares`, and the jobs hear of the new shares if they differ. Shares are max-min fair with limits
(:mod:`qoop.schedulers.shares`).

Why it settles: a job gets no less than the smaller of its want and its equal part. One that has what it wants has a
plan that ends within 5 % as soon as with the larger share it was chosen on, which is less than any policy changes plan
for, so it keeps it and its want; what it leaves can only raise the shares of others. So every round in which a share
changes adds a job to those that have what they want, and there are no more rounds than jobs. Estimates may still change
meanwhile: the cluster tells shares again for wants' sake at most `ROUNDS` times for every change of jobs or machines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from qoop.engine.events import Grant
from qoop.engine.task import JobId, MachineId
from qoop.planner.packing import Available
from qoop.planner.plan import Resources
from qoop.schedulers.base import Request, Scheduler
from qoop.schedulers.shares import limited_shares


@dataclass(eq=False)
class DemandAware(Scheduler):
    """`policy` grants; the shares that are promised follow what the jobs want."""

    policy: Scheduler

    @property
    def wake_at(self) -> float:  # type: ignore[override]  # of the policy within
        return self.policy.wake_at

    def next_grant(
        self, requests: Sequence[Request], availability: Mapping[MachineId, Available], now: float = 0.0
    ) -> Grant | None:
        return self.policy.next_grant(requests, availability, now)

    def fair_shares(self, requests: Sequence[Request], capacity: Resources, now: float = 0.0) -> dict[JobId, Resources]:
        return limited_shares(requests, capacity, [_limit(request, capacity) for request in requests])


def _limit(request: Request, capacity: Resources) -> float:
    return 1.0 if request.wanted is None else min(1.0, request.wanted.dominant_share(capacity))
