"""A disk or a link that the attempts on a machine share: all that move bytes get the same part of its rate.

That is processor sharing. What each has been served since the beginning is the same function of time for all, so the
next end follows from what each had to move when it joined. Joining and leaving costs the logarithm of their number.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

Item = TypeVar("Item")

A_BYTE = 1.0
"""An item with no more than that to move is done: times are floats."""


class SharedRate(Generic[Item]):
    """Bytes per second, shared evenly by the items present.

    >>> disk = SharedRate[str](100.0)
    >>> disk.join("a", 100.0, now=0.0); disk.join("b", 25.0, now=0.5); disk.ends()
    1.0
    >>> disk.ended(1.0), disk.ends()
    (['b'], 1.25)
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._now = self._served = 0.0
        self._here: dict[Item, int] = {}
        self._ends: list[tuple[float, int, Item]] = []
        self._order = count()

    def join(self, item: Item, amount: float, now: float) -> None:
        """From now on there is one more, with that many bytes to move."""
        self._advance(now)
        order = self._here[item] = next(self._order)
        heappush(self._ends, (self._served + amount, order, item))

    def leave(self, item: Item, now: float) -> None:
        """The item is not present any more, whether done or not."""
        if item in self._here:
            self._advance(now)
            del self._here[item]

    def change(self, rate: float, now: float) -> None:
        """From now on it is faster or slower."""
        self._advance(now)
        self._rate = rate

    def ends(self) -> float:
        """The time when the next one is done; infinite if there is none."""
        self._forget()
        if not self._ends or self._rate <= 0:
            return math.inf
        return self._now + (self._ends[0][0] - self._served) * len(self._here) / self._rate

    def ended(self, now: float) -> list[Item]:
        """The items that are done by now; they leave."""
        self._advance(now)
        done: list[Item] = []
        self._forget()
        while self._ends and self._ends[0][0] <= self._served + A_BYTE:
            item = heappop(self._ends)[2]
            del self._here[item]
            done.append(item)
            self._forget()
        return done

    def _advance(self, now: float) -> None:
        if self._here:
            self._served += (now - self._now) * self._rate / len(self._here)
        self._now = now

    def _forget(self) -> None:
        """Drop the items that have left."""
        while self._ends and self._here.get(self._ends[0][2]) != self._ends[0][1]:
            heappop(self._ends)
