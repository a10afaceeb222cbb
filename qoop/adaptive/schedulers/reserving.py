"""No task starves: resources are reserved for one that was passed over too often.

A work-conserving policy gives every freed slot to whatever fits it. A task that needs several slots, or most
of a machine's memory, would then wait for as long as smaller ones keep coming. This wrapper counts, for every
ready task, the grants made in resources that were too small for it. When the count passes `patience`, one machine
takes nothing new until the task fits there. Tasks are short (law 9), so that wait is short too, and only
one machine is held back at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from qoop.adaptive.schedulers.base import Request, Scheduler
from qoop.adaptive.schedulers.waiting import Waiting
from qoop.engine.events import Demand, Grant
from qoop.engine.task import JobId, MachineId, TaskId
from qoop.planner.packing import Availability, Available
from qoop.planner.plan import Resources


@dataclass(eq=False)
class Reserving(Scheduler):
    """`policy`, with a limit on how often a task may be passed over.

    patience: number of grants, made in resources too small for a ready task, that it lets pass.
    """

    policy: Scheduler
    patience: int = 16
    _passed: dict[JobId, dict[TaskId, int]] = field(default_factory=dict, init=False, repr=False)
    _reserved: tuple[TaskId, MachineId] | None = field(default=None, init=False, repr=False)

    def next_grant(
        self, requests: Sequence[Request], availability: Mapping[MachineId, Available], now: float = 0.0
    ) -> Grant | None:
        if self._reserved is not None:
            demand = _find(requests, self._reserved[0])
            machine = self._reserved[1]
            if (
                demand is None
                or machine not in availability
                or not demand.resources.fits(availability[machine].capacity)
            ):
                self._reserved = None
            elif demand.resources.fits(availability[machine].free):
                return self._granted(Grant(demand.job, demand.task, machine, demand.resources), requests, availability)
            else:
                known = availability if isinstance(availability, Availability) else Availability(availability.items())
                availability = known.but(machine, Resources())
        grant = self.policy.next_grant(requests, availability, now)
        return self._granted(grant, requests, availability) if grant is not None else None

    def fair_shares(self, requests: Sequence[Request], capacity: Resources, now: float = 0.0) -> dict[JobId, Resources]:
        return self.policy.fair_shares(requests, capacity, now)

    def _granted(self, grant: Grant, requests: Sequence[Request], availability: Mapping[MachineId, Available]) -> Grant:
        if self._reserved is not None and self._reserved[0] == grant.task:
            self._reserved = None
        free, before = availability[grant.machine].free, self._passed
        self._passed = {}
        if isinstance(requests, Waiting) and not before and requests.bound.fits(free):
            return grant
        some = [request for request in requests if request.job in before or not request.most.fits(free)]
        if isinstance(requests, Waiting) and not some:
            requests.tighten()
        concerned = sorted(some, key=lambda request: request.arrival)
        for request in concerned:
            counts = _counted(before.get(request.job, {}), request, grant.task, free)
            if counts:
                self._passed[request.job] = counts
        if self._reserved is None and self._passed:
            self._reserve([demand for request in concerned for demand in request.demands], availability)
        return grant

    def _reserve(self, ready: Sequence[Demand], availability: Mapping[MachineId, Available]) -> None:
        for demand in ready:
            if self._passed.get(demand.job, {}).get(demand.task, 0) >= self.patience:
                fitting = [
                    name for name, available in availability.items() if demand.resources.fits(available.capacity)
                ]
                if fitting:
                    self._reserved = demand.task, max(fitting, key=lambda name: availability[name].free.cpu)
                    return


def _counted(before: Mapping[TaskId, int], request: Request, granted: TaskId, free: Resources) -> dict[TaskId, int]:
    """The passed-over count of each ready task of a job, the last grant included; without those that never were."""
    counts = {
        demand.task: before.get(demand.task, 0) + (not demand.resources.fits(free))
        for demand in request.demands
        if demand.task != granted
    }
    return {task: count for task, count in counts.items() if count}


def _find(requests: Sequence[Request], task: TaskId) -> Demand | None:
    return next((demand for request in requests for demand in request.demands if demand.task == task), None)
