"""The policies that ours is compared with: each on cases worked out by hand, and what all of them must keep to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scheduler_world import Known, empty, fill, request

import qoop
from qoop.adaptive.cluster.cluster import Cluster
from qoop.adaptive.cluster.recording.messages import JobRequest
from qoop.adaptive.cluster.remaining_work import RunRemainingWork
from qoop.adaptive.replanning.adaptive import Adaptive
from qoop.adaptive.replanning.greedy import Greedy
from qoop.adaptive.retrace.reading import read_trace
from qoop.adaptive.retrace.rerun import rerun
from qoop.adaptive.schedulers.base import Request, Scheduler
from qoop.adaptive.schedulers.finish_time import FinishTime
from qoop.adaptive.schedulers.max_min import MaxMin
from qoop.adaptive.schedulers.remaining_work import Rest, latest
from qoop.adaptive.schedulers.urgency import Urgency
from qoop.engine.backends.simulated import SimulatedBackend
from qoop.engine.clock import VirtualClock
from qoop.planner.packing import Available
from qoop.planner.plan import Estimate, Plan, Resources, Stage, StageInput
from qoop.planner.search.candidate import Candidate
from qoop.tpcds.schedulers.carbyne import Carbyne
from qoop.tpcds.schedulers.drf import DRF
from qoop.tpcds.schedulers.edf import EDF
from qoop.tpcds.schedulers.las import LAS
from qoop.tpcds.schedulers.sjf import SJF
from qoop.tpcds.schedulers.tetris import Tetris

COLUMNS = (("x", "INTEGER"),)
POLICIES = [DRF, SJF, Tetris, Carbyne, LAS, EDF, FinishTime, Urgency]


def first(policy: Scheduler, *requests: Request, **machines: tuple[float, float]) -> tuple[str, str] | None:
    """Job and machine of the first grant."""
    grant = policy.next_grant(requests, empty(**machines))
    return (grant.job, grant.machine) if grant is not None else None


# --- what all keep to ---------------------------------------------------------------------------------------

wants = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 50)), max_size=5)
sizes = st.lists(st.tuples(st.integers(1, 8), st.integers(1, 100)), min_size=1, max_size=3)
remaining_works = st.builds(Known, st.floats(0, 100), st.floats(0, 8))


@pytest.mark.parametrize("policy", POLICIES)
@given(jobs=st.lists(st.tuples(wants, remaining_works), min_size=1, max_size=4), machines=sizes)
def test_no_resources_are_left_that_a_task_fits_and_none_is_given_twice(
    policy: Callable[[], Scheduler],
    jobs: list[tuple[list[tuple[float, float]], Known]],
    machines: list[tuple[float, float]],
) -> None:
    requests = [
        request(f"j{i}", *tasks, remaining_work=remaining_work) for i, (tasks, remaining_work) in enumerate(jobs)
    ]
    availability = empty(**{f"m{i}": size for i, size in enumerate(machines)})
    made = policy()
    made.fair_shares(requests, sum((available.capacity for available in availability.values()), Resources()))
    grants = fill(made, requests, availability)
    assert all(Resources().fits(available.free) for available in availability.values())
    granted = {grant.task for grant in grants}
    assert len(granted) == len(grants)
    for waiting in (demand for one in requests for demand in one.demands if demand.task not in granted):
        assert not any(waiting.resources.fits(available.free) for available in availability.values())


@pytest.mark.parametrize("policy", POLICIES)
def test_no_more_is_promised_than_there_is(policy: Callable[[], Scheduler]) -> None:
    requests = [
        request("j1", (1, 1), remaining_work=Known(5.0)),
        request("j2", (1, 1), weight=3.0, remaining_work=Known(2.0)),
    ]
    shares = policy().fair_shares(requests, Resources(8, 100))
    assert set(shares) == {"j1", "j2"} and sum(shares.values(), Resources()) == Resources(8, 100)


class Silent:
    """Remaining work that must not be asked for."""

    @property
    def work(self) -> float:
        raise AssertionError("a policy asked for the work of a job")

    def needed(self, share: Resources) -> float:
        raise AssertionError("a policy asked for the plan of a job")


@pytest.mark.parametrize("policy", [MaxMin, DRF])
def test_fair_policies_look_at_no_plan(policy: Callable[[], Scheduler]) -> None:
    requests = [request("j1", (1, 1), (2, 2), remaining_work=Silent()), request("j2", (1, 1), remaining_work=Silent())]
    assert len(fill(policy(), requests, empty(m=(4, 100)))) == 3
    assert policy().fair_shares(requests, Resources(2))["j1"] == Resources(1)


# --- DRF ----------------------------------------------------------------------------------------------------


def test_drf_ends_as_in_the_example_of_its_authors() -> None:
    """Section 4.1: 9 CPUs and 18 GB; tasks of 1 CPU and 4 GB are run three at a time, those of 3 and 1 two."""
    requests = [request("j1", (1, 4)), request("j2", (3, 1))]
    grants = fill(DRF(), requests, empty(m=(9, 18)), endless=True)
    assert [grant.job for grant in grants].count("j1") == 3
    assert [grant.job for grant in grants].count("j2") == 2


def test_drf_takes_the_most_urgent_task_where_it_first_fits() -> None:
    grant = DRF().next_grant([request("j1", (1, 1), (2, 90))], empty(m=(1, 10), n=(4, 100)))
    assert grant is not None and (grant.task.stage, grant.machine) == ("s0", "m")


# --- SJF ----------------------------------------------------------------------------------------------------


def test_sjf_gives_all_to_the_job_with_the_least_work_left() -> None:
    long, short = request("j1", (1, 1), remaining_work=Known(9.0)), request("j2", (1, 1), remaining_work=Known(3.0))
    assert [grant.job for grant in fill(SJF(), [long, short], empty(m=(3, 9)), endless=True)] == ["j2"] * 3
    assert SJF().fair_shares([long, short], Resources(4)) == {"j1": Resources(), "j2": Resources(4)}


def test_sjf_passes_over_what_does_not_fit_and_takes_the_earlier_of_equal_jobs() -> None:
    wide, small = request("j1", (4, 1), remaining_work=Known(1.0)), request("j2", (1, 1), remaining_work=Known(5.0))
    assert first(SJF(), wide, small, m=(2, 9)) == ("j2", "m")
    assert first(SJF(), request("j2", (1, 1)), request("j1", (1, 1)), m=(2, 9)) == ("j1", "m")


# --- Tetris -------------------------------------------------------------------------------------------------


def test_tetris_weighs_alignment_against_the_work_left() -> None:
    """Alignments 0.75 and 0.35, works 300 and 100: ε is 0.55 / 200, so the scores are −0.075 and 0.075."""
    aligned = request("j1", (1, 50), remaining_work=Known(300.0))
    short = request("j2", (1, 10), remaining_work=Known(100.0))
    assert first(Tetris(0.0, shortness=1.0), aligned, short, m=(4, 100)) == ("j2", "m")
    assert first(Tetris(0.0, shortness=0.0), aligned, short, m=(4, 100)) == ("j1", "m")
    assert first(Tetris(0.0, shortness=0.3), aligned, short, m=(4, 100)) == ("j1", "m"), "0.5025 against 0.2675"


def test_tetris_looks_at_the_poorest_jobs_only_as_its_knob_says() -> None:
    rich = request("j1", (1, 50), used=Resources(2, 20))
    poor = request("j2", (1, 10))
    assert first(Tetris(0.0), rich, poor, m=(4, 100)) == ("j1", "m")
    assert first(Tetris(0.5), rich, poor, m=(4, 100)) == ("j2", "m")
    assert first(Tetris(0.5), rich, request("j2", (9, 10)), m=(4, 100)) == ("j1", "m"), "nothing of the poorest fits"


def test_tetris_takes_the_machine_that_the_task_fits_best() -> None:
    availability = {
        "m": Available(Resources(4, 100), Resources(4, 20)),
        "n": Available(Resources(4, 100), Resources(1, 100)),
    }
    grant = Tetris().next_grant([request("j1", (1, 10))], availability)
    assert grant is not None and grant.machine == "m"
    grant = Tetris().next_grant([request("j1", (1, 90))], availability)
    assert grant is not None and grant.machine == "n"


# --- Carbyne ------------------------------------------------------------------------------------------------


def stage(name: str, width: int, seconds: float, *reads: str) -> Stage:
    inputs = tuple(StageInput(one, one, "all") for one in reads)
    return Stage(name, "", inputs, COLUMNS, width, name, estimate=Estimate(task_seconds=seconds))


YIELDING = (stage("a", 4, 1.0), stage("b", 1, 10.0), stage("root", 1, 1.0, "a", "b"))
"""`a` can wait for as long as `b` runs."""


def test_a_reverse_schedule_does_everything_as_late_as_it_can() -> None:
    schedule = latest([Rest(one, one.width) for one in YIELDING], slots=4)
    assert schedule.seconds == pytest.approx(11.0)
    # the root; then b on one slot, and the four tasks of a on three others; then b alone
    assert [time for time, _ in schedule.steps] == pytest.approx([1.0, 1.0 + 4 / 3, 11.0])
    assert [slots for _, slots in schedule.steps] == [1.0, 4.0, 1.0]
    assert [schedule.slots(at) for at in (11.0, 2.0, 0.5)] == [1.0, 4.0, 1.0]
    assert schedule.slots(12.0) == 0.0, "before it begins nothing is needed"


def test_of_what_there_are_no_resources_for_at_once_the_longest_path_comes_first() -> None:
    schedule = latest([Rest(one, one.width) for one in YIELDING], slots=1)
    assert schedule.seconds == pytest.approx(1.0 + 10.0 + 4.0)
    assert {slots for _, slots in schedule.steps} == {1.0}


def test_what_is_done_needs_no_slots() -> None:
    assert latest([], slots=4).slots(0.0) == 0.0
    assert latest([Rest(YIELDING[2], 0.25)], slots=4).seconds == pytest.approx(0.25)


def told(*requests: Request, slots: float = 4) -> Carbyne:
    policy = Carbyne()
    policy.fair_shares(requests, Resources(slots, 100))
    return policy


def test_carbyne_gives_a_job_what_it_needs_first_and_the_rest_to_the_shortest() -> None:
    long = request("j1", (1, 1), remaining_work=Known(100.0, slots=1.0))
    short = request("j2", (1, 1), remaining_work=Known(10.0, slots=2.0))
    grants = fill(told(long, short), [long, short], empty(m=(4, 100)), endless=True)
    assert [grant.job for grant in grants] == ["j1", "j2", "j2", "j2"]


def test_carbyne_gives_nobody_more_than_its_share_before_all_have_what_they_need() -> None:
    greedy = request("j1", (1, 1), remaining_work=Known(1.0, slots=4.0))
    modest = request("j2", (1, 1), remaining_work=Known(50.0, slots=2.0))
    grants = fill(told(greedy, modest), [greedy, modest], empty(m=(4, 100)), endless=True)
    assert sorted(grant.job for grant in grants) == ["j1", "j1", "j2", "j2"]


# --- in a cluster -------------------------------------------------------------------------------------------


def ends(scheduler: Scheduler, *plans: tuple[Stage, ...], slots: int = 4) -> list[float]:
    """The end of each plan, all submitted at once; the resources are checked after every tick."""
    clock = VirtualClock()
    cluster = Cluster(SimulatedBackend({"m": Resources(slots, 1e9)}, clock), scheduler, clock, thread=False)
    jobs = [cluster.submit(JobRequest(Plan(stages, COLUMNS))) for stages in plans]
    while cluster.busy:
        cluster.step()
        cluster._driver.check()
    cluster.close()
    for job in jobs:
        job.outputs()
    return [job.history()[-1].at for job in jobs]


def test_an_altruistic_job_ends_when_it_would_have_and_another_ends_sooner() -> None:
    other = (stage("c", 6, 1.0),)
    assert ends(DRF(), YIELDING, other) == [11.0, 3.0]
    assert ends(Carbyne(), YIELDING, other) == [11.0, 2.0]


def test_a_job_that_is_ahead_of_its_latest_schedule_needs_nothing() -> None:
    """8 tasks of 10 s on a share of 2 slots are to end at 40 s; with 2 left at 10 s there is time until 30 s."""

    class Ran:
        plan, tasks = Plan((stage("a", 8, 10.0),), COLUMNS), 8

        def left(self) -> list[tuple[Stage, int]]:
            return [(self.plan.root, self.tasks)]

        def running(self) -> tuple[()]:
            return ()

    clock, run = VirtualClock(), Ran()
    remaining_work = RunRemainingWork(run, clock, lambda: 0.0, tuple)  # type: ignore[arg-type]
    assert remaining_work.needed(Resources(2)) == 2
    run.tasks = 2
    clock.advance_to(10.0)
    assert remaining_work.needed(Resources(2)) == 0
    clock.advance_to(30.0)
    assert remaining_work.needed(Resources(2)) == 2


def test_the_work_left_shrinks_as_tasks_end() -> None:
    """The first job has the more work, so it waits; but for the two tasks it began before the other came."""
    clock = VirtualClock()
    cluster = Cluster(SimulatedBackend({"m": Resources(2, 1e9)}, clock), SJF(), clock, thread=False)
    long = cluster.submit(JobRequest(Plan((stage("long", 8, 1.0),), COLUMNS)))
    cluster.step()
    short = cluster.submit(JobRequest(Plan((stage("short", 4, 1.0),), COLUMNS)))
    works = []
    while cluster.busy:
        works.append(
            cluster._granter.request(cluster._jobs[short.id]).remaining_work.work if short.id in cluster._jobs else 0.0
        )
        cluster.step()
    assert works[1:4] == sorted(works[1:4], reverse=True) and max(works) == pytest.approx(4.0)
    assert [one.history()[-1].at for one in (short, long)] == [3.0, 6.0]
    cluster.close()


def test_a_job_is_judged_by_the_plan_that_it_would_go_over_to() -> None:
    """Its own plan ends on many slots only after 8 s; the other one has more work, needs 3 s, and shares the scan."""
    scan = stage("scan", 4, 1.0)
    narrow, wide = (Plan((scan, one), COLUMNS) for one in (stage("n", 1, 8.0, "scan"), stage("w", 8, 2.0, "scan")))
    clock = VirtualClock()
    backend = SimulatedBackend({"m1": Resources(1, 1e9), "m2": Resources(1, 1e9)}, clock)
    cluster = Cluster(backend, MaxMin(), clock, thread=False)
    adaptive = Adaptive(lambda _: [Candidate(wide, "")], Resources(2, 2e9), policy=Greedy(hysteresis=0.99))
    cluster.submit(JobRequest(narrow, adaptive=adaptive))
    cluster.step()
    request = cluster._granter.request(cluster._jobs["job1"])
    assert request.used == Resources(2, 2e9)
    while len(request.remaining_work.ways()) < 2:
        cluster.step()
    done = 4.0 if clock.now() == 0 else 4.0 - 2.0 * clock.now()
    own, other = request.remaining_work.ways()
    assert (own.work, other.work) == (done + 8.0, done + 16.0) and (own.path, other.path) == (9.0, 3.0)
    assert request.remaining_work.finish(inf) == 3.0 and request.remaining_work.finish(1) == own.work
    cluster.close()


@pytest.mark.parametrize("policy", POLICIES)
def test_every_job_ends(policy: Callable[[], Scheduler]) -> None:
    found = ends(policy(), YIELDING, (stage("c", 6, 1.0),), (stage("d", 3, 0.5), stage("e", 9, 0.2, "d")), slots=3)
    assert len(found) == 3 and max(found) < 17.0


# --- service, deadlines, finish times -----------------------------------------------------------------------


def test_las_lets_the_job_that_was_served_least_go_first() -> None:
    old, new = (request(f"j{n}", (1, 1), remaining_work=Known(served=served)) for n, served in ((1, 50.0), (2, 5.0)))
    assert first(LAS(), old, new, m=(1, 100)) == ("j2", "m")


def test_edf_goes_by_the_next_deadline_and_then_by_arrival() -> None:
    jobs = [replace(request(f"j{n}", (1, 1)), deadline=at) for n, at in ((1, inf), (2, 90.0), (3, 20.0), (4, inf))]
    assert [grant.job for grant in fill(EDF(), jobs, empty(m=(4, 100)))] == ["j3", "j2", "j1", "j4"]


def behind(job: str, tenant: str, since: float, work: float, whole: float) -> Request:
    return replace(
        request(job, (1, 1), remaining_work=Known(work=work, whole=whole)), tenant=tenant, since=since, weight=1.0
    )


def next_job(policy: Scheduler, *requests: Request, now: float = 0.0) -> str:
    grant = policy.next_grant(requests, empty(m=(1, 100)), now)
    assert grant is not None
    return grant.job


def test_who_would_end_first_on_a_part_of_its_own_goes_first() -> None:
    policy, ten = FinishTime(), Resources(10, 100)
    long = behind("j1", "x", since=0.0, work=400.0, whole=400.0)
    policy.fair_shares([long], ten, now=0.0)  # it would end after 40 s
    short = behind("j2", "y", since=20.0, work=50.0, whole=50.0)
    policy.fair_shares([long, short], ten, now=20.0)  # after 60 s on a half, and the short one after 30
    assert next_job(policy, long, short, now=20.0) == "j2"
    later = behind("j3", "z", since=50.0, work=70.0, whole=70.0)
    done = replace(long, remaining_work=Known(work=399.0, served=1.0, whole=400.0))
    policy.fair_shares([done, later], ten, now=50.0)  # it had 350 there until now, though 1 here, and needs 10 s more
    assert next_job(policy, later, done, now=50.0) == "j1"


def test_who_splits_a_query_has_the_last_piece_when_it_would_have_had_the_query() -> None:
    def order(*asked: Request) -> list[str]:
        policy, left, found = FinishTime(), list(asked), []
        while left:
            policy.fair_shares(left, Resources(20, 100), now=0.0)
            found.append(next_job(policy, *left))
            left = [one for one in left if one.job != found[-1]]
        return found

    rival = behind("j0", "x", 0.0, 90.0, 90.0)
    pieces = [behind(f"j{n}", "y", 0.0, 10.0, 10.0) for n in range(1, 11)]
    assert order(rival, behind("j1", "y", 0.0, 100.0, 100.0)) == ["j0", "j1"]
    assert order(rival, *pieces) == ["j0", *(f"j{n}" for n in range(1, 11))]
    assert order(replace(rival, remaining_work=Known(work=110.0)), *pieces)[-1] == "j0"


def test_what_was_cancelled_is_not_worked_off() -> None:
    policy, two = FinishTime(), Resources(2, 100)
    endless = behind("j1", "x", 0.0, 1e12, 1e12)
    policy.fair_shares([endless], two, now=0.0)
    policy.fair_shares([], two, now=5.0)
    assert not policy._parts._tenants


def test_urgency_goes_by_deadline_and_priority_within_a_tenant_and_by_share_between_tenants() -> None:
    def job(name: str, tenant: str, deadline: float = inf, priority: float = 5.0, held: float = 0.0) -> Request:
        known = Known(work=10.0, path=5.0, whole=10.0)
        asked = request(name, (1, 1), used=Resources(held), remaining_work=known)
        return replace(asked, tenant=tenant, deadline=deadline, priority=priority)

    def chosen(*jobs: Request, now: float = 0.0) -> str:
        grant = Urgency().next_grant(jobs, empty(m=(4, 100)), now)
        assert grant is not None
        return grant.job

    assert chosen(job("j1", "x"), job("j2", "x", deadline=8.0)) == "j2"
    assert chosen(job("j1", "x"), job("j2", "x", priority=9.0)) == "j2"
    assert chosen(job("j1", "x", deadline=9.0), job("j2", "x", deadline=6.0), now=2.0) == "j1"  # j2 cannot be met
    assert chosen(job("j1", "x"), job("j2", "y", deadline=8.0, priority=10.0, held=1.0)) == "j1"


@pytest.mark.parametrize("policy", ["FinishTime()", "Reserving(Urgency(tenants=False))"])
def test_a_session_can_have_them_and_its_trace_is_gone_through_again(policy: str, tmp_path: Path) -> None:
    with qoop.connect(slots=2, memory="500MB", scheduler=policy, staged=True, trace=tmp_path / "t.jsonl") as session:
        session.register("t", pa.table({"g": [1, 2, 1], "v": [1, 2, 3]}))
        text = "SELECT g, sum(v) FROM t GROUP BY g ORDER BY g"
        jobs = [session.submit(text, tenant=f"t{n % 2}", deadline=10.0 + n, priority=1.0 + n) for n in range(4)]
        assert all(job.result().fetchall() == [(1, 4), (2, 2)] for job in jobs)
    found = rerun(read_trace(tmp_path / "t.jsonl"))
    assert found.difference is None and found.ticks > 4
