"""What there is to say of a profile in numbers, of one and of many."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from qoop.profiles.profile import CapacityProfile
from qoop.profiles.volatility import Volatility, events, regions

PERCENTS = (10, 15, 20)


@dataclass(frozen=True, slots=True)
class Summary:
    """Of one profile: seconds, the least and the most machines and slots, the mean of slots over time, events of 10,
    15 and 20 %, and how many regions of ten minutes are low, medium and high."""

    seconds: float
    machines: tuple[int, int]
    slots: tuple[float, float]
    mean_slots: float
    events: tuple[int, ...]
    regions: tuple[int, ...]

    def __str__(self) -> str:
        (few, many), (least, most) = self.machines, self.slots
        counted = " / ".join(map(str, self.events))
        classed = ", ".join(f"{count} {name}" for count, name in zip(self.regions, Volatility, strict=True))
        return (
            f"{self.seconds:g} s, {few} to {many} machines, {least:g} to {most:g} slots (mean {self.mean_slots:.1f}); "
            f"{counted} events of {' / '.join(map(str, PERCENTS))} %; regions: {classed}"
        )


def summary(profile: CapacityProfile) -> Summary:
    """Count and measure.

    >>> print(summary(CapacityProfile.of([(0, 30, 1, 10), (300, 30, 1, 8), (1200, 30, 1, 8)])))
    1200 s, 8 to 10 machines, 240 to 300 slots (mean 255.0); 1 / 1 / 1 events of 10 / 15 / 20 %; regions: 1 low, 1 medium, 0 high
    """  # noqa: E501
    counts = [point.machines for point in profile.points]
    slots = [point.all_slots for point in profile.points]
    found = Counter(region.volatility for region in regions(profile))
    return Summary(
        profile.seconds, (min(counts), max(counts)), (min(slots), max(slots)), _mean_slots(profile),
        tuple(events(profile, percent) for percent in PERCENTS), tuple(found[kind] for kind in Volatility),
    )  # fmt: skip


def _mean_slots(profile: CapacityProfile) -> float:
    if profile.seconds == 0:
        return profile.points[0].all_slots
    ends = [*(point.at for point in profile.points[1:]), profile.seconds]
    held = sum(point.all_slots * (end - point.at) for point, end in zip(profile.points, ends, strict=True))
    return held / profile.seconds


def spread(values: Sequence[float]) -> str:
    """Mean and standard deviation of a sample.

    >>> spread([1, 2, 3])
    '2.0 ± 1.0'
    """
    return f"{statistics.fmean(values):.1f} ± {statistics.stdev(values) if len(values) > 1 else 0.0:.1f}"
