"""Instantaneous, work-conserving max-min fairness over resource vectors (paper section 2, Pseudocode 1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from qoop.engine.events import Grant
from qoop.engine.task import JobId, MachineId
from qoop.planner.packing import Room, Rooms, best_fit
from qoop.planner.plan import Resources
from qoop.schedulers.base import Claim
from qoop.schedulers.waiting import Waiting


class MaxMin:
    """The job with the lowest current share goes first; within it the best aligned task and machine.

    The current share is the dominant share of what the job's attempts hold (as in DRF: Ghodsi et al., NSDI
    2011), divided by its weight. If nothing of that job fits, the next one is tried, so no room that some
    ready task could use is left free.
    """

    def next_grant(self, claims: Sequence[Claim], rooms: Mapping[MachineId, Room]) -> Grant | None:
        return first_fitting(by_share(claims, rooms), rooms)

    def fair_shares(self, claims: Sequence[Claim], capacity: Resources) -> dict[JobId, Resources]:
        return even_shares(claims, capacity)


def by_share(claims: Sequence[Claim], rooms: Mapping[MachineId, Room]) -> Iterator[Claim]:
    """The claims, those with the lowest current share first; of equal ones those that came first."""
    total = capacity_of(rooms)
    if isinstance(claims, Waiting):
        return claims.by_share(total)
    return iter(sorted(claims, key=lambda claim: (claim.share_of(total), claim.arrival)))


def capacity_of(rooms: Mapping[MachineId, Room]) -> Resources:
    """What all machines have together."""
    if isinstance(rooms, Rooms):
        return rooms.capacity
    return sum((room.capacity for room in rooms.values()), Resources())


def first_fitting(claims: Iterable[Claim], rooms: Mapping[MachineId, Room]) -> Grant | None:
    """The best aligned task and machine of the first job of which anything fits."""
    machines, places = with_room(rooms)
    if not places:
        return None
    cpu, memory = most_free(places)
    for claim in claims:
        least = claim.least
        if least.cpu > cpu or least.memory > memory:
            continue
        found = best_fit([demand.resources for demand in claim.demands], places)
        if found is not None:
            demand = claim.demands[found[0]]
            return Grant(claim.job, demand.task, machines[found[1]], demand.resources)
    return None


def with_room(rooms: Mapping[MachineId, Room]) -> tuple[list[MachineId], list[Room]]:
    """The machines on which something may start, and their rooms: every task takes some of the slots."""
    if isinstance(rooms, Rooms):
        machines = list(rooms.open) if len(rooms.open) < 2 else [machine for machine in rooms if machine in rooms.open]
    else:
        machines = [machine for machine, room in rooms.items() if room.free.cpu > 0]
    return machines, [rooms[machine] for machine in machines]


def most_free(places: Sequence[Room]) -> tuple[float, float]:
    """The most slots that are free on any machine, and the most memory."""
    return max([room.free.cpu for room in places]), max([room.free.memory for room in places])


def even_shares(claims: Sequence[Claim], capacity: Resources) -> dict[JobId, Resources]:
    """The capacity, divided by the weights."""
    weights = sum(claim.weight for claim in claims)
    return {claim.job: _times(capacity, claim.weight / weights) for claim in claims}


def _times(resources: Resources, factor: float) -> Resources:
    return Resources(
        resources.cpu * factor, resources.memory * factor, resources.disk * factor, resources.network * factor
    )
