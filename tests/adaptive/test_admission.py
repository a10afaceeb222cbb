"""Jobs that queue until they may run: tenants take turns, nothing is lost, and a full queue refuses."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from waits import until

import qoop
from qoop.adaptive.cluster.admission import Admission
from qoop.adaptive.cluster.cluster import Cluster
from qoop.adaptive.cluster.job_handle import JobHandle
from qoop.adaptive.cluster.options import ClusterOptions
from qoop.adaptive.cluster.recording.messages import JobRequest
from qoop.adaptive.retrace.reading import read_trace
from qoop.adaptive.retrace.rerun import rerun
from qoop.adaptive.schedulers.terms import Terms
from qoop.engine.backends.outcomes import Outcome
from qoop.engine.backends.simulated import SimulatedBackend
from qoop.engine.clock import VirtualClock
from qoop.engine.history import Ended, Started
from qoop.engine.task import TaskSpec
from qoop.planner.plan import Estimate, Plan, Resources, Stage, StageInput

ENDLESS = "SELECT sum(a.n * b.n * c.n % 7) FROM t a, t b, t c, t d"


def plan(name: str, tasks: int) -> Plan:
    estimate = Estimate(task_seconds=1.0, task_memory=1e6)
    return Plan((Stage(name, "", (), (("x", "INTEGER"),), tasks, name, estimate=estimate),), (("x", "INTEGER"),))


def cluster_of(most: float, **more: float) -> Cluster:
    clock = VirtualClock()
    options = ClusterOptions(most_jobs=most, **more)  # type: ignore[arg-type]
    return Cluster(SimulatedBackend({"m": Resources(2, 8e9)}, clock), clock=clock, thread=False, options=options)


def begun(job: JobHandle) -> float:
    return next(record.at for record in job.history() if isinstance(record, Started))


def test_the_others_wait_in_a_queue_in_which_tenants_take_turns() -> None:
    cluster = cluster_of(1)
    jobs = [cluster.submit(JobRequest(plan(f"p{n}", 4), terms=Terms(tenant))) for n, tenant in enumerate("xxxy")]
    cluster.step(0.0)
    assert [job.status().place for job in jobs] == [None, 1, 2, 3]
    assert [job.display_state for job in jobs] == ["RUNNING", "QUEUED", "QUEUED", "QUEUED"]
    assert jobs[1].status().share is None
    while cluster.busy:
        cluster.step()
        cluster.check()
    assert [begun(job) for job in jobs] == pytest.approx([0.0, 2.0, 4.0, 6.0])  # x had no job when its turn came again
    cluster.close()


def test_a_job_that_no_slot_has_begun_is_queued() -> None:
    cluster = cluster_of(2)
    first = cluster.submit(JobRequest(plan("p", 2)))
    cluster.step(0.1)
    second = cluster.submit(JobRequest(plan("q", 2)))
    cluster.step(0.1)
    assert (first.display_state, second.display_state) == ("RUNNING", "QUEUED"), "both slots are the first one's"
    cluster.step()
    assert (first.display_state, second.display_state) == ("SUCCEEDED", "RUNNING")
    second.cancel()
    cluster.close()


def test_a_tenant_that_runs_nothing_is_next() -> None:
    cluster = cluster_of(2)
    jobs = [cluster.submit(JobRequest(plan(f"p{n}", 2 + 4 * n), terms=Terms(t))) for n, t in enumerate("xxxyy")]
    while cluster.busy:
        cluster.step()
    assert begun(jobs[3]) < begun(jobs[2])
    cluster.close()


def two_stages(name: str) -> Plan:
    columns = (("x", "INTEGER"),)
    first = Stage(f"{name}.1", "", (), columns, 2, f"{name}.1", estimate=Estimate(task_seconds=1.0, task_memory=1e6))
    read = (StageInput("r", f"{name}.1", "all"),)
    return Plan((first, Stage(f"{name}.2", "", read, columns, 1, f"{name}.2", estimate=first.estimate)), columns)


@pytest.mark.parametrize(("output", "together"), [(3 * 10**9, False), (10**9, True)])
def test_nobody_else_comes_while_outputs_are_more_than_fits_the_memory(output: int, together: bool) -> None:
    def script(spec: TaskSpec) -> Outcome:
        seconds = 9.0 if spec.stage.id == "long.2" else 1.0
        return Outcome(seconds, bytes=output if spec.stage.id == "long.1" else 8)

    clock = VirtualClock()
    backend = SimulatedBackend({"m": Resources(2, 8e9)}, clock, script)
    cluster = Cluster(backend, clock=clock, thread=False, options=ClusterOptions(most_jobs=2))
    long, short = cluster.submit(JobRequest(two_stages("long"))), cluster.submit(JobRequest(plan("short", 2)))
    other = cluster.submit(JobRequest(plan("other", 1)))
    while cluster.busy:
        cluster.step()
        cluster.check()
    end = next(record.at for record in long.history() if isinstance(record, Ended))
    assert end == 11.0 and begun(short) < 2.0
    assert begun(other) == (2.0 if together else end), "a place is free from the second second on"
    cluster.close()


def test_one_that_waits_can_be_cancelled_times_out_and_is_told_of_the_close() -> None:
    cluster = cluster_of(1)
    long, cancelled, late, last = (
        cluster.submit(JobRequest(plan(f"p{n}", 40), timeout=timeout))
        for n, timeout in enumerate([None, None, 3.0, None])
    )
    cluster.step(0.0)
    cancelled.cancel()
    while cluster.now() < 5.0:
        cluster.step()
    assert isinstance(cancelled.error, qoop.Cancelled) and isinstance(late.error, qoop.Timeout)
    assert last.status().place == 1
    cluster.close()
    assert isinstance(long.error, qoop.Cancelled) and isinstance(last.error, qoop.Cancelled)


@given(st.lists(st.tuples(st.sampled_from("xyz"), st.integers(1, 6)), min_size=1, max_size=12), st.integers(1, 4))
def test_never_more_than_may_and_never_a_job_too_few(asked: list[tuple[str, int]], most: int) -> None:
    cluster = cluster_of(most)
    jobs = [cluster.submit(JobRequest(plan(f"p{n}", k), terms=Terms(t))) for n, (t, k) in enumerate(asked)]
    while cluster.busy:
        cluster.step()
        places = [job.status().place for job in jobs if not job.state.final]
        running = places.count(None)
        assert running <= most and (running == most or running == len(places))
    assert all(any(isinstance(record, Ended) for record in job.history()) for job in jobs)
    cluster.close()


def test_weights_count_in_the_queue() -> None:
    queue = Admission(3)
    for number in range(6):
        queue.put(f"j{number}", number, "heavy" if number % 2 else "light", 2.0 if number % 2 else 1.0)
    assert list(queue.admit([])) == ["j0", "j1", "j3"] and len(queue) == 3


def test_a_session_queues_refuses_and_is_gone_through_again(tmp_path: Path) -> None:
    with qoop.connect(slots=1, memory="500MB", most_jobs=1, most_queued=1, trace=tmp_path / "t") as session:
        session.register("t", pa.table({"n": range(1000)}))
        long = session.submit(ENDLESS)
        until(session.tenants)
        waiting = session.submit("SELECT count(*) FROM t")
        until(lambda: waiting.status().place is not None)
        with pytest.raises(qoop.Overloaded, match=r"1 jobs run and 1 wait.* most_jobs"):
            session.submit("SELECT 3")
        long.cancel()
        assert waiting.result().fetchall() == [(1000,)]
        assert session.sql("SELECT 4").fetchall() == [(4,)]
    assert rerun(read_trace(tmp_path / "t")).difference is None
    with pytest.raises(qoop.ConfigError, match="most_jobs must be a whole number of at least 1"):
        qoop.connect(most_jobs=0)
