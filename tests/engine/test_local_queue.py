"""Tasks that wait at a machine with real kernels: they begin when others end, in the order of the queue, and each only
once; they can be called back, and a trace of them is gone through again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from qoop.control.cluster import Cluster
from qoop.control.job_handle import JobHandle
from qoop.control.messages import JobRequest
from qoop.control.trace import TraceFile
from qoop.engine.backends.local import LocalBackend
from qoop.engine.history import Began, Started, Stopped, Succeeded, Waiting
from qoop.engine.node_queues.ordering import Ordering
from qoop.engine.node_queues.policy import NodeQueueing
from qoop.engine.state import State
from qoop.planner.plan import Estimate, Plan, Stage
from qoop.retrace.rerun import read_trace, rerun

COLUMNS = (("n", "BIGINT"),)
QUICK = "SELECT sum(i)::BIGINT AS n FROM range(1000) t(i)"
SLOW = "SELECT count(*) AS n FROM range(300000000) t(i) WHERE i % 7 = 3"
ENDLESS = "SELECT count(*) AS n FROM range(100000000000) a(i), range(1000) b(j) WHERE (i * j) % 7 = 3"


@contextmanager
def cluster_of(slots: int, queueing: NodeQueueing, trace: Path | None = None) -> Iterator[Cluster]:
    backend = LocalBackend(slots, 2**29, queueing=queueing)
    cluster = Cluster(backend, queueing=queueing, trace=TraceFile(trace) if trace is not None else None)
    try:
        yield cluster
        cluster.check()
    finally:
        cluster.close()


def job(cluster: Cluster, name: str, sql: str, width: int, seconds: float = 0.1) -> JobHandle:
    estimate = Estimate(task_seconds=seconds, task_memory=1e6)
    return cluster.submit(JobRequest(Plan((Stage(name, sql, (), COLUMNS, width, name, estimate=estimate),), COLUMNS)))


def count(handle: JobHandle, kind: type) -> int:
    return sum(isinstance(record, kind) for record in handle.history())


def test_every_task_runs_once_and_most_wait_where_they_run(tmp_path: Path) -> None:
    with cluster_of(2, NodeQueueing(2), tmp_path / "t") as cluster:
        handle = job(cluster, "a", QUICK, 40)
        handle.wait()
        assert handle.state is State.SUCCEEDED, handle.error
        assert count(handle, Succeeded) == count(handle, Started) == 40
        assert count(handle, Waiting) == count(handle, Began) >= 30
    found = rerun(read_trace(tmp_path / "t"))
    assert found.difference is None
    assert "NodeQueueing(length=2" in (tmp_path / "t").read_text()


def test_the_job_with_the_least_left_begins_first() -> None:
    with cluster_of(1, NodeQueueing(8, Ordering("shortest-job"))) as cluster:
        running = job(cluster, "running", SLOW, 1, 1.0)
        while not count(running, Started):
            cluster.wait_for_planner()
        long, short = job(cluster, "long", SLOW, 2, 5.0), job(cluster, "short", QUICK, 1, 0.1)
        short.wait()
        assert count(short, Waiting) == 1 and count(long, Waiting) == 2
        assert not count(long, Succeeded), "the short one came later, and ends before"
        long.cancel()


def test_what_waits_ends_at_once_when_it_is_cancelled() -> None:
    with cluster_of(1, NodeQueueing(2)) as cluster:
        endless, other = job(cluster, "endless", ENDLESS, 1, 9.0), job(cluster, "other", QUICK, 2)
        while not count(other, Waiting):
            cluster.wait_for_planner()
        other.cancel()
        other.wait()
        assert other.state is State.CANCELLED and endless.state is State.RUNNING
        assert count(other, Stopped) == count(other, Waiting) and not count(other, Began)
        endless.cancel()


@pytest.mark.parametrize("slots", [0, 1])
def test_a_machine_that_shrinks_begins_no_more_than_it_has_slots_for(slots: int) -> None:
    with cluster_of(2, NodeQueueing(4)) as cluster:
        endless, other = job(cluster, "endless", ENDLESS, 2, 9.0), job(cluster, "other", QUICK, 3)
        while not count(other, Waiting):
            cluster.wait_for_planner()
        cluster.resize(slots=slots)
        cluster.check()
        endless.cancel()
        endless.wait()
        if not slots:
            assert not count(other, Succeeded)
            cluster.resize(slots=1)
        other.wait()
        assert other.state is State.SUCCEEDED, other.error
