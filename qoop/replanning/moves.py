"""The moves of a share: its levels, the time it stays at each, and the level it goes to next.

    shares told to a job, or a profile's history ──> Moves ──chain──> Chain ──expected──> seconds until a plan ends

The model is a Markov chain in continuous time over few levels of the share. Its rates are the maximum-likelihood ones
(moves seen / seconds seen; Billingsley, "Statistical Inference for Markov Processes", 1961), taken towards "it stays"
by `steady` seconds without a move added to every level (the mean under a gamma prior of shape 0). A level's losses are
the hazard of revocation, its gains what is bought or given back. For a shared cluster the same chain is the number of
other jobs: arrivals and departures (:func:`shared`, a birth-death chain: Kleinrock, "Queueing Systems I", 1975).

The end of a plan under the chain is worked out as if its progress were a fluid: at a level on which it would take R
seconds alone, 1/R of it is done per second (a Markov reward model: Howard, "Dynamic Probabilistic Systems II", 1971).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise
from math import expm1, inf, log

from qoop.catalog.value import value
from qoop.planner.plan import Resources

MOST_LEVELS = 6
"""Levels of a chain. A plan is simulated on each of them for every decision."""

STEPS = 20
"""Steps in which the progress of a plan is followed."""

MOST_EXPONENT = 5.0
"""A task that is lost about so often before it ends counts as if it were lost no more often."""

Path = Sequence[tuple[float, Resources]]
"""(from when on, share), in order of time."""


@value
class Moves:
    """The sightings of a share; a value that can be added to.

    seconds: seconds at each level. moves: how often it went from one level to another.
    """

    seconds: Mapping[Resources, float] = field(default_factory=dict)
    moves: Mapping[tuple[Resources, Resources], float] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Path, until: float) -> Moves:
        """The sightings of a path, up to a time. Of several shares at one moment the last one counts.

        >>> seen = Moves.of([(0, Resources(8)), (5, Resources(2))], until=6)
        >>> seen.seconds[Resources(8)], seen.moves[Resources(8), Resources(2)]
        (5, 1)
        """
        seconds: Counter[Resources] = Counter()
        moves: Counter[tuple[Resources, Resources]] = Counter()
        last = dict(path)
        steps = list(last.items())
        for (at, share), (end, _) in pairwise([*steps, (max(until, steps[-1][0]), Resources())] if steps else []):
            seconds[share] += end - at  # type: ignore[assignment]
        for (_, before), (_, after) in pairwise(steps):
            if before != after:
                moves[before, after] += 1
        return cls(dict(seconds), dict(moves))

    def __add__(self, other: Moves) -> Moves:
        seconds = {
            one: self.seconds.get(one, 0.0) + other.seconds.get(one, 0.0) for one in (*self.seconds, *other.seconds)
        }
        moves = {one: self.moves.get(one, 0.0) + other.moves.get(one, 0.0) for one in (*self.moves, *other.moves)}
        return Moves(seconds, moves)

    def merged(self, most: int = MOST_LEVELS) -> Moves:
        """With no more than that many levels: the two nearest become one, again and again."""
        weights = dict(self.seconds)
        group = {level: level for level in weights}
        while len(weights) > most:
            one, other = _nearest_pair(tuple(weights))
            mean = _mean(one, weights.pop(one), other, weights[other])
            weight = self._weight(group, one) + self._weight(group, other)
            del weights[other]
            weights[mean] = weight
            group = {level: mean if at in (one, other) else at for level, at in group.items()}
        return self._grouped(group)

    def chain(self, share: Resources, steady: float, most: int = MOST_LEVELS) -> Chain:
        """The chain seen from a share, which takes the place of the level nearest to it."""
        few = self.merged(most)
        levels = list(few.seconds)
        if not levels:
            return Chain((share,), ((0.0,),), 0)
        start = min(range(len(levels)), key=lambda i: _distance(levels[i], share))
        rates = tuple(
            tuple(few.moves.get((one, other), 0.0) / max(1e-9, few.seconds[one] + steady) for other in levels)
            for one in levels
        )
        shares = tuple(share if place == start else like(level, share) for place, level in enumerate(levels))
        return Chain(shares, rates, start)

    def _weight(self, group: Mapping[Resources, Resources], at: Resources) -> float:
        return sum(self.seconds[level] for level, now in group.items() if now == at)

    def _grouped(self, group: Mapping[Resources, Resources]) -> Moves:
        seconds: Counter[Resources] = Counter()
        moves: Counter[tuple[Resources, Resources]] = Counter()
        for level, spent in self.seconds.items():
            seconds[group[level]] += spent  # type: ignore[assignment]
        for (one, other), times in self.moves.items():
            if group[one] != group[other]:
                moves[group[one], group[other]] += times  # type: ignore[assignment]
        return Moves(dict(seconds), dict(moves))


@value
class Chain:
    """Levels of a share, the rate per second of going from one to another, and the place of the present one."""

    levels: tuple[Resources, ...]
    rates: tuple[tuple[float, ...], ...]
    start: int

    @property
    def still(self) -> bool:
        """True if the share never leaves the level it is at."""
        return not any(self.rates[self.start])

    def expected(self, seconds: Sequence[float], tasks: Sequence[tuple[float, float]] = ()) -> float:
        """Expected seconds until a plan ends that would take so long on each of the levels alone.

        tasks: of its work the part, and the seconds of a task, of each kind: what is lost with a slot runs again. They
        are taken to be spread evenly, so that a loss stops as great a part of them as of the slots.

        With u(x) the expected time for a part x of the work: u' / R = 1 + Q u, row by row, with u(0) = 0, solved by the
        implicit Euler method, which is exact where nothing moves.

        >>> Chain((Resources(4), Resources(2)), ((0, 0), (0, 0)), 0).expected([10.0, 20.0])
        10.0
        """
        if self.still or seconds[self.start] == inf:
            return seconds[self.start]
        count, step = len(self.levels), 1.0 / STEPS
        speeds = [1.0 / max(one * self.rerun(place, tasks), 1e-9) for place, one in enumerate(seconds)]
        rows = [
            [
                max(1e-12, speeds[i] + step * sum(self.rates[i])) if i == j else -step * self.rates[i][j]
                for j in range(count)
            ]
            for i in range(count)
        ]
        inverse = _inverse(rows)
        ends = [0.0] * count
        for _ in range(STEPS):
            right = [speeds[i] * ends[i] + step for i in range(count)]
            ends = [sum(a * b for a, b in zip(row, right, strict=True)) for row in inverse]
        return ends[self.start]

    def rerun(self, place: int, tasks: Sequence[tuple[float, float]]) -> float:
        """The factor by which lost slots, at a rate λ each, increase the work at a level.

        A task of d seconds that begins again whenever it is stopped takes (exp(λd) - 1) / λ in the mean (Duda, "The
        Effects of Checkpointing on Program Execution Time", 1983).
        """
        here = self.levels[place].cpu
        falls = zip(self.rates[place], self.levels, strict=True)
        hazard = sum(rate * (here - level.cpu) / here for rate, level in falls if level.cpu < here)
        if hazard <= 0.0 or not tasks:
            return 1.0
        losses = ((part, min(max(hazard * d, 1e-9), MOST_EXPONENT)) for part, d in tasks)
        return sum(part * expm1(lost) / lost for part, lost in losses)


def shared(whole: Resources, arrivals: float, mean_seconds: float, most: int = MOST_LEVELS) -> Moves:
    """The expectation of a fair share of a cluster to which other jobs come, and which they leave.

    arrivals: of other jobs per second. mean_seconds: that each of them stays. The levels are the share among 1, 2, …
    `most` jobs; the numbers are those of a day.
    """
    day = 86_400.0
    levels = [_times(whole, 1.0 / jobs) for jobs in range(1, most + 1)]
    load = [1.0]
    for others in range(1, most):
        load.append(load[-1] * arrivals * mean_seconds / others)
    seconds = {level: day * part / sum(load) for level, part in zip(levels, load, strict=True)}
    moves = {}
    for others, (fewer, more) in enumerate(pairwise(levels), 1):
        moves[fewer, more] = seconds[fewer] * arrivals
        moves[more, fewer] = seconds[more] * others / mean_seconds
    return Moves(seconds, moves)


def _nearest_pair(levels: Sequence[Resources]) -> tuple[Resources, Resources]:
    pairs = [(one, other) for i, one in enumerate(levels) for other in levels[i + 1 :]]
    return min(pairs, key=lambda pair: _distance(*pair))


def _distance(one: Resources, other: Resources) -> float:
    """The distance of two shares, by the ratio of their slots and of the memory of a slot."""
    slots = abs(log(max(1.0, one.cpu) / max(1.0, other.cpu)))
    if not (one.memory and other.memory):
        return slots
    return slots + abs(log(one.memory / max(1.0, one.cpu)) - log(other.memory / max(1.0, other.cpu)))


def _mean(one: Resources, weight: float, other: Resources, more: float) -> Resources:
    total = weight + more
    part = weight / total if total > 0 else 0.5
    return _times(one, part) + _times(other, 1.0 - part)


def like(level: Resources, share: Resources) -> Resources:
    """A level with what it does not tell in proportion to the slots, as in the present share."""
    factor = level.cpu / share.cpu if share.cpu else 0.0
    return replace(
        level,
        memory=level.memory or share.memory * factor,
        network=level.network or share.network * factor,
    )


def _times(one: Resources, factor: float) -> Resources:
    return Resources(one.cpu * factor, one.memory * factor, one.disk * factor, one.network * factor)


def _inverse(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    """Of a small matrix that is strictly dominated by its diagonal (Gauss and Jordan, no pivoting needed)."""
    size = len(rows)
    left = [list(row) for row in rows]
    right = [[float(i == j) for j in range(size)] for i in range(size)]
    for i in range(size):
        pivot = left[i][i]
        left[i] = [value / pivot for value in left[i]]
        right[i] = [value / pivot for value in right[i]]
        for k in range(size):
            if k != i and left[k][i]:
                factor = left[k][i]
                left[k] = [a - factor * b for a, b in zip(left[k], left[i], strict=True)]
                right[k] = [a - factor * b for a, b in zip(right[k], right[i], strict=True)]
    return right
