"""The job that has been served least goes first.

Source: least attained service (Kleinrock, "Queueing Systems" volume 2, 1976, section 4.6), as Tiresias has it for
clusters (Gu et al., NSDI 2019) with which Themis is compared (Mahajan et al., NSDI 2020).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from qoop.adaptive.schedulers.base import Request, Scheduler
from qoop.adaptive.schedulers.max_min import first_fitting
from qoop.engine.events import Grant
from qoop.engine.task import MachineId
from qoop.planner.packing import Available


@dataclass(eq=False)
class LAS(Scheduler):
    """Least slot seconds held so far; of equal ones the earlier job. What does not fit is passed over.

    It knows no estimate. A long job can wait for as long as new ones keep coming.
    """

    def next_grant(
        self, requests: Sequence[Request], availability: Mapping[MachineId, Available], now: float = 0.0
    ) -> Grant | None:
        ordered = sorted(requests, key=lambda request: (request.remaining_work.served, request.arrival))
        return first_fitting(ordered, availability)
