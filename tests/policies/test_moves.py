"""The moves of shares: fitted to observations, and expectations from them, by hand and against random walks."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qoop.planner.plan import Resources
from qoop.profiles import CapacityProfile
from qoop.replanning.forecast import fit
from qoop.replanning.moves import Chain, Moves, shared

HIGH, LOW = Resources(8), Resources(2)
paths = st.lists(st.tuples(st.floats(0.1, 50), st.integers(1, 600)), min_size=1, max_size=30).map(
    lambda steps: [(sum(seconds for seconds, _ in steps[:i]), Resources(steps[i][1])) for i in range(len(steps))]
)


def test_seconds_at_each_level_and_moves_between_them_are_counted() -> None:
    seen = Moves.of([(0, HIGH), (5, LOW), (6, HIGH), (16, LOW)], until=20)
    assert seen.seconds == {HIGH: 15, LOW: 5}
    assert seen.moves == {(HIGH, LOW): 2, (LOW, HIGH): 1}


def test_of_shares_told_at_one_moment_the_last_one_counts() -> None:
    assert Moves.of([(0, HIGH), (5, Resources(3)), (5, LOW)], 6) == Moves.of([(0, HIGH), (5, LOW)], 6)


def test_a_rate_is_moves_by_seconds_with_seconds_of_rest_added() -> None:
    chain = Moves.of([(0, HIGH), (30, LOW), (40, HIGH)], until=60).chain(HIGH, steady=50)
    assert chain.levels[chain.start] == HIGH
    assert chain.rates[chain.start] == (0, 1 / 100) and chain.rates[1 - chain.start] == (1 / 60, 0)


def test_nothing_seen_means_that_the_share_stays() -> None:
    chain = Moves().chain(HIGH, steady=1)
    assert chain.still and chain.expected([7.5]) == 7.5


def test_the_present_share_takes_the_place_of_the_level_next_to_it() -> None:
    chain = Moves.of([(0, HIGH), (5, LOW), (6, HIGH)], until=9).chain(Resources(7, 700.0, network=70.0), steady=0)
    assert chain.levels == (Resources(7, 700.0, network=70.0), Resources(2, 200.0, network=20.0))


@settings(max_examples=50, deadline=None)
@given(paths, st.integers(1, 6))
def test_merging_levels_keeps_all_seconds_and_makes_no_moves(path: list[tuple[float, Resources]], most: int) -> None:
    seen = Moves.of(path, path[-1][0] + 1)
    few = seen.merged(most)
    assert len(few.seconds) <= most
    assert sum(few.seconds.values()) == pytest.approx(sum(seen.seconds.values()))
    assert sum(few.moves.values()) <= sum(seen.moves.values())
    assert all(one in few.seconds and other in few.seconds for one, other in few.moves)
    assert seen.merged(1000) == seen


def test_expected_seconds_by_hand() -> None:
    """At 8 slots 10 s, at 2 slots 20 s, and it only ever falls, once in 10 s: the fall comes after y·10 s, at a part y
    of the work, with density exp(-y); then 20·(1-y) s follow. 10·e^-1 + ∫(10y + 20(1-y))·e^-y dy from 0 to 1."""
    falling = Chain((HIGH, LOW), ((0.0, 0.1), (0.0, 0.0)), 0)
    by_hand = 10 / 2.718281828 + (10 * (1 - 2 / 2.718281828) + 20 * (1 / 2.718281828))
    assert falling.expected([10, 20]) == pytest.approx(by_hand, rel=0.01)


def test_where_shares_move_fast_the_mean_speed_counts() -> None:
    fast = Chain((HIGH, LOW), ((0.0, 9.0), (9.0, 0.0)), 0)
    assert fast.expected([1000, 3000]) == pytest.approx(1500, rel=0.01)


def test_expected_seconds_are_the_mean_of_many_random_walks() -> None:
    rates, seconds, chance = ((0.0, 0.05, 0.02), (0.1, 0.0, 0.1), (0.2, 0.0, 0.0)), (20.0, 35.0, 90.0), Random(3)
    chain = Chain((HIGH, Resources(4), LOW), rates, 0)

    def walk() -> float:
        level, left, now = 0, 1.0, 0.0
        while True:
            stay = chance.expovariate(sum(rates[level]))
            if stay >= left * seconds[level]:
                return now + left * seconds[level]
            now, left = now + stay, left - stay / seconds[level]
            level = chance.choices(range(3), rates[level])[0]

    mean = sum(walk() for _ in range(4000)) / 4000
    assert chain.expected(seconds) == pytest.approx(mean, rel=0.03)


def test_work_that_goes_with_lost_slots_is_done_again() -> None:
    """It falls from 8 to 2 slots once in 10 s, so a slot is lost once in 13.3 s: a task of 4 s takes 4.66 s there."""
    falling = Chain((HIGH, LOW), ((0.0, 0.1), (0.0, 0.0)), 0)
    assert falling.rerun(0, [(1.0, 4.0)]) == pytest.approx((2.718281828**0.3 - 1) / 0.3)
    assert falling.rerun(1, [(1.0, 4.0)]) == 1.0
    assert falling.expected([10, 20], [(0.5, 4.0), (0.5, 0.001)]) == pytest.approx(
        falling.expected([10.83, 20]), rel=1e-3
    )


def test_tasks_that_are_lost_again_and_again_are_redone_as_often_as_chance_has_it() -> None:
    chance, hazard, task = Random(4), 0.3, 5.0

    def took() -> float:
        now = 0.0
        while (lost := chance.expovariate(hazard)) < task:
            now += lost
        return now + task

    chain = Chain((HIGH, Resources(4)), ((0.0, 2 * hazard), (0.0, 0.0)), 0)
    mean = sum(took() for _ in range(4000)) / 4000
    assert task * chain.rerun(0, [(1.0, task)]) == pytest.approx(mean, rel=0.05)


def test_a_plan_that_cannot_run_is_never_expected_to_end() -> None:
    never = float("inf")
    assert Chain((HIGH, LOW), ((0.0, 0.1), (0.1, 0.0)), 0).expected([never, never]) == never


def test_a_profile_gives_levels_with_all_of_its_slots() -> None:
    profile = CapacityProfile.of([(0, 30, "1GB", 2), (60, 30, "1GB", 4), (120, 30, "1GB", 2), (300, 30, "1GB", 4)])
    seen = fit(profile)
    two, four = Resources(60, 2e9), Resources(120, 4e9)
    assert seen.seconds == {two: 240, four: 60} and seen.moves == {(two, four): 2, (four, two): 1}


def test_other_jobs_come_and_go_at_the_rates_given() -> None:
    """Jobs every 20 s that stay 10 s: alone, one other job comes in 20 s; of two others one leaves in 5 s."""
    chain = shared(Resources(600), arrivals=1 / 20, mean_seconds=10, most=3).chain(Resources(600), steady=0)
    by = {level.cpu: rates for level, rates in zip(chain.levels, chain.rates, strict=True)}
    assert by[600] == pytest.approx((0, 1 / 20, 0))
    assert by[300] == pytest.approx((1 / 10, 0, 1 / 20))
    assert by[200] == pytest.approx((0, 1 / 5, 0))
