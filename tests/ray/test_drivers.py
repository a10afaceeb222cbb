"""Sessions in processes of their own: some are killed, others go on from what they left."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qoop
from qoop.engine.history import ShareReported, Started, Succeeded
from qoop.engine.storage.manifest import manifests
from qoop.session.session import Session
from qoop.tpcds.oracle import Oracle
from qoop.tpcds.queries import text

if TYPE_CHECKING:
    from tests.ray.conftest import Nodes

pytestmark = [pytest.mark.ray, pytest.mark.timeout(240)]

DRIVER = """
import sys, qoop
address, data, folder, text = sys.argv[1:]
with qoop.connect(ray=address, checkpoints=folder) as session:
    session.register_folder(data)
    session.submit(text).wait()
    print("done", flush=True)
"""


def test_a_query_goes_on_in_another_driver(two_nodes: Nodes, tpcds_test: Path, tmp_path: Path) -> None:
    query = text(4)
    arguments = [sys.executable, "-c", DRIVER, two_nodes.address, str(tpcds_test), str(tmp_path), query]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while len(list(manifests(tmp_path))) < 3:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.kill()
    process.communicate()
    kept = {saved.committed.key for saved in manifests(tmp_path)}
    with qoop.connect(ray=two_nodes.address, checkpoints=tmp_path) as session, Oracle(tpcds_test) as oracle:
        session.register_folder(tpcds_test)
        job = session.submit(query)
        assert oracle.judge(query, job.result().arrow()) is None
        made = {record.committed.key for record in job.history() if isinstance(record, Succeeded)}
        assert made and not made & kept


def test_a_job_is_suspended_and_resumed(two_nodes: Nodes, tpcds_test: Path, tmp_path: Path) -> None:
    query = text(4)
    with qoop.connect(ray=two_nodes.address) as session, Oracle(tpcds_test) as oracle:
        session.register_folder(tpcds_test)
        job = session.submit(query)
        while not any(isinstance(record, Succeeded) for record in job.history()):
            assert not job.wait(0.02)
        job.suspend(tmp_path / "bundle")
        assert job.state == "SUSPENDED"
        again = session.resume(tmp_path / "bundle")
        assert oracle.judge(query, again.result().arrow()) is None
        done = {record.committed.key for record in job.history() if isinstance(record, Succeeded)}
        made = {record.committed.key for record in again.history() if isinstance(record, Succeeded)}
        assert done - made


def test_a_job_of_one_machine_is_resumed_on_a_cluster(two_nodes: Nodes, tpcds: Path, tmp_path: Path) -> None:
    query = text(4)
    with qoop.connect(slots=1) as session:
        session.register_folder(tpcds)
        session.resize(slots=0)  # so that it cannot end before
        session.submit(query).suspend(tmp_path / "bundle")
    again = qoop.resume(tmp_path / "bundle", ray=two_nodes.address)
    with Oracle(tpcds) as oracle:
        assert oracle.judge(query, again.result().arrow()) is None
    machines = {record.machine for record in again.history() if isinstance(record, Started)}
    assert machines and all(name.startswith("node-") for name in machines)


BUSY = """
import sys, qoop
address, path = sys.argv[1:]
with qoop.connect(ray=address) as session:
    session.register("numbers", path)
    job = session.submit("SELECT count(*) FROM numbers WHERE length(md5(repeat(n::VARCHAR, 2000))) = 32")
    print("busy", flush=True)
    job.wait()
"""


def test_sessions_share_the_nodes_until_one_dies(two_nodes: Nodes, tmp_path: Path) -> None:
    path = tmp_path / "numbers.parquet"
    pq.write_table(pa.table({"n": range(4_000_000)}), path, row_group_size=50_000)
    with qoop.connect(ray=two_nodes.address) as session:
        session.register("numbers", path)
        assert session.available.cpu == 2
        process = subprocess.Popen([sys.executable, "-c", BUSY, two_nodes.address, str(path)], stdout=subprocess.PIPE)
        try:
            assert process.stdout is not None and process.stdout.readline() == b"busy\n"
            job = session.submit("SELECT max(n) FROM numbers WHERE length(md5(repeat(n::VARCHAR, 2000))) = 32")
            available(session, 1)
            while [record.share.cpu for record in job.history() if isinstance(record, ShareReported)][-1:] != [1]:
                assert not job.wait(0.05)
        finally:
            process.kill()
            process.communicate()
        available(session, 2)
        job.cancel()


def available(session: Session, slots: int) -> None:
    """Wait until the session has that many slots."""
    deadline = time.monotonic() + 60
    while session.available.cpu != slots:
        assert time.monotonic() < deadline, f"{session.available.cpu} slots"
        time.sleep(0.05)


def test_the_command_line_runs_on_a_cluster(two_nodes: Nodes, tpcds: Path) -> None:
    command = [sys.executable, "-m", "qoop", "--ray", two_nodes.address, "--data", str(tpcds), "--format", "csv"]
    done = subprocess.run(
        [*command, "-c", "SELECT count(*) AS n FROM item"], capture_output=True, text=True, timeout=120
    )
    assert done.stderr == "" and done.stdout.split() == ["n", str(Oracle(tpcds).answer("FROM item").num_rows)]


@pytest.mark.parametrize("what", ["connect(ray='127.0.0.1:9')", "resume('paused', ray='127.0.0.1:9')"])
def test_no_cluster_is_told(what: str) -> None:
    code = f"import qoop; qoop.{what}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert "ConfigError: there is no Ray cluster at 127.0.0.1:9" in done.stderr


def test_want_of_ray_is_told() -> None:
    code = "import sys; sys.modules['ray'] = None\nimport qoop; qoop.connect(ray='auto')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "ConfigError: Ray is not installed: pip install 'qoop[ray]'" in done.stderr
