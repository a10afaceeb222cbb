"""Greed that may be overruled keeps its bound, plus what was wagered: the argument of qoop/replanning/forecast.py.

Wagers are chosen here by whatever is worst: a fixed rule, or the same adversary that makes the offers. Checked is that
strictly before the algorithm ends fewer than 4 + ε copies are done on what its tasks hold (2 + ε where all plans halve
the work); that the budget is used up to the last task, so that the check means something; and that without a budget, or
with one that is a part of the work of the plan that ends, no such bound holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from theory_adversary import Game, dodge, play, replay, starve
from theory_model import Online, Rectangle, Rule, State, half_work
from theory_plans import Plans, halving, largest_first, smallest_first, theorem_2_1

plan_sets = st.lists(
    st.builds(Rectangle, st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=6, unique=True
).map(tuple)
choices = st.lists(st.integers(0, 30), min_size=1, max_size=20)
risks = st.fractions(0, 2, max_denominator=4)


@dataclass(frozen=True)
class Wagered(State):
    """wagered: units held so far by tasks that greed would not have run."""

    wagered: int = 0


Budget = Callable[[Online, Wagered], Fraction]


def of_the_least(risk: Fraction) -> Budget:
    return lambda online, state: risk * min(plan.work for plan in online.plans)


def of_the_largest(risk: Fraction) -> Budget:
    """Of the work of a plan that may be the one that ends."""
    return lambda online, state: risk * max(plan.work for plan in online.plans)


@dataclass(frozen=True)
class Wagering(Online):
    """Pseudocode 2, overruled by `wish` wherever the budget allows what it would run."""

    wish: Rule = smallest_first
    budget: Budget = lambda online, state: Fraction(0)
    lazy: bool = False

    @property
    def start(self) -> State:
        return Wagered(tuple(plan.tasks for plan in self.plans))

    def advance(self, state: State, units: int) -> State:
        assert isinstance(state, Wagered)
        greed = self.choose(state, units)
        fitting = [i for i in self.kept if self.plans[i].size <= units]
        wanted = self.wish(self, state, fitting, units) if fitting else greed
        then = self._running(wanted, state, units)
        held = then.spent - state.spent
        regret = wanted != greed and state.wagered + held <= self.budget(self, state)
        if not regret:
            then = self._running(greed, state, units)
        return Wagered(then.left, then.running, then.given, then.step, then.spent, state.wagered + regret * held)

    def _running(self, plan: int | None, state: State, units: int) -> State:
        if plan is None:
            return State(state.left, state.running, units, state.step + 1, state.spent)
        return Online(self.plans, lambda *_: plan, self.prunes, lazy=False).advance(state, units)


def wishes(numbers: Sequence[int]) -> Rule:
    return lambda online, state, fitting, units: fitting[numbers[state.step % len(numbers)] % len(fitting)]


def games(online: Online, numbers: Sequence[int], steps: int | None = None) -> list[Game]:
    steps = steps or 4 * sum(plan.tasks for plan in online.plans)
    return [play(online, adversary, steps) for adversary in (dodge(numbers), starve(online), replay([30] * 99))]


def worst(played: Iterable[Game]) -> Fraction:
    return max(game.copies_on_held for game in played)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(plan_sets, choices, choices, risks)
def test_regrets_add_no_more_than_their_budget(
    plans: Plans, offers: list[int], wish: list[int], risk: Fraction
) -> None:
    for rule in (wishes(wish), smallest_first, largest_first):
        online = Wagering(plans, wish=rule, budget=of_the_least(risk))
        assert worst(games(online, offers)) < 4 + risk
        if half_work(plans) == tuple(sorted(plans)):
            assert worst(games(online, offers)) < 2 + risk


@settings(max_examples=30, deadline=None, derandomize=True)
@given(plan_sets, choices)
def test_without_a_budget_it_is_pseudocode_2(plans: Plans, offers: list[int]) -> None:
    mine, usual = Wagering(plans, wish=largest_first), Online(plans, lazy=False)
    for one, other in zip(games(mine, offers), games(usual, offers), strict=True):
        assert one.allocation == other.allocation and one.state.left == other.state.left


def test_the_budget_is_used_and_costs_what_it_says() -> None:
    """1×64 is wished for; greed would end 8×1 in a step. It wagers half of 8 units: half a copy of 8×1 goes by."""
    plans = (Rectangle(1, 64), Rectangle(8, 1))
    game = play(Wagering(plans, wish=smallest_first, budget=of_the_least(Fraction(1))), replay([8] * 9))
    assert isinstance(game.state, Wagered)
    assert game.state.finished and game.state.wagered == 8 and game.state.step == 2
    assert play(Online(plans), replay([8] * 9)).state.step == 1


@pytest.mark.parametrize("budget", [lambda *_: Fraction(10**9), of_the_largest(Fraction(1))], ids=["none", "largest"])
def test_other_budgets_have_no_bound(budget: Budget) -> None:
    """Of the plans the smallest has 2^k times the work of the largest, and is wished for all the time."""
    found = [
        worst(games(Wagering(halving([1, *(2**i for i in range(2, k))], 4), wish=smallest_first, budget=budget), [30]))
        for k in (3, 5, 7)
    ]
    assert found[0] < found[1] < found[2] and found[2] > 6


def test_random_regret_never_exceeds_it_either() -> None:
    chance = Random(5)
    for _ in range(20):
        plans = theorem_2_1(chance.randint(2, 4))
        online = Wagering(
            plans, wish=wishes([chance.randrange(9) for _ in range(12)]), budget=of_the_least(Fraction(1))
        )
        assert worst(games(online, [chance.randrange(30) for _ in range(12)])) < 3
