"""Packing of tasks on machines by all of their resources, with short jobs preferred and some regard to fairness.

Source: Grandl et al., "Multi-Resource Packing for Cluster Schedulers", SIGCOMM 2014: alignment of tasks and machines
(section 3.2), combined with shortest remaining work first (3.3), within the jobs that are furthest below their share
(3.4). The barrier knob of section 3.5 needs the plan of a job and is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from qoop.adaptive.schedulers.base import Request, Scheduler
from qoop.adaptive.schedulers.max_min import by_share, with_available
from qoop.engine.events import Grant
from qoop.engine.task import MachineId
from qoop.planner.packing import Available, alignment

_Choice = tuple[float, Request, Grant]


@dataclass(eq=False)
class Tetris(Scheduler):
    """The task and machine of the highest ``alignment − ε · work left of its job``; ties go to the earlier job.

    fairness: knob f, from 0 to below 1. Only the ⌈(1 − f) · n⌉ of n waiting jobs with the lowest shares compete;
        0: efficiency alone, near 1: the poorest job alone. Where nothing of theirs fits, the others compete, so it is
        work conserving. Default as published. Announced shares are even: what the knob draws towards, not a
        guarantee.
    shortness: m, how much the work left counts besides the alignment. ε is m · (mean alignment / mean work left) of
        what could start now, so that the two are of one size whatever their units.
    """

    fairness: float = 0.25
    shortness: float = 1.0

    def next_grant(
        self, requests: Sequence[Request], availability: Mapping[MachineId, Available], now: float = 0.0
    ) -> Grant | None:
        machines, places = with_available(availability)
        if not places:
            return None
        some = ceil((1.0 - self.fairness) * len(requests))
        ordered, free = list(by_share(requests, availability)), list(zip(machines, places, strict=True))
        return self._best(ordered[:some], free) or self._best(ordered[some:], free)

    def _best(self, requests: Sequence[Request], availability: Sequence[tuple[MachineId, Available]]) -> Grant | None:
        choices = [choice for request in requests if (choice := _aligned(request, availability)) is not None]
        if len(choices) <= 1:
            return choices[0][2] if choices else None
        works = [request.remaining_work.work for _, request, _ in choices]
        total = sum(works)
        epsilon = self.shortness * sum(score for score, _, _ in choices) / total if total > 0 else 0.0
        rated = [
            (score - epsilon * work, -request.arrival, grant)
            for (score, request, grant), work in zip(choices, works, strict=True)
        ]
        return max(rated, key=lambda one: one[:2])[2]


def _aligned(request: Request, availability: Sequence[tuple[MachineId, Available]]) -> _Choice | None:
    """The best aligned task and machine of a job, and how well they are: of the tasks of one job only that differs."""
    best: _Choice | None = None
    for demand in request.demands:
        for machine, available in availability:
            if demand.resources.fits(available.free):
                score = alignment(demand.resources, available)
                if best is None or score > best[0] + 1e-9:
                    best = score, request, Grant(request.job, demand.task, machine, demand.resources)
    return best
