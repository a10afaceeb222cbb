"""The cost of re-planning where nothing changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from qoop.tpcds.bench import overhead
from qoop.tpcds.bench.overhead import ROWS, START, QueryResult, Taken, Thought, adaptive_by_held, kind


def taken(*walls: float) -> list[Taken]:
    return [Taken(wall, 2 * wall) for wall in walls]


def test_the_ratio_is_that_of_the_sums_and_lies_in_its_interval() -> None:
    done = [QueryResult(1, taken(1.0, 2.0, 3.0), taken(1.0, 1.0, 1.0)), QueryResult(2, taken(4.0), taken(2.0))]
    ratio, low, high = adaptive_by_held(done, "wall")
    assert ratio == 2.0 and 7 / 5 <= low < ratio < high <= 13 / 5
    same = [QueryResult(1, taken(1.1, 1.1), taken(1.0, 1.0))]
    assert adaptive_by_held(same, "cpu") == pytest.approx((1.1, 1.1, 1.1))


def test_bets_that_were_lost_are_listed() -> None:
    lost = QueryResult(7, taken(1.2, 1.2), taken(1.0, 1.0), [Thought(START, True, 0.09, 0.08)])
    won = QueryResult(8, taken(0.8, 0.8), taken(1.0, 1.0), [Thought(ROWS, True, 0.002, 0.0)])
    shown = overhead.table([lost, won, QueryResult(9, error="it went wrong")])
    assert "behind: 7 (+20%, cpu +20%, 1 switches)" in shown and "ahead: 8 (-20%, cpu -20%, 1 switches)" in shown
    assert "without a search: 1; median 2.0 ms" in shown and "looked up: 1; median 90.0 ms" in shown
    assert "failed: 9" in shown


def test_reasons_are_told_apart() -> None:
    assert kind("stage s2 had 7 rows where 50,000 were expected") == ROWS
    assert kind("stage s2 ran out of 1.0 GB of memory") == "other"


@pytest.mark.parametrize(("known", "staged"), [(False, False), (False, True), (True, True)])
def test_a_run_keeps_what_it_has_and_goes_on(known: bool, staged: bool, tpcds_small: Path, tmp_path: Path) -> None:
    options = overhead.OverheadOptions(
        tpcds_small, (3, 7), repeat=2, slots=2, known=known, results=tmp_path / "kept.json", staged=staged
    )
    done = overhead.run(options, lambda _: None)
    assert [one.error for one in done] == [None, None] and [len(one.held) for one in done] == [2, 2]
    assert all(one.wall > 0 and one.cpu > 0 for result in done for one in (*result.adaptive, *result.held))
    assert bool(done[0].thoughts) == known, "with the alternatives known, each adaptive run decides once at least"
    assert overhead.run(options, lambda _: None) == done
