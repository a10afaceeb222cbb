"""The cost of re-planning where nothing changes, and the part of finished work that serves after a switch."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from qoop.__main__ import main
from qoop.planner.plan import Estimate, Layout, Plan, Resources, Stage, StageInput
from qoop.planner.search.candidate import Candidate
from qoop.replanning.answers import with_candidates
from qoop.replanning.decision import Option
from qoop.tpcds.bench import overhead, reuse_share
from qoop.tpcds.bench.overhead import ROWS, START, QueryResult, Taken, Thought, adaptive_by_held, kind
from qoop.tpcds.bench.reuse_share import SwitchPoint, compared, structures


def taken(*walls: float) -> list[Taken]:
    return [Taken(wall, 2 * wall) for wall in walls]


# --- overhead ---------------------------------------------------------------------------------------------


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


# --- reuse ------------------------------------------------------------------------------------------------


def stage(name: str, sql: str, *inputs: str, signature: str = "", megabytes: float = 1.0) -> Stage:
    return Stage(
        name, sql, tuple(StageInput(one, one, "all") for one in inputs), (("x", "INTEGER"),), 1, signature or name,
        estimate=Estimate(bytes=megabytes * 1e6),
    )  # fmt: skip


def plan(*stages: Stage) -> Plan:
    return Plan(stages, (("x", "INTEGER"),))


ONE = plan(stage("a", "SELECT 1"), stage("b", "FROM a", "a"), stage("r", "FROM b", "b"))
RENAMED = plan(stage("c", "SELECT 1"), stage("d", "FROM c", "c"), stage("r", "FROM d", "d"))


def test_how_stages_are_called_is_no_difference_but_what_they_rest_on_is() -> None:
    assert structures(ONE)["b"] == structures(RENAMED)["d"]
    other = plan(stage("a", "SELECT 2"), stage("b", "FROM a", "a"))
    assert structures(other)["b"] != structures(ONE)["b"]


def test_the_same_rows_made_another_way_are_used_but_no_identical_subtree() -> None:
    """The other plan makes b, of the same meaning, without a; its own a is the same stage, with nothing to do."""
    direct = plan(stage("q", "SELECT 1, 2", signature="b"), stage("s", "FROM q, q", "q"))
    options = with_candidates((Option("A", Candidate(ONE, "")),), [Candidate(ONE, ""), Candidate(direct, "")], "j")
    moment = SwitchPoint(0.5, {"a": 1, "b": 1, "r": 0}, {"a": 3.0, "b": 5.0, "r": 0.0})
    (found,) = compared(options, Resources(1, 1e9), moment)
    assert (found.finished, found.used, found.identical) == (8.0, 8.0, 0.0)


def test_what_is_cut_otherwise_is_used() -> None:
    """The other plan wants b in two partitions: it cuts what is there, which is less work than to make it again."""
    cut = replace(stage("q", "SELECT 1, 2", signature="b"), layout=Layout(("x",), 2), estimate=Estimate(task_seconds=9))
    readers = replace(stage("s", "FROM q, q"), inputs=(StageInput("q", "q", "partition"),), width=2)
    other = plan(cut, readers, stage("t", "FROM s", "s"))
    options = with_candidates((Option("A", Candidate(ONE, "")),), [Candidate(ONE, ""), Candidate(other, "")], "j")
    moment = SwitchPoint(0.5, {"a": 1, "b": 1, "r": 0}, {"a": 3.0, "b": 5.0, "r": 0.0})
    (found,) = compared(options, Resources(1, 1e9), moment)
    assert (found.finished, found.used, found.identical) == (8.0, 8.0, 0.0)


def test_an_identical_subtree_counts_both_ways_and_what_nobody_reads_neither() -> None:
    top = plan(stage("c", "SELECT 1", signature="a"), stage("s", "FROM c, c", "c"))
    options = with_candidates((Option("A", Candidate(ONE, "")),), [Candidate(ONE, ""), Candidate(top, "")], "j")
    moment = SwitchPoint(0.5, {"a": 1, "b": 1, "r": 0}, {"a": 3.0, "b": 5.0, "r": 0.0})
    (found,) = compared(options, Resources(1, 1e9), moment)
    assert (found.finished, found.used, found.identical) == (8.0, 3.0, 3.0)


@pytest.mark.parametrize("real", [(), ("--real",)])
def test_reuse_of_real_plans(real: tuple[str, ...], tpcds_test: Path, tmp_path: Path) -> None:
    words = ["bench", "reuse", str(tpcds_test), "--queries", "5,14", "--points", "3", "--slots", "4"]
    assert main([*words, *real, "--json", str(tmp_path / "f.json")]) == 0
    found = json.loads((tmp_path / "f.json").read_text())["bytes"]
    assert 0 < found["used"] <= found["finished"] and found["identical"] <= found["used"]


def test_nothing_to_change_to(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no query has another plan" in reuse_share.table([reuse_share.QueryResult(1, 1, ())])
    assert "0" in reuse_share.QueryResult(1, 1, ()).line()
