"""Theorem 2.1 and what fails without each part of the algorithm.

Theorem 2.1: no online algorithm has α < 2. The check plays the theorem's adversary on its plans (a_i = 2^i,
w_i = 2^(m−i)·W) against every algorithm here, for several m. The best single plan then does at least
2 − 2^(1−m) − 2^(m+1)/W copies before the algorithm ends, which tends to 2: the adversary makes plans i_1 > i_2 > … = 1
one step short of done, in phases j_1 = m, j_2 = i_1 − 1, …; what it offers in phases up to l is at least the work of
i_1 … i_l less one step each, and all of it fits the plan j_l. If some i_l < j_l, then i_l alone has twice the work of
j_l; otherwise every plan was nearly done, and their work is 2 − 2^(1−m) times that of plan 1.

Without switching or without backtracking there is no bound at all, as two plans show, 2×2 and 1×100 (by the spec: "an
adversary that gives 1 unit while 2×2 runs and 2 units while 1×100 runs"); neither is there one without pruning, and
with one task a step instead of all that fit the bound of 4 is wrong.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from theory_adversary import play, replay, starve
from theory_hindsight import copies_of_best_plan
from theory_model import Online, Rectangle, State, half_work, run
from theory_plans import at_random, fewest_steps, largest_first, nearly_equal, smallest_first, taking_turns, theorem_2_1

ALGORITHMS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "not pruning": {"prunes": False},
    "one task": {"one_task": True},
    "no backtracking": {"backtracks": False},
    "no switching": {"switches": False},
    "fewest steps": {"rule": fewest_steps},
    "smallest first": {"rule": smallest_first},
    "largest first": {"rule": largest_first},
    "taking turns": {"rule": taking_turns},
    "at random": {"rule": at_random},
}
TWO = (Rectangle(1, 100), Rectangle(2, 2))


def spoil(online: Online, state: State) -> int:
    """One unit while 2×2 runs, two units while the other runs or nothing does."""
    return 2 if state.running is None or online.plans[state.running].size == 1 else 1


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_no_algorithm_has_a_ratio_below_two(algorithm: str, count: int) -> None:
    online = Online(theorem_2_1(count), **ALGORITHMS[algorithm])
    least_work = min(plan.work for plan in online.plans)
    game = play(online, starve(online), steps=4 * sum(plan.tasks for plan in online.plans))
    assert game.copies >= 2 - Fraction(2, 2**count) - Fraction(2 ** (count + 1), least_work)


def test_with_backtracking_the_example_ends_in_step_3_with_one_wasted_unit() -> None:
    game = play(Online(TWO), spoil)
    assert game.allocation == (2, 1, 2) and game.state.finished
    assert game.online.wasted(game.state) == 1


@pytest.mark.parametrize("part", ["backtracks", "switches"])
@pytest.mark.parametrize("steps", [40, 400, 4000])
def test_without_backtracking_or_switching_the_example_never_ends(part: str, steps: int) -> None:
    less: dict[str, Any] = {part: False}
    game = play(Online(TWO, **less), spoil, steps)
    assert not game.state.finished
    assert game.copies >= Fraction(steps, 100 if part == "switches" else 4)


@pytest.mark.parametrize("tasks", [100, 1000, 10000])
def test_a_plan_never_left_that_does_end_is_late_without_bound_too(tasks: int) -> None:
    plans = (Rectangle(1, tasks), Rectangle(2, 2))
    game = play(Online(plans, switches=False), lambda _, state: 2 if state.step else 1)
    assert game.state.finished
    assert game.copies >= Fraction(tasks, 5)


@pytest.mark.parametrize("count", [2, 4, 8])
def test_without_pruning_the_ratio_grows_with_the_number_of_plans(count: int) -> None:
    plans = nearly_equal(count)
    greedy, unpruned = Online(plans), Online(plans, prunes=False)
    assert play(unpruned, starve(unpruned)).copies > 0.8 * count
    assert play(greedy, starve(greedy)).copies < 4


def test_with_one_task_a_step_four_copies_end_before_it() -> None:
    plans, units = (Rectangle(1, 9), Rectangle(5, 1)), [5] * 9
    assert half_work(plans) == (Rectangle(1, 9),)
    slow = play(Online(plans, one_task=True), replay(units))
    assert slow.state.finished and slow.state.step == 9
    assert copies_of_best_plan(plans, slow.before_the_end(units), one_task=True) == 8
    assert run(Online(plans), units).step == 2
