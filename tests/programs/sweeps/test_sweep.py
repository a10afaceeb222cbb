"""The program of a sweep: its table row by row, the division of slots, chances, and policies on known curves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qoop.adaptive.program import Begin, End, Show, Stop
from qoop.adaptive.program_log import Programs
from qoop.programs.kinds import program_kinds
from qoop.programs.sweeps.division import Division, division
from qoop.programs.sweeps.messages import Due, Predict, Predicted, RunStep, Share, TrialFailed, TrialStepEnded
from qoop.programs.sweeps.prospects import prospect
from qoop.programs.sweeps.race import Race, Racer
from qoop.programs.sweeps.sweep import Sweep, Trial
from qoop.tpcds.simulate.sweeps import compared, curves, reachable, simulated

MOST = 4


def begun(trials: int = 3, slots: int = 1, policy: str = "pop", **options: object) -> Sweep:
    states = tuple(Trial(turn=number) for number in range(trials))
    sweep, orders = Sweep(policy, states, slots, 2, MOST, 0.9, **options).after(Begin())  # type: ignore[arg-type]
    assert orders == tuple(RunStep(number, 0) for number in range(min(slots, trials)))
    return sweep


def after(sweep: Sweep, trial: int, *scores: float) -> tuple[Sweep, tuple[object, ...]]:
    orders: tuple[object, ...] = ()
    for score in scores:
        sweep, orders = sweep.after(TrialStepEnded(trial, len(sweep.trials[trial].scores), score, 1.0, sweep.at + 1.0))
    return sweep, orders


def at_boundary(sweep: Sweep, trial: int, p: float) -> tuple[Sweep, tuple[object, ...]]:
    sweep, orders = after(sweep, trial, 0.5, 0.6)
    assert orders == (Predict(trial, 2, 0.9, 2),) and sweep.trials[trial].state == "predicting"
    return sweep.after(Predicted(trial, 2, p, 1.0))


def test_between_boundaries_a_trial_runs_on() -> None:
    assert after(begun(), 0, 0.5)[1] == (RunStep(0, 1),)


def test_the_target_ends_it() -> None:
    sweep, orders = after(begun(), 0, 0.95)
    assert orders == (Show(0), End()) and sweep.why == "the target was reached" and sweep.best == 0


def test_a_promising_trial_keeps_its_slot() -> None:
    sweep, orders = at_boundary(begun(), 0, 1.0)
    assert orders == (RunStep(0, 2),) and sweep.trials[0].state == "running"


def test_an_opportunistic_trial_waits_behind_new_ones() -> None:
    sweep, orders = at_boundary(begun(2), 0, 0.2)
    assert orders == (RunStep(1, 0),) and sweep.trials[0].state == "waiting"
    _, orders = at_boundary(sweep, 1, 0.1)
    assert orders == (RunStep(0, 2),), "it comes again in its turn"


@pytest.mark.parametrize("p", [0.1, 0.3, 0.45])
def test_less_than_one_slot_is_that_part_of_all_turns(p: float) -> None:
    states = tuple(Trial(turn=number) for number in range(1000))
    sweep, orders = Sweep("pop", states, 2, 1, 1000, 0.9).after(Begin())
    steps, begun_there, running = 0, 0, [order.trial for order in orders if isinstance(order, RunStep)]
    while steps < 300:
        trial = running.pop(0)
        sweep, orders = after(sweep, trial, 0.5)
        sweep, orders = sweep.after(Predicted(trial, len(sweep.trials[trial].scores), p if trial < 9 else 0.05, 1.0))
        running += [order.trial for order in orders if isinstance(order, RunStep)]
        steps, begun_there = steps + 1, begun_there + (running[-1] < 9)
    assert division([p] * 9, 2).slots / 2 == p
    assert begun_there / steps == pytest.approx(p, abs=0.05)


def test_a_poor_trial_runs_when_no_other_waits() -> None:
    sweep, _ = at_boundary(begun(2), 0, 0.01)
    assert sweep.trials[0].state == "parked"
    sweep, orders = at_boundary(sweep, 1, 0.4)
    assert orders == (RunStep(1, 2),), "another one waits"
    sweep, orders = after(sweep, 1, 0.6, 0.6)
    assert orders == (Show(1), RunStep(0, 2)) and sweep.trials[1].state == "complete"
    killed, orders = at_boundary(begun(1, kill=True), 0, 0.01)
    assert killed.trials[0].state == "pruned" and orders == (End(),) and killed.why == "all trials have ended"


def test_a_hopeless_trial_needs_no_prediction() -> None:
    sweep, orders = after(begun(2, hopeless=0.5), 0, 0.8, 0.2, 0.3, 0.3)
    assert sweep.trials[0].state == "predicting", "it has been better"
    sweep, orders = after(begun(2, hopeless=0.5), 0, 0.2, 0.3)
    assert sweep.trials[0].state == "parked" and orders == (RunStep(1, 0),)


def test_a_failed_trial_leaves_its_slot_and_late_messages_change_nothing() -> None:
    sweep, orders = begun().after(TrialFailed(0, "no such column", 1.0))
    assert orders == (RunStep(1, 0),) and sweep.trials[0].why == "no such column"
    assert sweep.after(TrialStepEnded(0, 0, 0.5, 1.0, 2.0)) == (sweep, ())
    assert sweep.after(Predicted(1, 0, 0.5, 1.0)) == (sweep, ())


def test_a_trace_holds_its_states() -> None:
    states = Sweep("pop", (Trial(turn=0, p=0.5), Trial(turn=1))), Race((Racer(), Racer(half=1.0)), 2)
    first = ("RunStep(trial=0, number=0, early=False)",), ("ReadPieces(number=0, trials=(0, 1))",)
    for state, orders in zip(states, first, strict=True):
        assert Programs(program_kinds()).take("sweep", "Begin()", repr(state)) == orders


def test_shares_time_and_stop() -> None:
    _, orders = begun().after(Share(3))
    assert orders == (RunStep(1, 0), RunStep(2, 0))
    assert begun().after(Due())[0].why == "the time was over" and begun().after(Stop())[1] == (End(),)
    assert after(begun(within=2.0), 0, 0.1, 0.2)[0].why == "the time was over"
    ended = begun().after(Stop())[0]
    assert ended.after(Share(3)) == (ended, ())


def test_with_fewer_slots_the_lowest_chance_waits_first() -> None:
    sweep, _ = at_boundary(begun(3, slots=2), 0, 0.9)
    sweep, _ = sweep.after(Share(1))
    sweep, orders = after(sweep, 0, 0.6)
    assert orders == (RunStep(0, 3),), "the other one has no chance so far"
    sweep, orders = after(sweep, 1, 0.6)
    assert orders == () and sweep.trials[1].state == "waiting"
    assert sweep.after(Share(3))[1] == (RunStep(2, 0), RunStep(1, 1)), "it goes on in its turn"


def test_without_a_target_the_next_one_is_above_the_best() -> None:
    _, orders = after(replace(begun(), target=None), 0, 0.5, 0.6)
    assert orders == (Predict(0, 2, pytest.approx(0.606), 2),)


@pytest.mark.parametrize(
    ("confidences", "slots", "divided"),
    [
        ([0.9, 0.8, 0.2, 0.1], 4, Division(0.8, 2)),
        ([0.30, 0.25, 0.22, 0.10, 0.08, 0.07], 4, Division(0.30, 1)),
        ([0.99, 0.97, 0.6, 0.3, 0.2, 0.1], 4, Division(0.6, 2.4)),
        ([0.95, 0.90, 0.85, 0.80, 0.75], 15, Division(0.75, 5)),
        ([0.04, 0.03, 0.02], 4, Division(0.04, 0.16)),
        ([0.5] * 100, 4, Division(0.5, 2)),
        ([], 4, Division(float("inf"), 0)),
    ],
)
def test_slots_are_divided_as_in_the_source(confidences: list[float], slots: int, divided: Division) -> None:
    assert division(confidences, slots) == divided


@given(st.lists(st.integers(1, 99), min_size=1, max_size=30), st.integers(1, 20))
def test_no_threshold_of_a_fine_grid_uses_more_slots(parts: list[int], slots: int) -> None:
    confidences = [part / 100 for part in parts]

    def effective(p: float) -> float:
        return min(float(sum(one >= p for one in confidences)), slots * p)

    best, found = max(effective(number / 1000) for number in range(1, 1000)), division(confidences, slots)
    assert found.slots == pytest.approx(best) == effective(found.threshold)


def test_chances_follow_the_curve() -> None:
    rising = [0.77 - 0.6 * 0.9**step for step in range(20)]
    flat = [0.1] * 20
    high, low = prospect(rising, 0.75, 100), prospect(flat, 0.75, 100)
    assert high is not None and low is not None and high.p > 0.5 > 0.05 > low.p >= 0
    near = prospect(rising, 0.75, 5)
    assert near is not None and near.p < high.p and high.steps <= 100
    losses = prospect([-one for one in (9.0, 5.0, 3.0, 2.2, 1.8)], -1.5, 50)
    assert losses is not None and losses.p > 0.3, "losses have no scale of their own"
    assert prospect([5.0, 4.0], 3.0, 5) is None, "the first score is above the level"


def test_on_known_curves_pop_comes_first_and_finds_what_rises_late() -> None:
    trials = curves(0)
    assert reachable(trials) == 4
    figures = {one.policy: one for one in compared(trials, 5, 2, ("pop", "asha", "early_term", "none"))}
    assert figures["pop"].mean == min(one.mean for one in figures.values()) and figures["pop"].succeeded == 1
    late = curves(1, "late")
    figures = {one.policy: one for one in compared(late, 5, 2, ("pop", "asha"))}
    assert reachable(late) == 7 and figures["pop"].succeeded == 1
    assert figures["pop"].mean <= 1.35 * figures["asha"].mean, "no curve of the bank is like these"


@pytest.mark.parametrize("policy", ["asha", "hyperband", "bandit", "early_term", "median", "none"])
def test_every_policy_ends_and_runs_each_step_once(policy: str) -> None:
    trials = [replace(one, scores=[score * 0.5 for score in one.scores]) for one in curves(3)[:12]]  # none reaches it
    _, sweep = simulated(policy, trials, 3)
    assert sweep.why == "all trials have ended"
    assert all(
        tuple(one.scores[: len(trial.scores)]) == trial.scores for one, trial in zip(trials, sweep.trials, strict=True)
    )
    assert {trial.state for trial in sweep.trials} <= {"complete", "pruned"}
