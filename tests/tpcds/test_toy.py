"""The toy of figure 2.4: three planners on one small query, with the end times that the paper gives."""

from __future__ import annotations

import pytest

from qoop.engine.history import Decided
from qoop.planner.plan import Resources
from qoop.query.drawing.timeline import timeline
from qoop.tpcds.suite import toy


def test_the_planners_end_when_the_paper_says() -> None:
    assert toy.measure() == {"Volcano": 9.0, "Clarinet": 7.0, "QOOP": 6.0, "hindsight": 6.0}


def test_the_plans_take_what_their_drawing_says() -> None:
    assert [one.finish.work() for one in toy.plans()] == [9.0, 14.0, 11.0]
    assert [one.finish.seconds(Resources(4)) for one in toy.plans()] == [9.0, 4.0, 6.0]
    assert [one.finish.seconds(Resources(2)) for one in toy.plans()] == [9.0, 7.0, 6.0]


def test_qoop_goes_back_to_before_what_it_has_finished() -> None:
    (switch,) = [one for one in toy.run("QOOP").history if isinstance(one, Decided) and one.switched]
    assert (switch.at, switch.kept, switch.work_left_out, switch.stages_back) == (1.0, ("ab",), 1.0, 1)


@pytest.mark.parametrize("planner", toy.PAPER)
def test_no_slot_runs_two_tasks(planner: str) -> None:
    ran = toy.run(planner)
    bars = [bar for bar in timeline(ran.history, ran.plans).bars if bar.ended > bar.begun]
    assert bars
    for one in bars:
        for other in bars:
            apart = one.ended <= other.begun or other.ended <= one.begun
            assert one is other or apart or one.first_slot != other.first_slot
        assert one.first_slot < (4 if one.begun < 1.0 else 2)
