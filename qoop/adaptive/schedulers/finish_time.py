"""Finish-time fairness: no job ends later than on a private part of the cluster, as nearly as can be.

Sources: Themis (Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020): ρ of a job is the time
that it takes among others over the time alone on 1/N of the cluster (section 3). There devices are auctioned in leases
of minutes, since tasks are long; ours are short, so each slot that becomes free goes to the job that would end first if
every tenant had its part for itself, and its jobs had even parts of that. That is the fair sojourn protocol (Friedman
and Henderson, "Fairness and Efficiency in Web Server Protocols", SIGMETRICS 2003), with tenants in place of jobs: were
all work divisible, no job would end later than on its tenant's part.

The work done on the parts follows from the work that is believed of jobs, from one change of jobs or machines to the
next. It does not hang on how a tenant cuts its work: twenty even pieces all end there when the whole would, so they
have its place. What jobs have had in the real cluster counts for nothing there, so no job is held back for having been
served early. A job that has ended really, but not there, is worked off there, so pieces that come one after the other
gain nothing either.

The jobs of a tenant might also run there one after the other, the shortest first: then its first pieces would go before
others, and the mean time of all would be 5 % less; but as tasks are not divisible, the last of twenty pieces would end
8 % before the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from qoop.adaptive.schedulers.base import Request, Scheduler
from qoop.adaptive.schedulers.max_min import first_fitting
from qoop.adaptive.schedulers.shares import even_shares
from qoop.engine.events import Grant
from qoop.engine.task import JobId, MachineId
from qoop.planner.packing import Available
from qoop.planner.plan import Resources

_LEAST = 1e-3
"""Slots of a part at least."""


@dataclass(eq=False)
class FinishTime(Scheduler):
    """The job goes first that would end first if every tenant had its part of the cluster for itself.

    Work conserving. The announced shares are even, which this policy keeps in the mean only: re-planning goes by these,
    not by what is held for a moment, or plans would flap.
    """

    _parts: _PrivateParts = field(default_factory=lambda: _PrivateParts(), init=False, repr=False)
    _ends: Mapping[JobId, float] = field(default_factory=dict, init=False, repr=False)

    def next_grant(
        self, requests: Sequence[Request], availability: Mapping[MachineId, Available], now: float = 0.0
    ) -> Grant | None:
        ends = self._ends
        ordered = sorted(requests, key=lambda request: (ends.get(request.job, now), request.arrival))
        return first_fitting(ordered, availability)

    def fair_shares(self, requests: Sequence[Request], capacity: Resources, now: float = 0.0) -> dict[JobId, Resources]:
        shares = even_shares(requests, capacity)
        self._parts.change(requests, {job: share.cpu for job, share in shares.items()}, capacity.cpu, now)
        self._ends = self._parts.ends()
        return shares


@dataclass(slots=True)
class _Job:
    """A job on the part of its tenant. left: slot seconds there. end: second of the clock at which it ended there.

    believed: slot seconds of all of it, when it was last looked at; undone: those of these that it had not had really.
    """

    arrival: int
    left: float = 0.0
    end: float | None = None
    believed: float = 0.0
    undone: float = 0.0

    def update(self, request: Request) -> None:
        """Believe of it what its request says now."""
        known = request.remaining_work
        self.undone = known.work
        whole = known.served + self.undone
        self.left, self.believed = max(0.0, self.left + whole - self.believed), whole
        if self.left > 0:
            self.end = None

    def ended(self, most: float) -> None:
        """It has ended really. most: slot seconds that it can have had since the last look: the rest it never will."""
        self.left = max(0.0, self.left - max(0.0, self.undone - most))
        self.undone = 0.0


@dataclass(slots=True)
class _Part:
    """The part of one tenant. slots: of it. jobs: that run there, or run really."""

    slots: float = _LEAST
    jobs: dict[JobId, _Job] = field(default_factory=dict)

    def line(self) -> list[_Job]:
        """The jobs that have not ended there, in the order in which they will."""
        return sorted([one for one in self.jobs.values() if one.end is None], key=lambda one: (one.left, one.arrival))

    def run(self, since: float, until: float) -> None:
        """Work from one second of the clock to another."""
        line, done = self.line(), 0.0
        for place, one in enumerate(line):
            each, there = one.left - done, self.slots / (len(line) - place)
            if each > there * (until - since):
                done += there * (until - since)
                for other in line[place:]:
                    other.left -= done
                return
            since, done = since + each / there, one.left
            one.left, one.end = 0.0, since

    def ends(self, now: float) -> Iterator[tuple[JobId, float]]:
        """The end of each job there, past or to come."""
        line, before, to_come = self.line(), 0.0, dict[int, float]()
        for place, one in enumerate(line):
            now += (one.left - before) * (len(line) - place) / self.slots
            before, to_come[one.arrival] = one.left, now
        for job, one in self.jobs.items():
            yield job, to_come[one.arrival] if one.end is None else one.end


class _PrivateParts:
    """The parts of all tenants that have jobs, or whose work has not ended there."""

    def __init__(self) -> None:
        self._tenants: dict[str, _Part] = {}
        self._active: dict[JobId, str] = {}
        self._now = self._slots = 0.0

    def change(self, requests: Sequence[Request], shares: Mapping[JobId, float], slots: float, now: float) -> None:
        """Jobs or machines have changed. requests: of all active jobs. shares: announced slots of each. slots: of all
        machines."""
        for part in self._tenants.values():
            part.run(self._now, now)
        active = {request.job: request.tenant for request in requests}
        for job in self._active.keys() - active.keys():
            self._tenants[self._active[job]].jobs[job].ended(self._slots * (now - self._now))
        self._now, self._slots, self._active = now, slots, active
        parts = dict.fromkeys(active.values(), 0.0)
        for request in requests:
            parts[request.tenant] += shares[request.job]
            jobs = self._tenants.setdefault(request.tenant, _Part()).jobs
            jobs.setdefault(request.job, _Job(request.arrival)).update(request)
        for tenant, own in parts.items():
            self._tenants[tenant].slots = max(_LEAST, own)
        self._forget()

    def _forget(self) -> None:
        """Forget the jobs that have ended both really and there."""
        for name, part in list(self._tenants.items()):
            part.jobs = {job: one for job, one in part.jobs.items() if job in self._active or one.left > 0}
            if not part.jobs:
                del self._tenants[name]

    def ends(self) -> dict[JobId, float]:
        """Of each active job the second of the clock at which it would end, or would have ended."""
        ends = (pair for part in self._tenants.values() for pair in part.ends(self._now))
        return {job: end for job, end in ends if job in self._active}
