"""The Pareto line of a query: hull and worths by hand, what a run of an offer costs, and a picture of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from qoop.engine.backends.simulated import as_estimated
from qoop.planner.estimate.cost import DEFAULT
from qoop.planner.plan import Estimate, Plan, Stage, StageInput
from qoop.planner.search.candidate import Candidate
from qoop.replanning.decision import Decision, Question, Stay
from qoop.replanning.price import Offer, Priced
from qoop.tpcds.simulate.workload import PAPER, Query
from qoop.tpcds.suite import pareto
from qoop.tpcds.suite.pareto import Line, Ran, draw, slot_seconds, table, to_json, worths

LINE = (Offer(0, 1, 10.0, 1.0), Offer(0, 2, 6.0, 2.0), Offer(1, 3, 5.5, 3.8), Offer(0, 4, 4.0, 4.0))
FOUND = Line(7, 0.01, LINE, LINE, (LINE[0], LINE[3]), (Ran(LINE[1], 6.5, 2.1, 0),))


def test_only_corners_of_the_hull_are_best_at_some_worth() -> None:
    assert [one.slots for one, _ in worths(LINE)] == [1, 2, 4]


def test_at_its_worth_each_corner_is_what_is_taken() -> None:
    for one, worth in worths(LINE):
        assert Priced(((0.0, 1.0),), worth).best(LINE) == one


def test_a_line_of_one_offer_has_one_corner() -> None:
    assert [one for one, _ in worths(LINE[:1])] == [LINE[0]]


class Fewer:
    """Four slots for four and a half seconds, then two."""

    def decide(self, question: Question) -> Decision:
        return Stay("", (), slots=2.0) if question.now >= 4.5 else Stay("", (), again=4.5, slots=4.0)


def test_slots_are_paid_for_as_they_were_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = (("x", "INTEGER"),)
    scan = Stage("s", "", (), columns, 40, "s", estimate=Estimate(task_seconds=1.0))
    root = Stage("root", "", (StageInput("s", "s", "all"),), columns, 1, "r", estimate=Estimate(task_seconds=1.0))
    query = Query(1, 0, 1, (Candidate(Plan((scan, root), columns), "", PAPER.slots, DEFAULT, available=PAPER.whole),))
    monkeypatch.setattr(pareto, "measured", lambda directory, queries: as_estimated)
    monkeypatch.setattr(pareto, "Priced", lambda prices, worth: Fewer())
    ran = pareto._run(Path(), query, Offer(0, 4, 9.0, 1.0), 0.0, 0.5)
    assert ran.seconds == pytest.approx(5 + 20 / 2 + 1)  # the last task is alone
    assert ran.dollars == pytest.approx(0.5 * (4 * 4.5 + 2 * 11.5))


def test_until_the_first_decision_the_slots_are_those_of_the_start() -> None:
    assert slot_seconds([(0.0, 1.0)], 3.0) == 3.0
    assert slot_seconds([(0.0, 1.0), (0.0, 8.0), (2.0, 3.0)], 4.0) == 22.0


def test_it_is_told_and_drawn() -> None:
    words = table(FOUND)
    assert "query 7: 4 of 4 offers" in words and "100% dearer" in words
    assert to_json(FOUND)["query"] == 7
    pytest.importorskip("matplotlib")
    assert draw(FOUND).svg.startswith(b"<?xml") and draw(FOUND).png.startswith(b"\x89PNG")
