"""Sessions on a store: a query killed on one machine goes on on another."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import duckdb
import numpy
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qoop
from qoop.engine.history import Started
from qoop.engine.task import checkpoint_key

QUERY = """
    WITH a AS (SELECT k, count(*) AS n, sum(v) AS v FROM facts GROUP BY k),
         b AS (SELECT w, min(k) AS k FROM more GROUP BY w),
         c AS (SELECT r, max(k) AS k FROM facts GROUP BY r)
    SELECT r.name AS name, sum(a.n) AS n, sum(a.v) AS v, count(b.w) AS w
    FROM c JOIN regions AS r ON c.r = r.r JOIN facts AS f ON f.r = r.r JOIN a ON a.k = f.k LEFT JOIN b ON b.k = a.k
    GROUP BY r.name ORDER BY name
"""

KILLS_ITSELF = """
import os, signal, sys, qoop
from qoop.engine.history import Saved
data, place, text = sys.argv[1:]
session = qoop.connect(slots=4, memory="1GB", checkpoints=place, replan=False)
session.register_folder(data)
job = session.submit(text)
while sum(isinstance(record, Saved) for record in job.history()) < 3 and not job.wait(0.002):
    pass
os.kill(os.getpid(), signal.SIGKILL)
"""

ENDS = """
import sys, qoop
data, place, text = sys.argv[1:]
session = qoop.connect(slots=2, memory="1GB", checkpoints=place)
session.register_folder(data)
print(session.sql(text).fetchall())
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, random = tmp_path_factory.mktemp("data"), numpy.random.default_rng(1)
    rows = 400_000
    facts = pa.table({"k": random.integers(0, rows, rows), "r": random.integers(0, 20, rows), "v": numpy.arange(rows)})
    more = pa.table({"k": random.permutation(rows), "w": random.integers(0, 1000, rows)})
    pq.write_table(facts, folder / "facts.parquet", row_group_size=50_000)
    pq.write_table(more, folder / "more.parquet", row_group_size=50_000)
    pq.write_table(pa.table({"r": range(20), "name": [f"r{n}" for n in range(20)]}), folder / "regions.parquet")
    return folder


def expected(data: Path) -> list[tuple[object, ...]]:
    with duckdb.connect() as connection:
        for name in ("facts", "more", "regions"):
            connection.execute(f"CREATE VIEW {name} AS FROM '{data}/{name}.parquet'")
        return connection.execute(QUERY).fetchall()


def run(script: str, *arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run a process of a machine of its own: nothing on disk is shared but what is named."""
    own = os.environ | {"QOOP_CACHE_DIR": str(home)}
    return subprocess.run(
        [sys.executable, "-c", script, *arguments], env=own, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_query_killed_on_one_machine_goes_on_on_another(place: str, data: Path, tmp_path: Path) -> None:
    killed = run(KILLS_ITSELF, str(data), place, QUERY, home=tmp_path / "elsewhere")
    assert killed.returncode == -9, killed.stderr
    with qoop.connect(slots=4, memory="1GB", checkpoints=place, replan=False) as session:
        session.register_folder(data)
        job = session.submit(QUERY)
        answer = job.result().fetchall()
        attempts = sum(isinstance(record, Started) for record in job.history())
    theirs = expected(data)
    assert len(theirs) == 20 and answer == theirs
    tasks = {checkpoint_key(stage, part) for stage in job.plan.stages for part in range(stage.width)}
    assert attempts <= len(tasks) - 3, "what was committed was not made again"


def test_a_process_that_used_s3_ends_cleanly(bucket: str, data: Path, tmp_path: Path) -> None:
    """Also without closing its session, and where nothing was answered by the store but errors."""
    for _ in range(2):  # the second takes all from the store
        done = run(ENDS, str(data), f"{bucket}/p", QUERY, home=tmp_path / "elsewhere")
        assert (done.returncode, done.stderr) == (0, "") and eval(done.stdout) == expected(data)
    failed = run(ENDS, str(data), "s3://no-such-bucket/p", QUERY, home=tmp_path / "elsewhere")
    assert failed.returncode == 1 and failed.stderr.strip().endswith("The specified bucket does not exist")
