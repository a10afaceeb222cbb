"""Slots in leases, for which the jobs that are furthest behind bid.

Source: Themis (Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020, sections 4 and 5): free
slots are offered to the part of the jobs with the greatest finish-time ρ; each bids 1/ρ for every number of slots; the
division with the greatest product of bids wins (proportional fairness); of its slots a winner keeps the part by which
it does not harm the others (a hidden payment, after the partial allocation mechanism of Cole, Gkatzelis and Goel, EC
2013), so that to lie gains nothing; the rest goes to jobs that did not bid, at random. With each number of slots a job
bids the end of the plan that is best there, of those that it keeps: so a change of plan is a bid. All slots are alike
here, so the greedy division is the best one; where another plan is worth its slots only once they are many, all but the
last step of it.

It is for tasks that take minutes. Those of a usual query take seconds: then every slot changes hands soon anyhow, and
:class:`~qoop.schedulers.finish_time.FinishTime` is fair without slots that idle in a lease.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heapify, heapreplace
from typing import Literal, NamedTuple, get_args

from qoop.catalog.errors import ConfigError
from qoop.engine.events import Grant
from qoop.engine.task import JobId, MachineId
from qoop.planner.packing import Available
from qoop.planner.plan import Resources
from qoop.schedulers.base import Request, Scheduler
from qoop.schedulers.max_min import capacity_of, first_fitting
from qoop.schedulers.remaining_work import Way
from qoop.schedulers.shares import even_shares

_LEAST = 1e-3
"""Slots of a share at least."""

Payment = Literal["min1", "lottery", "floor", "none"]


@dataclass(frozen=True)
class Bid:
    """The bid of a job for slots on top of those that it holds.

    waited: seconds since it came. ways: the rest of it under each of its plans. alone: seconds of the whole job on its
    own part. leased: slots. horizon: seconds that it waits if it gets nothing: a lease.
    """

    job: JobId
    waited: float
    ways: Sequence[Way]
    alone: float
    leased: int
    horizon: float

    def cost(self, slots: int) -> float:
        """The logarithm of ρ with that many slots more; without any slot it waits for a lease and then has one."""
        total = self.leased + slots
        rest = self._rest(total) if total else self.horizon + self._rest(1)
        return math.log(max(self.waited + rest, 1e-9) / self.alone)

    def _rest(self, slots: int) -> float:
        """Seconds until it ends with that many slots."""
        return min([way.seconds(slots) for way in self.ways], default=0.0)

    def step(self, slots: int, most: int) -> int:
        """The number of slots, on top of that many and at most `most`, each of which gains the most: as many as another
        plan has a use for, or one."""
        best, gain = 1, self.change(slots)
        for total in self._turns:
            more = min(total - self.leased - slots, most)
            if more > 1 and (each := self.change(slots, more) / more) < gain:
                best, gain = more, each
        return best

    @cached_property
    def _turns(self) -> tuple[int, ...]:
        """The numbers of slots with which a plan comes to its longest path; none where there is but one plan, of which
        each slot gains less than the one before."""
        if len(self.ways) < 2:
            return ()
        return tuple(sorted({math.ceil(way.work / way.path) for way in self.ways if way.path > 0}))

    def change(self, slots: int, more: int = 1) -> float:
        """The change of the cost from that many slots to `more` more; below 0: it ends sooner."""
        return self.cost(slots + more) - self.cost(slots)


@dataclass(frozen=True)
class _Lease:
    job: JobId
    slots: int
    until: float


@dataclass(eq=False)
class Auction(Scheduler):
    """Jobs hold slots for a lease; what becomes free is auctioned.

    fairness: the part of the jobs that may not bid, those of the smallest ρ.
    lease: seconds.
    payment: how the part of a slot that a winner keeps is rounded: "min1": down, but to one slot at least; "lottery":
        all or nothing, by chance; "floor": down; "none": there is no payment.
    seed: of chance.
    """

    fairness: float = 0.8
    lease: float = 60.0
    payment: Payment = "min1"
    seed: int = 0
    _leases: list[_Lease] = field(default_factory=list, init=False, repr=False)
    _ended: set[JobId] = field(default_factory=set, init=False, repr=False)
    _auctioned_at: tuple[float, int] = field(default=(-1.0, -1), init=False, repr=False)

    def __post_init__(self) -> None:
        if not (0 <= self.fairness < 1 and self.lease > 0 and self.payment in get_args(Payment)):
            raise ConfigError(
                f"an auction has a fairness from 0 to below 1, a lease above 0 s, and a payment of"
                f" {', '.join(get_args(Payment))}, not {self.fairness}, {self.lease}, {self.payment!r}"
            )
        self._chance = random.Random(self.seed)
        self._parts = _MeanShares()

    @property
    def wake_at(self) -> float:  # type: ignore[override]  # the end of the next lease
        return min((one.until for one in self._leases), default=math.inf)

    def next_grant(
        self, requests: Sequence[Request], availability: Mapping[MachineId, Available], now: float = 0.0
    ) -> Grant | None:
        self._leases = [one for one in self._leases if one.until > now and one.job not in self._ended]
        slots = int(capacity_of(availability).cpu)
        grant = self._within_leases(requests, availability)
        if grant is None and self._may_auction(requests, slots, now):
            self._auction(requests, slots - self._leased(), now)
            grant = self._within_leases(requests, availability)
        return grant

    def _within_leases(self, requests: Iterable[Request], availability: Mapping[MachineId, Available]) -> Grant | None:
        leased = self.quotas()
        able = [one for one in requests if one.used.cpu < leased.get(one.job, 0)]
        return first_fitting(sorted(able, key=lambda one: one.arrival), availability)

    def quotas(self) -> dict[JobId, int]:
        """The slots that each job holds by its leases."""
        found: dict[JobId, int] = {}
        for one in self._leases:
            found[one.job] = found.get(one.job, 0) + one.slots
        return found

    def _leased(self) -> int:
        return sum(one.slots for one in self._leases)

    def _may_auction(self, requests: Sequence[Request], slots: int, now: float) -> bool:
        """Nothing new is found by a second auction of the same at the same time."""
        state = now, len(requests)
        if slots <= self._leased() or not requests or state == self._auctioned_at:
            return False
        self._auctioned_at = state
        return True

    def _auction(self, requests: Sequence[Request], offered: int, now: float) -> None:
        leased = self.quotas()
        bids = [self._bid(one, leased.get(one.job, 0), now) for one in requests if one.demands]
        bids.sort(key=lambda bid: (-bid.cost(0), bid.job))
        bidders = bids[: max(1, math.ceil((1.0 - self.fairness) * len(bids)))]
        won = {job: slots for job, slots in self._won(bidders, offered).items() if slots}
        left = offered - sum(won.values())
        for others in (bids[len(bidders) :], bidders):
            left = self._give_away(others, won, left)
        self._leases += [_Lease(job, slots, now + self.lease) for job, slots in won.items()]

    def _bid(self, request: Request, leased: int, now: float) -> Bid:
        left = request.remaining_work
        alone = max(left.alone(self._parts.slots(request.job, now) or math.inf), 1e-9)
        return Bid(request.job, now - request.since, left.ways(), alone, leased, self.lease)

    def _won(self, bidders: Sequence[Bid], offered: int) -> dict[JobId, int]:
        """The slots that bidders keep once they have paid."""
        whole = divided(bidders, offered)
        if self.payment == "none" or len(bidders) == 1:
            return whole
        return {bid.job: self._kept(whole[bid.job], self._part_kept(bid, bidders, whole, offered)) for bid in bidders}

    def _part_kept(self, bid: Bid, bidders: Sequence[Bid], whole: Mapping[JobId, int], offered: int) -> float:
        """The product of the others' bids with it over that without it, from 0 to 1."""
        if not whole[bid.job]:
            return 1.0
        others = [one for one in bidders if one is not bid]
        without = divided(others, offered)
        return math.exp(min(0.0, sum(one.cost(without[one.job]) - one.cost(whole[one.job]) for one in others)))

    def _kept(self, slots: int, part: float) -> int:
        if self.payment == "lottery":
            return slots if self._chance.random() < part else 0
        kept = math.floor(slots * part + 1e-9)
        return max(1, kept) if slots and self.payment == "min1" else kept

    def _give_away(self, bids: Sequence[Bid], won: dict[JobId, int], left: int) -> int:
        """Give slots away at random, one at a time, to jobs that end sooner with them; returns the number left."""
        able = [bid for bid in bids if bid.change(won.get(bid.job, 0)) < 0]
        while left and able:
            place = self._chance.randrange(len(able))
            job = able[place].job
            won[job] = won.get(job, 0) + 1
            left -= 1
            if able[place].change(won[job]) >= 0:
                del able[place]
        return left

    def fair_shares(self, requests: Sequence[Request], capacity: Resources, now: float = 0.0) -> dict[JobId, Resources]:
        """Even shares, which leases keep in the mean. Here it hears which jobs have ended."""
        active = frozenset(request.job for request in requests)
        self._ended = {one.job for one in self._leases} - active
        shares = even_shares(requests, capacity)
        self._parts.change(requests, shares, now)
        return shares


@dataclass(slots=True)
class _Mean:
    since: float
    changed: float
    now: Resources
    slot_seconds: float = 0.0

    def change(self, share: Resources, now: float) -> None:
        self.slot_seconds += self.now.cpu * (now - self.changed)
        self.now, self.changed = share, now

    def slots(self, now: float) -> float:
        lived = now - self.since
        return (self.slot_seconds + self.now.cpu * (now - self.changed)) / lived if lived > 0 else self.now.cpu


class _MeanShares:
    """The mean shares of all active jobs."""

    def __init__(self) -> None:
        self._jobs: dict[JobId, _Mean] = {}

    def change(self, requests: Sequence[Request], shares: Mapping[JobId, Resources], now: float) -> None:
        """Jobs, or their shares, have changed. requests: of all active jobs."""
        before, self._jobs = self._jobs, {}
        for request in requests:
            mean = before.get(request.job) or _Mean(request.since, request.since, shares[request.job])
            mean.change(shares[request.job], now)
            self._jobs[request.job] = mean

    def slots(self, job: JobId, now: float) -> float:
        """Slots of a job's share, in the mean since it came; 0 before it was told one."""
        mean = self._jobs.get(job)
        return 0.0 if mean is None else max(_LEAST, mean.slots(now))


def divided(bids: Sequence[Bid], slots: int) -> dict[JobId, int]:
    """Slots by job such that the product of 1/ρ is greatest: one step after the other to whom a slot gains the most.

    Of a single plan the gain of one more slot falls with the number, so that this finds the best division. Of several a
    step may be of many slots.
    """
    found, left = {bid.job: 0 for bid in bids}, slots
    heap = [_Step.of(bid, place, 0, left) for place, bid in enumerate(bids)]
    heapify(heap)
    while left and heap and heap[0].gain < 0:
        step = heap[0]
        bid = bids[step.place]
        if step.slots <= left:
            found[bid.job] += step.slots
            left -= step.slots
        heapreplace(heap, _Step.of(bid, step.place, found[bid.job], left))
    return found


class _Step(NamedTuple):
    """The next step of a bid. gain: of each of its slots; below 0: its job ends sooner. place: of the bid."""

    gain: float
    place: int
    slots: int

    @classmethod
    def of(cls, bid: Bid, place: int, slots: int, most: int) -> _Step:
        """The one that follows on that many slots."""
        step = bid.step(slots, most)
        return cls(bid.change(slots, step) / step, place, step)
