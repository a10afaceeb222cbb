"""Deadlines of jobs: that one will be missed is told while something can be done about it, and ends nothing."""

from __future__ import annotations

import logging
import math
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import qoop
from qoop.adaptive.cluster.cluster import Cluster
from qoop.adaptive.cluster.deadlines import IN_TIME, LATE, MISSED, verdict_of
from qoop.adaptive.cluster.job_status import JobStatus, PastJob, RemainingTime, rho_of
from qoop.adaptive.cluster.recording.messages import JobRequest, SampleOffered
from qoop.adaptive.replanning.adaptive import Adaptive
from qoop.adaptive.replanning.greedy import Greedy
from qoop.adaptive.replanning.policies import by_deadline, policy_named
from qoop.adaptive.replanning.price import Priced
from qoop.adaptive.schedulers.terms import Terms
from qoop.engine.backends.outcomes import Outcome
from qoop.engine.backends.simulated import SimulatedBackend
from qoop.engine.clock import VirtualClock
from qoop.engine.history import Decided
from qoop.engine.notices import DeadlineReported
from qoop.engine.progress import Progress
from qoop.planner.plan import Estimate, Plan, Resources, Stage, StageInput
from qoop.planner.search.candidate import Candidate
from qoop.query.drawing.terminal import Terminal
from qoop.query.drawing.view import due, news, of_share


def plan(tasks: int, seconds: float = 1.0) -> Plan:
    estimate = Estimate(task_seconds=seconds, task_memory=1e6)
    return Plan((Stage("s", "", (), (("x", "INTEGER"),), tasks, "s", estimate=estimate),), (("x", "INTEGER"),))


def told(
    deadline: float, slowness: float = 1.0, resize: float | None = None, expected: tuple[tuple[float, int], ...] = ()
) -> tuple[list[DeadlineReported], float]:
    """The news of its deadline of a job of 40 tasks of a second on two slots, and when it ends. slowness: of its tasks,
    against their estimates. resize: the second at which there are eight slots. expected: slots that should come."""
    clock = VirtualClock()
    backend = SimulatedBackend({"m": Resources(2, 8e9)}, clock, lambda _: Outcome(slowness))
    cluster = Cluster(backend, clock=clock, thread=False)
    cluster.expect(expected)
    job = cluster.submit(JobRequest(plan(40), terms=Terms(deadline=deadline)))
    while cluster.busy:
        cluster.step()
        if resize is not None and clock.now() >= resize:
            backend.resize(8, None)
            resize = None
    history = job.history()
    return [record for record in history if isinstance(record, DeadlineReported)], history[-1].at


def test_one_that_is_met_is_not_spoken_of() -> None:
    assert told(60.0) == ([], pytest.approx(20.0)) and told(math.inf)[0] == []


def test_one_that_will_be_missed_is_told_at_once_with_what_would_help_and_ends_nothing() -> None:
    [late, *_, missed], ended = told(12.0)
    assert late.at < 1.0 and late.late == pytest.approx(8.0, abs=1.0) and late.enough == 4.0 and not late.certain
    assert "will miss its deadline by 8" in str(late) and "4 slots would do" in str(late)
    assert missed.certain and ended == pytest.approx(20.0)


def test_slots_that_should_come_count_and_those_there_are_may_do() -> None:
    assert told(12.0, resize=1.5, expected=((2.0, 8),))[0] == [], "eight slots should come, and do"
    [late, back], _ = told(25.0, expected=((2.0, 1),))
    assert late.at < 1.0 and late.enough == 2.0, "those there are would do, if they stayed"
    assert "will meet its deadline after all" in str(back)


def test_another_time_is_told_where_only_others_stand_in_the_way() -> None:
    """Two slots, of which another job has one until second 30: alone 20 s of work would take 10."""
    clock = VirtualClock()
    cluster = Cluster(SimulatedBackend({"m": Resources(2, 8e9)}, clock), clock=clock, thread=False)
    other = cluster.submit(JobRequest(plan(30)))
    job = cluster.submit(JobRequest(plan(20), terms=Terms("late", deadline=12.0)))
    hopeless = cluster.submit(JobRequest(plan(40), terms=Terms("late", deadline=12.0)))
    while cluster.busy:
        cluster.step()
    first = next(record for record in job.history() if isinstance(record, DeadlineReported))
    assert first.another_time is not None and first.another_time.jobs == (other.id, hopeless.id)
    assert first.another_time.seconds == pytest.approx(10.5, abs=0.1) and first.another_time.wait > 30.0  # type: ignore[operator]
    assert "begun when job1, job3 have ended, in about" in str(first) and "it would take about 10.5 s" in str(first)
    told_last = [record for record in hopeless.history() if isinstance(record, DeadlineReported)]
    assert told_last and all(record.another_time is None for record in told_last)


def test_an_approximate_answer_is_told_of_where_it_would_be_in_time() -> None:
    def helped(part: float) -> str:
        clock = VirtualClock()
        cluster = Cluster(SimulatedBackend({"m": Resources(2, 8e9)}, clock), clock=clock, thread=False)
        job = cluster.submit(JobRequest(plan(40), terms=Terms(deadline=12.0)))
        cluster.post(SampleOffered(job.id, 0.05, part))
        while cluster.busy:
            cluster.step()
        return str(next(record for record in job.history() if isinstance(record, DeadlineReported)))

    assert helped(0.25).endswith("4 slots would do; APPROXIMATE WITHIN 5 PERCENT would be done in about 5.0 s")
    assert "APPROXIMATE" not in helped(0.75)


def test_a_session_knows_what_an_approximate_answer_would_read(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[SampleOffered] = []
    post = Cluster.post
    monkeypatch.setattr(
        Cluster,
        "post",
        lambda self, one: (told.append(one) if isinstance(one, SampleOffered) else None, post(self, one))[1],
    )
    with qoop.connect(slots=1, memory="500MB") as session:
        values = np.arange(2_000_000)
        session.register("t", pa.table({"g": values % 3, "v": values}))
        for text, deadline in (
            ("SELECT g, sum(v) FROM t GROUP BY g", 0.001),
            ("SELECT g, sum(v) FROM t GROUP BY g", 9999.0),  # will be met
            ("SELECT g, v FROM t WHERE v < 9", 0.001),  # cannot grow
            ("SELECT v, count(*) FROM t GROUP BY v", 0.001),  # would grow in vain
        ):
            assert session.submit(text, deadline=deadline).result().arrow().num_rows
    assert [(one.job, one.within) for one in told] == [("job1", 0.05)] and 0 < told[0].part < 0.5


def test_one_that_tasks_turn_out_to_be_too_slow_for_is_told_before_half_of_the_time_is_over() -> None:
    found, ended = told(30.0, slowness=2.0)
    assert ended == pytest.approx(40.0) and 0 < found[0].at < 15.0 and found[0].late > 0


def test_slots_that_come_make_it_good() -> None:
    [late, after], ended = told(12.0, resize=2.0)
    assert late.late > 0 and after.late < 0 and ended < 12.0 and "meet its deadline after all" in str(after)


def test_a_verdict_stands_until_another_is_clear() -> None:
    assert verdict_of(RemainingTime(10.0, 5.0, 20.0), 9.8, LATE) == LATE
    assert verdict_of(RemainingTime(10.0, 5.0, 20.0), 9.8, IN_TIME) == IN_TIME
    assert verdict_of(RemainingTime(8.0, 5.0, 20.0), 9.8, LATE) == IN_TIME
    assert verdict_of(None, 5.0, LATE) == LATE and verdict_of(None, -1.0, IN_TIME) == MISSED


def test_the_status_says_it_the_view_and_the_log_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="qoop.job")
    with qoop.connect(slots=1, memory="500MB", tenants={"night": 2}, staged=True) as session:
        session.register("t", pa.table({"n": range(1000)}))
        slow = "SELECT sum(a.n * b.n * c.n % 7) FROM t a, t b, (SELECT n FROM t LIMIT 100) c"
        job = session.submit(f"SELECT sum(x) FROM ({slow}) s(x)", deadline=0.2, tenant="night")
        assert session.submit("SELECT 2").result().fetchall() == [(2,)]
        while not any(isinstance(record, DeadlineReported) for record in job.history()) and not job.wait(0.0):
            time.sleep(0.01)
        late, status = [one for one in job.history() if isinstance(one, DeadlineReported)], job.status()
        assert late and late[0].late >= 0 and job.wait(60) and job.state == "SUCCEEDED"
        assert status.helps == late[-1].helps or job.wait(0.0)
        assert status.deadline is not None and status.late is not None and "deadline" in caplog.text
        assert news([*late], 0, Terminal(80))[0].startswith("! at ")
        tenants = {one.name: one for one in session.tenants()}
        assert tenants["night"].weight == 2.0 and tenants["night"].done == tenants[""].done == 1


def test_a_deadline_is_shown_in_words() -> None:
    progress = Progress("RUNNING", 0.5, (), (), ())

    def status(deadline: float | None, likely: float = 5.0) -> JobStatus:
        return JobStatus(progress, 1.0, None, Resources(), RemainingTime(likely, 1.0, 9.0), deadline=deadline)

    assert [due(status(None)), due(status(9.0)), due(status(2.0))] == ["", "due in 9 s", "deadline missed by 3 s"]


def test_the_slots_of_a_job_are_shown_with_its_share() -> None:
    status = JobStatus(Progress("RUNNING", 0.5, (), (), ()), 1.0, Resources(4 / 3, 1e9), Resources(1), None)
    assert of_share(status) == "1 of 1.33" and of_share(replace(status, share=None)) == ""


def test_rho_is_the_time_over_the_time_alone_on_the_share() -> None:
    assert PastJob("", 30.0, 2.0, lambda slots: 40.0 / slots).rho == 1.5
    assert rho_of(3.0, 0.0, lambda slots: 1.0) is None and rho_of(3.0, 1.0, lambda slots: 0.01) is None


def test_a_deadline_that_will_be_missed_has_the_plans_thought_over() -> None:
    """Tasks take 1.3 times as long as estimated, so plan A would end after 18.2 s, and B after 13.7 s: without a
    deadline no reason to change, since all estimates err alike."""
    columns = (("x", "INTEGER"),)

    def stage(name: str, tasks: int, *reads: str) -> Stage:
        inputs = tuple(StageInput(one, one, "all") for one in reads)
        return Stage(name, "", inputs, columns, tasks, name, estimate=Estimate(task_seconds=1.0, task_memory=1e6))

    first, other = (Plan((stage("s", 8), stage(name, tasks, "s")), columns) for name, tasks in (("a", 20), ("b", 13)))

    def ran(deadline: float) -> tuple[list[str], float]:
        clock, policy = VirtualClock(), by_deadline(Greedy(), deadline)
        backend = SimulatedBackend({"m": Resources(2, 8e9)}, clock, lambda _: Outcome(1.3))
        cluster = Cluster(backend, clock=clock, thread=False)
        adaptive = Adaptive(lambda _: [Candidate(other, "")], Resources(2, 8e9), policy=policy)
        job = cluster.submit(JobRequest(first, adaptive=adaptive, terms=Terms(deadline=deadline)))
        while cluster.busy:
            cluster.step()
        changes = [record for record in job.history() if isinstance(record, Decided) and record.switched]
        return [record.cause for record in changes], job.history()[-1].at

    assert ran(math.inf) == ([], pytest.approx(18.2))
    [cause], ended = ran(15.0)
    assert "it would miss its deadline by" in cause and ended < 15.0


def test_policies_know_the_deadline_of_a_job() -> None:
    assert by_deadline(Greedy(0.2), math.inf) == Greedy(0.2) and by_deadline(Greedy(0.2), 9.0) == Greedy(
        0.2, deadline=9.0
    )


def test_the_cheapest_plan_by_the_deadline_is_a_policy_of_sessions() -> None:
    policy = by_deadline(policy_named("cheapest"), 12.0)
    assert isinstance(policy, Priced) and policy.deadline == 12.0
    with qoop.connect(slots=2, memory="500MB", policy="cheapest", staged=True) as session:
        session.register("t", pa.table({"g": [1, 2, 1], "v": [1, 2, 3]}))
        job = session.submit("SELECT g, sum(v) FROM t GROUP BY g ORDER BY g", deadline=60)
        assert job.result().fetchall() == [(1, 4), (2, 2)]
