"""Tasks that wait at a machine with real kernels: they begin when others end, in the order of the queue, and each only
once; they can be called back, and a trace of them is gone through again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from qoop.adaptive.cluster.cluster import Cluster
from qoop.adaptive.cluster.job_handle import JobHandle
from qoop.adaptive.cluster.options import ClusterOptions
from qoop.adaptive.cluster.recording.messages import JobRequest
from qoop.adaptive.cluster.recording.trace import TraceFile
from qoop.adaptive.retrace.reading import read_trace
from qoop.adaptive.retrace.rerun import rerun
from qoop.engine.backends.attempt_runner import Read
from qoop.engine.backends.local import LocalBackend
from qoop.engine.events import Begun, Event, Queued, TaskStopped, TaskSucceeded, WorkObserved
from qoop.engine.history import Began, Started, Stopped, Succeeded, Waiting
from qoop.engine.node_queues.ordering import Ordering
from qoop.engine.node_queues.policy import NodeQueueing
from qoop.engine.node_queues.ticket import JobLeft, Ticket
from qoop.engine.state import State
from qoop.engine.task import AttemptId, ResolvedInput, TaskId, TaskSpec, checkpoint_key
from qoop.planner.plan import Estimate, Plan, Resources, Stage, StageInput

COLUMNS = (("n", "BIGINT"),)
QUICK = "SELECT sum(i)::BIGINT AS n FROM range(1000) t(i)"
SLOW = "SELECT count(*) AS n FROM range(300000000) t(i) WHERE i % 7 = 3"
ENDLESS = "SELECT count(*) AS n FROM range(100000000000) a(i), range(1000) b(j) WHERE (i * j) % 7 = 3"


@contextmanager
def cluster_of(slots: int, queueing: NodeQueueing, trace: Path | None = None) -> Iterator[Cluster]:
    backend = LocalBackend(slots, 2**29, queueing=queueing)
    written = TraceFile(trace) if trace is not None else None
    cluster = Cluster(backend, trace=written, options=ClusterOptions(queueing=queueing))
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


def test_every_task_runs_once_and_many_wait_where_they_run(tmp_path: Path) -> None:
    with cluster_of(2, NodeQueueing(2), tmp_path / "t") as cluster:
        handle = job(cluster, "a", QUICK, 40)
        handle.wait()
        assert handle.state is State.SUCCEEDED, handle.error
        assert count(handle, Succeeded) == count(handle, Started) == 40
        assert count(handle, Waiting) == count(handle, Began) >= 10
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
        endless = job(cluster, "endless", ENDLESS, 1, 9.0)
        while not count(endless, Started):
            cluster.wait_for_planner()
        other = job(cluster, "other", QUICK, 2)
        while not count(other, Waiting):
            cluster.wait_for_planner()
        other.cancel()
        other.wait()
        assert other.state is State.CANCELLED and not endless.state.final
        assert count(other, Stopped) == count(other, Waiting) and not count(other, Began)
        endless.cancel()


class Far:
    """Another machine, with one output of which each partition is five rows."""

    def __init__(self) -> None:
        self.asked: list[Sequence[Read]] = []
        self.ahead: list[bool] = []
        self.hastened: list[AttemptId] = []

    def hasten(self, attempt: AttemptId) -> None:
        self.hastened.append(attempt)

    def fetch(self, spec: TaskSpec, wanted: Sequence[Read], ahead: bool = False) -> Mapping[Read, pa.Table]:
        self.asked += [wanted] if wanted else []
        self.ahead += [ahead] if wanted else []
        return {one: pa.table({"n": pa.array(range(5), pa.int64())}) for one in wanted}


def spec_of(stage: Stage, number: int, waits: bool = False, inputs: tuple[ResolvedInput, ...] = ()) -> TaskSpec:
    attempt, resources = AttemptId(TaskId("job", stage.id, 0), number), Resources(1, 1e8)
    ticket = Ticket(attempt, 1, 0.1, 0.0, JobLeft(0.1, 1), resources, waits)
    return TaskSpec(attempt, stage, checkpoint_key(stage, 0), inputs, {}, resources, ticket=ticket)


def test_what_waits_has_its_inputs_before_it_begins() -> None:
    far, made = Far(), Stage("made", "", (), COLUMNS, 1, "made")
    reads = (StageInput("r", "made", "all"),)
    reading = Stage("reading", "SELECT sum(n)::BIGINT AS n FROM r", reads, COLUMNS, 1, "reading")
    backend = LocalBackend(1, 2**29, elsewhere=far, queueing=NodeQueueing(2))
    try:
        backend.start("local", spec_of(Stage("endless", ENDLESS, (), COLUMNS, 1, "endless"), 1))
        input = ResolvedInput("r", (checkpoint_key(made, 0),))
        backend.start("local", spec_of(reading, 2, waits=True, inputs=(input,)))
        while not far.asked:
            backend.wait(0.01)
        backend.stop(AttemptId(TaskId("job", "endless", 0), 1))
        events: list[Event] = []
        while not any(isinstance(event, TaskSucceeded) for event in events):
            events += backend.wait(60)
        others = [event for event in events if not isinstance(event, WorkObserved)]  # as long as a task takes its time
        kinds = [type(one) for one in others if not (isinstance(one, Queued | Begun) and one.attempt.number == 1)]
        assert kinds == [TaskStopped, Begun, TaskSucceeded]
        assert far.asked == [[(checkpoint_key(made, 0), None)]], "asked once, while it waited"
        assert far.ahead == [True] and far.hastened == [AttemptId(TaskId("job", "reading", 0), 2)]
        assert backend.read(checkpoint_key(reading, 0)).to_pylist() == [{"n": 10}]
    finally:
        backend.close()


@pytest.mark.parametrize("slots", [0, 1])
def test_a_machine_that_shrinks_begins_no_more_than_it_has_slots_for(slots: int) -> None:
    with cluster_of(2, NodeQueueing(4)) as cluster:
        endless = job(cluster, "endless", ENDLESS, 2, 9.0)
        while count(endless, Started) < 2:
            cluster.wait_for_planner()
        other = job(cluster, "other", QUICK, 3)
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
