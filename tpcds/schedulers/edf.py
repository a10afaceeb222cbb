"""The job whose deadline is next goes first.

Source: earliest deadline first (Liu and Layland, "Scheduling Algorithms for Multiprogramming in a Hard-Real-Time
Environment", JACM 1973).
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
class EDF(Scheduler):
    """The next deadline first, whether it can still be met or not; those without come last, the earlier job first."""

    def next_grant(
        self, requests: Sequence[Request], availability: Mapping[MachineId, Available], now: float = 0.0
    ) -> Grant | None:
        return first_fitting(sorted(requests, key=lambda one: (one.deadline, one.arrival)), availability)
