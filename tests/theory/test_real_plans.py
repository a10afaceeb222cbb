"""The adversary for real plans: it finds bad profiles, shrinks them, and what it reports can be run again."""

from __future__ import annotations

from qoop.adaptive.replanning.decision import DecisionInput, Stay
from qoop.adaptive.replanning.greedy import Greedy
from qoop.tpcds.scenarios.adversary import search, shrink
from qoop.tpcds.scenarios.scenario import Scenario, Steps

MEMORY = 1e9


class Stubborn:
    """Never changes plan."""

    def decide(self, question: DecisionInput) -> Stay:
        return Stay("it never does", question.remaining)


def test_with_nothing_changing_the_adaptive_run_takes_what_the_best_plan_takes(scenario: Scenario) -> None:
    calm = scenario.calm
    hysteresis = Greedy().hysteresis
    assert scenario.run(calm).seconds <= scenario.hindsight(calm) / (1 - hysteresis) + 0.02


def test_the_worst_profile_is_small_and_can_be_run_again(scenario: Scenario) -> None:
    worst = search(scenario, seed=7, evaluations=40)
    assert worst.ratio >= 0.98 * worst.found
    assert len(worst.steps.changes) <= 7
    again = Scenario(scenario.plans, scenario._tables, 16, MEMORY)
    assert again.run(worst.steps) == worst.adaptive
    assert again.hindsight(worst.steps) == worst.hindsight
    assert search(again, seed=7, evaluations=40) == worst


def test_without_switching_it_does_worse(scenario: Scenario) -> None:
    """The adversary is an adversary: it finds more against a job that is held to its launch plan."""
    held = Scenario(scenario.plans, scenario._tables, 16, MEMORY, policy=Stubborn())
    assert search(held, seed=7, evaluations=40).ratio >= 1.0
    for steps in (Steps(((0.0, 16, MEMORY), (0.0001, 1, MEMORY))), Steps(((0.0, 1, MEMORY),))):
        assert held.run(steps).seconds == held.run(steps, 0).seconds


def test_shrinking_keeps_what_matters() -> None:
    steps = Steps(((0.0, 8, 1), (1.0, 4, 1), (2.0, 2, 1), (3.0, 1, 1), (4.0, 8, 1)))
    small = shrink(steps, lambda one: (3.0, 1, 1) in one.changes)
    assert small == Steps(((0.0, 8, 1), (3.0, 1, 1)))
