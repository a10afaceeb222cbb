"""The job with the least left to do goes first.

Source: shortest remaining time first (Schrage, "A Proof of the Optimality of the Shortest Remaining Processing Time
Discipline", Operations Research 1968), as cluster schedulers are compared with it (Grandl et al., SIGCOMM 2014).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from qoop.adaptive.schedulers.base import Request, Scheduler
from qoop.adaptive.schedulers.max_min import first_fitting
from qoop.engine.events import Grant
from qoop.engine.task import JobId, MachineId
from qoop.planner.packing import Available
from qoop.planner.plan import Resources


@dataclass(eq=False)
class SJF(Scheduler):
    """Least estimated slot seconds left; of equal ones the earlier job. What does not fit is passed over.

    It knows the work of a job by its :class:`~qoop.adaptive.schedulers.remaining_work.RemainingWork`. A long job can
    wait for as long as shorter ones keep coming.
    """

    def next_grant(
        self, requests: Sequence[Request], availability: Mapping[MachineId, Available], now: float = 0.0
    ) -> Grant | None:
        return first_fitting(shortest_first(requests), availability)

    def fair_shares(self, requests: Sequence[Request], capacity: Resources, now: float = 0.0) -> dict[JobId, Resources]:
        """The shortest job can count on everything, the others on nothing."""
        first = shortest_first(requests)[:1]
        return {request.job: capacity if request in first else Resources() for request in requests}


def shortest_first(requests: Sequence[Request]) -> list[Request]:
    """By the work that is left, then in the order they came."""
    return sorted(requests, key=lambda request: (request.remaining_work.work, request.arrival))
