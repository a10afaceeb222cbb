"""Dominant resource fairness, as its authors published it.

Source: Ghodsi et al., "Dominant Resource Fairness: Fair Allocation of Multiple Resource Types", NSDI 2011, algorithm 1:
the user with the lowest dominant share runs the next task, if it fits. With weights, section 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from qoop.adaptive.schedulers.base import Request, Scheduler
from qoop.adaptive.schedulers.max_min import by_share, most_free, with_available
from qoop.engine.events import Grant
from qoop.engine.task import MachineId
from qoop.planner.packing import Available


@dataclass(eq=False)
class DRF(Scheduler):
    """The job with the least dominant share goes first, with the task it finds most urgent, where it first fits.

    The difference to :class:`~qoop.adaptive.schedulers.max_min.MaxMin`: neither task nor machine is chosen by packing.
    If nothing of the job fits, the next one is tried, as where it is implemented (Mesos), so it is work conserving.
    """

    def next_grant(
        self, requests: Sequence[Request], availability: Mapping[MachineId, Available], now: float = 0.0
    ) -> Grant | None:
        machines, places = with_available(availability)
        if not places:
            return None
        cpu, memory = most_free(places)
        for request in by_share(requests, availability):
            if request.least.cpu > cpu or request.least.memory > memory:
                continue
            for demand in request.demands:
                for machine, available in zip(machines, places, strict=True):
                    if demand.resources.fits(available.free):
                        return Grant(request.job, demand.task, machine, demand.resources)
        return None
