"""Packing of tasks on machines by all of their resources, with short jobs preferred and some regard to fairness.

Source: Grandl et al., "Multi-Resource Packing for Cluster Schedulers", SIGCOMM 2014: alignment of tasks and machines
(section 3.2), combined with shortest remaining work first (3.3), within the jobs that are furthest below their share
(3.4). The barrier knob of section 3.5 needs the plan of a job and is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

from qoop.engine.events import Grant
from qoop.engine.task import JobId, MachineId
from qoop.planner.packing import Room, alignment
from qoop.planner.plan import Resources
from qoop.schedulers.base import Claim
from qoop.schedulers.max_min import by_share, even_shares, with_room

_Choice = tuple[float, Claim, Grant]


class Tetris:
    """The task and machine of the highest ``alignment − ε · work left of its job``; ties go to the earlier job.

    fairness: knob f, from 0 to below 1. Only the ⌈(1 − f) · n⌉ of n waiting jobs with the lowest shares are looked at;
        0: efficiency alone, near 1: the poorest job alone. Where nothing of theirs fits, the others are asked, so it is
        work conserving. Default as there.
    shortness: m, how much the work left counts beside the alignment. ε is m · (mean alignment / mean work left) of
        what could start now, so that the two are of one size whatever their units.
    """

    def __init__(self, fairness: float = 0.25, shortness: float = 1.0) -> None:
        self._fairness = fairness
        self._shortness = shortness

    def next_grant(self, claims: Sequence[Claim], rooms: Mapping[MachineId, Room]) -> Grant | None:
        machines, places = with_room(rooms)
        if not places:
            return None
        some = ceil((1.0 - self._fairness) * len(claims))
        ordered, free = list(by_share(claims, rooms)), list(zip(machines, places, strict=True))
        return self._best(ordered[:some], free) or self._best(ordered[some:], free)

    def fair_shares(self, claims: Sequence[Claim], capacity: Resources) -> dict[JobId, Resources]:
        """Even shares: what the knob draws towards, not a guarantee."""
        return even_shares(claims, capacity)

    def _best(self, claims: Sequence[Claim], rooms: Sequence[tuple[MachineId, Room]]) -> Grant | None:
        choices = [choice for claim in claims if (choice := _aligned(claim, rooms)) is not None]
        if len(choices) <= 1:
            return choices[0][2] if choices else None
        works = [claim.outlook.work for _, claim, _ in choices]
        total = sum(works)
        epsilon = self._shortness * sum(score for score, _, _ in choices) / total if total > 0 else 0.0
        rated = [
            (score - epsilon * work, -claim.arrival, grant)
            for (score, claim, grant), work in zip(choices, works, strict=True)
        ]
        return max(rated, key=lambda one: one[:2])[2]


def _aligned(claim: Claim, rooms: Sequence[tuple[MachineId, Room]]) -> _Choice | None:
    """The best aligned task and machine of a job, and how well they are: of the tasks of one job only that differs."""
    best: _Choice | None = None
    for demand in claim.demands:
        for machine, room in rooms:
            if demand.resources.fits(room.free):
                score = alignment(demand.resources, room)
                if best is None or score > best[0] + 1e-9:
                    best = score, claim, Grant(claim.job, demand.task, machine, demand.resources)
    return best
