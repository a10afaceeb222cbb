"""`qoop bench views`: a twentieth of the queries on a twentieth of the slots, and the command."""

from __future__ import annotations

from functools import cache

import pytest

import qoop.tpcds.views.commands as commands
from qoop.__main__ import main
from qoop.tpcds.views.simulate import Measures, play
from qoop.tpcds.views.workload import SLOTS, drawn


@cache
def few(policy: str, misjudged: bool = False, corrects: bool = True, dip: float = 0.0) -> Measures:
    queries, seconds = drawn(1, 20.0, misjudged)
    return play(policy, queries[::20], seconds, corrects, (30.0, 30.0 + dip) if dip else (0.0, 0.0), SLOTS / 20)


def test_lag_and_quality_decide_better_than_equal_shares() -> None:
    ours, fair, first = few("max-min"), few("fair"), few("first-come")
    assert ours.overdue <= fair.overdue / 3 < first.overdue and fair.overdue > 0.03
    assert ours.quality > fair.quality * 1.1 and ours.worst > fair.worst


def test_corrections_make_up_for_demands_that_are_misjudged() -> None:
    exact, learned = few("max-min"), few("max-min", misjudged=True)
    blind = few("max-min", misjudged=True, corrects=False)
    assert learned.quality >= 0.9 * exact.quality and learned.overdue <= 0.01 < blind.overdue


def test_a_backlog_is_gone_within_twice_a_dip() -> None:
    assert few("max-min", dip=15.0).backlog <= 30.0


def test_the_command_prints_each_policy(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "drawn", lambda *some, **named: (drawn(*some, **named)[0][::50], 20.0))
    assert main(["bench", "views", "--bursts", "10", "--seeds", "1"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in ("max-min", "max-sum", "fair", "first-come", "not corrected", "half of"))
    assert main(["bench", "views", "--bursts", "soon"]) == 1
