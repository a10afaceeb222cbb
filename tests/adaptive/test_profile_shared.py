"""The part that one job sees of a cluster it shares."""

from __future__ import annotations

from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qoop.adaptive.profiles import Volatility, load
from qoop.adaptive.profiles.named import REGIONS
from qoop.adaptive.profiles.shared import (
    SLOTS,
    STEP,
    JobLifetimes,
    job_region,
    job_regions,
    observable_jobs,
    onlooker,
    part,
    recorded,
    seconds,
    view,
)

TIMES = st.lists(st.tuples(st.floats(0, 500), st.floats(1, 400)), min_size=1, max_size=30)


def lifetimes_of(times: list[tuple[float, float]], begin: float = 0.0, end: float = 600.0) -> JobLifetimes:
    return JobLifetimes(tuple(at for at, _ in times), tuple(at + long for at, long in times), begin, end)


@given(TIMES, st.floats(0, 900))
def test_jobs_are_there_from_their_coming_to_their_end(times: list[tuple[float, float]], at: float) -> None:
    assert lifetimes_of(times).there(at) == sum(came <= at < came + long for came, long in times)


@given(TIMES)
def test_each_job_has_an_even_share_at_every_step(times: list[tuple[float, float]]) -> None:
    lifetimes = lifetimes_of(times)
    for came, long in times[:3]:
        own = view(lifetimes, came, came + long)
        for place in range(int(long / STEP)):
            assert own.at(place * STEP).all_slots == SLOTS // lifetimes.there(came + place * STEP)
    assert onlooker(lifetimes).at(0).all_slots == SLOTS // (lifetimes.there(0) + 1)


def test_what_a_job_sees_are_the_others_that_come_and_go() -> None:
    # five are there for good; two more come, one by one: 600 / 5, 600 / 6, 600 / 7; then one goes
    lifetimes = lifetimes_of([(0, 1000)] * 5 + [(70, 500), (90, 60)])
    assert [point.slots for point in view(lifetimes, 0, 200).changes()] == [120, 100, 85, 100]
    assert observable_jobs(lifetimes)[:1] == [2]  # down to 85, and up to 120 when the other goes, too
    assert [observable_jobs(lifetimes, percent)[0] for percent in (29, 30, 41, 42)] == [2, 1, 1, 0]
    assert (part([0, 1, 4, 5], 1), part([0, 1, 4, 5], 4)) == (0.75, 0.5)


def test_a_region_is_what_a_job_saw_and_goes_on_without_it() -> None:
    lifetimes = lifetimes_of([(0, 5000)] * 9 + [(60, 100), (80, 5000), (100, 5000), (300, 5000)], end=4000)
    region = job_region(lifetimes, 9)
    assert region.seconds == 100 and region.begin == 0
    assert region.size == pytest.approx((60 - 50) / 60) and region.volatility == Volatility.MEDIUM
    assert [point.slots for point in region.profile.changes()] == [60, 54, 50, 46]
    assert job_regions(lifetimes, Volatility.MEDIUM)[-1] == 9
    assert 12 not in [job for kind in Volatility for job in job_regions(lifetimes_of([(0, 59)] * 13), kind)]


@given(TIMES)
def test_lives_can_be_kept(times: list[tuple[float, float]]) -> None:
    lifetimes = lifetimes_of(times)
    again = JobLifetimes.from_json(lifetimes.to_json())
    assert again.came == pytest.approx(lifetimes.came, abs=0.051) and again.ended == pytest.approx(
        lifetimes.ended, abs=0.051
    )
    assert JobLifetimes.from_json(again.to_json()) == again


def test_the_recorded_clusters_are_as_the_paper_says() -> None:
    """78 % of the jobs see an event of 10 %, 20 % at least four, and they take about 500 s in the mean."""
    clusters = recorded()
    counts = [count for lifetimes in clusters for count in observable_jobs(lifetimes)]
    assert part(counts, 1) == pytest.approx(0.78, abs=0.04)
    assert part(counts, 4) == pytest.approx(0.20, abs=0.03)
    assert 400 < fmean(took for lifetimes in clusters for took in seconds(lifetimes)) < 700
    assert len(clusters) >= 4 and all(len(lifetimes.came) > 500 for lifetimes in clusters)


def test_regions_of_all_classes_can_be_drawn() -> None:
    for kind in Volatility:
        for seed in (1, 2, 9):
            region = REGIONS["shared"](kind, seed)
            assert region.volatility == kind
            assert region.profile.seconds >= 1800
            assert load(f"shared-{kind}:{seed}") == region.profile
    assert load("shared:1") == load("shared") != load("shared:2")
