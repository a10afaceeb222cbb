"""Admission: a number of jobs at a time at most; the others queue, and tenants take turns.

More jobs at once end none of them sooner, but each holds memory, and outputs that wait for their readers. After MLFS
(Wang, Liu and Shen, CoNEXT 2020, load control), where jobs wait while a cluster is overloaded. Between tenants the one
with the fewest jobs for its weight is next, as for slots; within one those that came first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from qoop.catalog.value import value
from qoop.engine.task import JobId


@value
class _Queued:
    job: JobId
    arrival: int
    tenant: str
    weight: float


class Admission:
    """The queue of a cluster that runs at most `most` jobs at a time.

    >>> queue = Admission(2)
    >>> for name, tenant in (("a", "x"), ("b", "x"), ("c", "y")):
    ...     queue.put(name, ord(name), tenant, 1.0)
    >>> list(queue.admit(["x"])), queue.place("b")
    (['c'], 2)
    """

    def __init__(self, most: float) -> None:
        self.most = most
        self._queue: dict[JobId, _Queued] = {}

    def __len__(self) -> int:
        return len(self._queue)

    def __contains__(self, job: object) -> bool:
        return job in self._queue

    def put(self, job: JobId, arrival: int, tenant: str, weight: float) -> None:
        """Let a job wait. arrival: counts jobs in the order they came. weight: of its tenant."""
        self._queue[job] = _Queued(job, arrival, tenant, weight)

    def remove(self, job: JobId) -> None:
        """It waits no more: it was cancelled, or has failed."""
        self._queue.pop(job, None)

    def place(self, job: JobId) -> int | None:
        """The place of a job in the queue, from 1; None if it does not wait."""
        return list(self._queue).index(job) + 1 if job in self._queue else None

    def admit(self, active: Iterable[str], crowded: bool = False) -> Iterable[JobId]:
        """The jobs that may run now, taken out of the queue. active: the tenant of each job that runs.

        crowded: outputs of jobs that run no longer fit the memory for them and go to the disk, so that more jobs at a
        time would only add to that. Then no job is admitted while another runs.
        """
        running: dict[str, int] = {}
        count = 0
        for tenant in active:
            running[tenant] = running.get(tenant, 0) + 1
            count += 1
        while self._queue and count < (1 if crowded else self.most):
            found = min(self._queue.values(), key=lambda one: _turn(one, running))
            del self._queue[found.job]
            running[found.tenant] = running.get(found.tenant, 0) + 1
            count += 1
            yield found.job


def _turn(one: _Queued, running: Mapping[str, int]) -> tuple[float, int]:
    return running.get(one.tenant, 0) / one.weight, one.arrival
