"""Tasks that wait at the nodes of a Ray cluster (`connect(node_queue=…)`), also where a node dies with them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

import qoop
from qoop.adaptive.cluster.job_handle import JobHandle
from qoop.adaptive.cluster.recording.messages import JobRequest
from qoop.adaptive.simulation import Fleet, SimulatedJob, SimulationOptions, simulate
from qoop.engine.backends.outcomes import Outcome
from qoop.engine.history import Began, Ended, Lost, Started, Succeeded, Waiting
from qoop.engine.node_queues.policy import usual
from qoop.engine.state import State
from qoop.planner.plan import Estimate, Plan, Stage

if TYPE_CHECKING:
    from tests.ray.conftest import NodesMaker

pytestmark = pytest.mark.ray

COLUMNS = (("n", "BIGINT"),)
SQL = "SELECT count(*) AS n FROM range(20000000) t(i) WHERE i % 7 = 3"
WIDTH = 16


def submitted(session: qoop.Session) -> JobHandle:
    estimate = Estimate(task_seconds=0.1, task_memory=1e6)
    stage = Stage("a", SQL, (), COLUMNS, WIDTH, "a", estimate=estimate)
    return session.cluster.submit(JobRequest(Plan((stage,), COLUMNS)))


def count(handle: JobHandle, kind: type) -> int:
    return sum(isinstance(record, kind) for record in handle.history())


def test_a_task_begins_where_it_waits(make_nodes: NodesMaker) -> None:
    with make_nodes(1, 1) as nodes, qoop.connect(ray=nodes.address, node_queue=2) as session:
        handle = submitted(session)
        handle.wait()
        assert handle.state is State.SUCCEEDED, handle.error
        assert count(handle, Succeeded) == count(handle, Started) == WIDTH
        assert count(handle, Waiting) == count(handle, Began) >= WIDTH // 2
        session.cluster.check()
        assert session.sql("SELECT 41 + 1").fetchall() == [(42,)]


def test_what_waits_at_a_node_that_dies_runs_elsewhere(make_nodes: NodesMaker) -> None:
    with make_nodes(1, 1) as nodes, qoop.connect(ray=nodes.address, node_queue=2) as session:
        handle = submitted(session)
        while count(handle, Waiting) < 4 or not count(handle, Succeeded):
            time.sleep(0.01)
        nodes.kill(nodes.there[0])
        handle.wait()
        assert handle.state is State.SUCCEEDED, handle.error
        assert count(handle, Succeeded) - count(handle, Lost) == WIDTH
        assert count(handle, Started) > WIDTH
        session.cluster.check()


def test_the_simulator_does_again_what_nodes_with_queues_did(make_nodes: NodesMaker) -> None:
    """Each task takes as long as it did there: as many wait, and all ends at about the same time."""
    with make_nodes(1, 1) as nodes, qoop.connect(ray=nodes.address, node_queue=2) as session:
        while session.available.cpu < 2:
            time.sleep(0.05)
        submitted(session).wait()  # kernels are warm afterwards
        handle = submitted(session)
        handle.wait()
        history, plan = handle.history(), handle.plans()[0]
        machines = {name: one.capacity for name, one in session.cluster.machines().items()}
    took = {one.attempt.task.part: one.committed.seconds for one in history if isinstance(one, Succeeded)}
    fleet, jobs = Fleet(machines), [SimulatedJob("again", 0.0, plan)]
    options = SimulationOptions(queueing=usual(2))
    run = simulate(fleet, jobs, lambda spec: Outcome(took[spec.attempt.task.part]), options=options).jobs[0]
    real = next(one.at for one in reversed(history) if isinstance(one, Ended))
    assert run.seconds == pytest.approx(real, rel=0.15)
    waited = sum(isinstance(one, Waiting) for one in run.history)
    assert abs(waited - count(handle, Waiting)) <= 2
