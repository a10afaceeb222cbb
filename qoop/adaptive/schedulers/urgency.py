"""Deadlines and priorities within a tenant; between tenants shares stay max-min fair.

Source: MLFS (Wang, Liu and Shen, "Job Scheduling for Large-Scale Machine Learning Clusters", CoNEXT 2020), the
heuristic of its section 3.2: the priority of a task is α times a term of its job's urgency and its part of the job, and
1 − α times terms of its deadline, of the time that is left and of the time that it has waited. Here each term is scaled
to [0, 1], so that none rules by its unit; the part of a task is that of the work that its job has left, 1 for all of
them together, so that terms are of jobs. The order of the tasks of a job, by the longest path behind them, is that of
its demands.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from qoop.adaptive.schedulers.base import Request, Scheduler
from qoop.adaptive.schedulers.max_min import by_rank
from qoop.engine.events import Grant
from qoop.engine.task import MachineId
from qoop.planner.packing import Available

MOST_PRIORITY = 10.0


@dataclass(eq=False)
class Urgency(Scheduler):
    """Of the tenant with the lowest share the job of the greatest urgency goes first.

    alpha: how much the priority that the user gave counts; the rest is for the three terms of time.
    deadline, remaining, waiting: weights of these terms: little time until the latest moment at which the job may
        begin and meet its deadline, little work left, and long waiting, by which nothing starves.
    tenants: whether shares of tenants come first; else the most urgent job of all goes first.
    """

    alpha: float = 0.05
    deadline: float = 1.0
    remaining: float = 8.0
    waiting: float = 1.0
    tenants: bool = True

    def next_grant(
        self, requests: Sequence[Request], availability: Mapping[MachineId, Available], now: float = 0.0
    ) -> Grant | None:
        return by_rank(requests, availability, lambda request: -self.urgency(request, now), self.tenants)

    def urgency(self, request: Request, now: float) -> float:
        """From 0 to 1."""
        priority, deadline, remaining, waiting = terms(request, now)
        time = self.deadline * deadline + self.remaining * remaining + self.waiting * waiting
        weights = self.deadline + self.remaining + self.waiting
        return self.alpha * priority + (1.0 - self.alpha) * (time / weights if weights else 0.0)


def terms(request: Request, now: float) -> tuple[float, float, float, float]:
    """The terms of a job's priority, deadline, work left and waiting, each from 0 to 1.

    A deadline that can be met no more counts for nothing: there is nothing to be had.
    """
    left = request.remaining_work.finish(math.inf)
    whole = max(left, request.remaining_work.alone(math.inf), 1e-9)
    slack = request.deadline - now - left
    return (
        request.priority / MOST_PRIORITY,
        whole / (whole + slack) if 0 <= slack < math.inf else 0.0,
        whole / (whole + request.remaining_work.work),
        1.0 - whole / (whole + now - request.since),
    )
