"""Flows over the links of machines: everybody gets the max-min fair rate.

Each machine has a link out and a link in. Rates are those of progressive filling (Bertsekas and Gallager, "Data
Networks", 2nd edition 1992, section 6.5.2): all flows grow alike until a link is full; those that pass it stay as they
are, and the others go on growing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Generic, Literal, TypeVar

from qoop.engine.task import MachineId

Item = TypeVar("Item")
Link = tuple[MachineId, Literal["out", "in"]]

A_BYTE = 1.0
"""A flow with no more than that to move is done: times are floats."""


def fair_rates(flows: Mapping[Item, tuple[Link, ...]], capacity: Mapping[Link, float]) -> dict[Item, float]:
    """The rate of each flow by the links that it passes; a link without a capacity is as fast as one wishes.

    >>> links = {("a", "out"): 10.0, ("b", "in"): 4.0}
    >>> fair_rates({1: (("a", "out"), ("b", "in")), 2: (("a", "out"), ("c", "in"))}, links)
    {1: 4.0, 2: 6.0}
    """
    passing: dict[Link, dict[Item, None]] = {}
    for item, links in flows.items():
        for link in links:
            if link in capacity:
                passing.setdefault(link, {})[item] = None
    left = {link: capacity[link] for link in passing}
    rates = dict.fromkeys(flows, math.inf)
    while passing:
        full = min(passing, key=lambda link: left[link] / len(passing[link]))
        rate = max(0.0, left[full] / len(passing[full]))
        for item in list(passing[full]):
            rates[item] = rate
            for link in flows[item]:
                if link in passing:
                    left[link] -= rate
                    del passing[link][item]
                    if not passing[link]:
                        del passing[link]
    return rates


class Links(Generic[Item]):
    """The flows between machines now, and when the next one ends. A machine without a rate is no bottleneck.

    >>> links = Links[str]()
    >>> for machine in "abc":
    ...     links.have(machine, 100.0, now=0.0)
    >>> links.join("x", "a", "c", 100.0, now=0.0); links.join("y", "b", "c", 50.0, now=0.0); links.ends()
    1.0
    >>> links.ended(1.0), links.ends()
    (['y'], 1.5)
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._capacity: dict[Link, float] = {}
        self._flows: dict[Item, tuple[Link, ...]] = {}
        self._left: dict[Item, float] = {}
        self._rates: dict[Item, float] | None = {}

    def have(self, machine: MachineId, rate: float, now: float) -> None:
        """From now on the machine's links have that rate each; 0: no limit."""
        self._advance(now)
        for link in _links(machine):
            if rate > 0:
                self._capacity[link] = rate
            else:
                self._capacity.pop(link, None)
        self._rates = None

    def join(self, item: Item, sender: MachineId | None, receiver: MachineId, amount: float, now: float) -> None:
        """From now on that many bytes flow. sender: None: from a store, which has no link."""
        self._advance(now)
        out: tuple[Link, ...] = () if sender is None else ((sender, "out"),)
        self._flows[item] = (*out, (receiver, "in"))
        self._left[item] = amount
        self._rates = None

    def leave(self, item: Item, now: float) -> None:
        """The flow is over, whether done or not; one that is not there is ignored."""
        if item in self._flows:
            self._advance(now)
            del self._flows[item], self._left[item]
            self._rates = None

    def ends(self) -> float:
        """The time when the next one is done; infinite if none ever is."""
        rates = self._fair()
        soonest = min((left / rates[item] for item, left in self._left.items() if rates[item] > 0), default=math.inf)
        return self._now + max(0.0, soonest)

    def ended(self, now: float) -> list[Item]:
        """The flows that are done by now, in the order in which they joined; they leave."""
        self._advance(now)
        done = [item for item, left in self._left.items() if left <= A_BYTE]
        for item in done:
            self.leave(item, now)
        return done

    def _fair(self) -> dict[Item, float]:
        if self._rates is None:
            self._rates = fair_rates(self._flows, self._capacity)
        return self._rates

    def _advance(self, now: float) -> None:
        passed = now - self._now
        if passed > 0:
            rates = self._fair()
            for item in self._left:
                self._left[item] -= rates[item] * passed
        self._now = max(now, self._now)


def _links(machine: MachineId) -> Iterable[Link]:
    return ((machine, "out"), (machine, "in"))
