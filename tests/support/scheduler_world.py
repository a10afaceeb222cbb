"""Requests and free resources for tests of scheduling policies, and what a policy does with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from qoop.adaptive.schedulers.base import Request, Scheduler
from qoop.adaptive.schedulers.remaining_work import UNKNOWN, RemainingWork
from qoop.engine.events import Demand, Grant
from qoop.engine.task import TaskId
from qoop.planner.packing import Available
from qoop.planner.plan import Resources

NOTHING = Resources()


def request(
    job: str,
    *wants: tuple[float, float],
    weight: float = 1.0,
    used: Resources = NOTHING,
    remaining_work: RemainingWork = UNKNOWN,
) -> Request:
    demands = tuple(Demand(job, TaskId(job, f"s{i}", 0), Resources(*want)) for i, want in enumerate(wants))
    return Request(job, int(job[1:]), weight, used, demands, remaining_work)


@dataclass(frozen=True)
class Known:
    """Remaining work of that many seconds, of which that many slots are needed now."""

    work: float = 0.0
    slots: float = 0.0
    served: float = 0.0
    path: float = 0.0
    whole: float = 0.0

    def needed(self, share: Resources) -> float:
        return self.slots

    def finish(self, slots: float) -> float:
        return max(self.path, self.work / slots)

    def alone(self, slots: float) -> float:
        return max(self.path, (self.whole or self.work) / slots)


def empty(**machines: tuple[float, float]) -> dict[str, Available]:
    return {name: Available(Resources(*size), Resources(*size)) for name, size in machines.items()}


def fill(
    policy: Scheduler, requests: Sequence[Request], availability: dict[str, Available], endless: bool = False
) -> list[Grant]:
    """Apply grants until there are none. endless: a granted task is followed by another like it."""
    now = {request.job: request for request in requests}
    grants = []
    while (grant := policy.next_grant(tuple(now.values()), availability)) is not None:
        grants.append(grant)
        available, owner = availability[grant.machine], now[grant.job]
        availability[grant.machine] = replace(available, free=available.free - grant.resources)
        left = tuple(demand for demand in owner.demands if demand.task != grant.task or endless)
        now[grant.job] = replace(owner, used=owner.used + grant.resources, demands=left)
    return grants
