"""Shares of views: all that is needed while it fits; under shortage by the utilities of lag and error."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from qoop.programs.views.freshness import Allotted
from qoop.programs.views.sharing import RefreshCost, ViewLoad, shares


def costing(fixed: float, a_row: float = 0.0) -> RefreshCost:
    found = RefreshCost()
    for rows in (100, 400, 900, 100):
        found = found.after(rows, fixed + a_row * rows)
    return found


def test_the_cost_of_refreshes_is_found_from_any_two_sizes() -> None:
    assert costing(0.2, 0.001).fixed_and_rate == pytest.approx((0.2, 0.001))
    assert RefreshCost().after(1000, 0.0).after(10, 1.0).fixed_and_rate[1] == 0.0, "more rows cost no less"
    assert RefreshCost().fixed_and_rate == (0.0, 0.0)


def test_while_exact_refreshes_fit_each_view_has_what_it_needs() -> None:
    views = {f"v{n}": ViewLoad(1.0 + n, 0.0, costing(0.1), 0.0, max_error=0.05) for n in range(5)}
    assert set(shares(views, 1.0).values()) == {Allotted(inf, 1)}
    assert sum(one.slots for one in shares(views, 0.1).values()) <= 0.1 + 1e-9


def test_a_view_that_permits_an_error_is_sampled_before_others_are_late() -> None:
    rows = costing(0.0, 0.001)
    views = {"exact": ViewLoad(10.0, 8.0, rows, 400.0), "sampled": ViewLoad(10.0, 8.0, rows, 1000.0, 0.05)}
    found = shares(views, 0.6)
    assert found["exact"].one_in == 1 and found["sampled"].one_in > 1
    assert found["exact"].slots >= 0.4 * 0.99
    assert shares(views, 2.0)["sampled"] == Allotted(inf, 1)


def test_a_shortage_that_lasts_is_seen_before_any_view_is_late() -> None:
    rows = costing(0.0, 0.001)
    exact = {f"exact{n}": ViewLoad(60.0, 0.0, rows, 100.0) for n in range(5)}
    found = shares(exact | {f"v{n}": ViewLoad(60.0, 0.0, rows, 140.0, 0.1) for n in range(5)}, 1.0)
    reads = {name: one.one_in for name, one in found.items()}
    assert min(reads[f"v{n}"] for n in range(5)) > 1 == max(reads[name] for name in exact)
    assert 0.5 + sum(0.14 / reads[f"v{n}"] for n in range(5)) <= 0.8501


def test_a_sample_stays_while_there_is_no_time_to_read_what_it_left() -> None:
    view = ViewLoad(60.0, 0.0, costing(0.0, 0.001), 400.0, 0.1, {4: 0.02}, one_in=4)
    assert shares({"v": view}, 1.0)["v"].one_in == 1
    assert shares({"v": replace(view, unread=60_000.0)}, 1.0)["v"].one_in == 4


def test_a_part_whose_interval_could_not_be_kept_is_not_chosen_again() -> None:
    rows = costing(0.0, 0.001)
    one = ViewLoad(10.0, 8.0, rows, 2000.0, 0.05)
    assert shares({"v": one}, 0.5)["v"].one_in > 1
    assert shares({"v": ViewLoad(10.0, 8.0, rows, 2000.0, 0.05, {2: inf})}, 0.5)["v"].one_in == 1
    assert shares({"v": ViewLoad(10.0, 8.0, rows, 2000.0, 0.05, {4: 0.04})}, 0.5)["v"].one_in == 4
    assert shares({"v": ViewLoad(10.0, 8.0, rows, 2000.0, 0.05, {8: 0.01}, 8)}, 0.5)["v"].one_in in (1, 8)


def test_a_sample_that_saves_nothing_is_not_chosen() -> None:
    assert shares({"v": ViewLoad(1.0, 0.8, costing(2.0), 100.0, 0.05)}, 1.0)["v"].one_in == 1


def test_equal_shares_leave_a_view_late_that_utilities_serve() -> None:
    views = {f"v{n}": ViewLoad(20.0, 1.0, costing(5.0), 0.0) for n in range(3)}
    views["soon"] = ViewLoad(2.0, 1.6, costing(0.8), 0.0)
    fair, ours = shares(views, 1.0, "fair"), shares(views, 1.0)
    assert fair["soon"].slots < 0.4 < 0.5 <= ours["soon"].slots
    for sharing in ("max-min", "max-sum", "fair"):
        assert sum(one.slots for one in shares(views, 1.0, sharing).values()) == pytest.approx(1.0, abs=1e-6)
