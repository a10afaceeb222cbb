"""No task starves: room is kept for one that was passed over too often.

A work-conserving policy gives every freed slot to whatever fits it. A task that needs several slots, or most
of a machine's memory, would then wait for as long as smaller ones keep coming. This wrapper counts, for every
ready task, the grants made in room that was too small for it. When the count passes `patience`, one machine
takes nothing new until the task fits there. Tasks are short (law 9), so that wait is short too, and only
one machine is held back at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qoop.engine.events import Demand, Grant
from qoop.engine.task import JobId, MachineId, TaskId
from qoop.planner.packing import Room, Rooms
from qoop.planner.plan import Resources
from qoop.schedulers.base import Claim, Scheduler
from qoop.schedulers.waiting import Waiting


class Patient:
    """`policy`, with a limit on how often a task may be passed over.

    patience: number of grants, made in room too small for a ready task, that it lets pass.
    """

    def __init__(self, policy: Scheduler, patience: int = 16) -> None:
        self._policy = policy
        self._patience = patience
        self._passed: dict[JobId, dict[TaskId, int]] = {}
        self._reserved: tuple[TaskId, MachineId] | None = None

    def next_grant(self, claims: Sequence[Claim], rooms: Mapping[MachineId, Room]) -> Grant | None:
        if self._reserved is not None:
            demand = _find(claims, self._reserved[0])
            machine = self._reserved[1]
            if demand is None or machine not in rooms or not demand.resources.fits(rooms[machine].capacity):
                self._reserved = None
            elif demand.resources.fits(rooms[machine].free):
                return self._granted(Grant(demand.job, demand.task, machine, demand.resources), claims, rooms)
            else:
                known = rooms if isinstance(rooms, Rooms) else Rooms(rooms.items())
                rooms = known.but(machine, Resources())
        grant = self._policy.next_grant(claims, rooms)
        return self._granted(grant, claims, rooms) if grant is not None else None

    def fair_shares(self, claims: Sequence[Claim], capacity: Resources) -> dict[JobId, Resources]:
        return self._policy.fair_shares(claims, capacity)

    def _granted(self, grant: Grant, claims: Sequence[Claim], rooms: Mapping[MachineId, Room]) -> Grant:
        if self._reserved is not None and self._reserved[0] == grant.task:
            self._reserved = None
        free, before = rooms[grant.machine].free, self._passed
        self._passed = {}
        if isinstance(claims, Waiting) and not before and claims.bound.fits(free):
            return grant
        some = [claim for claim in claims if claim.job in before or not claim.most.fits(free)]
        if isinstance(claims, Waiting) and not some:
            claims.tighten()
        concerned = sorted(some, key=lambda claim: claim.arrival)
        for claim in concerned:
            counts = _counted(before.get(claim.job, {}), claim, grant.task, free)
            if counts:
                self._passed[claim.job] = counts
        if self._reserved is None and self._passed:
            self._reserve([demand for claim in concerned for demand in claim.demands], rooms)
        return grant

    def _reserve(self, ready: Sequence[Demand], rooms: Mapping[MachineId, Room]) -> None:
        for demand in ready:
            if self._passed.get(demand.job, {}).get(demand.task, 0) >= self._patience:
                fitting = [name for name, room in rooms.items() if demand.resources.fits(room.capacity)]
                if fitting:
                    self._reserved = demand.task, max(fitting, key=lambda name: rooms[name].free.cpu)
                    return


def _counted(before: Mapping[TaskId, int], claim: Claim, granted: TaskId, free: Resources) -> dict[TaskId, int]:
    """How often each ready task of a job was passed over, the last grant with it; those that never were left out."""
    counts = {
        demand.task: before.get(demand.task, 0) + (not demand.resources.fits(free))
        for demand in claim.demands
        if demand.task != granted
    }
    return {task: count for task, count in counts.items() if count}


def _find(claims: Sequence[Claim], task: TaskId) -> Demand | None:
    return next((demand for claim in claims for demand in claim.demands if demand.task == task), None)
