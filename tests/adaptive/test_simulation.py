"""Simulated jobs on simulated machines, against completion times worked out by hand."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping

import pytest

from qoop.adaptive.profiles import CapacityProfile, Point, Stay
from qoop.adaptive.replanning.adaptive import Adaptive
from qoop.adaptive.schedulers.terms import Terms
from qoop.adaptive.simulation import Fleet, SimulatedJob, SimulatedRun, SimulationOptions, simulate
from qoop.catalog.errors import ConfigError
from qoop.engine.backends.outcomes import MachineSlowed, Outcome
from qoop.engine.events import CapacityNotice, MachineJoined, MachineLost, SlotsChanged
from qoop.engine.history import Started
from qoop.engine.task import MachineId, TaskSpec
from qoop.planner.plan import Estimate, Plan, Resources, Stage, StageInput, TableInput
from qoop.planner.search.candidate import Candidate

COLUMNS = (("x", "INTEGER"),)
TWO = Resources(2, 8e9)


def job(name: str, at: float = 0.0, width: int = 8, weight: float = 1.0) -> SimulatedJob:
    """A stage of that many tasks, which takes a second each, and a root that takes none."""
    scan = Stage("scan", "", (TableInput("t", "t", "", ("x",), True),), COLUMNS, width, f"{name}/scan")
    root = Stage("root", "", (StageInput("i", "scan", "all"),), COLUMNS, 1, f"{name}/root")
    return SimulatedJob(name, at, Plan((scan, root), COLUMNS), terms=Terms(weight=weight))


def a_second(spec: TaskSpec) -> Outcome:
    return Outcome(float(spec.stage.id != "root"))


def run(fleet: Fleet, *jobs: SimulatedJob) -> SimulatedRun:
    return simulate(fleet, jobs, a_second, check=True)


def test_a_job_alone_takes_its_tasks_by_its_slots() -> None:
    ran = run(Fleet.uniform(2, TWO), job("a"))
    assert [one.seconds for one in ran.jobs] == [2.0]
    assert ran.jobs[0].attempts == 9
    assert ran.task_events == 18


def test_of_two_jobs_each_has_half_once_both_are_there() -> None:
    ran = run(Fleet.uniform(2, TWO), job("a"), job("b", at=1.0))
    # a has 4 slots until b comes; then 2 each: its other 4 tasks take 2 s; b has done 4 of 8 by then, and has all slots
    assert (ran["a"].ended, ran["b"].ended) == (3.0, 4.0)
    assert ran.seconds == 4.0


def test_resources_are_shared_by_weight() -> None:
    ran = run(Fleet.uniform(2, TWO), job("a", width=9, weight=3.0), job("b", width=3))
    assert (ran["a"].ended, ran["b"].ended) == (3.0, 3.0)


def test_what_runs_on_a_lost_machine_is_done_again() -> None:
    ran = run(Fleet.uniform(2, TWO).after((1.5, MachineLost("m2"))), job("a"))
    # 4 done at 1; two of the other four at 2, and the two that were lost at 3
    assert ran["a"].seconds == 3.0
    assert ran["a"].attempts == 11


def test_a_machine_that_joins_is_used_at_once() -> None:
    ran = run(Fleet.uniform(1, TWO).after((1.5, MachineJoined("m2", TWO))), job("a"))
    # 2 at 1, 2 at 2 and 2 at 2.5, 2 at 3
    assert ran["a"].seconds == 3.0


def test_a_slow_machine_stretches_what_runs_on_it_from_then_on() -> None:
    slow = Fleet.uniform(1, TWO).after((0.5, MachineSlowed("m1", 4.0)), (1.5, MachineSlowed("m1", 1.0)))
    # half a task at once, a quarter of one in the next second, and the rest at full speed
    assert run(slow, job("a", width=2))["a"].seconds == 0.5 + 1.0 + 0.25


def test_tasks_that_share_a_machine_slow_each_other_down_while_they_do() -> None:
    jobs = [job("a", width=1), job("b", at=0.5, width=1)]
    options = SimulationOptions(crowding={1: 1.0, 2: 2.0}.__getitem__)
    ran = simulate(Fleet.uniform(1, TWO), jobs, a_second, check=True, options=options)
    # a is half done when b comes; each does the next half in a second; then b has its other half alone
    assert (ran["a"].ended, ran["b"].ended) == (1.5, 2.0)


def test_what_a_task_comes_to_may_depend_on_the_machines_there_are() -> None:
    class Slower:
        def on(self, machines: Callable[[], Mapping[MachineId, Resources]]) -> Callable[[TaskSpec], Outcome]:
            return lambda spec: Outcome(float(len(machines())) * (spec.stage.id != "root"))

    ran = simulate(Fleet.uniform(2, TWO).after((1.0, MachineLost("m2"))), [job("a", width=6)], Slower(), check=True)
    # two of four tasks of 2 s are lost at 1; two more of 1 s each follow at 2 and at 3
    assert ran.seconds == 4.0


def test_nothing_is_begun_where_it_could_not_end_before_the_resources_go() -> None:
    changes = (0.5, CapacityNotice("m2", Resources(), 1.9)), (1.9, MachineLost("m2"))
    ran = run(Fleet.uniform(2, TWO).after(*changes), job("a"))
    # 4 at 1, then two at a time on m1 alone
    assert ran["a"].seconds == 3.0
    assert ran["a"].attempts == 9, "no attempt was lost"


def test_a_job_that_no_machine_is_left_for_never_ends() -> None:
    ran = run(Fleet.uniform(1, TWO).after((0.5, MachineLost("m1"))), job("a"), job("late", at=3.0))
    assert [one.ended for one in ran.jobs] == [math.inf, math.inf]


def test_a_profile_becomes_machines_that_come_and_go() -> None:
    profile = CapacityProfile.of([(0, 2, "4GB", 2), (1.5, 2, "4GB", 1), (2.5, 2, "4GB", 3)])
    assert run(Fleet.of(profile), job("a"))["a"].seconds == 3.0
    notices = [event for _, event in Fleet.of(profile, notice=1.0).changes if isinstance(event, CapacityNotice)]
    assert notices == [CapacityNotice("m2", Resources(), 1.5)]


def test_the_machines_of_a_profile_go_and_come_under_their_names() -> None:
    stays = (Stay("a", 0.0, 5.0), Stay("b", 0.0), Stay("c", 5.0, 7.0), Stay("a", 8.0))
    points = (
        Point(0.0, 4, 8e9, 2),
        Point(5.0, 4, 8e9, 2),
        Point(6.0, 2, 8e9, 2),
        Point(7, 2, 8e9, 1),
        Point(8, 2, 8e9, 2),
    )
    fleet = Fleet.of(CapacityProfile(points, stays), network=1e6, notice=3.0)
    whole, half = Resources(4, 8e9, network=1e6), Resources(2, 8e9, network=1e6)
    assert fleet.machines == {"a": whole, "b": whole}
    assert fleet.changes == (
        (2.0, CapacityNotice("a", Resources(), 5.0)), (3.0, CapacityNotice("b", half, 6.0)),
        (5.0, MachineLost("a")), (5.0, MachineJoined("c", whole)), (5.0, CapacityNotice("c", half, 6.0)),
        (6.0, SlotsChanged("b", half)), (6.0, SlotsChanged("c", half)), (6.0, CapacityNotice("c", Resources(), 7.0)),
        (7.0, MachineLost("c")), (8.0, MachineJoined("a", half)),
    )  # fmt: skip


def jittered(seed: int) -> SimulatedRun:
    chance = random.Random(seed)
    fleet = Fleet.uniform(3, TWO).after(
        (1.0, MachineSlowed("m2", 3.0)), (2.0, MachineLost("m3")), (4.0, MachineJoined("m3", TWO))
    )
    jobs = [job(f"j{number}", at=chance.uniform(0, 5), width=12) for number in range(4)]
    return simulate(fleet, jobs, lambda spec: Outcome(chance.uniform(0.1, 1.0)), check=True)


def test_the_same_seed_gives_the_same_history() -> None:
    one, again, other = jittered(1), jittered(1), jittered(2)
    assert told(one) == told(again)
    assert told(one) != told(other)


def told(ran: SimulatedRun) -> list[str]:
    return [str(record) for one in ran.jobs for record in one.history]


def plan_of(width: int, seconds: float, memory: float) -> Plan:
    estimate = Estimate(task_seconds=seconds, task_memory=memory)
    scan = Stage("scan", "", (), COLUMNS, width, f"scan of {width}", estimate=estimate)
    root = Stage("root", "", (StageInput("i", "scan", "all"),), COLUMNS, 1, "root", estimate=Estimate(task_seconds=0.0))
    return Plan((scan, root), COLUMNS)


@pytest.mark.parametrize("decision_seconds", [0.0, 3.0])
def test_a_job_changes_plan_when_machines_go_and_deciding_takes_virtual_time(decision_seconds: float) -> None:
    many, one = plan_of(4, 10.0, 1e9), plan_of(1, 15.0, 1e9)
    fleet = Fleet.uniform(4, Resources(1, 8e9)).after(*((5.0, MachineLost(f"m{n}")) for n in (2, 3, 4)))
    adaptive = Adaptive(lambda _: [Candidate(many, ""), Candidate(one, "")], fleet.available, at_once=True)
    jobs = [SimulatedJob("a", 0.0, many, adaptive)]
    (ran,) = simulate(fleet, jobs, options=SimulationOptions(decision_seconds=decision_seconds)).jobs
    assert ran.switches == 1
    assert len(ran.plans) == 2
    begun = [record.at for record in ran.history if isinstance(record, Started)]
    assert begun[-2] == pytest.approx(5.0 + decision_seconds, abs=0.2)
    assert ran.seconds == pytest.approx(20.0 + decision_seconds, abs=0.2)


def test_two_jobs_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="names of their own"):
        run(Fleet.uniform(1, TWO), job("a"), job("a", at=1.0))
