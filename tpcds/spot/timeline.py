"""From a market to the times at which one machine is up: a pure function of the trace, the seed and the pressure.

The machine is one of the nodes that are up when the window begins, drawn by the seed. When that node goes, the machine
is down until the market next adds a node, which takes its place. At its end the trace goes on from its beginning.

A machine that is resized has that part of its CPUs and memory which the market has of its most nodes, in eighths.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, count, pairwise, takewhile
from typing import TypeAlias

from qoop.adaptive.profiles import CapacityProfile, Stay
from qoop.catalog.errors import ConfigError
from qoop.tpcds.spot.course import Size, Up

_LEVELS = 8
"""Sizes that a machine can have."""


@dataclass(frozen=True)
class Recorded:
    """The nodes of a trace, each with its stays. seconds: the length of the trace."""

    stays: Sequence[Stay]
    seconds: float

    @classmethod
    def of(cls, profile: CapacityProfile) -> Recorded:
        """From a profile; a node that stays to the end was not lost."""
        return cls(sorted(profile.stays(), key=lambda stay: (stay.begin, stay.end, stay.machine)), profile.seconds)

    @cached_property
    def mean_life(self) -> float:
        """Seconds that nodes were up for each one that was lost."""
        lost = sum(stay.end < self.seconds for stay in self.stays)
        up = sum(min(stay.end, self.seconds) - stay.begin for stay in self.stays)
        return up / lost if lost else math.inf

    def ups(self, chance: random.Random) -> Iterator[Up]:
        """The times of one machine from a random time of the trace on, in seconds of the trace."""
        start = chance.uniform(0.0, self.seconds)
        here = [stay for stay in self.stays if stay.begin <= start < stay.end]
        node, base = (chance.choice(here), 0.0) if here else self._after(start, 0.0)
        begin = max(start, base + node.begin)
        while True:
            while node.end >= self.seconds:  # up to the last: it goes on as a node of the next pass
                node, base = self._first_lost, base + self.seconds
            end = base + node.end
            yield Up(begin - start, end - start)
            node, base = self._after(end - base, base)
            begin = base + node.begin

    def _after(self, at: float, base: float) -> tuple[Stay, float]:
        """The node that is added first, not before that time of a pass, and the beginning of its pass."""
        node = next((stay for stay in self.stays if stay.begin >= at), None)
        return (self.stays[0], base + self.seconds) if node is None else (node, base)

    @cached_property
    def levels(self) -> Sequence[tuple[float, int]]:
        """The number of nodes over time, in eighths of the most and at least one, each from a second on."""
        changes = Counter[float]()
        for stay in self.stays:
            changes[stay.begin] += 1
            changes[min(stay.end, self.seconds)] -= 1
        moments = sorted(at for at in changes if at < self.seconds)
        nodes = list(accumulate(changes[at] for at in moments))
        levels = [max(1, round(_LEVELS * here / max(nodes))) for here in nodes]
        steps = list(zip(moments, levels, strict=True))
        return [steps[0], *(step for before, step in pairwise(steps) if step[1] != before[1])]

    @cached_property
    def mean_between_falls(self) -> float:
        """Seconds of the trace for each time at which the level falls."""
        falls = sum(after < before for (_, before), (_, after) in pairwise([*self.levels, self.levels[0]]))
        return self.seconds / falls if falls else math.inf

    @cached_property
    def _first_lost(self) -> Stay:
        return next(stay for stay in self.stays if stay.end < self.seconds)


@dataclass(frozen=True)
class Exponential:
    """Lives of exponential length, mean 1, without a pause between them: a market with a theory."""

    mean_life: float = 1.0
    mean_between_falls = math.inf
    """It has one node."""

    def ups(self, chance: random.Random) -> Iterator[Up]:
        """One life after the other."""
        begin = 0.0
        while True:
            end = begin + chance.expovariate(1.0 / self.mean_life)
            yield Up(begin, end)
            begin = end


Trace: TypeAlias = Recorded | Exponential


@dataclass(frozen=True, slots=True)
class Window:
    """One of the windows of a market. pressure: mean time between losses, in undisturbed times of the reference."""

    market: str
    pressure: float
    number: int
    seed: int = 1

    def timeline(self, trace: Trace, undisturbed: float, limit: float) -> tuple[Up, ...]:
        """The times at which the machine is up, as far as the limit, in real seconds.

        undisturbed: seconds of the reference. Raises ConfigError if the trace has no loss.
        """
        if not trace.mean_life < math.inf:
            raise ConfigError(f"no machine is lost in the market {self.market}: no pressure can be set")
        scale = self.pressure * undisturbed / trace.mean_life
        chance = random.Random(f"{self.seed} {self.market} {self.pressure:g} {self.number}")
        ups = (Up(up.begin * scale, up.end * scale) for up in trace.ups(chance))
        return tuple(takewhile(lambda up: up.begin < limit, ups))

    def sizes(self, trace: Trace, undisturbed: float, limit: float, whole: Size) -> tuple[Size, ...]:
        """The sizes of a machine that is resized, the first at 0, in real seconds as far as the limit. The pressure is
        the mean time between two falls.

        whole: the machine that the most nodes make. Raises ConfigError if the trace has no counts, or they never fall.
        """
        if isinstance(trace, Exponential) or not trace.mean_between_falls < math.inf:
            raise ConfigError(f"the number of nodes never falls in the market {self.market}: nothing is resized")
        scale = self.pressure * undisturbed / trace.mean_between_falls
        chance = random.Random(f"{self.seed} sizes {self.market} {self.pressure:g} {self.number}")
        start = chance.uniform(0.0, trace.seconds)
        passes = ((base * trace.seconds + at - start, level) for base in count() for at, level in trace.levels)
        steps = list(takewhile(lambda step: step[0] * scale < limit, passes))
        [*_, (_, first)] = [step for step in ((-math.inf, trace.levels[-1][1]), *steps) if step[0] <= 0.0]
        later = [(at * scale, level) for at, level in steps if at > 0.0]
        return tuple(
            Size(at, max(1, round(whole.cpus * level / _LEVELS)), whole.memory * level // _LEVELS)
            for at, level in [(0.0, first), *later]
        )
