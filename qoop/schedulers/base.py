"""What every scheduling policy is given and must answer. Policies know no plan (spec, section 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from qoop.engine.events import Demand, Grant
from qoop.engine.task import JobId, MachineId
from qoop.planner.packing import Room
from qoop.planner.plan import Resources
from qoop.schedulers.outlook import UNKNOWN, Outlook


@dataclass(frozen=True, slots=True)
class Claim:
    """What a scheduler may see of one active job.

    arrival: counts jobs in the order they came. used: the room its attempts hold now.
    demands: its ready tasks, most urgent first; of equal tasks only the next one.
    outlook: what the job has still to do, by the estimates of its plan. Only policies that cannot do without ask; ours,
        max-min fairness, does not.
    wanted: the most room that its plan has a use for; None: it does not tell.
    """

    job: JobId
    arrival: int
    weight: float
    used: Resources
    demands: tuple[Demand, ...]
    outlook: Outlook = UNKNOWN
    wanted: Resources | None = None


class Scheduler(Protocol):
    """A policy: returns decisions, applies none (law 6)."""

    def next_grant(self, claims: Sequence[Claim], rooms: Mapping[MachineId, Room]) -> Grant | None:
        """The next task to start, given the room that is free now; None if nothing can or should start."""
        ...

    def fair_shares(self, claims: Sequence[Claim], capacity: Resources) -> dict[JobId, Resources]:
        """The room each job is promised in the long run: a guaranteed minimum, not a cap."""
        ...
