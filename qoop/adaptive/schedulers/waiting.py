"""The requests of all active jobs, kept from one grant to the next; those with ready tasks wait for resources.

A cluster of many jobs makes thousands of grants a second, and from one to the next a single request changes. So of each
tenant the one with the lowest share is found in a heap, from which outdated entries are dropped as they come up.

Tenants whose shares are equal go by what they have had so far, for their weights: where there are fewer slots than
tenants nothing else would keep to the weights. A tenant that comes, or comes back, begins with the least that any other
has had: idle time earns no credit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, overload

from qoop.engine.task import JobId
from qoop.planner.plan import Resources

if TYPE_CHECKING:
    from qoop.adaptive.schedulers.base import Request

_Entry = tuple[float, int, int, "Request"]
_NOTHING = Resources()


class Waiting(Sequence["Request"]):
    """Requests with demands, one for each job. A scheduler may go through them, or ask for them by share.

    Jobs without demands are known as well: what they hold counts for their tenants. `now` is for its owner to set:
    seconds of the clock, before requests are put or dropped.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._requests: dict[JobId, Request] = {}
        self._tenants: dict[str, _Tenant] = {}
        self._bound: Resources | None = None

    @classmethod
    def of(cls, requests: Iterable[Request]) -> Waiting:
        """These requests."""
        waiting = cls()
        for request in requests:
            waiting.put(request)
        return waiting

    def __len__(self) -> int:
        return len(self._requests)

    if TYPE_CHECKING:  # see Session.submit

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
        tenant = self._tenants.get(request.tenant)
        if tenant is None:
            least = min([other.served(self.now) for other in self._tenants.values()], default=0.0)
            tenant = self._tenants[request.tenant] = _Tenant(self.now, least)
        tenant.put(request, self.now)
        if not request.demands:
            self._requests.pop(request.job, None)
            return
        before = self._requests.get(request.job)
        if before is not None:
            request.know(before)
        self._requests[request.job] = request
        if self._bound is not None and not request.most.fits(self._bound):
            self._bound = None

    def drop(self, job: JobId) -> None:
        """The job has ended."""
        self._requests.pop(job, None)
        for name, tenant in self._tenants.items():
            if tenant.drop(job, self.now):
                if not tenant.active:
                    del self._tenants[name]
                return

    def by_share(self, capacity: Resources) -> Iterator[Request]:
        """The requests of the tenant with the lowest current share of the capacity first, and of each those with the
        lowest; of equal tenants the one that has had least, of equal jobs those that came first."""
        for tenant, first in self._ordered(capacity):
            yield first
            yield from tenant.but(first, capacity)

    def fairly(self, requests: Sequence[Request], capacity: Resources) -> Sequence[Request]:
        """Some of the requests, in their order but for that of their tenants: first those of the tenant that has had
        least for its weight.

        Current shares come after that: what runs on slots on top of those there are is no part of them.
        """
        if len(self._tenants) < 2 or len(requests) < 2:
            return requests
        places = {
            name: (tenant.served(self.now), tenant.share(capacity)) for name, tenant in self._tenants.items()
        }  # fmt: skip
        return sorted(requests, key=lambda request: places[request.tenant])

    def by_tenant(self, capacity: Resources) -> Iterator[Sequence[Request]]:
        """The requests of each tenant, in the order of `by_share` between tenants and in none within one."""
        for tenant, _ in self._ordered(capacity):
            yield list(tenant.waiting.values())

    def with_active(self, capacity: Resources) -> Iterator[tuple[Sequence[Request], Sequence[Request]]]:
        """The requests of each tenant as `by_tenant` has them, with those of all its active jobs."""
        for tenant, _ in self._ordered(capacity):
            yield list(tenant.waiting.values()), list(tenant.active.values())

    def _ordered(self, capacity: Resources) -> list[tuple[_Tenant, Request]]:
        """Tenants of which jobs wait by share, with the first of these jobs."""
        tenants = [(tenant, first) for tenant in self._tenants.values() if (first := tenant.first(capacity))]
        if len(tenants) > 1:
            now = self.now
            tenants.sort(key=lambda one: (one[0].share(capacity), one[0].served(now), one[1].arrival))
        return tenants

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


class _Tenant:
    """The active jobs of one tenant, what they hold together, and a heap of those that wait, by share.

    served: slot seconds for its weight that it begins with, now.
    """

    def __init__(self, now: float, served: float) -> None:
        self._since, self._served = now, served
        self.active: dict[JobId, Request] = {}
        self._weight = 1.0
        self._cpu = self._memory = self._disk = self._network = 0.0  # in use: plain numbers, as that changes so often
        self._extra = 0.0
        self.waiting: dict[JobId, Request] = {}
        self._heap: list[_Entry] = []
        self._numbers = count()
        self._capacity: Resources | None = None  # of which the shares in the heap are

    def put(self, request: Request, now: float) -> None:
        before = self.active.get(request.job)
        if before is None:
            self._hold(_NOTHING, request.used, request.extra, now)
        elif before.used is not request.used or before.extra != request.extra:
            self._hold(before.used, request.used, request.extra - before.extra, now)
        self.active[request.job] = request
        self._weight = request.tenant_weight
        if not request.demands:
            self.waiting.pop(request.job, None)
            return
        self.waiting[request.job] = request
        if self._capacity is not None:
            heappush(self._heap, (request.share_of(self._capacity), request.arrival, next(self._numbers), request))

    def drop(self, job: JobId, now: float) -> bool:
        """True if the job was one of the tenant's."""
        self.waiting.pop(job, None)
        request = self.active.pop(job, None)
        if request is not None:
            self._hold(request.used, _NOTHING, -request.extra, now)
        return request is not None

    def _hold(self, before: Resources, after: Resources, extra: float, now: float) -> None:
        """A job holds other resources from now on, and `extra` more extra slots."""
        self._serve(now)
        self._cpu += after.cpu - before.cpu
        self._memory += after.memory - before.memory
        self._disk += after.disk - before.disk
        self._network += after.network - before.network
        self._extra += extra

    def _serve(self, now: float) -> None:
        """Count what it has had until now. Only when that changes, so that a rerun of a trace adds up the same."""
        if now != self._since:
            self._served, self._since = self.served(now), now

    def served(self, now: float) -> float:
        """Slot seconds that it has had, divided by its weight."""
        return self._served + (self._cpu + self._extra) / self._weight * (now - self._since)

    def share(self, capacity: Resources) -> float:
        """The dominant share of what all of its jobs hold, divided by its weight; rounded as those of jobs are."""
        used = Resources(self._cpu, self._memory, self._disk, self._network)
        return round(used.dominant_share(capacity) / self._weight, 9)

    def first(self, capacity: Resources) -> Request | None:
        """The request of the lowest share; None if no job waits."""
        heap, waiting = self._heap, self.waiting
        if capacity is not self._capacity or len(heap) > 4 * len(waiting) + 64:
            self._capacity = capacity
            heap[:] = [
                (request.share_of(capacity), request.arrival, next(self._numbers), request)
                for request in waiting.values()
            ]
            heapify(heap)
        while heap and waiting.get(heap[0][3].job) is not heap[0][3]:
            heappop(heap)
        return heap[0][3] if heap else None

    def but(self, first: Request, capacity: Resources) -> list[Request]:
        """The other requests, by share."""
        others = [request for request in self.waiting.values() if request is not first]
        return sorted(others, key=lambda request: (request.share_of(capacity), request.arrival))
