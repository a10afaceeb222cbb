"""Machines of a spot market: how many a bidder with a budget has while the price goes up and down.

The rule is that of the paper (paper section 6): each minute two machines are added by bidding 5 % over the
price, as far as the budget allows; a machine whose bid is under the price is taken at once. What the paper leaves open
is settled so: what is paid is the price of the moment, as on the market of that time, so one more machine is within
the budget if all of them at the present price are; what is taken goes before the bids of the same minute are made; and
a machine is there as soon as it is bid for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from qoop.adaptive.profiles.prices import Prices
from qoop.adaptive.profiles.profile import CapacityProfile, Point, Stay
from qoop.catalog.errors import ConfigError
from qoop.catalog.value import value

_ROUNDING = 1e-9


@value
class Size:
    """Of one machine: slots, and bytes of memory. The default is that of the paper: 30 containers, 128 GB."""

    slots: float = 30
    memory: float = 128e9

    def point(self, at: float, machines: int) -> Point:
        """That many machines of this size from then on."""
        return Point(at, self.slots, self.memory, machines)


PAPER = Size()


@value
class Bidding:
    """A way to bid. budget: dollars an hour; added: machines at most, each `every` seconds; over: part of the price by
    which a bid exceeds it. Raises ConfigError for numbers that make no sense."""

    budget: float = 5.0
    added: int = 2
    every: float = 60.0
    over: float = 0.05

    def __post_init__(self) -> None:
        if not (0 <= self.budget < math.inf and self.added >= 1 and 0 < self.every < math.inf and self.over >= 0):
            raise ConfigError(f"this bid is impossible: {self}")


PAPER_BIDDING = Bidding()


@value
class _Machine:
    name: str
    begin: float
    bid: float


@dataclass(slots=True)
class _Bidder:
    """The machines now, and those before."""

    rule: Bidding
    machines: list[_Machine] = field(default_factory=list)
    lost: list[Stay] = field(default_factory=list)
    named: int = 0

    def lose(self, at: float, price: float) -> None:
        """All bids under the price."""
        gone = [one for one in self.machines if one.bid < price]
        self.lost += [Stay(one.name, one.begin, at) for one in gone if at > one.begin]
        self.machines = [one for one in self.machines if one.bid >= price]

    def bid(self, at: float, price: float) -> None:
        for _ in range(self.rule.added):
            if (len(self.machines) + 1) * price > self.rule.budget + _ROUNDING:
                return
            self.named += 1
            self.machines.append(_Machine(f"m{self.named}", at, price * (1 + self.rule.over)))


def bid(prices: Prices, rule: Bidding = PAPER_BIDDING, size: Size = PAPER) -> CapacityProfile:
    """The machines that this rule of bidding has under these prices. The lowest bid goes first.

    >>> prices = Prices(((0, 0.5), (120, 0.6)), 240)
    >>> [(point.at, point.machines) for point in bid(prices).points]
    [(0.0, 2), (60.0, 4), (120.0, 2), (180.0, 4), (240, 4)]
    """
    bidder = _Bidder(rule)
    counts = [(at, len(bidder.machines)) for at, _ in _market(bidder, prices)]
    stays = [*bidder.lost, *(Stay(one.name, one.begin) for one in bidder.machines)]
    known = tuple(sorted(stays, key=lambda stay: (stay.begin, int(stay.machine[1:]))))
    return counted(counts, prices.seconds, size, known)


def announced_by(
    prices: Prices, rule: Bidding = PAPER_BIDDING
) -> Iterator[tuple[float, tuple[tuple[float, int], ...]]]:
    """Yield, in order of time, what the bidder means to have: since when, and the (time, machines) that are to come.

    It will go on to bid as it does, and takes it that the price stays as it is.

    >>> prices = Prices(((0, 0.5), (120, 1.0)), 180)
    >>> [(at, coming[:2]) for at, coming in announced_by(prices)]
    [(0.0, ((60.0, 4), (120.0, 6))), (60.0, ((120.0, 6), (180.0, 8))), (120.0, ((180.0, 4), (240.0, 5)))]
    """
    bidder = _Bidder(rule)
    for at, price in _market(bidder, prices):
        most = math.floor(rule.budget / price + _ROUNDING)
        next_bid = (math.floor(at / rule.every + _ROUNDING) + 1) * rule.every
        counts = range(len(bidder.machines) + rule.added, most + rule.added, rule.added)
        yield at, tuple((next_bid + place * rule.every, min(most, count)) for place, count in enumerate(counts))


def _market(bidder: _Bidder, prices: Prices) -> Iterator[tuple[float, float]]:
    """Yield the moments of a bid, or of another price, and the price, once the bidder has done what it does then."""
    every = bidder.rule.every
    bids = {place * every for place in range(max(1, math.ceil(prices.seconds / every - _ROUNDING)))}
    for at in sorted({*bids, *(at for at, _ in prices.steps)}):
        price = prices.at(at)
        bidder.lose(at, price)
        if at in bids:
            bidder.bid(at, price)
        yield at, price


def counted(
    counts: Iterable[tuple[float, int]], seconds: float, size: Size = PAPER, known: tuple[Stay, ...] = ()
) -> CapacityProfile:
    """A profile out of (from when, machines) in order of time. seconds: how long was looked."""
    points: list[Point] = []
    for at, machines in counts:
        if not points or points[-1].machines != machines:
            points.append(size.point(at, machines))
    if points and seconds > points[-1].at:
        points.append(size.point(seconds, points[-1].machines))
    return CapacityProfile(tuple(points), known)
