"""The input and the answers of every scheduling policy. Policies know no plan (paper section 1)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

from qoop.adaptive.schedulers.remaining_work import UNKNOWN, RemainingWork
from qoop.adaptive.schedulers.shares import even_shares
from qoop.adaptive.schedulers.terms import USUAL_PRIORITY
from qoop.catalog.value import value
from qoop.engine.events import Demand, Grant
from qoop.engine.task import JobId, MachineId
from qoop.planner.packing import Available
from qoop.planner.plan import Resources


@value
class Request:
    """All that a scheduler may see of one active job.

    arrival: counts jobs in the order they came. weight: within its tenant. used: the resources that its attempts hold
        now.
    demands: its ready tasks, most urgent first; of equal tasks only the next one.
    remaining_work: what the job has still to do, by the estimates of its plan. Only policies that need it ask; ours,
        max-min fairness, does not.
    tenant: the owner of the job. tenant_weight: of that tenant among all.
    since: seconds of the clock at which it came. deadline: those by which its answer is needed; infinite: at no time.
    priority: 1 to 10, the more the more urgent. extra: slots that its attempts hold on top of those that there are: no
        part of its share, but of what its tenant has had.
    gain: see `JobRequest`; None: it is a query by itself.
    """

    job: JobId
    arrival: int
    weight: float
    used: Resources
    demands: tuple[Demand, ...]
    remaining_work: RemainingWork = UNKNOWN
    tenant: str = ""
    tenant_weight: float = 1.0
    since: float = 0.0
    deadline: float = math.inf
    priority: float = USUAL_PRIORITY
    extra: float = 0.0
    gain: float | None = None

    @cached_property
    def least(self) -> Resources:
        """In every dimension the least that any of the demands asks for."""
        return _of_each(min, self.demands)

    @cached_property
    def most(self) -> Resources:
        """In every dimension the most that any of the demands asks for."""
        return _of_each(max, self.demands)

    def know(self, before: Request) -> None:
        """Take over what was worked out for an earlier request of the job, where the demands are the same."""
        mine, theirs = self.demands, before.demands
        if mine is not theirs:
            if len(mine) != len(theirs):
                return
            for one, other in zip(mine, theirs, strict=True):
                if one is not other and one.resources is not other.resources:
                    return
        known = self.__dict__
        known["least"], known["most"] = before.least, before.most

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
    availability = [demand.resources for demand in demands] or [Resources()]
    if len(availability) == 1:
        return availability[0]
    return Resources(
        choose([one.cpu for one in availability]), choose([one.memory for one in availability]),
        choose([one.disk for one in availability]), choose([one.network for one in availability]),
    )  # fmt: skip


class Scheduler(ABC):
    """A policy: returns decisions, applies none (law 6).

    Its parameters, a seed among them where it has one, are what its `repr` says, from which
    :func:`qoop.adaptive.schedulers.described.made` makes it again: so a trace that names it can be gone through again.
    """

    @abstractmethod
    def next_grant(
        self, requests: Sequence[Request], availability: Mapping[MachineId, Available], now: float = 0.0
    ) -> Grant | None:
        """The next task to start, given the resources that are free now; None if nothing can or should start.

        requests: of jobs that have ready tasks. now: seconds of the clock.
        """

    def fair_shares(self, requests: Sequence[Request], capacity: Resources, now: float = 0.0) -> dict[JobId, Resources]:
        """The resources that each job is promised in the long run: a guaranteed minimum, not a cap. By the weights.

        Asked when jobs or machines have changed. requests: of all active jobs."""
        return even_shares(requests, capacity)
