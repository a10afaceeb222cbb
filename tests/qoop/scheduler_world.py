"""Claims and rooms for tests of scheduling policies, and what a policy does with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from qoop.engine.events import Demand, Grant
from qoop.engine.task import TaskId
from qoop.planner.packing import Room
from qoop.planner.plan import Resources
from qoop.schedulers.base import Claim, Scheduler
from qoop.schedulers.outlook import UNKNOWN, Outlook

NOTHING = Resources()


def claim(
    job: str, *wants: tuple[float, float], weight: float = 1.0, used: Resources = NOTHING, outlook: Outlook = UNKNOWN
) -> Claim:
    demands = tuple(Demand(job, TaskId(job, f"s{i}", 0), Resources(*want)) for i, want in enumerate(wants))
    return Claim(job, int(job[1:]), weight, used, demands, outlook)


@dataclass(frozen=True)
class Known:
    """An outlook of so much work, of which so many slots are needed now."""

    work: float = 0.0
    slots: float = 0.0

    def needed(self, share: Resources) -> float:
        return self.slots


def empty(**machines: tuple[float, float]) -> dict[str, Room]:
    return {name: Room(Resources(*size), Resources(*size)) for name, size in machines.items()}


def fill(policy: Scheduler, claims: Sequence[Claim], rooms: dict[str, Room], endless: bool = False) -> list[Grant]:
    """Apply grants until there are none. endless: a granted task is followed by another like it."""
    now = {claim.job: claim for claim in claims}
    grants = []
    while (grant := policy.next_grant(tuple(now.values()), rooms)) is not None:
        grants.append(grant)
        room, owner = rooms[grant.machine], now[grant.job]
        rooms[grant.machine] = replace(room, free=room.free - grant.resources)
        left = tuple(demand for demand in owner.demands if demand.task != grant.task or endless)
        now[grant.job] = replace(owner, used=owner.used + grant.resources, demands=left)
    return grants
