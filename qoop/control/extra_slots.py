"""Extra slots: a job that waits with nothing running gets a slot that its machine has not got.

A running task is never made to yield, so a short query would wait for the end of somebody's long one, and a second long
one for ever behind one that never ends. Threads share a CPU well; so a job that waits may run one task on top of the
slots there are: at once if it is believed to be short, else after a while. Its memory comes out of a part that is kept
from nobody, so it is little. As soon as a slot is free, the attempt has that, and its job has its share like any other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from qoop.engine.events import Grant
from qoop.engine.run import Run
from qoop.engine.task import AttemptId, JobId, MachineId
from qoop.planner.packing import Available
from qoop.planner.plan import Resources
from qoop.schedulers.base import Request

BRIEF_SECONDS = 1.0
"""Estimated slot seconds up to which a job does not wait for an extra slot."""

PATIENCE_SECONDS = 1.0
"""Any other job waits for so long, with nothing running, before it gets one."""

MEMORY_PART = 0.25
"""All extra attempts together get that part of what the kernels of a machine may use, on top of it."""


def most_extra(capacity: Resources) -> int:
    """The number of extra attempts that a machine may have: as many as it has slots, and two at least.

    >>> most_extra(Resources(1)), most_extra(Resources(8)), most_extra(Resources(0))
    (2, 8, 0)
    """
    return max(2, math.floor(capacity.cpu)) if capacity.cpu >= 1 else 0


class ExtraSlots:
    """The jobs of a cluster that wait with nothing running, and since when.

    next_at: the next moment at which one of them has waited for long enough; infinite if there is none.
    """

    def __init__(self) -> None:
        self.next_at = math.inf
        self._since: dict[JobId, float] = {}

    def due(self, waiting: Sequence[Request], run: Callable[[JobId], Run], now: float) -> list[Request]:
        """Of the requests of jobs that wait those that may have an extra slot now, the longest waiting first."""
        idle = [request for request in waiting if not run(request.job).alive]
        self._since = {request.job: self._since.get(request.job, now) for request in idle}
        until = {request.job: self._since[request.job] + patience(run(request.job).work_left) for request in idle}
        self.next_at = min((at for at in until.values() if at > now), default=math.inf)
        return sorted((one for one in idle if until[one.job] <= now), key=lambda one: self._since[one.job])


def patience(work_left: float) -> float:
    """Seconds that a job with that many slot seconds to do waits for an extra slot."""
    return 0.0 if work_left <= BRIEF_SECONDS else PATIENCE_SECONDS


def extra_grant(
    request: Request, availability: Mapping[MachineId, Available], extra: Mapping[AttemptId, MachineId]
) -> Grant | None:
    """A task of the job on the machine with the fewest extra attempts; None if none may have one more.

    An extra attempt has one slot, and a fixed memory; a task that needs more waits.
    """
    taken = Counter(extra.values())
    for machine in sorted(availability, key=lambda machine: taken[machine]):
        capacity = availability[machine].capacity
        number = most_extra(capacity)
        if taken[machine] >= number:
            continue
        resources = Resources(1, float(math.floor(capacity.memory * MEMORY_PART / number)))
        for demand in request.demands:
            if demand.resources.fits(resources):
                return Grant(demand.job, demand.task, machine, resources, extra=True)
    return None
