"""The adversary plays against every policy, and what it finds is compared with the same hindsight."""

from __future__ import annotations

from qoop.adaptive.replanning.greedy import Greedy
from qoop.tpcds.scenarios import adversary
from qoop.tpcds.scenarios.scenario import Scenario, Steps


def test_policies_are_compared_with_the_same_hindsight(scenario: Scenario) -> None:
    steps = Steps(((0.0, 16, scenario.memory), (0.3 * scenario.undisturbed, 1, scenario.memory)))
    hindsight = scenario.hindsight(steps)
    assert all(scenario.against(policy).hindsight(steps) == hindsight for policy in (Greedy(), Greedy(0.5)))


def test_the_adversary_plays_against_every_policy_by_name(scenario: Scenario) -> None:
    for name in adversary.POLICIES:
        worst = adversary.worst(scenario, name, seed=2, evaluations=6)
        assert worst.ratio >= 0.98 * worst.found > 0
        assert set(worst.others) == set(adversary.POLICIES) - {name}
