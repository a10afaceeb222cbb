"""Sessions that nobody closes."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pyarrow as pa
import pytest

import qoop
from qoop.session.session import Session

_BEFORE: set[threading.Thread] = set()
"""Threads of sessions that other tests of this process have left open."""


@pytest.fixture(autouse=True)
def spill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QOOP_SPILL", str(tmp_path / "spill"))
    _BEFORE.clear()
    _BEFORE.update(threading.enumerate())


def opened(folder: Path) -> Session:
    session = qoop.connect(slots=2, memory="300MB", checkpoints=folder / "kept", trace=folder / "trace.jsonl")
    session.register("t", pa.table({"a": range(100_000), "b": [number % 7 for number in range(100_000)]}))
    return session


def left(folder: Path) -> list[str]:
    threads = [
        thread.name for thread in threading.enumerate() if thread not in _BEFORE and thread.name.startswith("qoop-")
    ]
    users = [path.name for path in (folder / "kept").glob("*.user")]
    return [*threads, *users, *(path.name for path in (folder / "spill").iterdir())]


def test_a_session_that_nobody_holds_is_closed_without_a_search_for_cycles(tmp_path: Path) -> None:
    session = [opened(tmp_path)]
    for text in ("SELECT b, sum(a) FROM t GROUP BY b", "CREATE VIEW v AS SELECT * FROM t", "CREATE TABLE u AS FROM v"):
        session[0].sql(text)
    files = len(os.listdir("/proc/self/fd"))
    assert left(tmp_path)
    gc.disable()
    try:
        with pytest.warns(ResourceWarning, match="not closed"):
            session.clear()
    finally:
        gc.enable()
    assert left(tmp_path) == []
    assert len(os.listdir("/proc/self/fd")) < files
    assert '{"end"' in (tmp_path / "trace.jsonl").read_text()


def test_a_job_keeps_its_session_and_a_result_needs_none(tmp_path: Path) -> None:
    job = [opened(tmp_path).submit("SELECT b, count(*) FROM t GROUP BY b ORDER BY b")]
    gc.collect()
    result = job[0].result()
    assert left(tmp_path)
    with pytest.warns(ResourceWarning):
        job.clear()
    assert left(tmp_path) == [] and result.fetchall()[0] == (0, 14286)


def test_a_job_that_nobody_waits_for_ends_with_the_session(tmp_path: Path) -> None:
    session = [opened(tmp_path)]
    session[0].submit("SELECT count(*) FROM range(3000000000) x(i) WHERE i % 3 = 1")
    with pytest.warns(ResourceWarning):
        session.clear()
        gc.collect()
    assert left(tmp_path) == []


def test_a_session_that_was_closed_warns_of_nothing(tmp_path: Path) -> None:
    session = [opened(tmp_path)]
    session[0].close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session.clear()
        gc.collect()


ENDS = """
import sys, qoop
session = qoop.connect(slots=2, memory="300MB")
print(session.sql("SELECT 1").fetchall())
job = session.submit("SELECT count(*) FROM range(3000000000) x(i) WHERE i % 3 = 1")
"""


def test_the_end_of_the_process_closes_what_is_open(tmp_path: Path) -> None:
    environment = {**os.environ, "QOOP_SPILL": str(tmp_path)}
    command = [sys.executable, "-W", "error", "-c", ENDS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[(1,)]\n", "")
    assert list(tmp_path.iterdir()) == []
