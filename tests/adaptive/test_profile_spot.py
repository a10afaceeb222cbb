"""Bids on a spot market, and made-up markets."""

from __future__ import annotations

import math
import statistics
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qoop.adaptive.profiles import CapacityProfile, Volatility, load, regions
from qoop.adaptive.profiles.market import prices
from qoop.adaptive.profiles.prices import Prices
from qoop.adaptive.profiles.spot import Bidding, Size, bid
from qoop.adaptive.profiles.summary import summary
from qoop.catalog.errors import ConfigError

SEEDS = range(50)


def steps(profile: CapacityProfile) -> list[tuple[float, int]]:
    return [(point.at, point.machines) for point in profile.points]


def a_minute(*dollars: float) -> Prices:
    return Prices(tuple((60.0 * minute, price) for minute, price in enumerate(dollars)), 60.0 * len(dollars))


def test_two_machines_a_minute_until_the_budget_is_spent() -> None:
    profile = bid(a_minute(*[0.7] * 6))
    assert steps(profile) == [(0, 2), (60, 4), (120, 6), (180, 7), (360, 7)]
    assert profile.points[0].slots == 30 and profile.points[0].memory == 128e9


def test_what_was_bid_for_under_the_price_is_taken_the_lowest_bid_first() -> None:
    profile = bid(a_minute(0.40, 0.42, 0.43, 0.44))
    # 0.42 is what the first two bid: they stay at that price, and go at more; those of 0.441 stay
    assert steps(profile) == [(0, 2), (60, 4), (180, 6), (240, 6)]
    assert [(stay.machine, stay.begin, stay.end) for stay in profile.stays()] == [
        ("m1", 0, 120), ("m2", 0, 120), ("m3", 60, math.inf), ("m4", 60, math.inf), ("m5", 120, math.inf),
        ("m6", 120, math.inf), ("m7", 180, math.inf), ("m8", 180, math.inf),
    ]  # fmt: skip


def test_a_bid_at_the_price_holds() -> None:
    profile = bid(a_minute(1.0, 1.5, 1.625), Bidding(over=0.5, budget=3.0))  # 1.5 is bid, exactly
    assert [(stay.begin, stay.end) for stay in profile.stays() if stay.begin == 0] == [(0, 120), (0, 120)]


def test_a_price_may_change_between_bids_and_be_too_high_for_any() -> None:
    assert steps(bid(Prices(((0, 1.0), (90, 3.0)), 130))) == [(0, 2), (60, 4), (90, 0), (120, 1), (130, 1)]
    assert steps(bid(a_minute(6.0, 6.0))) == [(0, 0), (120, 0)]
    rule = Bidding(budget=10, added=3, every=30, over=0.5)
    assert steps(bid(a_minute(1.0, 1.4), rule, Size(slots=1, memory=1))) == [
        (0, 3), (30, 6), (60, 7), (120, 7),
    ]  # fmt: skip


@given(st.lists(st.floats(0.2, 2.0), min_size=1, max_size=40), st.floats(0, 6), st.integers(1, 3))
def test_the_rule_of_bidding(dollars: list[float], budget: float, added: int) -> None:
    series, rule = a_minute(*dollars), Bidding(budget=budget, added=added)
    profile = bid(series, rule)
    for minute, price in enumerate(dollars):
        here = [stay for stay in profile.stays() if stay.begin <= 60 * minute < stay.end]
        new = [stay for stay in here if stay.begin == 60 * minute]
        bids = [series.at(stay.begin) * 1.05 for stay in here]
        assert len(here) == profile.at(60 * minute).machines and len(new) <= added
        assert all(one >= price for one in bids)
        assert not new or len(here) * price <= budget + 1e-6
        assert len(new) == added or (len(here) + 1) * price > budget  # as many as may be
    for stay in profile.stays():  # and none goes that need not
        assert stay.end == math.inf or series.at(stay.end) > series.at(stay.begin) * 1.05


@pytest.mark.parametrize(
    ("steps", "seconds"), [((), 1), (((1, 1),), 1), (((0, 0),), 1), (((0, math.nan),), 1), (((0, 1), (0, 2)), 1),
                           (((0, 1), (5, 2)), 4), (((0, 1),), math.inf)]
)  # fmt: skip
def test_prices_that_cannot_be_are_refused(steps: tuple[tuple[float, float], ...], seconds: float) -> None:
    with pytest.raises(ConfigError):
        Prices(steps, seconds)
    with pytest.raises(ConfigError):
        Bidding(every=0)


def test_a_machine_costs_the_price_of_the_moment() -> None:
    series = a_minute(6.0, 60.0)
    assert series.cost(30, 90) == pytest.approx(0.05 + 0.5)
    assert series.cost(90, 90) == 0 and series.cost(0, 240) == pytest.approx(0.1 + 3.0)


def test_made_up_markets_are_like_that_of_the_paper() -> None:
    """The figures of paper section 6 lie within one standard deviation of the mean over the seeds."""
    series = [prices(seed) for seed in SEEDS]
    found = [summary(bid(one)) for one in series]
    assert {one.machines for one in found} == {(2, 20)}
    for place, paper in enumerate((60, 53, 40)):
        counts = [one.events[place] for one in found]
        assert abs(statistics.fmean(counts) - paper) < min(0.1 * paper, statistics.stdev(counts))
        assert statistics.stdev(counts) < 0.25 * paper
    assert abs(statistics.fmean(one.peak for one in series) - 0.5828) < 0.03
    assert all(statistics.fmean(one.regions[place] for one in found) > 3 for place in range(3))
    assert len(set(series)) == len(SEEDS) and prices(3) == series[3]


def test_profiles_by_name_begin_with_a_region_of_their_kind() -> None:
    for kind in Volatility:
        for seed in (1, 2, 3):
            profile = load(f"spot-{kind}:{seed}")
            assert regions(profile)[0].volatility == kind
            here = profile.points[0].machines
            assert len([stay for stay in profile.stays() if stay.begin == 0]) == here
    assert load("spot-high") == load("spot-high:1") != load("spot-high:2")
    assert load("spot").seconds == 5 * 3600
    assert all(one.at < other.at for one, other in pairwise(load("spot-low").points))
