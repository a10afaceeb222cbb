"""The requests of all jobs that wait for resources, kept from one grant to the next.

A cluster of many jobs makes thousands of grants a second, and from one to the next a single request changes. So the one
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
    from qoop.schedulers.base import Request

_Entry = tuple[float, int, int, "Request"]


class Waiting(Sequence["Request"]):
    """Requests with demands, one for each job. A scheduler may go through them, or ask for them by share."""

    def __init__(self) -> None:
        self._requests: dict[JobId, Request] = {}
        self._heap: list[_Entry] = []
        self._numbers = count()
        self._capacity: Resources | None = None  # of which the shares in the heap are
        self._bound: Resources | None = None

    def __len__(self) -> int:
        return len(self._requests)

    @overload
    def __getitem__(self, place: int) -> Request: ...
    @overload
    def __getitem__(self, place: slice) -> list[Request]: ...
    def __getitem__(self, place: int | slice) -> Request | list[Request]:
        return list(self._requests.values())[place]

    def __iter__(self) -> Iterator[Request]:
        return iter(self._requests.values())

    def put(self, request: Request) -> None:
        """Replace the request of the job; one without demands does not wait."""
        if not request.demands:
            self.drop(request.job)
            return
        before = self._requests.get(request.job)
        if before is not None:
            request.know(before)
        self._requests[request.job] = request
        if self._capacity is not None:
            heappush(self._heap, (request.share_of(self._capacity), request.arrival, next(self._numbers), request))
        if self._bound is not None and not request.most.fits(self._bound):
            self._bound = None

    def drop(self, job: JobId) -> None:
        """The job waits no more."""
        self._requests.pop(job, None)

    def by_share(self, capacity: Resources) -> Iterator[Request]:
        """The requests, those with the lowest current share of the capacity first, then those that came first."""
        heap, requests = self._heap, self._requests
        if capacity is not self._capacity or len(heap) > 4 * len(requests) + 64:
            self._capacity = capacity
            heap[:] = [
                (request.share_of(capacity), request.arrival, next(self._numbers), request)
                for request in requests.values()
            ]
            heapify(heap)
        while heap and requests.get(heap[0][3].job) is not heap[0][3]:
            heappop(heap)
        if heap:
            first = heap[0][3]
            yield first
            yield from sorted(
                (request for request in requests.values() if request is not first),
                key=lambda request: (request.share_of(capacity), request.arrival),
            )

    @property
    def bound(self) -> Resources:
        """In every dimension at least what any of the demands asks for, if not more."""
        if self._bound is None:
            mosts = [request.most for request in self._requests.values()] or [Resources()]
            self._bound = Resources(
                max([most.cpu for most in mosts]), max([most.memory for most in mosts]),
                max([most.disk for most in mosts]), max([most.network for most in mosts]),
            )  # fmt: skip
        return self._bound

    def tighten(self) -> None:
        """Have the bound worked out again: nothing is as large as it says."""
        self._bound = None
