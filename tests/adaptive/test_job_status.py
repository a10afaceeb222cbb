"""The predicted end of a job, as people read it: on simulated machines, where the true end is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

import pytest

from qoop.adaptive.cluster.cluster import Cluster
from qoop.adaptive.cluster.job_handle import JobHandle
from qoop.adaptive.cluster.job_status import JobStatus, RemainingTime
from qoop.adaptive.cluster.recording.messages import JobRequest
from qoop.adaptive.replanning.end_seconds import LEAST, MOST
from qoop.adaptive.replanning.slowdown import ends_of_stages
from qoop.adaptive.schedulers.terms import Terms
from qoop.engine.backends.outcomes import Outcome, as_estimated
from qoop.engine.backends.simulated import SimulatedBackend
from qoop.engine.clock import VirtualClock
from qoop.engine.events import WorkObserved
from qoop.engine.progress import Progress
from qoop.engine.task import AttemptId, TaskId, TaskSpec
from qoop.interfaces.page.job_progress import JobProgress
from qoop.planner.finish import Done, Finish
from qoop.planner.plan import Estimate, Layout, Plan, Resources, Stage, StageInput
from qoop.query.drawing.terminal import Terminal
from qoop.query.drawing.view import bar, brief, ends, view

GB = 2**30
COLUMNS = (("x", "INTEGER"),)


def stage(name: str, width: int, seconds: float, *reads: str) -> Stage:
    inputs = tuple(StageInput(read, read, "all") for read in reads)
    return Stage(name, "", inputs, COLUMNS, width, name, estimate=Estimate(task_seconds=seconds))


PLAN = Plan((stage("scan", 12, 2), stage("join", 6, 3, "scan"), stage("root", 1, 2, "join")), COLUMNS)


def followed(factor: float, every: float = 0.5) -> tuple[float, list[tuple[float, RemainingTime]]]:
    """The end of a job whose tasks take that many times as long as estimated, and what was told on the way."""
    clock = VirtualClock()

    def script(spec: TaskSpec) -> Outcome:
        usual = as_estimated(spec)
        return replace(usual, seconds=usual.seconds * factor)

    cluster = Cluster(SimulatedBackend({"m": Resources(4, 8 * GB)}, clock, script), clock=clock, thread=False)
    handle: JobHandle = cluster.submit(JobRequest(PLAN))
    told = []
    while cluster.busy:
        cluster.step(every)
        left = handle.status().left
        if left is not None:
            told.append((clock.now(), left))
    return clock.now(), told


@pytest.mark.parametrize(("slots", "later"), [(1, 4), (4, 1), (0, 4)])
def test_what_should_come_counts(slots: int, later: int) -> None:
    clock = VirtualClock()
    backend = SimulatedBackend({"m": Resources(slots, 8 * GB)}, clock, as_estimated)
    cluster = Cluster(backend, clock=clock, thread=False)
    cluster.expect([(7.0, later)])
    handle, told = cluster.submit(JobRequest(PLAN)), []
    while cluster.busy:
        cluster.step(0.5)
        if clock.now() >= 7.0 and not told:
            cluster.resize(slots=later, memory=8 * GB)
            told.append(later)
        elif not told and (left := handle.status().left) is not None:
            assert clock.now() < 7.0 and left.least <= left.likely
            ends = clock.now() + left.likely
    assert ends == pytest.approx(clock.now(), abs=2.0)


def test_a_share_that_should_fall_makes_no_end_certain() -> None:
    """It may last: the job may then end as soon as on what it has."""
    on_all, *_ = [left for _, left in followed(1.0)[1]]
    clock = VirtualClock()
    cluster = Cluster(SimulatedBackend({"m": Resources(4, 8 * GB)}, clock, as_estimated), clock=clock, thread=False)
    cluster.expect([(2.0, 1)])
    handle = cluster.submit(JobRequest(PLAN))
    cluster.step(0.5)
    left = handle.status().left
    assert left is not None and left.likely > 2 * on_all.likely and left.least == pytest.approx(on_all.least, abs=0.5)


def test_where_no_slot_should_be_left_the_end_is_told_by_those_there_are() -> None:
    cluster = Cluster(SimulatedBackend({"m": Resources(4, 8 * GB)}, VirtualClock(), as_estimated), thread=False)
    cluster.expect([(2.0, 0)])
    handle = cluster.submit(JobRequest(PLAN, terms=Terms(deadline=5.0)))
    cluster.step(0.5)
    status = handle.status()
    assert status.left is not None and status.late is not None and status.late > 0


def test_jobs_that_take_turns_on_a_slot_end_later_whatever_is_expected() -> None:
    cluster = Cluster(SimulatedBackend({"m": Resources(1, 8 * GB)}, VirtualClock(), as_estimated), thread=False)
    cluster.expect([(1000.0, 2)])
    handles = [cluster.submit(JobRequest(PLAN)) for _ in range(4)]
    cluster.step(0.5)
    told = [handle.status().left for handle in handles]
    assert all(left is None or left.likely > 150 for left in told) and any(told), told


@pytest.mark.parametrize("factor", [0.5, 1.0, 3.0, 8.0])
def test_half_way_the_true_end_lies_in_the_range(factor: float) -> None:
    end, told = followed(factor)
    at, left = min(told, key=lambda one: abs(one[0] - end / 2))
    assert abs(at - end / 2) < end / 6
    assert left.least <= end - at <= left.most, (end, at, left)
    assert left.most < 4 * (end - at), "a range that says nothing"


def test_with_right_estimates_it_is_right_from_the_start() -> None:
    end, told = followed(1.0)
    for at, left in told:
        assert left.likely == pytest.approx(end - at, abs=1.5), (end, at, left)


def test_the_range_holds_what_is_likely_and_comes_to_its_end() -> None:
    end, told = followed(3.0)
    assert all(0 <= left.least <= left.likely <= left.most for _, left in told)
    assert told[-1][1].likely < told[0][1].most
    assert told[0][1].likely < 0.6 * end, "nobody can know at the start"


WHOLE = Plan((Stage("s1", "", (), COLUMNS, 1, "DuckDB", whole=True, estimate=Estimate(task_seconds=10.0)),), COLUMNS)


def duckdb(factor: float, reports: Callable[[float], WorkObserved] | None = None) -> Iterator[tuple[float, JobStatus]]:
    """The seconds that were left, and the status, all the time that DuckDB's own plan runs: that many times as long as
    estimated. reports: of its progress, by the part that is over."""
    clock, seconds = VirtualClock(), 10.0 * factor
    script = lambda spec: replace(as_estimated(spec), seconds=seconds)  # noqa: E731
    backend = SimulatedBackend({"m": Resources(1, 8 * GB)}, clock, script)
    for part in range(1, 50) if reports is not None else ():
        backend.happen(reports(part / 50), seconds * part / 50)
    cluster = Cluster(backend, clock=clock, thread=False)
    handle = cluster.submit(JobRequest(WHOLE))
    while cluster.busy:
        cluster.step(seconds / 100)
        if cluster.busy:
            yield seconds - clock.now(), handle.status()


ATTEMPT = AttemptId(TaskId("job1", "s1", 0), 1)


@pytest.mark.parametrize(
    ("factor", "reports"),
    [
        (0.5, None), (1.0, None), (3.0, None),
        (0.2, lambda part: WorkObserved(ATTEMPT, part)),
        (20.0, lambda part: WorkObserved(ATTEMPT, None, 20.0)),
        (20.0, lambda part: WorkObserved(ATTEMPT, part, 10.0)),
        (20.0, lambda part: WorkObserved(ATTEMPT, part**1.5, 12.0)),
        (20.0, lambda part: WorkObserved(ATTEMPT, part**0.7, 8.0)),
    ],
)  # fmt: skip
def test_the_end_of_the_plan_of_duckdb_lies_in_the_range(
    factor: float, reports: Callable[[float], WorkObserved] | None
) -> None:
    """By its estimate alone, by the part of the work that is over, and by the crowd that slows it."""
    told = [(left, status.left) for left, status in duckdb(factor, reports) if status.left is not None]
    inside = [range.least <= left <= range.most for left, range in told]
    assert len(told) > 80 and sum(inside) >= 0.9 * len(told)
    assert all(range.least <= range.likely <= range.most for _, range in told)
    if reports is not None and reports(0.5).part is not None:
        middle, range = told[len(told) // 2]
        assert range.most < 6 * middle, "a range that says nothing"


def test_the_bar_of_the_plan_of_duckdb_says_what_the_head_says() -> None:
    for _, status in duckdb(3.0):
        [stage] = status.progress.stages
        head, line = view("job1", status, Terminal(100, 24, False))
        assert stage.fraction == status.progress.fraction and bar(stage.fraction, 20) in line
        assert f"{status.progress.fraction:4.0%}" in head
    assert stage.fraction > 0.5


def test_the_end_comes_first_where_a_line_may_be_cut() -> None:
    for _, status in list(duckdb(1.0))[20:80:20]:
        end = ends(status.left)
        [head, *_] = view("job1", status, Terminal(60, 24, False))
        assert end and brief("job1", status).startswith(f"job1 {end}") and head.index(end) < head.index("tasks")


@pytest.mark.parametrize("factor", [0.7, 1.5, 8.0])
def test_the_progress_of_the_plan_of_duckdb_never_falls(factor: float) -> None:
    clock = VirtualClock()

    def script(spec: TaskSpec) -> Outcome:
        return replace(as_estimated(spec), seconds=10.0 * factor)

    whole = Stage("s1", "", (), COLUMNS, 1, "DuckDB", whole=True, estimate=Estimate(task_seconds=10.0))
    cluster = Cluster(SimulatedBackend({"m": Resources(1, 8 * GB)}, clock, script), clock=clock, thread=False)
    handle, progress = cluster.submit(JobRequest(Plan((whole,), COLUMNS))), JobProgress()
    told, drawn = [], []
    while cluster.busy:
        cluster.step(0.1 * factor)
        told.append(handle.status().progress.fraction)
        progress.take(handle.news(progress.taken))
        progress.estimate_running(clock.now() - handle.began, handle.plans()[-1], told[-1])
        drawn += [task.fraction or 0.0 for task in progress.running.values()]
    assert drawn == [pytest.approx(one, abs=0.03) for one in told[: len(drawn)]], (
        "the page shows the same progress of the task"
    )
    assert len(told) > 50 and told == sorted(told) and told[-1] == 1.0
    assert all(later - sooner < 0.1 for sooner, later in pairwise(told[:-1]))
    assert 0.2 < told[len(told) // 2] < 0.75


def test_a_partition_ten_times_as_large_counts_ten_times() -> None:
    """Its task runs alone for most of the time, and as much is told to be left: not a hundredth."""
    sizes = (10_000, *[1_000] * 7)

    def script(spec: TaskSpec) -> Outcome:
        if spec.stage.id == "scan":
            return Outcome(0.5, bytes=sizes)
        return Outcome(sizes[spec.attempt.task.part] / 1000 if spec.stage.id == "join" else 0.1)

    reads = (StageInput("scan", "scan", "partition"),)
    scan = replace(stage("scan", 2, 0.5), layout=Layout(("x",), 8))
    join = replace(stage("join", 8, 17 / 8), inputs=reads)
    plan = Plan((scan, join, stage("root", 1, 0.1, "join")), COLUMNS)
    told = told_of(plan, script, slots=4)
    end = told[-1][0]
    assert end == pytest.approx(10.6, abs=0.2)
    alone = [part for at, part in told if 3.0 < at < end - 3]  # the others took 2.5 seconds
    assert len(alone) > 30 and alone[0] < 0.7 and alone[-1] < 0.92
    assert alone[-1] > alone[0] + 0.2


def test_progress_never_falls_where_the_share_does() -> None:
    """Three tasks are stopped, and run again later."""
    clock = VirtualClock()
    backend = SimulatedBackend({"m": Resources(4, 8 * GB)}, clock, lambda spec: Outcome(9.0))
    cluster = Cluster(backend, clock=clock, thread=False)
    handle, told = cluster.submit(JobRequest(PLAN)), []
    while cluster.busy:
        cluster.step(0.5)
        told.append(handle.status().progress.fraction)
        if len(told) == 10:
            cluster.resize(slots=1)
    assert len(told) > 50 and told == sorted(told) and told[-1] == 1.0


def told_of(plan: Plan, script: Callable[[TaskSpec], Outcome], slots: int) -> list[tuple[float, float]]:
    """The parts of the work that were told to be done, with their times; they never fall."""
    clock = VirtualClock()
    cluster = Cluster(SimulatedBackend({"m": Resources(slots, 8 * GB)}, clock, script), clock=clock, thread=False)
    handle, told = cluster.submit(JobRequest(plan)), []
    while cluster.busy:
        cluster.step(0.1)
        told.append((clock.now(), handle.status().progress.fraction))
    assert [part for _, part in told] == sorted(part for _, part in told)
    return told


def test_without_a_slot_there_is_no_end() -> None:
    clock = VirtualClock()
    cluster = Cluster(SimulatedBackend({"m": Resources(0, 8 * GB)}, clock), clock=clock, thread=False)
    handle = cluster.submit(JobRequest(PLAN))
    cluster.step(1.0)
    status = handle.status()
    assert status.left is None and status.used == Resources() and status.progress.fraction == 0.0


@pytest.mark.parametrize(
    ("used", "share", "told"),
    [
        (2, 4, "· 2 of 4 slots ·"),
        (0, 0.5, "· 0 slots, its share is 0.5 ·"),
        (1, 0.5, "· 1 slot, its share is 0.5 ·"),
        (3, 2, "· 3 slots, its share is 2 ·"),
        (0, 0, "· 0 slots ·"),
    ],
)
def test_slots_are_told_of_a_share_that_holds_them(used: float, share: float, told: str) -> None:
    status = JobStatus(Progress("RUNNING", 0.0, (), (), ()), 1.0, Resources(share, GB), Resources(used, 0), None)
    [line] = view("job1", status, Terminal(width=100))
    assert told in line


def test_a_job_is_starting_before_it_has_a_plan() -> None:
    clock = VirtualClock()
    cluster = Cluster(SimulatedBackend({"m": Resources(4, 8 * GB)}, clock, as_estimated), clock=clock, thread=False)
    handle = cluster.submit(JobRequest(PLAN))
    assert handle.display_state == "STARTING"
    cluster.step(0.5)
    assert handle.display_state == "RUNNING"


def test_the_range_is_wider_for_a_long_last_task_than_for_many_stages() -> None:
    """The errors of many stages even out; tasks that have ended tell of those that are left."""

    def width(plan: Plan, *ended: str) -> float:
        rest = ends_of_stages(Finish(plan), Done(dict.fromkeys(ended, 4)))
        return rest.at(MOST) / rest.at(LEAST)

    names = [f"s{place}" for place in range(8)]
    many = Plan(
        tuple(stage(name, 4, 1.0, *reads) for name, reads in zip(names, [(), *zip(names)], strict=False)), COLUMNS
    )
    assert width(LONG_LAST, "scan") > 2 * width(many, "s0")
    widths = [width(many, *names[:ended]) for ended in range(5)]
    assert widths == sorted(widths, reverse=True), "the more has ended, the more is known"


LONG_LAST = Plan((stage("scan", 4, 1.0), stage("last", 1, 28.0, "scan")), COLUMNS)


@pytest.mark.parametrize("factor", [0.35, 1.0, 2.0])
def test_a_long_last_task_that_takes_a_third_or_twice_its_estimate_ends_in_the_range(factor: float) -> None:
    clock = VirtualClock()

    def script(spec: TaskSpec) -> Outcome:
        usual = as_estimated(spec)
        return replace(usual, seconds=usual.seconds * (factor if spec.stage.id == "last" else 1.0))

    cluster = Cluster(SimulatedBackend({"m": Resources(2, 8 * GB)}, clock, script), clock=clock, thread=False)
    handle = cluster.submit(JobRequest(LONG_LAST))
    while clock.now() < 2.5:
        cluster.step(0.5)
    left, at = handle.status().left, clock.now()
    while cluster.busy:
        cluster.step(0.5)
    assert left is not None and left.least <= clock.now() - at <= left.most
    assert left.most < 3 * left.likely, "a range that says nothing"
