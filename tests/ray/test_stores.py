"""Tables and checkpoints in a bucket, used by the nodes of a cluster and by a machine that is none of them."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qoop
from qoop.engine.history import Saved, Started
from qoop.planner.plan import Resources
from qoop.planner.variants import Variant

if TYPE_CHECKING:
    from tests.ray.conftest import NodesMaker

pytestmark = [pytest.mark.ray, pytest.mark.timeout(240)]

ROWS = 640_000
QUERY = """
SELECT n % 7 AS k, count(*) AS found FROM numbers
WHERE length(md5(repeat(n::VARCHAR, 350))) = 32 GROUP BY k ORDER BY k
"""
ANSWER = [(k, len(range(k, ROWS, 7))) for k in range(7)]


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket with a table in it, that processes begun from now on can reach."""
    moto, _ = pytest.importorskip("moto.server"), pytest.importorskip("obstore")
    import boto3

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    endpoint = "http://{}:{}".format(*server.get_host_and_port())
    for name, value in {
        "AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": "someone", "AWS_SECRET_ACCESS_KEY": "something",
        "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1", "QOOP_CACHE_DIR": str(tmp_path / "cache"),
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    client = boto3.client("s3", endpoint_url=endpoint)
    client.create_bucket(Bucket="cluster")
    pq.write_table(pa.table({"n": range(ROWS)}), tmp_path / "numbers.parquet", row_group_size=ROWS // 64)
    client.upload_file(str(tmp_path / "numbers.parquet"), "cluster", "tables/numbers.parquet")
    yield "s3://cluster"
    server.stop()


def test_what_a_cluster_left_in_a_bucket_serves_a_machine_that_is_not_of_it(
    bucket: str, make_nodes: NodesMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two nodes is killed on the way."""
    place = f"{bucket}/checkpoints"
    with make_nodes(1, 1) as nodes, qoop.connect(ray=nodes.address, checkpoints=place) as session:
        session.register_folder(f"{bucket}/tables")
        deadline = time.monotonic() + 60
        while session.available.cpu < 2:
            assert time.monotonic() < deadline, "the nodes are not there"
            time.sleep(0.05)
        plan = session.prepare(QUERY).planning().plan(Variant(), Resources(24, 24e9))
        job = session.submit(QUERY, plan=plan, resume=True)
        while sum(isinstance(record, Saved) for record in job.history()) < 4 and not job.wait(0.02):
            pass
        nodes.kill(nodes.there[0])
        assert job.result().fetchall() == ANSWER
        assert len({record.machine for record in job.history() if isinstance(record, Started)}) == 2
    monkeypatch.setenv("QOOP_CACHE_DIR", str(tmp_path / "another machine"))
    with qoop.connect(slots=2, checkpoints=place, replan=False) as session:
        session.register_folder(f"{bucket}/tables")
        job = session.submit(QUERY, plan=plan, resume=True)
        assert job.result().fetchall() == ANSWER
        assert not any(isinstance(record, Started) for record in job.history())
