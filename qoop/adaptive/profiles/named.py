"""Profiles that are known by name: ``spot``, ``spot-high``, ``spot-high:7`` …; the number is the seed, else 1.

``spot`` is five hours of a made-up market (`qoop.adaptive.profiles.market`), ``shared`` three hours of the share that a
job has of a cluster on which others come and go (`qoop.adaptive.profiles.shared`; the clusters recorded there are taken
in turn). ``spot-low``, ``-medium`` and ``-high`` begin with a region of that class, drawn at random, and go on from
there; so do ``shared-low`` and the others.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from itertools import count

from qoop.adaptive.profiles import market
from qoop.adaptive.profiles.profile import CapacityProfile
from qoop.adaptive.profiles.shared import shared, shared_region
from qoop.adaptive.profiles.spot import bid
from qoop.adaptive.profiles.volatility import Region, Volatility, regions
from qoop.catalog.value import value

_NAME = re.compile(r"([a-z][a-z-]*)(?::(\d+))?")
Make = Callable[[int], CapacityProfile]


@value
class Named:
    """A profile known by name. what: a line about it. make: from a seed."""

    name: str
    what: str
    make: Make


def spot(seed: int) -> CapacityProfile:
    """Five hours of the machines that the paper's rule of bidding has on a made-up market."""
    return bid(market.prices(seed))


_STRIDE = 1_000_003


def spot_region(volatility: Volatility, seed: int) -> Region:
    """A region of that class, drawn at random from the market of that seed.

    A market may have none of them; then another one is made, whose seed is far away.
    """
    series = (regions(spot(number)) for number in count(seed, _STRIDE))
    classed = ([region for region in one if region.volatility == volatility] for one in series)
    return random.Random(f"{volatility} {seed}").choice(next(filter(None, classed)))


def _family(name: str, what: str, make: Make) -> tuple[Named, ...]:
    def begun(kind: Volatility) -> Make:
        return lambda seed: REGIONS[name](kind, seed).profile

    parts = (
        Named(f"{name}-{kind}", f"the same, from a region of {kind} volatility on", begun(kind)) for kind in Volatility
    )
    return (Named(name, what, make), *parts)


REGIONS: dict[str, Callable[[Volatility, int], Region]] = {"spot": spot_region, "shared": shared_region}
"""By kind of profile, a region of a class by seed: what experiments draw from."""

NAMED: tuple[Named, ...] = (
    *_family("spot", "five hours of spot machines bought for 5 $/h, 2 to 20 of 30 slots", spot),
    *_family("shared", "three hours of a job's share of 600 slots, as other jobs come and go", shared),
)


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
