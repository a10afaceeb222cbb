"""The volatility of a profile: its runs, the events among them, and regions of ten minutes by their largest run.

A run is as many changes in one direction, one after the other, as there are, however long nothing happens between
them; its size is relative to what there was before the first of them. An event of x % is a run of at least that size.
A region is low if its largest run is under 10 %, high if it is over 20 %, and medium between (paper
section 6). What is looked at are the slots of all machines together; memory follows them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import pairwise

from qoop.adaptive.profiles.profile import CapacityProfile
from qoop.catalog.errors import ConfigError
from qoop.catalog.value import value

REGION_SECONDS = 600.0
_LOW, _HIGH = 0.10, 0.20
_ROUNDING = 1e-9


class Volatility(StrEnum):
    """The volatility of a region: its largest run is under 10 %, up to 20 %, or over 20 %."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@value
class Run:
    """Changes in one direction: from `first` slots, at the last moment before them, to `last`, seconds of both."""

    begun: float
    ended: float
    first: float
    last: float

    @property
    def size(self) -> float:
        """The change relative to the first value; from nothing to something it is infinite."""
        return abs(self.last - self.first) / self.first if self.first else math.inf


@value
class Region:
    """A part of a profile. begin: where, in seconds of the whole; size: of its largest run, 0 if there is none."""

    whole: CapacityProfile
    begin: float
    seconds: float
    size: float

    @property
    def volatility(self) -> Volatility:
        return classed(self.size)

    @property
    def profile(self) -> CapacityProfile:
        """The profile as a query sees it that starts with the region: the series goes on after its end."""
        return self.whole.since(self.begin)


def classed(size: float) -> Volatility:
    """The class of a region whose largest run is of this size."""
    if size < _LOW - _ROUNDING:
        return Volatility.LOW
    return Volatility.HIGH if size > _HIGH + _ROUNDING else Volatility.MEDIUM


def runs(profile: CapacityProfile) -> tuple[Run, ...]:
    """All runs of a profile, in order.

    >>> rows = [(0, 1, 1, 10), (60, 1, 1, 8), (120, 1, 1, 7), (180, 1, 1, 14)]
    >>> [(run.first, run.last, run.size) for run in runs(CapacityProfile.of(rows))]
    [(10.0, 7.0, 0.3), (7.0, 14.0, 1.0)]
    """
    return tuple(_runs([(point.at, point.all_slots) for point in profile.points]))


def events(profile: CapacityProfile, percent: float) -> int:
    """The number of runs of at least `percent`."""
    return sum(run.size >= percent / 100 - _ROUNDING for run in runs(profile))


def regions(profile: CapacityProfile, seconds: float = REGION_SECONDS) -> list[Region]:
    """The profile cut into regions of that length; what is left at the end belongs to none.

    A change at the border of two regions is the last of the earlier one: a profile that begins with a region begins
        after it.

    A profile that is no longer than one region is one. Raises ConfigError for a length that is none.
    """
    if not (seconds > 0 and math.isfinite(seconds)):
        raise ConfigError(f"a region has a length above 0 seconds, not {seconds!r}")
    count = max(1, math.floor(profile.seconds / seconds + _ROUNDING))
    return [_region(profile, place * seconds, seconds) for place in range(count)]


def _region(profile: CapacityProfile, begin: float, seconds: float) -> Region:
    end = begin + seconds * (1 + _ROUNDING)
    inside = [(point.at, point.all_slots) for point in profile.points if begin < point.at <= end]
    found = _runs([(begin, profile.at(begin).all_slots), *inside])
    return Region(profile, begin, seconds, max((run.size for run in found), default=0.0))


def _runs(steps: Sequence[tuple[float, float]]) -> Iterator[Run]:
    steps = [steps[0], *(other for one, other in pairwise(steps) if abs(other[1] - one[1]) > _ROUNDING)]
    first = 0
    for place in range(1, len(steps)):
        last = place + 1 == len(steps)
        if last or (steps[place + 1][1] > steps[place][1]) != (steps[place][1] > steps[place - 1][1]):
            yield Run(steps[first + 1][0], steps[place][0], steps[first][1], steps[place][1])
            first = place
