"""Tasks that wait at the nodes of a Ray cluster (`connect(node_queue=…)`), also where a node dies with them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

import qoop
from qoop.control.job_handle import JobHandle
from qoop.control.messages import JobRequest
from qoop.engine.history import Began, Lost, Started, Succeeded, Waiting
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
