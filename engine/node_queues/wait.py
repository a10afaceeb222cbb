"""The time that a task would wait at a node (the source's algorithm 4)."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heapreplace


def estimated_wait(running: Iterable[float], queued: Iterable[float], free_slots: float = 0.0) -> float:
    """Seconds until a task that comes last would begin, if estimates hold and each takes one slot.

    running: seconds that each running task has left; those that are late count as about to end. queued: those that
    each waiting task should take, in the order in which they begin. Nothing runs: 0.

    >>> estimated_wait([5.0, 10.0], [3.0, 20.0]), estimated_wait([4.0], [])
    (10.0, 4.0)
    """
    ends = [max(0.0, seconds) for seconds in running]
    if free_slots >= 1 or not ends:
        return 0.0
    heapify(ends)
    for seconds in queued:
        heapreplace(ends, ends[0] + seconds)
    return ends[0]
