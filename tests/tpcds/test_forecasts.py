"""Forecasts on random walks, and whom the adversary may play against: figures that add up and can be made again."""

from __future__ import annotations

from random import Random

import pytest

from qoop.replanning.forecast import Forecast
from qoop.replanning.greedy import Greedy
from qoop.replanning.moves import Moves
from qoop.tpcds.scenarios import adversary
from qoop.tpcds.scenarios.scenario import Scenario
from qoop.tpcds.scenarios.walks import LENGTH, seen, walk

MEMORY = 1e9


def test_a_walk_is_as_long_as_told_and_stays_as_long_as_told(scenario: Scenario) -> None:
    steps = walk(scenario, 0.1, Random(3))
    assert steps == walk(scenario, 0.1, Random(3))
    assert 0.6 * LENGTH < steps.changes[-1][0] / scenario.undisturbed < LENGTH
    assert 120 < len(steps.changes) < 280
    assert all(one[1] != other[1] for one, other in zip(steps.changes, steps.changes[1:], strict=False))


def test_what_was_seen_has_the_rates_of_the_walks(scenario: Scenario) -> None:
    stay = 0.2
    known = seen(scenario, stay, Random(3))
    mean = sum(known.seconds.values()) / sum(known.moves.values())
    assert mean == pytest.approx(stay * scenario.undisturbed, rel=0.15)
    assert {share.cpu for share in known.seconds} == {1, 2, 4, 8, 16}


def test_with_a_budget_of_nothing_a_forecast_runs_as_greed_does(scenario: Scenario) -> None:
    known = seen(scenario, 0.3, Random(3))
    for number in range(4):
        steps = walk(scenario, 0.3, Random(number))
        assert scenario.against(Forecast(known, risk=0.0)).run(steps) == scenario.against(Greedy()).run(steps)
        assert scenario.against(Forecast(Moves(), steady=1e9)).run(steps) == scenario.against(Greedy()).run(steps)


def test_nobody_is_compared_with_another_hindsight(scenario: Scenario) -> None:
    steps = walk(scenario, 0.3, Random(5))
    hindsight = scenario.hindsight(steps)
    assert all(other.hindsight(steps) == hindsight for other in map(scenario.against, (Greedy(), Forecast())))


def test_the_adversary_plays_against_every_policy_by_name(scenario: Scenario) -> None:
    known = adversary.policies(scenario, seed=1)
    assert tuple(known) == adversary.POLICIES
    worst = adversary.search(scenario.against(known["forecast"]), seed=2, evaluations=6)
    assert worst.ratio >= 0.98 * worst.found > 0
