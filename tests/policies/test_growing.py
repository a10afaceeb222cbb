"""DuckDB's plan of a query that began on few slots, when more arrive: it begins again, or gives way to stages."""

from __future__ import annotations

from dataclasses import replace

import pytest
from policies_world import option

from qoop.engine.backends.simulated import Outcome
from qoop.engine.events import SlotsChanged
from qoop.engine.history import Decided, Started
from qoop.engine.task import TaskSpec
from qoop.planner.finish import Done, Finish
from qoop.planner.packing import on_threads
from qoop.planner.plan import Plan, Resources
from qoop.planner.search.candidate import Candidate
from qoop.replanning.adaptive import Adaptive
from qoop.simulation import Fleet, SimulatedJob, SimulatedRun, simulate

STAGED = option("scan 8 1.5 as=fine\nroot 1 0.1 scan").candidate
ROOT = replace(option("all 1 10").candidate.plan.root, opaque="DuckDB plans the whole query", whole=True)


def whole(slots: int = 1) -> Candidate:
    return Candidate(Plan((replace(ROOT, slots=slots),), STAGED.plan.columns), "DuckDB")


def run(at: float, *others: Candidate, slots: int = 1, truth: float = 10.0, later: float = 2) -> SimulatedRun:
    """DuckDB's plan takes `truth` seconds on one slot; there is one until another comes."""

    def outcome(spec: TaskSpec) -> Outcome:
        seconds = truth if spec.stage.whole else spec.stage.estimate.task_seconds
        return Outcome(on_threads(seconds, spec.resources.cpu))

    fleet = Fleet({"m": Resources(1, 8e9)}, ((at, SlotsChanged("m", Resources(later, 8e9))),))
    adaptive = Adaptive(lambda _: (whole(slots), *others), Resources(1, 8e9), at_once=True)
    return simulate(fleet, [SimulatedJob("a", 0.0, whole(slots).plan, adaptive)], outcome, check=True)


def threads(ran: SimulatedRun) -> list[float]:
    return [one.resources.cpu for one in ran["a"].history if isinstance(one, Started)]


@pytest.mark.parametrize("slots", [1, 2])
def test_soon_after_its_start_it_is_begun_again_on_the_slots_there_are(slots: int) -> None:
    ran = run(1.0, slots=slots)
    assert threads(ran) == [1.0, 2.0]
    assert ran["a"].seconds == pytest.approx(1.0 + on_threads(10.0, 2.0), abs=0.2)


def test_late_it_goes_on_as_it_is() -> None:
    ran = run(5.0)
    assert threads(ran) == [1.0] and ran["a"].seconds == 10.0
    (decided,) = (one for one in ran["a"].history if isinstance(one, Decided) and "rose" in one.cause)
    assert decided.candidates[0].seconds == pytest.approx(5.0, abs=0.1)


def test_stages_that_make_use_of_the_slots_win() -> None:
    ran = run(2.0, STAGED, later=8)
    assert ran["a"].switches == 1 and len(threads(ran)) == 10
    assert ran["a"].seconds == pytest.approx(3.6, abs=0.2)


def test_a_plan_that_takes_longer_than_was_thought_is_not_believed_to_be_shorter_again() -> None:
    ran = run(9.0, truth=30.0)
    assert len(threads(ran)) <= 2
    assert ran["a"].seconds <= 30.0


def test_a_running_task_is_judged_by_the_slots_that_it_has() -> None:
    finish = Finish(whole(2).plan)
    share = Resources(2)
    stuck = finish.seconds(share, Done(running={"all": (1.0,)}, slots={"all": 1.0}))
    assert stuck == pytest.approx(9.0, abs=0.01)
    assert finish.seconds(share, Done(running={"all": (1.0,)})) == pytest.approx(on_threads(10.0, 2.0) - 1.0, abs=0.01)
