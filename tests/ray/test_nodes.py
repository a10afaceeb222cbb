"""Nodes that come, go and say that they will."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qoop
from qoop.catalog.errors import Revoked
from qoop.engine.history import CapacityAnnounced, CapacityReported, Failed, Lost, Record, Saved, Started, Succeeded
from qoop.planner.plan import Resources
from qoop.planner.variants import Variant
from qoop.query.job import Job
from qoop.session.session import Session
from qoop.tpcds.oracle import Oracle
from qoop.tpcds.queries import text

if TYPE_CHECKING:
    from tests.ray.conftest import NodesMaker

pytestmark = [pytest.mark.ray, pytest.mark.timeout(240)]

ROWS = 640_000
SLOW = """
SELECT n % 7 AS k, count(*) AS found FROM numbers
WHERE length(md5(repeat(n::VARCHAR, 350))) = 32 GROUP BY k ORDER BY k
"""
LONG = SLOW.replace("350", "1400")  # for longer than a node takes to begin, on a busy machine too
ANSWER = [(k, len(range(k, ROWS, 7))) for k in range(7)]


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table that is slow to filter, in 64 pieces."""
    path = tmp_path_factory.mktemp("tables") / "numbers.parquet"
    pq.write_table(pa.table({"n": range(ROWS)}), path, row_group_size=ROWS // 64)
    return path


def submitted(session: Session, tasks: int = 24, query: str = SLOW) -> Job:
    """The query, cut for that many slots, however many there are."""
    plan = session.prepare(query).planning().plan(Variant(), Resources(tasks, 1e9 * tasks))
    assert max(stage.width for stage in plan.stages) > tasks // 2
    return session.submit(query, plan=plan)


def wait_for(job: Job, what: type[Record], count: int = 1, seconds: float = 60.0) -> list[Record]:
    """The records of a kind, once there are that many. The job must not have ended before."""
    deadline = time.monotonic() + seconds
    while len(found := [record for record in job.history() if isinstance(record, what)]) < count:
        assert time.monotonic() < deadline, f"no {what.__name__}:\n" + "\n".join(map(str, job.history()))
        assert job.state in ("STARTING", "SWITCHING", "RUNNING"), "it has ended"
        time.sleep(0.02)
    return found


def machines(job: Job) -> Counter[str]:
    return Counter(record.machine for record in job.history() if isinstance(record, Started))


def test_a_node_that_joins_is_used_by_a_stage_that_runs(make_nodes: NodesMaker, numbers: Path) -> None:
    with make_nodes(1) as nodes, qoop.connect(ray=nodes.address) as session:
        session.register("numbers", numbers)
        job = submitted(session, query=LONG)
        wait_for(job, Succeeded, 2)
        before = set(machines(job))
        nodes.add()
        assert job.result().fetchall() == ANSWER
        scan = job.plan.stages[0].id
        late = {record.machine for record in job.history() if isinstance(record, Started)} - before
        assert len(before) == 1 and len(late) == 1
        used = {r.machine for r in job.history() if isinstance(r, Started) and r.attempt.task.stage == scan}
        assert late <= used
        assert session.available.cpu == 2


def test_of_a_node_that_is_killed_only_what_ran_and_what_it_alone_held_is_redone(
    make_nodes: NodesMaker, numbers: Path
) -> None:
    with make_nodes(1, 1) as nodes, qoop.connect(ray=nodes.address) as session:
        session.register("numbers", numbers)
        job = submitted(session)
        wait_for(job, Succeeded, 4)
        nodes.kill(nodes.there[0])
        assert job.result().fetchall() == ANSWER
        gone = [r.machine for r in job.history() if isinstance(r, CapacityReported) and r.capacity is None]
        assert len(gone) == 1
        failed = [record for record in job.history() if isinstance(record, Failed)]
        assert all(isinstance(record.error, Revoked) for record in failed)
        lost = {record.key for record in job.history() if isinstance(record, Lost)}
        place = {r.attempt: r.machine for r in job.history() if isinstance(r, Started)}
        made = {r.committed.key for r in job.history() if isinstance(r, Succeeded) and place[r.attempt] == gone[0]}
        assert lost <= made
        begun = Counter(record.key for record in job.history() if isinstance(record, Started))
        assert {key for key, count in begun.items() if count > 1} <= lost | {record.key for record in failed}


def test_what_ray_says_of_a_node_that_is_killed_goes_to_its_logger_not_to_the_terminal(
    make_nodes: NodesMaker, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with make_nodes(1, 1) as nodes, qoop.connect(ray=nodes.address) as session:
        assert session.sql("SELECT 1").fetchall() == [(1,)]
        nodes.kill(nodes.there[0])
        deadline = time.monotonic() + 60
        while "has been marked dead" not in caplog.text:
            assert time.monotonic() < deadline, "Ray says nothing"
            time.sleep(0.1)
    shown = capfd.readouterr()
    assert not shown.out and not shown.err


def test_what_is_in_the_folder_of_checkpoints_is_not_redone(
    make_nodes: NodesMaker, numbers: Path, tmp_path: Path
) -> None:
    with make_nodes(1, 1) as nodes, qoop.connect(ray=nodes.address, checkpoints=tmp_path) as session:
        session.register("numbers", numbers)
        job = submitted(session)
        wait_for(job, Saved, 4)
        nodes.kill(nodes.there[0])
        assert job.result().fetchall() == ANSWER
        gone = [r.machine for r in job.history() if isinstance(r, CapacityReported) and r.capacity is None]
        lost = [record for record in job.history() if isinstance(record, Lost)]
        place = {r.attempt: r.machine for r in job.history() if isinstance(r, Started)}
        made = [r for r in job.history() if isinstance(r, Succeeded) and place[r.attempt] == gone[0]]
        assert len(made) > len(lost)  # at most what was made in the second before


def test_a_notice_is_passed_on_and_heeded(make_nodes: NodesMaker, numbers: Path) -> None:
    from ray._raylet import GcsClient

    with make_nodes(1, 1) as nodes, qoop.connect(ray=nodes.address) as session:
        session.register("numbers", numbers)
        job = submitted(session)
        wait_for(job, Succeeded, 2)
        node = nodes.there[0]
        client, preempted, deadline = GcsClient(nodes.address), 2, int((time.time() + 4) * 1000)
        assert client.drain_node(node, preempted, "the market", deadline)[0]
        notice = wait_for(job, CapacityAnnounced)[0]
        assert isinstance(notice, CapacityAnnounced) and node.startswith(notice.machine.removeprefix("node-"))
        time.sleep(2)  # until then it is there
        assert not [
            record for record in job.history() if isinstance(record, CapacityReported) and record.capacity is None
        ]
        nodes.kill(node)
        assert job.result().fetchall() == ANSWER


@pytest.mark.parametrize("seed", [1, 2])
def test_answers_are_right_while_nodes_come_and_go_at_random(
    seed: int, make_nodes: NodesMaker, tpcds: Path, tpcds_test: Path
) -> None:
    chance, killed = random.Random(seed), 0
    print(f"seed {seed}")
    with make_nodes(1, 1) as nodes, qoop.connect(ray=nodes.address) as session, Oracle(tpcds_test) as oracle:
        session.register_folder(tpcds_test)
        for number in chance.sample(range(1, 100), 4):
            query = text(number)
            job = submitted_as_it_comes(session, query)
            while not job.wait(chance.uniform(0.05, 0.6)):
                if len(nodes.there) > 1 and chance.random() < 0.5:
                    nodes.kill(chance.choice(nodes.there))
                    killed += 1
                elif len(nodes.there) < 3:
                    nodes.add()
            difference = oracle.judge(query, job.result().arrow())
            assert difference is None, f"query {number}: {difference}\n" + "\n".join(map(str, job.history()))
        assert killed


def submitted_as_it_comes(session: Session, query: str) -> Job:
    """A query that may change plan, cut into more tasks than there are slots if it can be."""
    plan = session.prepare(query).planning().plan(Variant(), Resources(8, 4e9))
    return session.submit(query, plan=plan)


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """No raylet, and no actor, outlives its test."""
    psutil = pytest.importorskip("psutil")
    yield
    deadline = time.monotonic() + 60
    while left := [
        one for one in psutil.Process().children(recursive=True) if one.is_running() and "ray" in one.name()
    ]:
        assert time.monotonic() < deadline, [one.cmdline() for one in left]
        time.sleep(0.1)
