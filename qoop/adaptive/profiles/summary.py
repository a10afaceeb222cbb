"""A profile in numbers."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from qoop.adaptive.profiles.profile import CapacityProfile
from qoop.adaptive.profiles.volatility import REGION_SECONDS, Volatility, events, regions
from qoop.catalog.value import value

PERCENTS = (10, 15, 20)


@value
class Summary:
    """Of one profile: seconds, the least and the most machines and slots, the mean of slots over time, events of 10,
    15 and 20 %, and how many regions are low, medium and high."""

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
            f"{self.seconds:g} s; machines {few}-{many}; slots {least:g}-{most:g}, mean {self.mean_slots:.4g}; "
            f"events of {' / '.join(map(str, PERCENTS))} %: {counted}; regions: {classed}"
        )


def summary(profile: CapacityProfile, region_seconds: float = REGION_SECONDS) -> Summary:
    """Count and measure.

    >>> print(summary(CapacityProfile.of([(0, 30, 1, 10), (300, 30, 1, 8), (600, 30, 1, 8)])))
    600 s; machines 8-10; slots 240-300, mean 270; events of 10 / 15 / 20 %: 1 / 1 / 1; regions: 0 low, 1 medium, 0 high
    """
    counts = [point.machines for point in profile.points]
    slots = [point.all_slots for point in profile.points]
    found = Counter(region.volatility for region in regions(profile, region_seconds))
    return Summary(
        profile.seconds, (min(counts), max(counts)), (min(slots), max(slots)),
        mean_slots(profile, 0.0, profile.seconds), tuple(events(profile, percent) for percent in PERCENTS),
        tuple(found[kind] for kind in Volatility),
    )  # fmt: skip


def mean_slots(profile: CapacityProfile, begin: float, end: float) -> float:
    """The mean over that time, or what there is at its begin if it has no length."""
    if end <= begin:
        return profile.at(begin).all_slots
    inside = [point.at for point in profile.points if begin < point.at < end]
    slot_seconds = sum(profile.at(at).all_slots * (later - at) for at, later in pairwise([begin, *inside, end]))
    return slot_seconds / (end - begin)
