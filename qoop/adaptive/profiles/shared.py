"""The share that one job sees of a cluster: its even share of the slots while others come and go.

    jobs that come and end (simulated under Tetris) ──view──> CapacityProfile ──events──> what it sees

The jobs are TPC-DS queries on the 600 slots of the paper's cluster; they come 20 s apart in the mean (Poisson) and take
about 500 s. How they are simulated and what was calibrated is told in `qoop.tpcds.simulate.shared_cluster`, which
recorded the `JobLifetimes` next to this module, so that neither data nor minutes of simulation are needed to have them.

Regions of a class are cut otherwise than from a market. With a job that comes or goes every ten seconds, hardly any
ten minutes pass without a run over 20 %: all of them are high. A job sees less, since it is not always there for so
long. So here a region is what one job saw while it was there (`job_region`), ten minutes at most.

A job is told its share, one part of as many as there are jobs (paper section 2), at most every `STEP` seconds.
"""

from __future__ import annotations

import json
import math
import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, cached_property
from importlib.resources import files

from qoop.adaptive.profiles.profile import CapacityProfile, Point
from qoop.adaptive.profiles.spot import PAPER, Size
from qoop.adaptive.profiles.volatility import REGION_SECONDS, Region, Volatility, classed, events, runs
from qoop.catalog.value import value

SLOTS = 600
STEP = 12.0
RECORDED = "shared.jsonl"
_A_MINUTE, _GOES_ON = 60.0, 1800.0


@value
class JobLifetimes:
    """The times when the jobs of a cluster came and ended, in seconds; observed from `begin` to `end`."""

    came: tuple[float, ...]
    ended: tuple[float, ...]
    begin: float
    end: float

    @cached_property
    def _in_order(self) -> tuple[list[float], list[float]]:
        return sorted(self.came), sorted(self.ended)

    def there(self, at: float) -> int:
        """The number of jobs that have come and not ended."""
        came, ended = self._in_order
        return bisect_right(came, at) - bisect_right(ended, at)

    def to_json(self) -> str:
        """A line of JSON; times in tenths of a second."""
        times = {name: [round(10 * at) for at in getattr(self, name)] for name in ("came", "ended")}
        return json.dumps({**times, "begin": self.begin, "end": self.end}, separators=(",", ":"))

    @classmethod
    def from_json(cls, line: str) -> JobLifetimes:
        """The value that `to_json` wrote."""
        found = json.loads(line)
        came, ended = (tuple(at / 10 for at in found[name]) for name in ("came", "ended"))
        return cls(came, ended, found["begin"], found["end"])


def view(lifetimes: JobLifetimes, begin: float, end: float, others: int = 0, step: float = STEP) -> CapacityProfile:
    """The even share of the slots from one time to another, looked at every `step` seconds.

    others: how many more there are than `lifetimes` tells of: 1 for an observer.

    >>> [point.slots for point in view(JobLifetimes((0, 50, 60), (120, 90, 200), 0, 200), 0, 120, step=30).points]
    [600, 600, 200, 300, 300]
    """
    samples = max(1, math.ceil((end - begin) / step))
    shares = [SLOTS // max(1, lifetimes.there(begin + place * step) + others) for place in range(samples)]
    last = share_of(shares[-1], max(end - begin, samples * step))
    return CapacityProfile((*(share_of(slots, place * step) for place, slots in enumerate(shares)), last))


def share_of(slots: int, at: float = 0.0, size: Size = PAPER) -> Point:
    """That many slots with the memory that comes with them, on one machine.

    There they are spread over the machines of a cluster. To put them on as few machines as have them would make a
    change of one slot, from 31 to 30, take a machine with all that runs there.
    """
    return Point(at, slots, slots * size.memory / size.slots)


def onlooker(lifetimes: JobLifetimes) -> CapacityProfile:
    """The share of a job that is there all the time that is looked at."""
    return view(lifetimes, lifetimes.begin, lifetimes.end, others=1)


def observable_jobs(lifetimes: JobLifetimes, percent: float = 10.0) -> list[int]:
    """The number of events of at least `percent` that each job sees; of the jobs that came under observation."""
    return [
        events(view(lifetimes, came, ended), percent)
        for came, ended in zip(lifetimes.came, lifetimes.ended, strict=True)
        if lifetimes.begin <= came < lifetimes.end
    ]


def seconds(lifetimes: JobLifetimes) -> list[float]:
    """The durations of the jobs that came under observation."""
    return [
        ended - came
        for came, ended in zip(lifetimes.came, lifetimes.ended, strict=True)
        if lifetimes.begin <= came < lifetimes.end
    ]


def part(counts: Sequence[int], least: int) -> float:
    """The part of the jobs that see at least that many events."""
    return sum(count >= least for count in counts) / len(counts)


def job_region(lifetimes: JobLifetimes, job: int) -> Region:
    """The share of a job that comes in place of another: until that one ended, ten minutes at most, and from there on.

    job: its place among `lifetimes`.
    """
    begin, end = lifetimes.came[job], lifetimes.ended[job]
    others = replace(lifetimes, came=_without(lifetimes.came, job), ended=_without(lifetimes.ended, job))
    seconds = min(end - begin, REGION_SECONDS)
    return Region(
        view(others, begin, lifetimes.end, others=1), 0.0, seconds, _largest(view(lifetimes, begin, begin + seconds))
    )


def job_regions(lifetimes: JobLifetimes, volatility: Volatility) -> list[int]:
    """The jobs that saw so much change, by their places; of those that were there for a minute or more, and came half
    an hour before the end of what is looked at, or earlier."""
    candidates = (
        job
        for job, (came, ended) in enumerate(zip(lifetimes.came, lifetimes.ended, strict=True))
        if lifetimes.begin <= came <= lifetimes.end - _GOES_ON and ended - came >= _A_MINUTE
    )
    return [job for job in candidates if classed(_volatility_for(lifetimes, job)) == volatility]


def _volatility_for(lifetimes: JobLifetimes, job: int) -> float:
    begin = lifetimes.came[job]
    return _largest(view(lifetimes, begin, min(lifetimes.ended[job], begin + REGION_SECONDS)))


def _largest(profile: CapacityProfile) -> float:
    return max((run.size for run in runs(profile)), default=0.0)


def _without(times: tuple[float, ...], place: int) -> tuple[float, ...]:
    return times[:place] + times[place + 1 :]


@cache
def recorded() -> tuple[JobLifetimes, ...]:
    """The clusters that were simulated once and for all."""
    text = files("qoop.adaptive.profiles").joinpath(RECORDED).read_text(encoding="utf-8")
    return tuple(map(JobLifetimes.from_json, text.splitlines()))


def shared(seed: int) -> CapacityProfile:
    """Three hours of the share of a job in one of the recorded clusters, which are taken in turn."""
    return onlooker(_cluster(seed))


def shared_region(volatility: Volatility, seed: int) -> Region:
    """The region of a job, drawn at random from those of the seed's cluster that saw so much change."""
    chance = random.Random(f"{volatility} {seed}")
    return job_region(_cluster(seed), chance.choice(job_regions(_cluster(seed), volatility)))


def _cluster(seed: int) -> JobLifetimes:
    clusters = recorded()
    return clusters[(seed - 1) % len(clusters)]
