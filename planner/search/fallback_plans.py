"""Plans worth keeping beyond cover: those that are cheap to switch to.

A plan that is never the best to start with may be the best to go on with, because it can use what another has finished.
So some kept plans are started, in thought, on a share where they win, and stopped at half of their time, when the share
becomes another one. A plan of the pool that would then end well before every kept one is kept, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from qoop.catalog.value import value
from qoop.planner.finish import Done
from qoop.planner.plan import Resources

if TYPE_CHECKING:
    from qoop.planner.search.candidate import Candidate, Pool, StageKey

MOST_FALLBACK_PLANS = 2
MOST_CASES = 12
"""Changes of the share that are looked at."""


@value
class _Case:
    """A plan was stopped half-way and the share is now another one. done: what of it is finished."""

    running: Candidate
    done: Done
    shared: Mapping[StageKey, int]
    share: Resources

    def seconds(self, other: Candidate) -> float:
        """The seconds to the end of the other plan if it takes over what it can use."""
        return other.finish.seconds(self.share, self.done if other is self.running else self.use(other))

    def use(self, other: Candidate) -> Done:
        """The part of the finished work that the other plan has, too."""
        found = {stage.id: self.shared[key] for stage, key in other.keyed if key in self.shared}
        return Done(found)


def fallback_plans(pool: Pool, chosen: Sequence[int], tolerance: float) -> tuple[int, ...]:
    """Places of up to :data:`MOST_FALLBACK_PLANS` plans besides those chosen, the most often useful first.

    Each would end earlier by more than `tolerance` after some change of the share."""
    cases = list(islice(_cases(pool, chosen), MOST_CASES))
    least = [min(case.seconds(pool.candidates[i]) for i in chosen) for case in cases]
    times = {i: _useful(one, cases) for i, one in enumerate(pool.candidates) if i not in chosen}
    found: list[int] = []
    while len(found) < MOST_FALLBACK_PLANS:
        gains = {i: _gain(seconds, least, tolerance) for i, seconds in times.items() if i not in found}
        place = max(gains, key=lambda i: (*gains[i], -i), default=None)
        if place is None or not gains[place][0]:
            break
        found.append(place)
        least = [min(now, times[place].get(c, now)) for c, now in enumerate(least)]
    return tuple(found)


def _useful(one: Candidate, cases: Sequence[_Case]) -> dict[int, float]:
    """By case in which the plan can use anything, when it would end."""
    return {c: case.seconds(one) for c, case in enumerate(cases) if case.use(one).parts}


def _gain(seconds: Mapping[int, float], least: Sequence[float], tolerance: float) -> tuple[int, float]:
    """In how many cases a plan is well ahead of the kept ones, and by how much in all, as fractions."""
    ahead = [least[c] / end - 1.0 for c, end in seconds.items() if (1.0 + tolerance) * end < least[c]]
    return len(ahead), sum(ahead)


def _cases(pool: Pool, chosen: Sequence[int]) -> Iterator[_Case]:
    points = pool.grid.points
    homes = [_home(pool, place, chosen) for place in chosen]
    ends = (max(points, key=_size), min(points, key=_size))
    for place, home in zip(chosen, homes, strict=True):
        one = pool.candidates[place]
        done = one.finish.after(home, one.finish.seconds(home) / 2)
        shared = {key: done.parts[stage.id] for stage, key in one.keyed if done.parts.get(stage.id)}
        if shared:
            for share in dict.fromkeys((*ends, *homes)):
                if share != home:
                    yield _Case(one, done, shared, share)


def _home(pool: Pool, place: int, chosen: Sequence[int]) -> Resources:
    """A share on which the plan wins against the others chosen, in the middle of them; else where it is nearest."""
    points = range(len(pool.grid.points))
    wins = [p for p in points if pool.seconds[place][p] == min(pool.seconds[i][p] for i in chosen)]
    nearest = min(points, key=lambda p: pool.seconds[place][p] / pool.best[p])
    return pool.grid.points[wins[len(wins) // 2] if wins else nearest]


def _size(share: Resources) -> tuple[float, float, float]:
    return share.cpu, share.memory, share.network
