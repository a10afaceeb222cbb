"""Allocations by lag and quality: against every allocation of small instances, and the source's worked example."""

from __future__ import annotations

from itertools import product
from random import Random
from statistics import fmean

import pytest

from qoop.programs.views.allocation import (
    Allocation,
    Configuration,
    Goals,
    Sharer,
    corrected,
    curve,
    max_min,
    max_sum,
)
from qoop.tpcds.views.simulate import POLICIES

STEPS = 24


def drawn(draw: Random, queries: int) -> list[Sharer]:
    return [
        Sharer(
            Goals(draw.choice([0.0, 0.25, 0.9]), draw.choice([0.0, 8.0, 20.0, 300.0]), 1.0, draw.choice([1.0, 2.0])),
            tuple(
                Configuration(demand, quality)
                for demand, quality in zip(
                    sorted(draw.uniform(0.2, 4) for _ in range(count)),
                    sorted(draw.uniform(0.1, 1) for _ in range(count)),
                    strict=True,
                )
            ),
            draw.choice([0.0, 3.0, 15.0]),
            draw.choice([1.0, 0.5, 2.0]),
        )
        for count in (draw.randrange(1, 5) for _ in range(queries))
    ]


def utilities(queries: list[Sharer], made: list[Allocation]) -> list[float]:
    return [curve(one).ramps[found.choice].at(found.slots) for one, found in zip(queries, made, strict=True)]


def test_allocations_are_those_of_all_allocations() -> None:
    draw, losses = Random(3), []
    for _ in range(120):
        queries = drawn(draw, 3)
        slots = draw.uniform(0.5, 8)
        step = slots / STEPS
        curves = [[curve(one).at(step * count) for count in range(STEPS + 1)] for one in queries]
        counts = [one for one in product(range(STEPS + 1), repeat=3) if sum(one) == STEPS]
        found = [[curves[place][count] for place, count in enumerate(one)] for one in counts]
        assert min(utilities(queries, max_min(queries, slots))) >= max(map(min, found)) - 1e-6
        best = max(map(sum, found))
        losses.append(max(0.0, best - sum(utilities(queries, max_sum(queries, slots)))) / max(1.0, abs(best)))
    assert fmean(losses) <= 0.01 and sorted(losses)[int(len(losses) * 0.95)] <= 0.03


@pytest.mark.parametrize("policy", POLICIES)
def test_an_allocation_uses_the_slots_and_no_others(policy: str) -> None:
    draw = Random(4)
    for _ in range(30):
        queries, slots = drawn(draw, 8), draw.uniform(0.1, 30)
        made = POLICIES[policy](queries, slots)
        assert sum(one.slots for one in made) <= slots + 1e-6 and min(one.slots for one in made) >= 0
        whole = [q.error * q.choices[one.choice].demand for q, one in zip(queries, made, strict=True)]
        lacking = any(one.slots < need - 1e-6 for one, need in zip(made, whole, strict=True))
        assert not lacking or sum(one.slots for one in made) == pytest.approx(slots)


A = tuple(Configuration(demand, quality) for demand, quality in ((1, 0.6), (2, 0.7), (3, 0.8)))
B = tuple(Configuration(demand, quality) for demand, quality in ((1, 0.1), (2, 0.3), (3, 0.9)))


@pytest.mark.parametrize(
    ("horizon", "total"), [(1.0, 1.7), (5.0, 1.7), (10.0, 1.7), (20.0, 1.6), (50.0, 1.5), (1000.0, 1.5)]
)
def test_the_sum_of_the_worked_example(horizon: float, total: float) -> None:
    queries = [Sharer(Goals(0.0, 0.0), A), Sharer(Goals(0.0, 8.0), B)]
    made = max_sum(queries, 4.0, horizon)
    found = [curve(q, horizon).ramps[one.choice].at(one.slots) for q, one in zip(queries, made, strict=True)]
    assert sum(found) == pytest.approx(total)


def test_a_demand_that_is_misjudged_is_corrected() -> None:
    error = 1.0
    for _ in range(12):
        error = corrected(error, 10.0)
    exact = [Sharer(Goals(0.2, 5.0), tuple(Configuration(10 * one.demand, one.quality) for one in A), 4.0)]
    assert error == pytest.approx(10.0, rel=0.02)
    assert max_min([Sharer(Goals(0.2, 5.0), A, 4.0, 10.0)], 9.0) == max_min(exact, 9.0)
