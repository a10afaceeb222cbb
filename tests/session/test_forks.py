"""A process that was forked from one with sessions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

PARENT = """
import os, sys, time
import pyarrow as pa
import qoop
from qoop.catalog.errors import SessionClosed
os.environ["QOOP_SPILL"] = sys.argv[1] + "/spill"
session = qoop.connect(slots=1, memory="300MB", checkpoints=sys.argv[1] + "/kept", trace=sys.argv[1] + "/trace.jsonl",
                       tables=sys.argv[1] + "/tables")
session.register("t", pa.table({"a": range(100_000)}))
session.sql("CREATE TABLE u AS SELECT a % 10 AS b FROM t")
result = session.sql("SELECT count(*), sum(b) FROM u")
ended = session.submit("SELECT sum(a) FROM t WHERE a < 10")
ended.wait()
running = session.submit("SELECT count(*) FROM range(3000000000) x(i) WHERE i % 3 = 1")
time.sleep(0.2)

def refused(what):
    begun = time.monotonic()
    try:
        what()
    except SessionClosed as error:
        assert "forked" in str(error)
    else:
        raise AssertionError("not refused")
    assert time.monotonic() - begun < 60, "it waits for what no thread of this process does"

for name, text in eval(sys.argv[2]).items():
    pid = os.fork()
    if pid == 0:
        exec(text)
        sys.exit(7)
    ended_by, deadline = 0, time.monotonic() + 120
    while not ended_by and time.monotonic() < deadline:
        ended_by, status = os.waitpid(pid, os.WNOHANG)
        time.sleep(0.01)
    if not ended_by:
        os.kill(pid, 9)
    print(name, os.waitstatus_to_exitcode(status) if ended_by else "hangs")
assert len(os.listdir(sys.argv[1] + "/spill")) == 1
running.cancel()
assert session.sql("SELECT count(*) FROM t").fetchall() == [(100_000,)]
assert ended.result().fetchall() == [(45,)]
session.close()
assert os.listdir(sys.argv[1] + "/spill") == []
assert not [name for name in os.listdir(sys.argv[1] + "/kept") if name.endswith(".user")]
with open(sys.argv[1] + "/trace.jsonl") as trace:
    assert trace.read().count('{"end"') == 1
print("unharmed")
"""

CHILDREN = {
    "does nothing": "pass",
    "uses the session": """
    for use in (
        lambda: session.sql("SELECT 1"), lambda: session.submit("SELECT 1"), lambda: session.register("x", "y.parquet"),
        lambda: session.explain("SELECT 1"), lambda: session.describe("SELECT 1"), lambda: session.resize(slots=1),
        lambda: session.set("TimeZone", "UTC"), lambda: session.statistics("t"), lambda: session.sql("DROP TABLE u"),
        lambda: session.tables(), lambda: session.views(), lambda: session.available,
    ):
        refused(use)
    repr(session)
    session.close()
    """,
    "uses jobs": """
    for job in (ended, running):
        for use in (job.result, job.wait, job.batches, job.cancel, job.progress, job.status, job.history,
                    lambda: job.suspend(sys.argv[1] + "/bundle"), lambda: job.when_ended(print)):
            refused(use)
        repr(job)
    """,
    "reads a result": """
    assert result.fetchall() == result.fetchall() == [(100_000, 450_000)]
    assert result.arrow().num_rows == 1 and result.fetchone() and repr(result)
    """,
    "opens its own": """
    with qoop.connect(slots=2, memory="300MB", checkpoints=sys.argv[1] + "/kept") as mine:
        mine.register("t", pa.table({"a": range(100_000)}))
        assert mine.sql("SELECT sum(a) FROM t").fetchall() == [(4999950000,)]
    other = qoop.connect(slots=1, memory="300MB")  # and leaves it open
    assert other.sql("SELECT 1").fetchall() == [(1,)]
    """,
    "forks": "os.waitpid(os.fork(), 0)",
    "forgets all": """
    import gc
    for name in ("session", "result", "ended", "running"):
        del globals()[name]
    gc.collect()
    """,
}


def test_children_end_as_usual_and_harm_nobody(tmp_path: Path) -> None:
    children = repr({name: dedent(text) for name, text in CHILDREN.items()})
    command = [sys.executable, "-c", PARENT, str(tmp_path), children]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [*(f"{name} 7" for name in CHILDREN), "unharmed"], done.stderr


POOL = """
import multiprocessing, qoop
session = qoop.connect(slots=2, memory="300MB")
assert session.sql("SELECT 1").fetchall() == [(1,)]

def count(rows):
    with qoop.connect(slots=1, memory="300MB") as mine:
        return mine.sql(f"SELECT count(*) FROM range({rows})").fetchall()[0][0]

with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(count, range(4), chunksize=1))
"""


def test_a_pool_of_forked_processes_has_sessions() -> None:
    done = subprocess.run([sys.executable, "-c", POOL], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "[0, 1, 2, 3]\n"), done.stderr
