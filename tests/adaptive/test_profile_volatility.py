"""Runs of changes, events of that many percent, and regions."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qoop.adaptive.profiles import CapacityProfile, Volatility, events, regions, runs
from qoop.adaptive.profiles.profile import Point, Stay
from qoop.catalog.errors import ConfigError

COUNTS = st.lists(st.integers(0, 20), min_size=1, max_size=40)


def a_minute(*machines: int) -> CapacityProfile:
    """Machines of ten slots, a count a minute."""
    return CapacityProfile.of([(60 * minute, 10, 1e9, count) for minute, count in enumerate(machines)])


def test_a_run_goes_on_while_nothing_changes_and_is_relative_to_its_first_value() -> None:
    found = runs(a_minute(10, 9, 9, 8, 12, 12, 0, 3))
    assert [(run.begun, run.ended, run.first, run.last) for run in found] == [
        (60, 180, 100, 80), (240, 240, 80, 120), (360, 360, 120, 0), (420, 420, 0, 30),
    ]  # fmt: skip
    assert [run.size for run in found] == pytest.approx([0.2, 0.5, 1.0, math.inf])
    assert runs(a_minute(4, 4, 4)) == runs(a_minute(4)) == ()


def test_events_of_that_many_percent() -> None:
    profile = a_minute(20, 18, 20, 15, 20, 17)
    assert [events(profile, percent) for percent in (10, 11.2, 15, 20, 25, 30, 34)] == [5, 3, 3, 2, 2, 1, 0]


@given(COUNTS)
def test_runs_lead_from_the_first_value_to_the_last_in_alternate_directions(machines: list[int]) -> None:
    found = runs(a_minute(*machines))
    assert [10 * machines[0], *(run.last for run in found)] == [*(run.first for run in found), 10 * machines[-1]]
    rises = [run.last > run.first for run in found]
    assert all(one != other for one, other in pairwise(rises))
    assert all(run.first != run.last for run in found)
    counts = [events(a_minute(*machines), percent) for percent in (0, 10, 20, 50, 100, 1000)]
    assert counts[0] == len(found) and counts == sorted(counts, reverse=True)


@given(COUNTS, st.floats(0.1, 60))
def test_compression_leaves_the_runs_and_moves_the_regions(machines: list[int], factor: float) -> None:
    profile = a_minute(*machines)
    assert [run.size for run in runs(profile.compressed(factor))] == [run.size for run in runs(profile)]
    sizes = [region.size for region in regions(profile.compressed(factor), 600 / factor)]
    assert sizes == [region.size for region in regions(profile)]


def test_a_region_has_the_class_of_its_largest_run() -> None:
    low, medium, high = [20] * 10, [20] * 5 + [18] * 5, [20] * 4 + [18] * 3 + [15] * 3
    found = regions(a_minute(*low, *medium, *high, 15, 15))
    assert [region.volatility for region in found] == [Volatility.LOW, Volatility.MEDIUM, Volatility.HIGH]
    assert [region.begin for region in found] == [0, 600, 1200]
    assert [region.size for region in found] == pytest.approx(
        [0, 2 / 18, 0.25]
    )  # 18 -> 20 at the border is in the second
    exact = [regions(a_minute(*[100] * 5, last, *[last] * 5))[0].volatility for last in (91, 90, 80, 79)]
    assert exact == ["low", "medium", "medium", "high"]


def test_the_series_goes_on_after_a_region() -> None:
    found = regions(a_minute(*[4] * 15, *[2] * 10))
    assert [point.machines for point in (found[1].profile.at(0), found[1].profile.at(301))] == [4, 2]
    assert found[1].profile.seconds == 840 and found[1].profile.at(1e6).machines == 2


def test_what_is_short_is_one_region_and_what_has_no_length_none() -> None:
    assert len(regions(a_minute(1, 2))) == len(regions(a_minute(1))) == 1
    for seconds in (0, -1, math.nan, math.inf):
        with pytest.raises(ConfigError, match="region"):
            regions(a_minute(1), seconds)


@given(COUNTS)
def test_the_machine_that_came_last_goes_first(machines: list[int]) -> None:
    profile = a_minute(*machines)
    stays = profile.stays()
    for point in profile.points:
        assert sum(stay.begin <= point.at < stay.end for stay in stays) == point.machines
    assert len({stay.machine for stay in stays}) == len(stays)
    assert list(stays) == sorted(stays, key=lambda stay: stay.begin)
    for stay in stays:  # a machine that came later went before, or at the same time
        assert all(other.end <= stay.end for other in stays if stay.begin < other.begin < stay.end)
    assert CapacityProfile(profile.points, stays).stays() == stays


@given(COUNTS, st.floats(0, 2400), st.floats(0, 3000))
def test_a_profile_can_begin_later(machines: list[int], begin: float, ahead: float) -> None:
    profile = a_minute(*machines)
    known = CapacityProfile(profile.points, profile.stays())
    for one in (profile, known):
        later = one.since(begin)
        assert later.at(ahead).machines == one.at(begin + ahead).machines
    names = {stay.machine for stay in known.stays() if stay.begin <= begin < stay.end}
    assert {stay.machine for stay in known.since(begin).known if stay.begin == 0 or names == set()} >= names


def test_stays_that_do_not_make_the_numbers_are_refused() -> None:
    points = (Point(0, 1, 1, 1), Point(5, 1, 1, 2))
    CapacityProfile(points, (Stay("a", 0), Stay("b", 5)))
    for stays in [(Stay("a", 0),), (Stay("a", 0), Stay("b", 5, 5)), (Stay("a", 0), Stay("b", -5))]:
        with pytest.raises(ConfigError):
            CapacityProfile(points, stays)
    with pytest.raises(ConfigError, match="later"):
        CapacityProfile(points).since(-1)
