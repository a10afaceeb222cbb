"""Spare resources: idle slots and memory, which a granted task may have."""

from __future__ import annotations

import math
from collections.abc import Sequence

from qoop.adaptive.schedulers.base import Request
from qoop.adaptive.schedulers.waiting import Waiting
from qoop.engine.events import Grant, Running
from qoop.planner.packing import Available
from qoop.planner.plan import Resources

MORE_MEMORY = 1.25
"""A task that runs is granted more memory, but no more slots, where that is at least this multiple of what it has."""


def with_spare_slots(grant: Grant, available: Available, most: float) -> Grant:
    """The grant with free slots of its machine, up to the most that the task can use."""
    had = grant.resources
    if most <= had.cpu:
        return grant
    slots = max(had.cpu, min(most, math.floor(available.free.cpu)))
    return Grant(grant.job, grant.task, grant.machine, Resources(slots, had.memory, had.disk, had.network))


def with_spare_memory(
    grant: Grant, available: Available, requests: Sequence[Request], allowed: float = math.inf
) -> Grant:
    """The grant with the memory of the slots it takes, if the machine has it free and no ready task needs it.

    A demand is the least a task needs; a kernel with more memory spills less. It gets at most the same
    fraction of the memory as of the slots, so that tasks that ask for no more than that never wait for it, and at most
    the bytes that are allowed.
    """
    demand = grant.resources
    by_slots = min(available.capacity.memory * demand.cpu / available.capacity.cpu, allowed)
    if demand.memory >= by_slots:
        return grant
    if available.free.cpu <= demand.cpu:  # nothing else fits there
        return _with_memory(grant, min(by_slots, available.free.memory))
    needed = 0.0
    most = requests.bound.memory if isinstance(requests, Waiting) else max(request.most.memory for request in requests)
    if by_slots > available.free.memory - most:
        rest = available.free - demand
        waiting = [request for request in requests if request.least.fits(rest)]
        others = (other for request in waiting for other in request.demands if other.task != grant.task)
        needed = max((other.resources.memory for other in others if other.resources.fits(rest)), default=0.0)
    return _with_memory(grant, min(by_slots, available.free.memory - needed))


def regranted(running: Running, slots: float, available: Available, allowed: float = math.inf) -> Resources | None:
    """The grant of an elastic attempt that should have that many slots, out of what it has and what its machine has
    free; None: that is what it has, or about.

    It has the memory of its slots, as far as that is free and allowed. A machine that has no slots is about to stop it.
    """
    if available.capacity.cpu <= 0:
        return None
    had, free = running.resources, available.free
    slots = min(slots, had.cpu + max(0.0, math.floor(free.cpu)))
    by_slots = min(available.capacity.memory * slots / available.capacity.cpu, allowed)
    memory = float(math.floor(min(by_slots, had.memory + max(0.0, free.memory))))
    if slots == had.cpu and memory <= had.memory * MORE_MEMORY:
        return None
    return Resources(slots, memory if slots < had.cpu else max(memory, had.memory), had.disk, had.network)


def _with_memory(grant: Grant, memory: float) -> Grant:
    """The grant with so much memory, in whole bytes; never with less than it has."""
    had = grant.resources
    more = max(had.memory, float(math.floor(memory)))
    return Grant(grant.job, grant.task, grant.machine, Resources(had.cpu, more, had.disk, had.network))
