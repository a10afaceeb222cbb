"""The links of the machines of a share in the completion estimate: all concurrent transfers share them.

Machines of a share are alike, and the inputs of a task may be on any of them. The tasks that wait for inputs at a time
are spread evenly over the machines, and each gets an equal part of the link into its machine.
One clock of bytes serves all of them (as in fair queueing: Demers, Keshav and Shenker, "Analysis and Simulation of a
Fair Queueing Algorithm", SIGCOMM 1989): it shows the bytes of a task that was there from the beginning. So a new
transfer ends when the clock has advanced by its bytes. Later arrivals and ends only change the speed of the clock.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf
from typing import NamedTuple


class Batch(NamedTuple):
    """Slots that each do a number of tasks of one stage. tasks: of all slots together. seconds: of each slot's work,
    once its inputs are there."""

    stage: int
    slots: int
    tasks: int
    seconds: float


class SharedLinks:
    """Transfers under way to batches of tasks. rate: bytes a second into each of the machines.

    >>> links = SharedLinks(rate=10.0, machines=2)
    >>> links.join(Batch(0, 2, 2, 1.0), bytes=20.0, now=0.0); links.ends()
    2.0
    >>> links.join(Batch(1, 2, 2, 1.0), bytes=20.0, now=1.0); links.ends()
    3.0
    >>> [batch.stage for batch in links.ended(3.0)], links.ends()
    ([0], 4.0)
    """

    def __init__(self, rate: float, machines: int) -> None:
        self._rate, self._machines = rate, machines
        self._now = 0.0
        self._got = 0.0  # the value of the clock of bytes
        self._pulling = 0  # slots that wait for rows
        self._coming: list[tuple[float, Batch]] = []

    def __bool__(self) -> bool:
        """True if anything is under way."""
        return bool(self._coming)

    def join(self, batch: Batch, bytes: float, now: float) -> None:
        """From now on that many bytes flow to each slot of a batch."""
        self._advance(now)
        heappush(self._coming, (self._got + bytes, batch))
        self._pulling += batch.slots

    def ends(self) -> float:
        """The time when the next batch has its inputs; infinite if none waits for any."""
        if not self._coming:
            return inf
        return self._now + max(0.0, self._coming[0][0] - self._got) / self._each()

    def ended(self, now: float) -> list[Batch]:
        """The batches that have their inputs by now; at least the next one, if it is time for it."""
        due = self.ends() <= now
        self._advance(now)
        found = list[Batch]()
        while self._coming and (due or self._coming[0][0] <= self._got):
            due = False
            batch = heappop(self._coming)[1]
            self._pulling -= batch.slots
            found.append(batch)
        return found

    def _each(self) -> float:
        """Bytes a second that a task gets."""
        return self._rate / max(1.0, self._pulling / self._machines)

    def _advance(self, now: float) -> None:
        if self._coming:
            self._got += (now - self._now) * self._each()
        self._now = now
