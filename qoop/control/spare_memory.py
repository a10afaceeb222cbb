"""What a granted task may have of memory that nobody needs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from qoop.engine.events import Grant
from qoop.planner.packing import Room
from qoop.planner.plan import Resources
from qoop.schedulers.base import Claim
from qoop.schedulers.waiting import Waiting


def with_spare_memory(grant: Grant, room: Room, claims: Sequence[Claim]) -> Grant:
    """The grant with the memory of the slots it takes, if the machine has it free and no ready task needs it.

    A demand is the least a task needs; a kernel with more memory spills less. It gets at most the same
    fraction of the memory as of the slots, so that tasks that ask for no more than that never wait for it.
    """
    demand = grant.resources
    by_slots = room.capacity.memory * demand.cpu / room.capacity.cpu
    if demand.memory >= by_slots:
        return grant
    if room.free.cpu <= demand.cpu:  # nothing else fits there
        return _with_memory(grant, min(by_slots, room.free.memory))
    rest = room.free - demand
    needed = 0.0
    most = claims.bound.memory if isinstance(claims, Waiting) else max(claim.most.memory for claim in claims)
    if by_slots > room.free.memory - most:
        waiting = [claim for claim in claims if claim.least.fits(rest)]
        others = (other for claim in waiting for other in claim.demands if other.task != grant.task)
        needed = max((other.resources.memory for other in others if other.resources.fits(rest)), default=0.0)
    return _with_memory(grant, min(by_slots, room.free.memory - needed))


def _with_memory(grant: Grant, memory: float) -> Grant:
    """The grant with so much memory, in whole bytes; never with less than it has."""
    had = grant.resources
    more = max(had.memory, float(math.floor(memory)))
    return Grant(grant.job, grant.task, grant.machine, Resources(had.cpu, more, had.disk, had.network))
