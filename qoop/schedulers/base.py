"""What every scheduling policy is given and must answer. Policies know no plan (paper section 1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from qoop.engine.events import Demand, Grant
from qoop.engine.task import JobId, MachineId
from qoop.planner.packing import Room
from qoop.planner.plan import Resources
from qoop.schedulers.outlook import UNKNOWN, Outlook


@dataclass(frozen=True)
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

    @cached_property
    def least(self) -> Resources:
        """In every dimension the least that any of the demands asks for."""
        return _of_each(min, self.demands)

    @cached_property
    def most(self) -> Resources:
        """In every dimension the most that any of the demands asks for."""
        return _of_each(max, self.demands)

    def know(self, before: Claim) -> None:
        """Take over what was worked out for an earlier claim of the job, where the demands are as they were."""
        if len(before.demands) == len(self.demands) and all(
            one is other or one.resources is other.resources
            for one, other in zip(self.demands, before.demands, strict=True)
        ):
            self.__dict__.update(least=before.least, most=before.most)

    def share_of(self, capacity: Resources) -> float:
        """The current share: the dominant share of what the job holds of a capacity, divided by its weight.

        Rounded, so that shares which are equal but for the rounding of sums are ties. Remembered, for schedulers ask
        again and again.
        """
        known = self.__dict__.get("_share")
        if known is None or known[0] is not capacity:
            share = round(self.used.dominant_share(capacity) / self.weight, 9)
            known = self.__dict__["_share"] = capacity, share
        return known[1]


def _of_each(choose: Callable[[Iterable[float]], float], demands: Sequence[Demand]) -> Resources:
    rooms = [demand.resources for demand in demands] or [Resources()]
    if len(rooms) == 1:
        return rooms[0]
    return Resources(
        choose([room.cpu for room in rooms]), choose([room.memory for room in rooms]),
        choose([room.disk for room in rooms]), choose([room.network for room in rooms]),
    )  # fmt: skip


class Scheduler(Protocol):
    """A policy: returns decisions, applies none (law 6)."""

    def next_grant(self, claims: Sequence[Claim], rooms: Mapping[MachineId, Room]) -> Grant | None:
        """The next task to start, given the room that is free now; None if nothing can or should start."""
        ...

    def fair_shares(self, claims: Sequence[Claim], capacity: Resources) -> dict[JobId, Resources]:
        """The room each job is promised in the long run: a guaranteed minimum, not a cap."""
        ...
