"""Instantaneous, work-conserving max-min fairness over resource vectors (paper section 2, Pseudocode 1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from qoop.adaptive.schedulers.base import Request, Scheduler
from qoop.adaptive.schedulers.shares import even_shares
from qoop.adaptive.schedulers.waiting import Waiting
from qoop.engine.events import Grant
from qoop.engine.task import JobId, MachineId
from qoop.planner.packing import Availability, Available, best_fit
from qoop.planner.plan import Resources


@dataclass(eq=False)
class MaxMin(Scheduler):
    """The tenant with the lowest current share goes first; of its jobs the one with the lowest; within that the best
    aligned task and machine.

    The current share is the dominant share of what the attempts of a job, or of all jobs of a tenant, hold (as in DRF:
    Ghodsi et al., NSDI 2011), divided by its weight. If nothing of that job fits, the next one is tried, so nothing
    that some ready task could use is left free.

    tenants: False: jobs are not told apart by tenant, so that one with twenty has twenty shares (for comparison).
    """

    tenants: bool = True

    def next_grant(
        self, requests: Sequence[Request], availability: Mapping[MachineId, Available], now: float = 0.0
    ) -> Grant | None:
        if self.tenants:
            return first_fitting(by_share(requests, availability), availability)
        total = capacity_of(availability)
        return first_fitting(sorted(requests, key=lambda one: (one.share_of(total), one.arrival)), availability)

    def fair_shares(self, requests: Sequence[Request], capacity: Resources, now: float = 0.0) -> dict[JobId, Resources]:
        return even_shares(requests if self.tenants else [replace(one, tenant="") for one in requests], capacity)


def by_share(requests: Sequence[Request], availability: Mapping[MachineId, Available]) -> Iterator[Request]:
    """The requests, those of the tenant with the lowest current share first, of these those of the lowest; of equal
    ones those that came first."""
    waiting = requests if isinstance(requests, Waiting) else Waiting.of(requests)
    return waiting.by_share(capacity_of(availability))


def by_rank(
    requests: Sequence[Request],
    availability: Mapping[MachineId, Available],
    rank: Callable[[Request], float],
    tenants: bool,
) -> Grant | None:
    """The next task of the job of the lowest rank of which anything fits; of equal ones the earlier.

    tenants: of the tenant with the lowest share before those of others.
    """

    def place(request: Request) -> tuple[float, int]:
        return rank(request), request.arrival

    if not tenants:
        return first_fitting(sorted(requests, key=place), availability)
    waiting = requests if isinstance(requests, Waiting) else Waiting.of(requests)
    groups = waiting.by_tenant(capacity_of(availability))
    return first_fitting((request for jobs in groups for request in sorted(jobs, key=place)), availability)


def capacity_of(availability: Mapping[MachineId, Available]) -> Resources:
    """The capacity of all machines together."""
    if isinstance(availability, Availability):
        return availability.capacity
    return sum((place.capacity for place in availability.values()), Resources())


def first_fitting(requests: Iterable[Request], availability: Mapping[MachineId, Available]) -> Grant | None:
    """The best aligned task and machine of the first job of which anything fits."""
    machines, places = with_available(availability)
    if not places:
        return None
    cpu, memory = most_free(places)
    for request in requests:
        least = request.least
        if least.cpu > cpu or least.memory > memory:
            continue
        found = best_fit([demand.resources for demand in request.demands], places)
        if found is not None:
            demand = request.demands[found[0]]
            return Grant(request.job, demand.task, machines[found[1]], demand.resources)
    return None


def with_available(availability: Mapping[MachineId, Available]) -> tuple[list[MachineId], list[Available]]:
    """The machines with free slots, and their available resources: a task needs some of the slots to start."""
    if isinstance(availability, Availability):
        machines = (
            list(availability.open)
            if len(availability.open) < 2
            else [machine for machine in availability if machine in availability.open]
        )
    else:
        machines = [machine for machine, place in availability.items() if place.free.cpu > 0]
    return machines, [availability[machine] for machine in machines]


def most_free(places: Sequence[Available]) -> tuple[float, float]:
    """The most slots that are free on any machine, and the most memory."""
    if len(places) == 1:  # mostly, where a slot is granted again as soon as it is free
        return places[0].free.cpu, places[0].free.memory
    return max([place.free.cpu for place in places]), max([place.free.memory for place in places])
