"""Finish-time fairness: nobody ends much later than on a private part of the cluster.

Source: Themis (Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020): ρ of a job is the time
that it takes among others over the time alone on 1/N of the cluster (section 3). There devices are auctioned in leases
of minutes, since tasks are long, and the jobs of the greatest ρ take part; ours are short, so each slot that becomes
free goes to the job of the greatest ρ, if that is above a limit, and else to the job with the least left to do.

    ρ = (time since it came + time that the rest takes on its part) / (time of all of it alone on its part)

The part is what its weight, and its tenant's, gave it in the mean since it came: so a tenant that splits a query in
twenty has twenty jobs on a twentieth of its part each. It gains all the same where nobody is behind, since the pieces
are short.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from qoop.engine.events import Grant
from qoop.engine.task import JobId, MachineId
from qoop.planner.packing import Available
from qoop.planner.plan import Resources
from qoop.schedulers.base import Request, Scheduler
from qoop.schedulers.max_min import first_fitting
from qoop.schedulers.shares import even_shares

_LEAST = 1e-3
"""Slots of a part at least."""


@dataclass(slots=True)
class _Part:
    """The part of the cluster that a job was told, in the mean since it came."""

    since: float
    changed: float
    now: Resources
    slot_seconds: float = 0.0

    def change(self, share: Resources, now: float) -> None:
        self.slot_seconds += self.now.cpu * (now - self.changed)
        self.now, self.changed = share, now

    def mean(self, now: float) -> float:
        """Slots."""
        lived = now - self.since
        return (self.slot_seconds + self.now.cpu * (now - self.changed)) / lived if lived > 0 else self.now.cpu


@dataclass(eq=False)
class FinishTime(Scheduler):
    """Jobs that are behind go first, that of the greatest ρ before others; then those with the least left to do.

    limit: a job is behind if its ρ is above that. 0: the greatest ρ always goes first, as near to equal as can be; the
        larger, the more the mean time counts, and the less who has to wait for it.

    Work conserving. Jobs are told even shares, which this policy keeps in the mean only: re-planning goes by these, not
    by what is held for a moment, or plans would flap.
    """

    limit: float = 1.1
    _parts: dict[JobId, _Part] = field(default_factory=dict, init=False, repr=False)
    _known: dict[JobId, tuple[Request, float]] = field(default_factory=dict, init=False, repr=False)
    _at: float = field(default=-1.0, init=False, repr=False)

    def next_grant(
        self, requests: Sequence[Request], availability: Mapping[MachineId, Available], now: float = 0.0
    ) -> Grant | None:
        if now != self._at:
            self._at, self._known = now, {}
        return first_fitting(sorted(requests, key=lambda request: self._rank(request, now)), availability)

    def _rank(self, request: Request, now: float) -> tuple[float, float, int]:
        rho = self._rho(request, now)
        left = request.remaining_work.work
        return (-rho, left, request.arrival) if rho > self.limit else (0.0, left, request.arrival)

    def fair_shares(self, requests: Sequence[Request], capacity: Resources, now: float = 0.0) -> dict[JobId, Resources]:
        shares = even_shares(requests, capacity)
        before, self._parts = self._parts, {}
        for request in requests:
            part = before.get(request.job) or _Part(request.since, request.since, shares[request.job])
            part.change(shares[request.job], now)
            self._parts[request.job] = part
        return shares

    def _rho(self, request: Request, now: float) -> float:
        """Remembered until something happens to the job, or time has passed."""
        known = self._known.get(request.job)
        if known is None or known[0] is not request:
            known = self._known[request.job] = request, self.rho(request, now)
        return known[1]

    def part(self, request: Request, now: float) -> float:
        """The slots of a job's part, in the mean since it came; 0 before it was told a share."""
        part = self._parts.get(request.job)
        return 0.0 if part is None else max(_LEAST, part.mean(now))

    def rho(self, request: Request, now: float) -> float:
        """The ρ that a job comes to if it has its part from now on; 0 before it was told a share."""
        slots, left = self.part(request, now), request.remaining_work
        if not slots:
            return 0.0
        return (now - request.since + left.seconds(slots)) / max(left.alone(slots), 1e-9)
