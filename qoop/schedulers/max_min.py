"""Instantaneous, work-conserving max-min fairness over resource vectors (spec section 2, Pseudocode 1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from qoop.engine.events import Grant
from qoop.engine.task import JobId, MachineId
from qoop.planner.packing import Room, best_fit
from qoop.planner.plan import Resources
from qoop.schedulers.base import Claim


class MaxMin:
    """The job with the lowest current share goes first; within it the best aligned task and machine.

    The current share is the dominant share of what the job's attempts hold (as in DRF: Ghodsi et al., NSDI
    2011), divided by its weight. If nothing of that job fits, the next one is tried, so no room that some
    ready task could use is left free.
    """

    def next_grant(self, claims: Sequence[Claim], rooms: Mapping[MachineId, Room]) -> Grant | None:
        return first_fitting(by_share(claims, rooms.values()), rooms)

    def fair_shares(self, claims: Sequence[Claim], capacity: Resources) -> dict[JobId, Resources]:
        return even_shares(claims, capacity)


def by_share(claims: Sequence[Claim], rooms: Iterable[Room]) -> list[Claim]:
    """The claims, those with the lowest current share first; of equal ones those that came first."""
    total = capacity_of(rooms)
    return sorted(claims, key=lambda claim: (current_share(claim, total), claim.arrival))


def capacity_of(rooms: Iterable[Room]) -> Resources:
    """What all machines have together."""
    return sum((room.capacity for room in rooms), Resources())


def first_fitting(claims: Iterable[Claim], rooms: Mapping[MachineId, Room]) -> Grant | None:
    """The best aligned task and machine of the first job of which anything fits."""
    machines = list(rooms)
    places = list(rooms.values())
    for claim in claims:
        found = best_fit([demand.resources for demand in claim.demands], places)
        if found is not None:
            demand = claim.demands[found[0]]
            return Grant(claim.job, demand.task, machines[found[1]], demand.resources)
    return None


def even_shares(claims: Sequence[Claim], capacity: Resources) -> dict[JobId, Resources]:
    """The capacity, divided by the weights."""
    weights = sum(claim.weight for claim in claims)
    return {claim.job: _times(capacity, claim.weight / weights) for claim in claims}


def current_share(claim: Claim, total: Resources) -> float:
    """Dominant share of what the job holds, divided by its weight.

    Rounded, so that shares which are equal but for the rounding of sums are ties.
    """
    return round(claim.used.dominant_share(total) / claim.weight, 9)


def _times(resources: Resources, factor: float) -> Resources:
    return Resources(
        resources.cpu * factor, resources.memory * factor, resources.disk * factor, resources.network * factor
    )
