"""Shares by quality among the programs of a tenant; exact jobs, and tenants among each other, share max-min fairly.

Source: SLAQ, see :mod:`qoop.adaptive.schedulers.quality`. There each epoch hands cores out one by one, each to the job
whose predicted loss it lowers most. Here tasks are granted one by one, so each freed slot goes to the job with the
largest predicted gain for each slot second that is left of it: what ends a round soon counts, as only its end shows
anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from qoop.adaptive.schedulers.base import Request, Scheduler
from qoop.adaptive.schedulers.max_min import capacity_of, first_fitting
from qoop.adaptive.schedulers.shares import even_shares
from qoop.adaptive.schedulers.waiting import Waiting
from qoop.engine.events import Grant
from qoop.engine.task import JobId, MachineId
from qoop.planner.packing import Available
from qoop.planner.plan import Resources

_LEAST_WORK = 1e-3
"""Slot seconds: of less no estimate is worth anything."""


@dataclass(eq=False)
class Quality(Scheduler):
    """The tenant with the lowest share goes first; of its jobs the exact one with the lowest, or the one that gains
    most among those of programs, which count together as one with the sum of their weights.

    least: the part of its fair share that a program's job gets whatever it gains, over the time since it came.
    """

    least: float = 0.1
    _shares: dict[JobId, float] = field(default_factory=dict, init=False, repr=False)
    _owed: dict[JobId, float] = field(default_factory=dict, init=False, repr=False)
    _updated_at: float = field(default=0.0, init=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 <= self.least <= 1:
            raise ValueError(f"least must be from 0 to 1, not {self.least}")

    def next_grant(
        self, requests: Sequence[Request], availability: Mapping[MachineId, Available], now: float = 0.0
    ) -> Grant | None:
        waiting = requests if isinstance(requests, Waiting) else Waiting.of(requests)
        capacity = capacity_of(availability)
        groups = waiting.with_active(capacity)
        return first_fitting((one for jobs, all_ in groups for one in self._order(jobs, all_, capacity, now)),
                             availability)  # fmt: skip

    def fair_shares(self, requests: Sequence[Request], capacity: Resources, now: float = 0.0) -> dict[JobId, Resources]:
        """The part of each by weight. A program's job may get less, down to `least` of it, while others gain more. It
        plans with its part all the same: with less, its tasks would be too few for slots that would stay idle."""
        shares = even_shares(requests, capacity)
        programs = [one.job for one in requests if one.gain is not None]
        self._owed = {job: self._owes(job, now) for job in programs}
        self._shares = {job: shares[job].cpu for job in programs}
        self._updated_at = now
        return shares

    def _owes(self, job: JobId, now: float) -> float:
        """Slot seconds that the job was to have had at least."""
        return self._owed.get(job, 0.0) + self.least * self._shares.get(job, 0.0) * (now - self._updated_at)

    def _order(
        self, jobs: Sequence[Request], active: Sequence[Request], capacity: Resources, now: float
    ) -> Iterator[Request]:
        """The jobs of a tenant that wait, in the order in which they are served. active: with those that do not."""
        exact = [one for one in jobs if one.gain is None]
        programs = [one for one in jobs if one.gain is not None]
        pool = [one for one in active if one.gain is not None]
        weight = sum(one.weight for one in pool)
        held = sum((one.used for one in pool), Resources()).dominant_share(capacity)
        level = (round(held / weight, 9), max(one.arrival for one in pool)) if programs else None
        for one in sorted(exact, key=lambda one: (one.share_of(capacity), one.arrival)):
            if level is not None and level < (one.share_of(capacity), one.arrival):
                yield from sorted(programs, key=lambda one: self._place(one, now))
                level = None
            yield one
        if level is not None:
            yield from sorted(programs, key=lambda one: self._place(one, now))

    def _place(self, request: Request, now: float) -> tuple[bool, float, int]:
        """Those that are owed something first; then by what they gain for each slot second."""
        owed = self.least > 0 and request.remaining_work.served < self._owes(request.job, now)
        return not owed, -rate(request), request.arrival


def rate(request: Request) -> float:
    """The gain of a program's job, times its weight, for each slot second that is left of it."""
    known: float | None = request.__dict__.get("_rate")
    if known is None:
        known = request.weight * (request.gain or 0.0) / max(_LEAST_WORK, request.remaining_work.work)
        request.__dict__["_rate"] = known
    return known
