"""A policy with learned weights, which gives way to the heuristic that it learned from.

Source: MLFS (Wang, Liu and Shen, "Job Scheduling for Large-Scale Machine Learning Clusters", CoNEXT 2020, section 3.4)
learns by reinforcement, first from what its heuristic decides. Here the score of a job is a weighted sum of what
:class:`~qoop.schedulers.urgency.Urgency` looks at and of a little more. The weights first imitate its choices, and are
then improved in the simulator (`qoop bench learn`). A sum costs as little as the heuristic, and people can read it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from qoop.catalog.errors import ConfigError
from qoop.engine.events import Grant
from qoop.engine.task import JobId, MachineId
from qoop.planner.packing import Available
from qoop.planner.plan import Resources
from qoop.schedulers.base import Request, Scheduler
from qoop.schedulers.max_min import by_rank
from qoop.schedulers.urgency import Urgency, terms

FEATURES = ("priority", "deadline", "remaining", "waiting", "missed", "served", "short")
"""The terms of the sum, each from 0 to 1. missed: the deadline cannot be met any more. served: the part of its work
that is done. short: its time alone is short next to a minute."""

WEIGHTS = (0.052, 0.226, 0.145, 0.14, -0.018, 0.168, 0.251)
"""As `qoop bench learn` found them, in the order of the features."""

MINUTE = 60.0
LAST = 20
"""The number of jobs that ended last by which it is judged."""


def features(request: Request, now: float) -> tuple[float, ...]:
    """The terms of a job, in the order of `FEATURES`. now: seconds of the clock."""
    left = request.remaining_work
    work, served = left.work, left.served
    late = request.deadline < now + left.finish(math.inf)
    done = served / (served + work) if served + work > 0 else 0.0
    return (*terms(request, now), float(late), done, MINUTE / (MINUTE + left.alone(math.inf)))


@dataclass(eq=False)
class Learned(Scheduler):
    """Of the tenant with the lowest share the job of the highest score goes first.

    weights: one for each of `FEATURES`.
    tenants: whether shares of tenants come first.
    shadow: act as the heuristic does, and count in `asked` and `agreed` how often the score would have chosen alike.
    limit: of the jobs that ended last, the part that may miss a deadline which they could have met when they came. If
        more do, the heuristic decides for `pause` seconds.
    patience: the heuristic decides, too, while a job has waited for that many times its time alone, and a minute more.
    """

    weights: tuple[float, ...] = WEIGHTS
    tenants: bool = True
    shadow: bool = False
    limit: float = 0.5
    patience: float = 50.0
    pause: float = 300.0
    asked: int = field(default=0, init=False, repr=False)
    agreed: int = field(default=0, init=False, repr=False)
    _jobs: dict[JobId, _Job] = field(default_factory=dict, init=False, repr=False)
    _ended: deque[bool] = field(default_factory=lambda: deque(maxlen=LAST), init=False, repr=False)
    _until: float = field(default=-math.inf, init=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.weights) != len(FEATURES):
            raise ConfigError(f"there must be {len(FEATURES)} weights, for {', '.join(FEATURES)}")
        self._heuristic = Urgency(tenants=self.tenants)

    def next_grant(
        self, requests: Sequence[Request], availability: Mapping[MachineId, Available], now: float = 0.0
    ) -> Grant | None:
        if self.falls_back(requests, now):
            return self._heuristic.next_grant(requests, availability, now)
        own = by_rank(requests, availability, lambda request: -self.score(request, now), self.tenants)
        if not self.shadow:
            return own
        theirs = self._heuristic.next_grant(requests, availability, now)
        self.asked += 1
        self.agreed += (own and own.job) == (theirs and theirs.job)
        return theirs

    def score(self, request: Request, now: float) -> float:
        """The weighted sum of the features."""
        return sum(weight * one for weight, one in zip(self.weights, features(request, now), strict=True))

    def falls_back(self, requests: Sequence[Request], now: float) -> bool:
        """True while the heuristic decides."""
        if now < self._until:
            return True
        if any(self._starves(request, now) for request in requests):
            self._until = now + self.pause
        return now < self._until

    def _starves(self, request: Request, now: float) -> bool:
        alone = request.remaining_work.alone(math.inf)
        return now - request.since > MINUTE + self.patience * alone and not request.used.cpu

    def fair_shares(self, requests: Sequence[Request], capacity: Resources, now: float = 0.0) -> dict[JobId, Resources]:
        """Even shares. Here it hears which jobs have come and which have ended."""
        active = {request.job: request for request in requests}
        for job in self._jobs.keys() - active.keys():
            self._judge(self._jobs.pop(job), now)
        for job, request in active.items():
            if job not in self._jobs:
                soonest = now + request.remaining_work.alone(math.inf)
                self._jobs[job] = _Job(request.deadline, soonest <= request.deadline < math.inf)
        return self._heuristic.fair_shares(requests, capacity, now)

    def _judge(self, job: _Job, now: float) -> None:
        if not job.reachable:
            return
        self._ended.append(now > job.deadline)
        if len(self._ended) == LAST and sum(self._ended) > self.limit * LAST:
            self._until = now + self.pause
            self._ended.clear()


@dataclass(frozen=True)
class _Job:
    """reachable: its deadline could be met when it came."""

    deadline: float
    reachable: bool
