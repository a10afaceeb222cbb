"""The claims of all jobs that wait for room, kept from one grant to the next.

A cluster of many jobs makes thousands of grants a second, and from one to the next a single claim changes. So the one
with the lowest share is found in a heap, from which outdated entries are dropped as they come up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, overload

from qoop.engine.task import JobId
from qoop.planner.plan import Resources

if TYPE_CHECKING:
    from qoop.schedulers.base import Claim

_Entry = tuple[float, int, int, "Claim"]


class Waiting(Sequence["Claim"]):
    """Claims with demands, one a job. What a scheduler is shown: it may go through them, and ask for them by share."""

    def __init__(self) -> None:
        self._claims: dict[JobId, Claim] = {}
        self._heap: list[_Entry] = []
        self._numbers = count()
        self._capacity: Resources | None = None  # of which the shares in the heap are
        self._bound: Resources | None = None

    def __len__(self) -> int:
        return len(self._claims)

    @overload
    def __getitem__(self, place: int) -> Claim: ...
    @overload
    def __getitem__(self, place: slice) -> list[Claim]: ...
    def __getitem__(self, place: int | slice) -> Claim | list[Claim]:
        return list(self._claims.values())[place]

    def __iter__(self) -> Iterator[Claim]:
        return iter(self._claims.values())

    def put(self, claim: Claim) -> None:
        """This is what the job claims from now on; without demands it does not wait."""
        if not claim.demands:
            self.drop(claim.job)
            return
        before = self._claims.get(claim.job)
        if before is not None:
            claim.know(before)
        self._claims[claim.job] = claim
        if self._capacity is not None:
            heappush(self._heap, (claim.share_of(self._capacity), claim.arrival, next(self._numbers), claim))
        if self._bound is not None and not claim.most.fits(self._bound):
            self._bound = None

    def drop(self, job: JobId) -> None:
        """The job waits no more."""
        self._claims.pop(job, None)

    def by_share(self, capacity: Resources) -> Iterator[Claim]:
        """The claims, those with the lowest current share of the capacity first, then those that came first."""
        heap, claims = self._heap, self._claims
        if capacity is not self._capacity or len(heap) > 4 * len(claims) + 64:
            self._capacity = capacity
            heap[:] = [
                (claim.share_of(capacity), claim.arrival, next(self._numbers), claim) for claim in claims.values()
            ]
            heapify(heap)
        while heap and claims.get(heap[0][3].job) is not heap[0][3]:
            heappop(heap)
        if heap:
            first = heap[0][3]
            yield first
            yield from sorted(
                (claim for claim in claims.values() if claim is not first),
                key=lambda claim: (claim.share_of(capacity), claim.arrival),
            )

    @property
    def bound(self) -> Resources:
        """In every dimension at least what any of the demands asks for, if not more."""
        if self._bound is None:
            mosts = [claim.most for claim in self._claims.values()] or [Resources()]
            self._bound = Resources(
                max([most.cpu for most in mosts]), max([most.memory for most in mosts]),
                max([most.disk for most in mosts]), max([most.network for most in mosts]),
            )  # fmt: skip
        return self._bound

    def tighten(self) -> None:
        """Have the bound worked out anew: nothing is as large as it says."""
        self._bound = None
