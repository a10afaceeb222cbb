"""Profiles that are known by name: ``spot``, ``spot-high``, ``spot-high:7`` …; the number is the seed, else 1.

``spot`` is five hours of a made-up market (`qoop.profiles.market`). ``spot-low``, ``-medium`` and ``-high`` begin with
the first region of that class, and go on from there; should a series have none, the next seed's is taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from qoop.profiles import market
from qoop.profiles.profile import CapacityProfile
from qoop.profiles.spot import bid
from qoop.profiles.volatility import Volatility, regions

_NAME = re.compile(r"([a-z][a-z-]*)(?::(\d+))?")
Make = Callable[[int], CapacityProfile]


@dataclass(frozen=True, slots=True)
class Named:
    """A profile known by name. what: a line about it. make: from a seed."""

    name: str
    what: str
    make: Make


def spot(seed: int) -> CapacityProfile:
    """Five hours of the machines that the paper's rule of bidding has on a made-up market."""
    return bid(market.prices(seed))


def beginning(make: Make, volatility: Volatility) -> Make:
    """The same profiles, from their first region of that class on."""

    def made(seed: int) -> CapacityProfile:
        found = (region for number in count(seed) for region in regions(make(number)))
        return next(region.profile for region in found if region.volatility == volatility)

    return made


def _family(name: str, what: str, make: Make) -> tuple[Named, ...]:
    from_there = (
        Named(f"{name}-{kind}", f"the same, from its first region of {kind} volatility on", beginning(make, kind))
        for kind in Volatility
    )
    return (Named(name, what, make), *from_there)


NAMED: tuple[Named, ...] = _family("spot", "five hours of spot machines bought for 5 $/h, 2 to 20 of 30 slots", spot)


def named(text: str) -> CapacityProfile | None:
    """The profile of that name, or None if there is no such name.

    >>> spot_7 = named("spot:7")
    >>> spot_7.seconds, spot_7 == named("spot"), named("my.csv")
    (18000.0, False, None)
    """
    match = _NAME.fullmatch(text)
    known = {one.name: one for one in NAMED}
    if match is None or match[1] not in known:
        return None
    return known[match[1]].make(int(match[2] or 1))
