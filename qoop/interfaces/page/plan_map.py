"""A map of plans: by slots and memory, the plan that would end first. The share of a job is a path on it.

The finish time of a plan on one share is a small simulation, and a map has hundreds of them. The map is filled piece
by piece, so that an open page does not slow a query down.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from math import inf, isfinite
from time import perf_counter
from typing import Any

from qoop.adaptive.replanning.decision import Option
from qoop.engine.task import JobId
from qoop.interfaces.page.views import JobFacts
from qoop.planner.plan import Resources

_MOST_PLANS = 12


class PlanMap:
    """slots, memory: the two axes; memory is that of all slots together."""

    def __init__(self, capacity: Resources) -> None:
        self.slots = _slots(int(capacity.cpu))
        self.memory = [capacity.memory * part for part in (0.125, 0.25, 0.5, 1.0, 2.0)]
        self._cells = list(product(range(len(self.memory)), range(len(self.slots))))
        self._seconds: dict[tuple[int, int], dict[str, float]] = {cell: {} for cell in self._cells}

    def fill(self, options: Sequence[Option], budget: float) -> bool:
        """Compute missing cells for at most `budget` seconds; True if the map is complete."""
        end = perf_counter() + budget
        for option in options[:_MOST_PLANS]:
            for cell in self._cells:
                if option.name in self._seconds[cell]:
                    continue
                if perf_counter() > end:
                    return False
                self._seconds[cell][option.name] = self._finish(option, cell)
        return True

    def _finish(self, option: Option, cell: tuple[int, int]) -> float:
        memory, slots = self.memory[cell[0]], self.slots[cell[1]]
        return option.candidate.finish.seconds(Resources(float(slots), memory))

    def as_json(self, path: Sequence[tuple[float, Resources]], offset: float) -> dict[str, Any]:
        """The map as JSON. path: the shares of the job with their start times, in seconds after `offset`."""
        best = {cell: _best(known) for cell, known in self._seconds.items()}
        rows = range(len(self.memory))
        columns = range(len(self.slots))
        return {
            "slots": self.slots,
            "memory": self.memory,
            "best": [[best[row, column][0] for column in columns] for row in rows],
            "seconds": [[best[row, column][1] for column in columns] for row in rows],
            "path": [[round(at + offset, 4), share.cpu, share.memory] for at, share in path],
        }


class PlanMaps:
    """One map for each job that a page shows. budget: seconds of work on one map at a time."""

    def __init__(self, budget: float) -> None:
        self._budget = budget
        self._maps: dict[JobId, PlanMap] = {}

    def of(self, job: JobFacts, sizes: Iterable[Resources]) -> dict[str, Any] | None:
        """The map of a job as JSON; None without plans or slots. sizes: of all machines."""
        capacity = max(sizes, key=lambda size: size.cpu)
        if not job.options or capacity.cpu < 1:
            return None
        known = self._maps.setdefault(job.id, PlanMap(capacity))
        known.fill(job.options, self._budget)
        return known.as_json(job.progress.replay.shares, job.offset)

    def forget(self, job: JobId) -> None:
        """Drop the map of a job."""
        self._maps.pop(job, None)


def _best(known: dict[str, float]) -> tuple[str | None, float | None]:
    name, seconds = min(known.items(), key=lambda one: one[1], default=(None, inf))
    return (name, round(seconds, 4)) if isfinite(seconds) else (None, None)


def _slots(most: int) -> list[int]:
    """1, 2, 3 … up to twice the number of slots; powers of two where those would not fit a map.

    >>> _slots(2), _slots(60)
    ([1, 2, 3, 4], [1, 2, 4, 8, 16, 32, 64, 120])
    """
    end = max(2, 2 * most)
    if end <= 16:
        return list(range(1, end + 1))
    found = [1]
    while 2 * found[-1] < end:
        found.append(2 * found[-1])
    return [*found, end]
