"""Some hundred schedules of what `make soak-sim` does at length, and that it would find what is wrong."""

from __future__ import annotations

import runpy
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest
from sim_cover import Cover, all_cells
from sim_draw import drawn
from sim_script import Schedule, plan_of
from sim_shrink import fewer
from sim_try import Tried, tried_all

SEED = "test"
RUNS = 36


@pytest.fixture(scope="module")
def found() -> Iterator[Tried]:
    yield tried_all((SEED, range(RUNS)))


def test_nothing_breaks(found: Tried) -> None:
    assert not found.failures, {number: failure.message for number, failure in found.failures.items()}


def test_schedules_are_worth_something(found: Tried) -> None:
    assert statistics.median(found.events) >= 200
    assert statistics.median(found.jobs) >= 3
    assert all(found.counts[state] > RUNS / 10 for state in ("SUCCEEDED", "FAILED", "CANCELLED"))


def test_what_is_taken_is_in_the_tables(found: Tried) -> None:
    cover = Cover()
    cover.hits = found.hits
    assert set(found.hits) <= set(all_cells())
    assert len(cover.never()) < len(set(all_cells())) / 4  # the soak takes the rare ones, too


def test_the_soak_fails_where_transitions_are_never_taken_or_not_known() -> None:
    """A few schedules may lack rare transitions; no schedule may take a transition that no table has."""
    soak = runpy.run_path(str(Path(__file__).with_name("__main__.py")), run_name="soak")
    gaps, enough = soak["gaps"], soak["ENOUGH"]
    cover = Cover()
    cover.hits.update(all_cells())
    assert gaps(cover, enough) == []
    rare = next(iter(all_cells()))
    del cover.hits[rare]
    assert gaps(cover, enough - 1) == []
    assert gaps(cover, enough) == [f"FAILED: not taken by any of {enough:,} schedules: {' '.join(rare)}"]
    cover("task", "idle", "-> kept")
    assert gaps(cover, 1) == ["FAILED: taken, but not in the tables of sim_cover: task idle -> kept"]


def test_the_same_number_is_the_same_schedule_and_goes_the_same_way() -> None:
    assert drawn(SEED, 5) == drawn(SEED, 5) != drawn(SEED, 6)
    one, other = tried_all((SEED, [5])), tried_all((SEED, [5]))
    assert (one.events, one.hits, one.counts) == (other.events, other.hits, other.counts)


def test_a_schedule_is_its_text() -> None:
    for number in range(8):
        schedule = drawn(SEED, number)
        assert Schedule.read(str(schedule)) == schedule
        assert all(plan_of(nodes).stages for job in schedule.jobs for nodes in job.plans)
    with pytest.raises(ValueError, match="no line of a schedule: 'nonsense'"):
        Schedule.read("machine m 2 4\nnonsense\n")


def test_as_few_as_still_do_it() -> None:
    assert fewer(range(100), lambda some: 7 in some and 50 in some) == (7, 50)
    assert fewer((), lambda some: True) == ()
