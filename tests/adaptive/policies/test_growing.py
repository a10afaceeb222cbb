"""DuckDB's plan of a query takes the slots that come and gives those back that go, or makes way for stages."""

from __future__ import annotations

from dataclasses import replace

import pytest
from policies_world import option

from qoop.adaptive.cluster.granting.spare_resources import regranted
from qoop.adaptive.replanning.adaptive import Adaptive
from qoop.adaptive.simulation import Fleet, SimulatedJob, SimulatedRun, simulate
from qoop.engine.backends.outcomes import Outcome
from qoop.engine.events import Running, SlotsChanged
from qoop.engine.history import Regranted, Started
from qoop.engine.task import AttemptId, TaskId, TaskSpec
from qoop.planner.finish import Done, Finish
from qoop.planner.packing import Available, on_threads
from qoop.planner.plan import ELASTIC_SECONDS, Plan, Resources
from qoop.planner.search.candidate import Candidate

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


def granted(ran: SimulatedRun) -> list[float]:
    return [one.resources.cpu for one in ran["a"].history if isinstance(one, Regranted)]


@pytest.mark.parametrize(("at", "later"), [(1.0, 2), (5.0, 2), (5.0, 4)])
def test_it_goes_on_with_the_slots_that_come_and_loses_nothing(at: float, later: int) -> None:
    ran = run(at, slots=4, later=later)
    assert threads(ran) == [1.0]
    assert granted(ran) == [later]
    assert ran["a"].seconds == pytest.approx(at + (10.0 - at) * on_threads(1.0, later), abs=0.01)


def test_it_takes_no_more_than_it_was_told_of_at_its_beginning() -> None:
    ran = run(1.0, slots=1)
    assert granted(ran) == [] and ran["a"].seconds == 10.0


def test_slots_that_go_have_it_go_on_with_the_rest() -> None:
    fleet = Fleet({"m": Resources(2, 8e9)}, ((1.0, SlotsChanged("m", Resources(1, 4e9))),))
    ran = simulate(fleet, [SimulatedJob("a", 0.0, whole(2).plan)], check=True)
    whole_time = on_threads(10.0, 2.0)
    assert granted(ran) == [1.0] and len(threads(ran)) == 1
    assert ran["a"].seconds == pytest.approx(1.0 + (1.0 - 1.0 / whole_time) * 10.0, abs=0.01)


def test_a_lone_task_of_a_plan_in_stages_does_so_too() -> None:
    fleet = Fleet({"m": Resources(1, 8e9)}, ((5.0, SlotsChanged("m", Resources(2, 8e9))),))
    lone = Plan((replace(ROOT, slots=2, opaque=None, whole=False),), STAGED.plan.columns)
    ran = simulate(fleet, [SimulatedJob("a", 0.0, lone)], check=True)
    assert threads(ran) == [1.0] and granted(ran) == [2.0]
    assert ran["a"].seconds == pytest.approx(5.0 + 5.0 * on_threads(1.0, 2.0), abs=0.01)


def test_without_a_slot_it_loses_what_it_did() -> None:
    away = (1.0, SlotsChanged("m", Resources(0, 0))), (2.0, SlotsChanged("m", Resources(2, 8e9)))
    ran = simulate(Fleet({"m": Resources(2, 8e9)}, away), [SimulatedJob("a", 0.0, whole(2).plan)], check=True)
    assert len(threads(ran)) == 2 and ran["a"].seconds == pytest.approx(2.0 + on_threads(10.0, 2.0), abs=0.01)


def test_a_machine_without_slots_grants_nothing_more() -> None:
    attempt = AttemptId(TaskId("a", "all", 0), 1)
    running = Running(attempt, "m", Resources(2, 8e9), 0.0, 10.0, most=2)
    gone, half = (Available(capacity, Resources(0, 0)) for capacity in (Resources(0, 0), Resources(1, 4e9)))
    assert regranted(running, 1.0, gone) is None
    assert regranted(running, 1.0, half) == Resources(1, 4e9)


def test_another_job_has_its_share_at_once_and_what_it_leaves_is_taken_again() -> None:
    fleet = Fleet({"m": Resources(2, 8e9)})
    short = option("scan 1 1.0\nroot 1 0.1 scan").candidate.plan
    jobs = [SimulatedJob("a", 0.0, whole(2).plan), SimulatedJob("b", 2.0, short)]
    ran = simulate(fleet, jobs, check=True)
    assert granted(ran) == [1.0, 2.0] and len(threads(ran)) == 1
    assert ran["b"].seconds == pytest.approx(1.1, abs=0.05)


def test_a_short_task_keeps_what_it_has() -> None:
    brief = replace(ROOT, slots=4, estimate=replace(ROOT.estimate, task_seconds=0.9 * ELASTIC_SECONDS))
    fleet = Fleet({"m": Resources(1, 8e9)}, ((0.1, SlotsChanged("m", Resources(4, 8e9))),))
    ran = simulate(fleet, [SimulatedJob("a", 0.0, Plan((brief,), STAGED.plan.columns))], check=True)
    assert granted(ran) == []


def test_stages_that_make_use_of_the_slots_win() -> None:
    ran = run(2.0, STAGED, later=8)
    assert ran["a"].switches == 1 and len(threads(ran)) == 10
    assert ran["a"].seconds == pytest.approx(3.6, abs=0.2)


def test_a_running_task_is_judged_by_the_slots_that_it_has() -> None:
    finish = Finish(whole(2).plan)
    share = Resources(2)
    stuck = finish.seconds(share, Done(running={"all": (1.0,)}, slots={"all": 1.0}))
    assert stuck == pytest.approx(9.0, abs=0.01)
    assert finish.seconds(share, Done(running={"all": (1.0,)})) == pytest.approx(on_threads(10.0, 2.0) - 1.0, abs=0.01)
