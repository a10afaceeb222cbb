"""The queries of a simulation, after the source: 300 that always run, and a burst of 200 that are dear.

The demands are scaled so that the cheapest configurations of all 500 need about all slots.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from random import Random

from qoop.programs.views.allocation import Configuration, Goals

SLOTS = 400
_BASE, _BURST = 300, 200
_BEFORE = 60.0
"""Seconds before and after the burst that count, too."""

_MEAN = 1.1
"""Of the demand over that of the choices, which changes slowly between 0.7 and 1.5."""

_SIZES, _RATES = (480, 720, 1080), (0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, slots=True)
class Query:
    """choices: Pareto-optimal, by demand. misjudged: real demands are this many times those. phase: of their slow
    change in time. begins, ends: seconds."""

    goals: Goals
    choices: tuple[Configuration, ...]
    misjudged: float
    phase: float
    begins: float
    ends: float

    def real(self, at: float) -> float:
        """The real demand over that of the choices."""
        return self.misjudged * (_MEAN + 0.4 * math.sin(at / 60 + self.phase))


def drawn(seed: int, burst_seconds: float, misjudged: bool = False) -> tuple[list[Query], float]:
    """The queries, and the seconds of a run. misjudged: the demands of a third are half as large, of another third
    twice."""
    draw = Random(seed)
    ends = _BEFORE + burst_seconds + _BEFORE
    queries = [_base(draw, place, ends) for place in range(_BASE)]
    queries += [
        Query(Goals(1.0, 20.0, 1.0, 2.0), _plates(draw), 1.0, draw.uniform(0, 7), _BEFORE, _BEFORE + burst_seconds)
        for _ in range(_BURST)
    ]
    scale = SLOTS / (_MEAN * sum(one.choices[0].demand for one in queries))
    errors = (0.5, 1.0, 2.0) if misjudged else (1.0,)
    return [
        replace(one, choices=_scaled(one.choices, scale), misjudged=errors[place % len(errors)])
        for place, one in enumerate(queries)
    ], ends


def _base(draw: Random, place: int, ends: float) -> Query:
    choices = (_plates, _counters, _classes, _tracks)[place % 4](draw)
    goals = Goals(0.25, 20.0 if draw.random() < 0.6 else 300.0)
    return Query(goals, choices, 1.0, draw.uniform(0, 7), 0.0, ends)


def _plates(draw: Random) -> tuple[Configuration, ...]:
    """Licence plates: size and rate matter much."""
    scale = _size(draw)
    return _pareto(
        Configuration(scale * (size / 1080) ** 2 * rate, _saturating(size / 1080) * _saturating(rate))
        for size, rate in product(_SIZES, _RATES)
    )


def _counters(draw: Random) -> tuple[Configuration, ...]:
    """Cars are counted well in small pictures, too."""
    scale = _size(draw)
    return _pareto(
        Configuration(scale * 0.5 * (size / 1080) ** 2 * rate, 0.8 + 0.1 * rate + 0.1 * size / 1080)
        for size, rate in product(_SIZES, _RATES)
    )


def _classes(draw: Random) -> tuple[Configuration, ...]:
    """Quality and demand rise evenly with the rate."""
    scale = _size(draw)
    return _pareto(Configuration(scale * rate / 10, math.sqrt(rate / 10)) for rate in range(1, 11))


def _tracks(draw: Random) -> tuple[Configuration, ...]:
    """Ways to map one picture to the next."""
    scale = _size(draw)
    points = ((0.2, 0.55), (0.4, 0.7), (1.5, 0.95), (1.0, 0.9))
    return _pareto(Configuration(scale * demand, quality) for demand, quality in points)


def _size(draw: Random) -> float:
    return math.exp(draw.uniform(math.log(0.05), math.log(2.0)))


def _saturating(part: float) -> float:
    return (1 - math.exp(-3 * part)) / (1 - math.exp(-3))


def _pareto(found: Iterable[Configuration]) -> tuple[Configuration, ...]:
    kept: list[Configuration] = []
    for one in sorted(found, key=lambda one: (one.demand, -one.quality)):
        if not kept or one.quality > kept[-1].quality:
            kept.append(one)
    return tuple(kept)


def _scaled(choices: Sequence[Configuration], scale: float) -> tuple[Configuration, ...]:
    return tuple(replace(one, demand=one.demand * scale) for one in choices)
