"""Capacity over time.

A profile is a step function: from each point on there are that many machines of that size. It can be made by hand
(`CapacityProfile.of`), read from a file or by name (`qoop.adaptive.profiles.load`), or generated; `on` turns one in
fractions into one for a given machine, `compressed` lets hours pass in seconds, and `since` begins later.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from qoop.catalog.errors import ConfigError
from qoop.catalog.sizes import parse_bytes
from qoop.catalog.value import value

_ROUNDING = 1e-9


@value
class Point:
    """The machines from `at` seconds on: their number, each with its slots and bytes of memory.

    In a profile of fractions slots and memory are fractions of those of a whole machine.
    """

    at: float
    slots: float
    memory: float
    machines: int = 1

    def __post_init__(self) -> None:
        numbers = (self.at, self.slots, self.memory, self.machines)
        if not all(number >= 0 and math.isfinite(number) for number in numbers):
            raise ConfigError(f"the numbers of a profile must be finite and at least 0: {self}")

    @property
    def all_slots(self) -> float:
        """Of all machines together."""
        return self.slots * self.machines

    @property
    def all_memory(self) -> float:
        """Of all machines together, in bytes."""
        return self.memory * self.machines

    def same_resources(self, other: Point) -> bool:
        """True if only the times differ."""
        return replace(self, at=other.at) == other


@value
class Stay:
    """One machine is there from `begin` to before `end` (seconds; infinite: it is there for good)."""

    machine: str
    begin: float
    end: float = math.inf


@value
class CapacityProfile:
    """Points in order of time, the first at 0. The last one holds for good; it also says how long was looked.

    known: which machine is there when, where that is known (a log of nodes, bids on a market); see `stays`.
    Raises ConfigError for points out of order, and for stays that do not make the numbers of the points.
    """

    points: tuple[Point, ...]
    known: tuple[Stay, ...] = ()

    def __post_init__(self) -> None:
        if not self.points or self.points[0].at != 0:
            raise ConfigError("a profile begins with a point at 0 seconds")
        for one, other in pairwise(self.points):
            if other.at <= one.at:
                raise ConfigError(
                    f"the points of a profile come in order of time, not {one.at:g} and then {other.at:g}"
                )
        if self.known:
            _check_stays(self.points, self.known)

    @classmethod
    def of(
        cls, rows: Iterable[tuple[float, float, float | str] | tuple[float, float, float | str, int]]
    ) -> CapacityProfile:
        """From rows of (seconds, slots, memory) or (seconds, slots, memory, machines); memory may be "2GB".

        >>> CapacityProfile.of([(0, 2, "1GB"), (5, 1, 5e8)]).at(7)
        Point(at=5.0, slots=1.0, memory=500000000.0, machines=1)
        """
        return cls(tuple(point_of(*row) for row in rows))

    @property
    def seconds(self) -> float:
        """The time of the last point, at which the observation ends. The resources stay as they are then."""
        return self.points[-1].at

    def at(self, seconds: float) -> Point:
        """The resources at that time; before 0 what there is at 0."""
        return self.points[max(0, bisect_right(self.points, seconds, key=lambda point: point.at) - 1)]

    def changes(self) -> tuple[Point, ...]:
        """The points at which something changes, the first with them."""
        changes = (other for one, other in pairwise(self.points) if not other.same_resources(one))
        return (self.points[0], *changes)

    def stays(self) -> tuple[Stay, ...]:
        """The stays of each machine, in order of beginning.

        Where that is not known the machines are m1, m2 …; the one that came last goes first, and a name is not used
        again.

        >>> CapacityProfile.of([(0, 1, 1, 2), (5, 1, 1, 1), (9, 1, 1, 2)]).stays()[1:]
        (Stay(machine='m2', begin=0.0, end=5.0), Stay(machine='m3', begin=9.0, end=inf))
        """
        if self.known:
            return self.known
        ended: list[Stay] = []
        here: list[Stay] = []
        for point in self.points:
            while len(here) > point.machines:
                ended.append(replace(here.pop(), end=point.at))
            while len(here) < point.machines:
                here.append(Stay(f"m{len(ended) + len(here) + 1}", point.at))
        return tuple(sorted(ended + here, key=lambda stay: (stay.begin, int(stay.machine[1:]))))

    def compressed(self, factor: float) -> CapacityProfile:
        """The same in less time: all times divided by the factor, above 0."""
        if not (factor > 0 and math.isfinite(factor)):
            raise ConfigError(f"time can be compressed by a factor above 0, not {factor!r}")
        return CapacityProfile(
            tuple(replace(point, at=point.at / factor) for point in self.points),
            tuple(replace(stay, begin=stay.begin / factor, end=stay.end / factor) for stay in self.known),
        )

    def since(self, seconds: float) -> CapacityProfile:
        """The profile from that time on, which becomes 0; the machines there keep their names."""
        if not (seconds >= 0 and math.isfinite(seconds)):
            raise ConfigError(f"a profile can begin at 0 seconds or later, not at {seconds!r}")
        if seconds == 0:
            return self
        later = (replace(point, at=point.at - seconds) for point in self.points if point.at > seconds)
        known = (
            replace(stay, begin=max(0.0, stay.begin - seconds), end=stay.end - seconds)
            for stay in self.known
            if stay.end > seconds
        )
        return CapacityProfile((replace(self.at(seconds), at=0.0), *later), tuple(known))

    def fractions(self) -> CapacityProfile:
        """Everything as a fraction of the most there ever is, on one machine."""
        slots = max(point.all_slots for point in self.points) or 1.0
        memory = max(point.all_memory for point in self.points) or 1.0
        return CapacityProfile(
            tuple(Point(point.at, point.all_slots / slots, point.all_memory / memory) for point in self.points)
        )

    def on(self, slots: int, memory: int, least: int = 0) -> CapacityProfile:
        """Of a profile of fractions: what they are of a machine of this size.

        Slots are whole and rounded down, but at least `least` where the profile has any.

        >>> spot = CapacityProfile.of([(0, 0.1, 0.1), (60, 1, 1)])
        >>> [point.slots for point in spot.on(2, 10**9, least=1).points]
        [1, 2]
        """
        return CapacityProfile(
            tuple(
                replace(point, slots=_whole(point.slots * slots, least), memory=point.memory * memory)
                for point in self.points
            )
        )


def point_of(at: float | str, slots: float | str, memory: float | str, machines: int | str = 1) -> Point:
    """A point out of numbers, or of their text. Raises ConfigError, ValueError."""
    bytes_ = parse_bytes(memory) if isinstance(memory, str) else memory
    return Point(float(at), float(slots), float(bytes_), int(machines))


def _whole(slots: float, least: int) -> int:
    return max(least, math.floor(slots + _ROUNDING)) if slots > 0 else 0


def _check_stays(points: tuple[Point, ...], stays: tuple[Stay, ...]) -> None:
    """Refuse stays that do not make the numbers of machines of the points."""
    moves: Counter[float] = Counter()
    for stay in stays:
        if not 0 <= stay.begin < stay.end:
            raise ConfigError(f"a machine is there for some time, from 0 on: {stay}")
        moves[stay.begin] += 1
        moves[stay.end] -= 1
    here, moments = 0, sorted(moves)
    place = 0
    for point in points:
        while place < len(moments) and moments[place] <= point.at:
            here += moves[moments[place]]
            place += 1
        if here != point.machines:
            raise ConfigError(f"at {point.at:g} s there are {point.machines} machines, but the stays say {here}")
