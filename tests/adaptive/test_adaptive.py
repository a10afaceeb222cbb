"""Changing plan while a job runs, on simulated machines: capacity is scripted, decisions and answers are checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_trace import MemoryTrace

from qoop.adaptive.cluster.cluster import Cluster
from qoop.adaptive.cluster.job_handle import JobHandle
from qoop.adaptive.cluster.recording.messages import JobRequest, PinRequested
from qoop.adaptive.cluster.recording.ticks import OutputsFound
from qoop.adaptive.cluster.recording.ticks import PlanDecided as Noted
from qoop.adaptive.replanning.adaptive import Adaptive, Known
from qoop.adaptive.replanning.decision import Decision, DecisionInput, switch_to
from qoop.adaptive.replanning.triggers import relative_change
from qoop.adaptive.schedulers.base import Scheduler
from qoop.adaptive.schedulers.finish_time import FinishTime
from qoop.adaptive.schedulers.max_min import MaxMin
from qoop.catalog.errors import CheckpointError, OutOfMemory
from qoop.catalog.sources.memory import ArrowSource
from qoop.catalog.table import Table
from qoop.engine.backends.outcomes import Outcome, as_estimated
from qoop.engine.backends.simulated import SimulatedBackend
from qoop.engine.clock import VirtualClock
from qoop.engine.events import CallsObserved, CapacityExpected, Committed, Event, SlotsChanged, WorkObserved
from qoop.engine.functions.measured import FunctionCalls
from qoop.engine.history import Decided, MemoryExhausted, ShareReported, Started, Succeeded
from qoop.engine.state import State
from qoop.engine.task import AttemptId, CheckpointKey, TaskId, TaskSpec, checkpoint_key
from qoop.planner.estimate.observed import Observations
from qoop.planner.plan import CallEstimate, Estimate, Plan, Resources, Stage, StageInput, TableInput
from qoop.planner.search.candidate import Candidate
from qoop.tpcds.schedulers.carbyne import Carbyne

GB = 2**30
COLUMNS = (("x", "INTEGER"),)
F = "f@1"
TABLES = {"t": Table("t", (), "1", ArrowSource("t", pa.table({"x": [1]})), 1)}


def available(slots: float) -> Resources:
    return Resources(slots, slots * GB)


def plan(text: str) -> Plan:
    """One stage a line: ``id width seconds_of_a_task [reads …] [as=signature] [calls=rows] [table=split|whole]``; the
    last one is the root. calls: of the function f, a task, believed to take 1 us a row."""
    return Plan(tuple(_stage(line.split()) for line in text.strip().splitlines()), COLUMNS)


def _stage(words: list[str]) -> Stage:
    name, width, seconds, *rest = words
    options = dict(word.split("=") for word in rest if "=" in word)
    return Stage(
        name,
        "",
        (
            *(StageInput(read, read, "all") for read in rest if "=" not in read and read != "island"),
            *(TableInput("t", "t", "1", ("x",), one == "split") for name, one in options.items() if name == "table"),
        ),
        COLUMNS,
        int(width),
        options.get("as", name),
        estimate=Estimate(
            rows=float(options.get("rows", width)),
            task_seconds=float(seconds),
            calls=(CallEstimate(F, float(options["calls"]), 1e-6),) if "calls" in options else (),
        ),
        shareable="island" not in rest,
    )


WIDE = plan("scan 2 1\nwide 8 2 scan\nroot 1 1 wide")  # 8 × 2 s: on 8 slots 2 s, on one 16 s
NARROW = plan("scan 2 1\nnarrow 1 6 scan\nroot 1 1 narrow")  # 6 s whatever there is


class Bench:
    """A cluster turned by hand: scripted capacity, virtual time, all invariants after every turn."""

    def __init__(
        self, slots: float, *happenings: tuple[float, Event], script: Callable[[TaskSpec], Outcome] = as_estimated
    ) -> None:
        self.clock = VirtualClock()
        self.backend = SimulatedBackend({"m": available(slots)}, self.clock, script)
        self.trace = MemoryTrace()
        self.cluster = Cluster(self.backend, clock=self.clock, trace=self.trace, thread=False)
        self.slots = slots
        for at, event in happenings:
            self.backend.happen(event, at)

    def submit(
        self,
        launch: Plan,
        *others: Plan,
        again: Sequence[Plan] = (),
        reuse: bool = False,
        slowdown: float = 1.0,
        **options: object,
    ) -> JobHandle:
        """others: what the first search finds; again: what the second does. slowdown: of jobs before."""
        self.searches: list[Observations] = []

        def find(observed: Observations) -> Sequence[Candidate]:
            self.searches.append(observed)
            return [Candidate(other, "") for other in (others if len(self.searches) == 1 else again)]

        adaptive = Adaptive(find, available(self.slots), **options)  # type: ignore[arg-type]
        return self.cluster.submit(JobRequest(launch, TABLES, adaptive=adaptive, reuse=reuse, slowdown=slowdown))

    def run_to_end(self) -> None:
        for _ in range(10_000):
            if not self.cluster.busy:
                return
            self.cluster.step()
            self.cluster._driver.check()
        raise AssertionError("jobs never end")

    def run(self, launch: Plan, *others: Plan, **options: object) -> JobHandle:
        handle = self.submit(launch, *others, **options)  # type: ignore[arg-type]
        self.run_to_end()
        assert handle.state is State.SUCCEEDED, handle.error
        return handle


def slots(at: float, count: float) -> tuple[float, Event]:
    return at, SlotsChanged("m", available(count))


def decisions(handle: JobHandle) -> list[Decided]:
    return [record for record in handle.history() if isinstance(record, Decided)]


def moves(handle: JobHandle) -> str:
    """The plans it ran, in letters."""
    return "A" + "".join(record.chosen for record in decisions(handle) if record.switched)


def test_the_plan_for_the_share_there_is_runs_and_nothing_else_happens() -> None:
    bench = Bench(8)
    handle = bench.run(WIDE, NARROW)
    assert moves(handle) == "A" and bench.clock.now() == 4.0


def test_lost_slots_bring_a_narrower_plan_and_finished_work_is_kept() -> None:
    bench = Bench(8, slots(1.5, 1))
    handle = bench.run(WIDE, NARROW)
    (record,) = [one for one in decisions(handle) if one.switched]
    assert moves(handle) == "AB" and record.kept == ("scan",) and record.work_left_out == 0.0
    assert bench.clock.now() < 1.6 + 6 + 1
    assert [spec.stage.id for spec in bench.backend.started].count("scan") == 2, "scan was done once"


def test_a_decision_reads_as_a_sentence() -> None:
    handle = Bench(8, slots(1.5, 1)).run(WIDE, NARROW)
    (record,) = [one for one in decisions(handle) if one.switched]
    assert str(record) == (
        "at 1.510 s the share fell from 8 to 1 slots; plan B would end in 7.0 s, the running plan A in 16.5 s; "
        "switched, keeping scan"
    )


def test_who_began_without_a_slot_is_told_so() -> None:
    bench = Bench(0, slots(2.0, 8), slots(3.5, 1))
    bench.slots = 1  # what plans are made for then
    causes = [record.cause for record in decisions(bench.run(NARROW, WIDE))]
    assert causes[0].endswith("the share rose from 0 to 8 slots") and causes[1:] == ["the share fell from 8 to 1 slots"]


def test_decisions_are_in_the_trace() -> None:
    bench = Bench(8, slots(1.5, 1))
    handle = bench.run(WIDE, NARROW)
    traced = [entry.what.record for entry in bench.trace.entries if isinstance(entry.what, Noted)]
    assert traced == decisions(handle) != []


def test_capacity_that_comes_back_brings_back_the_first_plan_and_leaves_out_what_was_done() -> None:
    handle = Bench(8, slots(1.5, 1), slots(2.0, 8)).run(WIDE, NARROW)
    assert moves(handle) == "ABA"
    assert handle.plans() == (WIDE, NARROW, WIDE)


def test_without_alternatives_the_plan_is_kept() -> None:
    handle = Bench(8, slots(1.5, 1)).run(WIDE)
    assert moves(handle) == "A" and "there is no other plan" in str(decisions(handle)[-1])


def test_a_burst_of_changes_is_one_decision() -> None:
    steps = [slots(1.5 + 0.002 * step, 8 - step) for step in range(7)]
    handle = Bench(8, *steps).run(WIDE, NARROW)
    causes = [record.cause for record in decisions(handle)]
    assert causes.count("the share fell from 8 to 2 slots") == 1 and len(causes) <= 2, causes


def test_a_second_job_takes_half_and_both_are_thought_over() -> None:
    bench = Bench(8)
    first = bench.submit(WIDE, NARROW)
    while bench.clock.now() < 1:
        bench.cluster.step()
    second = bench.cluster.submit(JobRequest(plan("other 16 4\nend 1 1 other")))
    bench.run_to_end()
    assert second.state is State.SUCCEEDED and first.state is State.SUCCEEDED
    assert "the share fell from 8 to 4 slots" in [record.cause for record in decisions(first)]


def three_times(spec: TaskSpec) -> Outcome:
    usual = as_estimated(spec)
    return replace(usual, seconds=3 * usual.seconds)


@pytest.mark.parametrize(("slowdown", "taken", "end"), [(1.0, "A", 60.0), (3.0, "AB", 11.0 + 33.0)])
def test_at_the_pace_of_earlier_jobs_a_task_is_not_nearly_done(slowdown: float, taken: str, end: float) -> None:
    """It should take 20 s, and has run for 11 when slots come; on four the other plan should take 11."""
    bench = Bench(1, slots(11.0, 4), script=three_times)
    handle = bench.run(plan("root 1 20"), plan("wide 20 2\nroot 1 1 wide"), slowdown=slowdown)
    assert moves(handle) == taken and bench.clock.now() == pytest.approx(end, abs=0.5)


def expected(at: float, *course: tuple[float, float]) -> tuple[float, Event]:
    return at, CapacityExpected(tuple((since, available(count)) for since, count in course))


def test_what_is_expected_counts_when_the_plan_is_chosen() -> None:
    """On one slot for good the narrow plan is better; the wide one is, where seven more come soon."""
    unaware = Bench(1, slots(3.0, 8)).run(NARROW, WIDE, at_once=True)
    bench = Bench(1, slots(3.0, 8), expected(0.0, (3.0, 8)))
    told = bench.run(NARROW, WIDE, at_once=True)
    assert decisions(unaware)[0].chosen == "A"
    (first, *later) = decisions(told)
    assert first.chosen == "B" and "8 slots and 8.59 GB are expected in 3 s" in str(first)
    assert not any(one.switched for one in later) and bench.clock.now() == pytest.approx(3.0 + 2.0 + 1.0, abs=0.1)


def test_what_was_expected_and_has_not_come_is_thought_over() -> None:
    bench = Bench(1, expected(0.0, (3.0, 8), (60.0, 9)))
    handle = bench.run(NARROW, WIDE, at_once=True)
    causes = {record.cause: record for record in decisions(handle)}
    missed = causes["what was expected has not come"]
    assert missed.at == pytest.approx(4.0) and moves(handle) == "ABA"


def test_what_comes_early_or_in_time_is_not_missed() -> None:
    def causes(bench: Bench) -> list[str]:
        return [record.cause for record in decisions(bench.run(NARROW, WIDE))]

    for at in (2.0, 3.0):
        told = causes(Bench(1, slots(at, 8), expected(0.0, (3.0, 8))))
        assert "what was expected has not come" not in told and "the share rose from 1 to 8 slots" in told[-1]
    assert not any("not come" in one for one in causes(Bench(16, slots(2.0, 17), expected(0.0, (2.0, 17)))))


def test_what_is_missed_while_there_is_no_slot_is_not_forgotten() -> None:
    bench = Bench(1, expected(0.0, (3.0, 8)), slots(2.5, 0), slots(6.0, 1))
    handle = bench.run(NARROW, WIDE, at_once=True)
    assert moves(handle) == "ABA" and "what was expected has not come" in decisions(handle)[-1].cause


def test_what_should_come_long_after_the_end_is_no_reason_to_think() -> None:
    handle = Bench(1, expected(0.0, (3600.0, 8))).run(NARROW, WIDE)
    assert [record.cause for record in decisions(handle)] == ["the alternatives became known"] and moves(handle) == "A"


def test_where_no_slot_should_be_nothing_is_done_then() -> None:
    """On one slot the wide plan would take 19 s; for the narrow one there is none after a second."""
    handle = Bench(1, expected(0.0, (1.0, 0), (30.0, 8))).run(NARROW, WIDE, at_once=True)
    (first, *_) = decisions(handle)
    assert first.chosen == "B" and min(one.seconds for one in first.candidates) > 30.0


@pytest.mark.parametrize("scheduler", [Carbyne, FinishTime, MaxMin])
def test_no_scheduler_is_told_of_slots_that_are_not_there(scheduler: Callable[[], Scheduler]) -> None:
    """With what is expected the same is granted at the same times as without: here nobody can change plan."""
    histories = []
    for told in (False, True):
        backend = SimulatedBackend({"m": available(2)}, VirtualClock(), as_estimated)
        cluster = Cluster(backend, scheduler(), clock=backend.clock, thread=False)
        if told:
            cluster.expect([(400.0, 64), (900.0, 128)])
        long = plan("scan 40 1\nwide 30 2 scan\nroot 1 1 wide")
        jobs = [cluster.submit(JobRequest(one, TABLES)) for one in (long, WIDE)]
        while cluster.busy:
            cluster.step()
            if len(jobs) < 6 and backend.clock.now() > 3.0 * len(jobs):
                jobs.append(cluster.submit(JobRequest((NARROW, WIDE)[len(jobs) % 2], TABLES)))
        histories.append([str(one) for job in jobs for one in job.history() if not isinstance(one, ShareReported)])
    assert histories[0] == histories[1]


def test_an_expectation_that_is_told_again_is_no_news() -> None:
    again = [expected(at, (10.0, 8), (12.0, 16)) for at in (1.0, 2.0, 3.0)]
    otherwise = expected(4.0, (10.0, 8))
    causes = [record.cause for record in decisions(Bench(1, *again, otherwise).run(NARROW, WIDE))]
    assert ["expected in" in cause for cause in causes] == [False, True, True]
    gone = [record.cause for record in decisions(Bench(1, *again, expected(4.0)).run(NARROW, WIDE))]
    assert gone[-1] == "no other share is expected any more"


def test_more_slots_that_a_notice_announces_are_expected() -> None:
    bench = Bench(1)
    handle = bench.submit(NARROW, WIDE, at_once=True)
    bench.cluster.resize(slots=8, memory=8 * GB, notice=3.0)
    bench.run_to_end()
    assert moves(handle) == "AB" and bench.clock.now() == pytest.approx(6.0, abs=0.1)
    assert [record.coming for record in handle.history() if isinstance(record, ShareReported)] == [
        ((3.0, available(8)),), (),
    ]  # fmt: skip


def test_of_what_is_expected_each_job_has_its_part() -> None:
    bench = Bench(2)
    jobs = [bench.submit(WIDE), bench.submit(NARROW)]
    bench.cluster.expect([(5.0, 8)])
    bench.cluster.step(0.0)
    for job in jobs:
        told = [record for record in job.history() if isinstance(record, ShareReported)][-1]
        assert told.share == available(1) and told.coming == ((5.0, available(4)),)
    bench.run_to_end()


def test_how_far_a_share_has_moved() -> None:
    assert relative_change(available(8), available(8)) == 0.0
    assert relative_change(Resources(8, 100), Resources(8, 80)) == 0.2
    assert relative_change(Resources(0, 0), Resources(1, 0)) == float("inf")


# --- what the data turns out to be ------------------------------------------------------------------------


def many_rows(spec: TaskSpec) -> Outcome:
    """The scan puts out a thousand times the rows that were expected; who reads it takes accordingly long."""
    seconds = {"scan": 1.0, "each": 50.0, "once": 2.0}.get(spec.stage.id, spec.stage.estimate.task_seconds)
    return Outcome(seconds, rows=500_000_000 if spec.stage.id == "scan" else 1)


EACH = plan("scan 2 1 rows=100\neach 8 0.1 scan\nroot 1 1 each")  # work as rows come
ONCE = plan("build 2 4\nonce 2 1 build\nroot 1 1 once")  # does not read the scan


def test_far_more_rows_than_expected_bring_the_plan_that_does_not_mind() -> None:
    handle = Bench(2, script=many_rows).run(EACH, ONCE)
    (record,) = decisions(handle)
    assert record.cause == "stage scan had 1,000,000,000 rows where 100 were expected"
    assert moves(handle) == "AB" and record.work_left_out == 2.0


def test_rows_as_expected_are_no_reason_to_think() -> None:
    bench = Bench(2)
    assert decisions(bench.run(EACH, ONCE)) == [] and bench.searches == []


def test_where_no_plan_is_good_the_search_runs_again_with_what_was_seen() -> None:
    bench = Bench(2, slots(0.5, 3), script=many_rows)
    handle = bench.run(EACH, EACH, again=[ONCE])
    assert len(bench.searches) == 2
    assert not bench.searches[0].by_signature and bench.searches[1].by_signature["scan"].rows == 1_000_000_000
    assert moves(handle) == "AB"


# --- seconds that nobody could know -------------------------------------------------------------------------

EARLY = plan("scan 8 0.1 calls=10000\nroot 1 1 scan")
LATE = plan("keys 2 1\njoin 2 1 keys calls=100\nroot 1 1 join as=late")


def dear(spec: TaskSpec) -> Outcome:
    """A row of f takes 1 ms."""
    rows = int(sum(one.rows for one in spec.stage.estimate.calls))
    seconds = spec.stage.estimate.task_seconds + rows / 1e3
    return Outcome(seconds, called=(FunctionCalls(F, rows, rows / 1e3),) if rows else ())


def test_a_dear_function_brings_the_plan_that_calls_it_less() -> None:
    handle = Bench(2, script=dear).run(EARLY, LATE)
    (record,) = decisions(handle)
    assert record.cause.startswith("f takes 1.0 s for 1,000 rows where 1 ms were believed")
    assert moves(handle) == "AB" and len([one for one in handle.history() if isinstance(one, Started)]) == 2 + 2 + 5


def test_what_an_attempt_tells_while_it_runs_counts_as_well() -> None:
    told = CallsObserved(AttemptId(TaskId("job1", "scan", 0), 1), (FunctionCalls(F, 100, 0.1),))
    late = replace(told, attempt=AttemptId(TaskId("job1", "scan", 0), 99))
    bench = Bench(2, (0.2, late), (0.4, told), script=dear)
    handle = bench.run(EARLY, LATE)
    assert moves(handle) == "AB" and bench.clock.now() < 5
    assert "had called f@1 for 100 rows in 100 ms" in "\n".join(map(str, handle.history()))


def test_a_cheap_function_brings_the_plan_back_that_does_less_of_the_rest() -> None:
    believed = plan("scan 8 10 calls=10000000\nroot 1 1 scan")
    told = CallsObserved(AttemptId(TaskId("job1", "join", 0), 3), (FunctionCalls(F, 10_000, 1e-5),))
    handle = Bench(2, (2.5, told)).run(plan("keys 2 1\njoin 8 20 keys calls=9000000\nroot 1 1 join as=late"), believed)
    assert moves(handle) == "AB", "it was believed to take 80 s, of which the function is all but a second"


def test_seconds_as_believed_are_no_reason_to_think() -> None:
    def as_believed(spec: TaskSpec) -> Outcome:
        return replace(
            as_estimated(spec), called=tuple(FunctionCalls(F, 10, 1.2e-5) for _ in spec.stage.estimate.calls)
        )

    assert decisions(Bench(2, script=as_believed).run(EARLY, LATE)) == []


READS = plan("scan 8 0.1 table=split\nroot 1 1 scan")
ONCE_READ = plan("other 2 1\nroot 1 1 other as=late")


def far_away(spec: TaskSpec) -> Outcome:
    """Each task that reads the table waits for the network."""
    waits = 5.0 if spec.stage.table_inputs else 0.0
    return Outcome(spec.stage.estimate.task_seconds + waits, cpu_seconds=spec.stage.estimate.task_seconds)


def test_a_table_that_must_be_waited_for_brings_the_plan_that_does_not_read_it() -> None:
    handle = Bench(2, script=far_away).run(READS, ONCE_READ)
    (record,) = decisions(handle)
    assert record.cause == "table t has to be waited for, so what is left takes 31.6 s of work, not 1.6 s"
    assert moves(handle) == "AB"


def test_a_busy_machine_is_no_slow_table() -> None:
    def busy(spec: TaskSpec) -> Outcome:
        seconds = spec.stage.estimate.task_seconds
        return Outcome(3 * seconds, cpu_seconds=seconds)

    assert decisions(Bench(2, script=busy).run(READS, ONCE_READ)) == []


# --- memory -----------------------------------------------------------------------------------------------


HUNGRY = plan("scan 2 1\njoin 1 1 scan\nroot 1 1 join")
LEAN = plan("scan 2 1\ngrace 4 1 scan\nroot 1 1 grace")


def hungry(spec: TaskSpec) -> Outcome:
    return Outcome(0.5, OutOfMemory("no memory")) if spec.stage.id == "join" else as_estimated(spec)


def test_a_plan_that_needs_more_than_there_is_gives_way_to_a_leaner_one() -> None:
    handle = Bench(2, script=hungry).run(HUNGRY, LEAN)
    assert moves(handle) == "AB"
    assert "all there is" in decisions(handle)[-1].cause and "the running plan A never" in str(decisions(handle)[-1])


def test_without_a_leaner_plan_the_job_fails_with_what_was_wrong() -> None:
    bench = Bench(2, script=hungry)
    handle = bench.submit(HUNGRY)
    bench.run_to_end()
    assert handle.state is State.FAILED and "stage join" in str(handle.error)


def test_no_plan_with_the_same_stage_is_gone_to() -> None:
    same = plan("scan 2 1\njoin 1 1 scan\nother 1 0.1 join\nroot 1 1 other as=root2")
    bench = Bench(2, script=hungry)
    handle = bench.submit(HUNGRY, same)
    bench.run_to_end()
    assert handle.state is State.FAILED and moves(handle) == "A"


def test_a_plan_that_makes_the_same_of_other_inputs_is_gone_to() -> None:
    """The answer of one large task is that of many small ones: only the large one ran out of memory."""
    whole, fine = plan("join 1 2 as=answer"), plan("scan 4 1\nroot 1 1 scan as=answer")
    handle = Bench(2, script=hungry).run(whole, fine)
    assert moves(handle) == "AB"


def test_where_no_known_plan_can_end_others_are_searched_for_once_more() -> None:
    twin = plan("scan 2 1\njoin 1 0.9 scan\nroot 1 1 join")
    bench = Bench(2, script=hungry)
    handle = bench.submit(HUNGRY, twin, again=[LEAN])
    bench.run_to_end()
    assert handle.state is State.SUCCEEDED, handle.error
    assert len(bench.searches) == 2


class Later:
    """A planner that takes its time: works are done when the test says so."""

    def __init__(self) -> None:
        self.works: list[Callable[[], None]] = []

    def ask(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        self.works.append(lambda: then(work()))

    def close(self) -> None:
        pass


def test_an_answer_from_before_the_memory_ran_out_is_not_the_last_word() -> None:
    bench, planner = Bench(2, script=hungry), Later()
    bench.cluster._planner_requests.planner = planner
    handle = bench.submit(HUNGRY, LEAN, at_once=True)
    while not any(isinstance(record, MemoryExhausted) for record in handle.history()):
        bench.cluster.step(1.0)
    assert len(planner.works) == 1, "asked at the start, and not answered yet"
    while bench.cluster.busy:
        for work in [planner.works.pop() for _ in planner.works]:
            work()
        bench.cluster.step(1.0)
    assert handle.state is State.SUCCEEDED, handle.error
    assert moves(handle) == "AB"


# --- outputs of plans that nobody has run here --------------------------------------------------------------


@pytest.mark.parametrize(("reuse", "end"), [(True, 1.0), (False, 4.0)])
def test_what_another_process_has_made_under_another_plan_is_found(reuse: bool, end: float) -> None:
    bench = Bench(8)
    (narrow,) = (checkpoint_key(stage, 0) for stage in NARROW.stages if stage.id == "narrow")
    first = bench.cluster.submit(JobRequest(NARROW))
    while narrow not in bench.backend.committed:
        bench.cluster.step()
    assert bench.backend.present([narrow], "somebody")
    bench.run_to_end()
    first.release()
    bench.run_to_end()
    handle, begun = bench.submit(WIDE, NARROW, at_once=True, reuse=reuse), bench.clock.now()
    bench.run_to_end()
    assert handle.state is State.SUCCEEDED
    assert bench.clock.now() - begun == end
    assert moves(handle) == ("AB" if reuse else "A")
    if reuse:
        assert "1 output of other plans was found" in decisions(handle)[0].cause
    assert narrow in bench.backend.committed, "it is still somebody's"


def test_a_job_whose_other_plans_cannot_be_looked_up_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, present = Bench(8), SimulatedBackend.present

    def away(self: SimulatedBackend, keys: Sequence[CheckpointKey], job: str | None = None) -> Sequence[Committed]:
        if any(key.signature == "narrow" for key in keys):
            raise CheckpointError("the store is away")
        return present(self, keys, job)

    monkeypatch.setattr(SimulatedBackend, "present", away)
    bench.run(WIDE, NARROW, at_once=True, reuse=True)
    errors = [entry.what.error for entry in bench.trace.entries if isinstance(entry.what, OutputsFound)]
    assert [str(error) for error in errors] == ["None", "the store is away"]


class ToAndFro:
    """Goes to the other plan of two whenever it is asked."""

    def decide(self, question: DecisionInput) -> Decision:
        return switch_to(question, 1 - question.running)


def test_what_was_let_go_of_is_looked_for_when_its_plan_is_gone_back_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """By then it may be there again, or still, in a file."""
    asked, present = list[set[str]](), SimulatedBackend.present

    def noted(self: SimulatedBackend, keys: Sequence[CheckpointKey], job: str | None = None) -> Sequence[Committed]:
        asked.append({key.signature for key in keys})
        return present(self, keys, job)

    monkeypatch.setattr(SimulatedBackend, "present", noted)
    bench = Bench(8)
    handle = bench.submit(WIDE, NARROW, at_once=True, reuse=True, policy=ToAndFro())
    while moves(handle) == "A":
        bench.cluster.step()
    handle.reconsider()
    bench.run_to_end()
    assert handle.state is State.SUCCEEDED and moves(handle) == "ABA"
    assert asked == [{"scan", "wide", "root"}, {"narrow"}, {"wide"}]


# --- switches anywhere ------------------------------------------------------------------------------------


class Anywhere:
    """Goes to any plan, or stays, as a seed will have it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def decide(self, question: DecisionInput) -> Decision:
        return switch_to(question, self.random.randrange(len(question.options)))


PLANS = [
    plan("a 3 1\nb 2 1 a\nc 2 1\nroot 1 1 b c"),
    plan("a 3 1\nd 4 1 a\nroot 1 1 d"),
    plan("c 2 1\na 3 1\ne 1 2 a c\nroot 1 1 e"),
    plan("i 2 1 island\nj 2 1 i\nroot 1 1 j as=other"),
    plan("i 2 1 island\nc 2 1\nj 2 1 i c as=j2\nroot 1 1 j as=other2"),
]


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    launch=st.integers(0, len(PLANS) - 1),
    moments=st.lists(st.floats(0.0, 12.0), max_size=12),
    capacity=st.lists(st.tuples(st.floats(0.0, 12.0), st.integers(1, 6)), max_size=6),
)
def test_switches_at_any_moment_between_any_plans_come_to_the_end(
    seed: int, launch: int, moments: list[float], capacity: list[tuple[float, int]]
) -> None:
    bench = Bench(3, *(slots(at, count) for at, count in capacity))
    handle = bench.submit(PLANS[launch], *PLANS, policy=Anywhere(seed))
    for moment in sorted(moments):
        while bench.cluster.busy and bench.clock.now() < moment:
            bench.cluster.step(moment - bench.clock.now())
            bench.cluster._driver.check()
        handle.reconsider()
    bench.run_to_end()
    assert handle.state is State.SUCCEEDED, handle.error
    assert {key.signature for key in bench.backend.committed} == {handle.plans()[-1].root.signature}, "left over"


PARTED = plan("scan 2 1\nroot 8 2 scan as=r")  # the answer itself comes in 8 parts
OTHER = plan("scan 2 1\nroot 1 4 scan as=s")
SAME = plan("scan 2 1\nextra 1 4 scan\nroot 8 0.2 extra as=r")  # puts out the same parts, in another way


def pinned(first_after: float, launch: Plan, other: Plan, *happenings: tuple[float, Event]) -> tuple[JobHandle, bool]:
    """A job of which somebody wants the rows once some have been put out, after that many seconds at the earliest."""
    bench = Bench(4, *happenings)
    handle = bench.submit(launch, other)
    asked = PinRequested(handle.id)
    while bench.clock.now() < first_after or not handle._run.first_outputs:
        bench.cluster.step()
    bench.cluster.post(asked)
    bench.run_to_end()
    assert handle.state is State.SUCCEEDED, handle.error
    return handle, asked.done.result()


def test_rows_that_were_handed_out_hold_a_job_to_its_plan() -> None:
    handle, held = pinned(3.0, PARTED, OTHER, slots(3.5, 1))
    assert held and moves(handle) == "A"
    assert any("handed out" in record.reason for record in decisions(handle)), decisions(handle)
    free = Bench(4, slots(3.5, 1)).run(PARTED, OTHER)
    assert moves(free) == "AB", "without that it would change"


def test_a_plan_that_keeps_the_rows_handed_out_may_still_follow() -> None:
    handle, held = pinned(3.0, PARTED, SAME, slots(3.5, 1))
    assert held and moves(handle) == "AB"
    assert (
        sum(isinstance(record, Succeeded) and record.attempt.task.stage == "root" for record in handle.history()) == 8
    )


def test_rows_that_rest_on_a_non_deterministic_stage_are_not_handed_out_before_the_end() -> None:
    _, held = pinned(3.0, plan("scan 2 1 island\nroot 8 2 scan as=r"), OTHER)
    assert not held


# --- DuckDB's own plan ------------------------------------------------------------------------------------------------


def by_duckdb(seconds: float) -> Plan:
    """DuckDB's own plan, which should take that long."""
    [stage] = plan(f"all 1 {seconds} as=root").stages
    return Plan((replace(stage, whole=True),), COLUMNS)


def taking(factor: float, whole: float | None = None) -> Callable[[TaskSpec], Outcome]:
    """Tasks take that many times as long as estimated; DuckDB's own plan `whole` times."""

    def script(spec: TaskSpec) -> Outcome:
        usual = as_estimated(spec)
        times = whole if whole is not None and spec.stage.whole else factor
        return replace(usual, seconds=usual.seconds * times)

    return script


@pytest.mark.parametrize("factor", [1.0, 4.0, 20.0, 80.0])
def test_where_all_tasks_are_slow_duckdbs_plan_is_not_left_for_one_that_is_as_slow(factor: float) -> None:
    """The other plan should take a little less by its estimate: at that, the work of minutes is not thrown away."""
    bench = Bench(1, script=taking(factor))
    handle = bench.run(by_duckdb(2.0), plan("part 1 1.4\nroot 1 0.5 part"))
    assert moves(handle) == "A" and bench.clock.now() == pytest.approx(2.0 * factor)


@pytest.mark.parametrize("factor", [1.0, 20.0])
def test_the_end_of_a_plan_that_is_changed_to_follows_the_pace_seen(factor: float) -> None:
    """The share halves when DuckDB's plan has run for long: both ends that are compared follow the clock."""
    bench = Bench(2, slots(30.0, 1), script=taking(factor))
    handle = bench.run(by_duckdb(20.0), plan("part 1 1.4\nroot 1 0.5 part"))
    compared = [one.candidates for one in decisions(handle) if one.after.cpu == 1 and len(one.candidates) > 1]
    for _, other in compared:
        assert other.seconds >= 1.9 and (factor == 1.0 or other.seconds > 3.0)
    assert compared or factor == 1.0


@pytest.mark.parametrize("every", [1.0, 3.0, 6.0])
def test_duckdbs_plan_is_left_where_it_starts_from_zero_again_and_again(every: float) -> None:
    """It takes ten seconds, and the slots go for a moment every few seconds: it never ends. Stages keep outputs."""
    moments = [(every * number, count) for number in range(1, 100) for count in (0, 2)]
    bench = Bench(2, *(slots(at + 0.05 * (count > 0), count) for at, count in moments))
    handle = bench.run(by_duckdb(10.0), plan("part 40 0.36\nroot 1 0.6 part"))
    assert moves(handle) == "AB" and bench.clock.now() < 40.0


def test_one_interruption_of_duckdbs_plan_says_nothing_of_the_next() -> None:
    bench = Bench(2, slots(5.0, 0), slots(5.1, 2))
    handle = bench.run(by_duckdb(10.0), plan("part 40 0.36\nroot 1 5.0 part"))
    assert moves(handle) == "A" and bench.clock.now() == pytest.approx(15.1)


@pytest.mark.parametrize("slowed", [1.0, 4.0])
def test_the_first_look_at_duckdbs_plan_waits_for_what_others_slow_it_by(slowed: float) -> None:
    """A second of a plan that has had a quarter of its CPUs is no reason for a search, which takes theirs, too."""
    looks: list[float] = []
    bench = Bench(2, script=taking(1.0, whole=100.0))
    bench.backend.happen(WorkObserved(AttemptId(TaskId("job1", "all", 0), 1), None, slowed), 0.25)
    bench.run(by_duckdb(0.1), quick_search=lambda _: looks.append(bench.clock.now()) or ())
    assert looks[0] == pytest.approx(slowed, abs=0.01) and len(looks) > 1


@pytest.mark.parametrize(("seconds", "slowed", "looked"), [(0.19, 1.0, False), (0.3, 1.0, True), (0.6, 4.0, False)])
def test_a_query_that_ends_before_the_first_look_pays_for_no_search(
    seconds: float, slowed: float, looked: bool
) -> None:
    looks: list[float] = []
    bench = Bench(2, script=taking(1.0))
    bench.backend.happen(WorkObserved(AttemptId(TaskId("job1", "all", 0), 1), None, slowed), 0.05)
    search = lambda _: looks.append(bench.clock.now()) or ()  # noqa: E731
    bench.run(by_duckdb(seconds), at_once=True, search_after=0.2, quick_search=search)
    assert looks == ([pytest.approx(0.2, abs=0.01)] if looked else [])


@pytest.mark.parametrize(
    ("takes", "part", "expected"),
    [
        pytest.param(0.0, None, "AB", id="the search takes no time"),
        pytest.param(0.5, None, "AB", id="enough is left by the estimate"),
        pytest.param(1.5, None, "A", id="too little is left by the estimate"),
        pytest.param(0.5, 0.6, "A", id="too little is left by what DuckDB reports"),
    ],
)
def test_plans_of_a_quick_search_are_compared_with_what_is_left_of_duckdbs_once_they_are_known(
    takes: float, part: float | None, expected: str
) -> None:
    """DuckDB's plan should take 3 s, the one found 2 s."""
    bench, other, [stage] = Bench(2), plan("part 1 1.8\nroot 1 0.2 part"), by_duckdb(3.0).stages
    own = Plan((replace(stage, estimate=replace(stage.estimate, doubt=0.35)),), COLUMNS)

    def search(_: float) -> list[Candidate]:
        bench.clock.advance_to(takes)
        if part is not None:
            bench.backend.happen(WorkObserved(AttemptId(TaskId("job1", "all", 0), 1), part, 1.0), takes)
        return [Candidate(own, "DuckDB"), Candidate(other, "")]

    assert moves(bench.run(own, at_once=True, quick_search=search)) == expected


@pytest.mark.parametrize(("factor", "searched"), [(0.9, False), (1.5, True)])
def test_after_a_quick_search_all_plans_are_compared_once_duckdbs_should_have_ended(
    factor: float, searched: bool
) -> None:
    bench, own = Bench(2, script=taking(1.0, whole=factor)), by_duckdb(2.0)
    found = [Candidate(own, "DuckDB"), Candidate(plan("part 1 4.8\nroot 1 0.2 part"), "")]
    handle = bench.run(own, at_once=True, quick_search=lambda _: found)
    assert bool(bench.searches) == searched and moves(handle) == "A"
    assert [one.at for one in decisions(handle)] == [0.0, *([pytest.approx(2.0, abs=0.01)] if searched else [])]


# --- plans on trial ---------------------------------------------------------------------------------------------------

STAGED = plan("part 40 0.36\nroot 1 0.6 part")  # on two slots 7.8 s


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0, 5.0, 20.0])
def test_a_trial_of_stages_ends_where_duckdbs_plan_would_end_sooner(factor: float) -> None:
    """DuckDB's plan is known to take 10 s. Stages should take less, and take some times as long."""
    script = taking(factor, whole=1.0)
    alone, bench = Bench(2, script=script), Bench(2, script=script)
    alone.run(STAGED)
    handle = bench.run(STAGED, by_duckdb(10.0), at_once=True, known=Known(10.0, True))
    assert bench.clock.now() <= min(alone.clock.now(), 1.2 * 10.0 + 0.05)
    assert moves(handle) == ("A" if alone.clock.now() < 10.0 else "AB")


@pytest.mark.parametrize("slowed", [1.0, 3.0])
def test_a_trial_has_the_time_that_the_known_plan_takes_beside_other_programs(slowed: float) -> None:
    """Stages take 7.8 s, and 23.4 next to programs that take two thirds of the CPUs; the known plan 9, and 27 there."""
    bench = Bench(2, script=taking(slowed, whole=slowed))
    for part in range(1, 60):
        bench.backend.happen(WorkObserved(AttemptId(TaskId("job1", "part", 0), 1), None, slowed), 0.05 * part)
    handle = bench.run(STAGED, by_duckdb(9.0), at_once=True, known=Known(9.0, True))
    assert moves(handle) == "A"


@pytest.mark.parametrize(("factor", "expected"), [(1.0, "A"), (1.25, "AB")])
def test_an_early_look_at_a_trial_counts_the_time_that_it_has_taken(factor: float, expected: str) -> None:
    """At a tenth, what is left of stages that take 9.75 s is less than the 9 s of the known plan; all of it is not."""
    bench = Bench(2, script=taking(factor, whole=1.0))
    handle = bench.run(STAGED, by_duckdb(9.0), at_once=True, known=Known(9.0, True))
    assert moves(handle) == expected
    assert bench.clock.now() <= 1.25 * 9.0


def test_a_trial_that_has_taken_as_long_as_the_known_plan_ends() -> None:
    """All goes well but for the last task, of which nothing says when it ends."""
    usual = taking(1.0)
    script = lambda spec: replace(usual(spec), seconds=60.0) if spec.stage.id == "root" else usual(spec)  # noqa: E731
    bench = Bench(2, script=script)
    handle = bench.run(STAGED, by_duckdb(10.0), at_once=True, known=Known(10.0, True))
    last = decisions(handle)[-1]
    assert moves(handle) == "AB" and 10.0 <= last.at <= 13.0
    assert bench.clock.now() == pytest.approx(last.at + 10.0)


def test_a_trial_of_a_short_plan_that_takes_long_is_thought_over_few_times() -> None:
    """There is no plan to go to: the known one cannot end sooner any more."""
    bench = Bench(2, script=taking(1.0, whole=200.0))
    handle = bench.run(by_duckdb(0.2), at_once=True, known=Known(0.2, False))
    assert bench.clock.now() >= 40.0 and 3 <= len(decisions(handle)) <= 30


@pytest.mark.parametrize("factor", [0.5, 3.0, 20.0])
def test_a_trial_of_duckdbs_plan_ends_where_stages_would_end_sooner(factor: float) -> None:
    bench = Bench(2, script=taking(1.0, whole=factor))
    for part in range(1, 50):
        seen = WorkObserved(AttemptId(TaskId("job1", "all", 0), 1), part / 50)
        bench.backend.happen(seen, 7.0 * factor * part / 50)
    handle = bench.run(by_duckdb(7.0), STAGED, at_once=True, known=Known(7.8, False))
    assert moves(handle) == ("A" if factor < 1 else "AB")
    assert bench.clock.now() <= 2.0 * 7.8
