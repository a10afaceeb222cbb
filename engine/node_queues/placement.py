"""The node at which a task should wait, and for how long it would (the source's algorithms 2 to 4).

The source bounds the tasks that wait at a node. Where an order is kept, only those that begin before a task matter to
it: so a task of a short job may be sent to a queue that is full of tasks of long ones, until twice as many wait there.
Otherwise it would wait at the scheduler until a place came free, and the order of the nodes could not help it.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from heapq import heapify, heapreplace

from qoop.engine.node_queues.ordering import Left, Ordering
from qoop.engine.node_queues.ticket import Ticket
from qoop.engine.node_queues.view import NodesView
from qoop.engine.task import AttemptId, MachineId

PLACEMENTS = "wait", "length", "random"
"""By the least estimated wait, by the fewest tasks that begin before, or at random (for comparison)."""

FULL = 2
"""Times the length of a queue, at which no task is sent there, whatever its place."""


class Placement:
    """Chooses among the nodes whose queues have a place for a task.

    by: one of `PLACEMENTS`. length: the most that wait at a node before it. most_wait: seconds; where it would wait for
    so long, it is not sent. A tie between equal nodes is broken by a seeded random number, so that schedulers which see
    the same do not all choose one.
    """

    def __init__(self, by: str, ordering: Ordering, length: float, most_wait: float = math.inf, seed: int = 0) -> None:
        self._by = by
        self._ordering = ordering
        self._length = length
        self._most_wait = most_wait
        self._random = random.Random(seed)
        self._known: dict[MachineId, tuple[float, set[AttemptId], list[tuple[tuple[float, ...], float]]]] = {}

    def choose(
        self, machines: Iterable[MachineId], view: NodesView, task: Ticket, left: Left, now: float
    ) -> MachineId | None:
        """The best of the machines for a task; None: it waits at no node. left: of the jobs whose tasks wait."""
        best: MachineId | None = None
        best_load = math.inf, math.inf
        for machine in machines:
            load = self._load(machine, view, task, left, now)
            if load is not None and (load, chance := self._random.random()) < best_load:
                best, best_load = machine, (load, chance)
        return best

    def _in_order(
        self, machine: MachineId, queued: Mapping[AttemptId, Ticket], left: Left, now: float
    ) -> list[tuple[tuple[float, ...], float]]:
        """The keys and seconds of the tasks that wait at a node; worked out again only if others wait, or later."""
        known = self._known.get(machine)
        if known is None or known[0] != now or known[1] != queued.keys():
            keys = sorted((self._ordering.key(one, left, now), one.seconds) for one in queued.values())
            known = self._known[machine] = now, set(queued), keys
        return known[2]

    def _load(self, machine: MachineId, view: NodesView, task: Ticket, left: Left, now: float) -> float | None:
        """The load that speaks against a node; None: the task must not wait there."""
        queued = view.queued(machine)
        if len(queued) >= FULL * self._length:
            return None
        keys = self._in_order(machine, queued, left, now)
        place = bisect_left(keys, (self._ordering.key(task, left, now), 0.0))
        if place >= self._length:
            return None
        before = [seconds for _, seconds in keys[:place]]
        wait = estimated_wait(view.running(machine, now), before)
        if wait >= self._most_wait:
            return None
        return {"wait": wait, "length": float(len(before)), "random": 0.0}[self._by]


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
