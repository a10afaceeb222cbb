"""A query that goes on from outputs of an earlier run says so, and one whose outputs find no space warns, where users
look: in the status and history of the job, in the log, in the shell and on the command line."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from facts_table import TEXT, WAITS, expected, write_facts

import qoop
from qoop.__main__ import main
from qoop.adaptive.cluster.recording.messages import JobRequest
from qoop.engine.history import Saved
from qoop.engine.notices import Continued, NotSaved
from qoop.query.drawing.terminal import Terminal
from qoop.query.drawing.view import news
from qoop.query.streams import one_line_warnings


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_facts(tmp_path_factory.mktemp("data"))


def session(data: Path, folder: Path, **options: object) -> qoop.Session:
    found = qoop.connect(slots=2, memory="500MB", checkpoints=folder, staged=True, **options)  # type: ignore[arg-type]
    found.register_folder(data)
    return found


@contextmanager
def noticed(found: qoop.Session) -> Iterator[qoop.Job]:
    """A job whose last stage waits until the job has a notice."""
    go_on = threading.Event()

    def later(total: int) -> int:
        assert go_on.wait(60)
        return total

    found.register_function("later", later, ["BIGINT"], "BIGINT")
    job = found.submit(WAITS)
    deadline = time.monotonic() + 60
    while not job.status().notices and time.monotonic() < deadline and not job.wait(0.01):
        pass
    go_on.set()
    yield job


def test_a_run_that_goes_on_says_what_was_found(data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with session(data, tmp_path) as first:
        job = first.submit(TEXT)
        assert job.result().fetchall() == expected(data)
        assert job.status().notices == ()
    last = max(tmp_path.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    last.unlink()  # as if it had been killed before the last output was on disk
    with session(data, tmp_path) as second, caplog.at_level(logging.INFO, "qoop.job"):
        job = second.submit(TEXT)
        assert job.result().fetchall() == expected(data)
    [continued] = [record for record in job.history() if isinstance(record, Continued)]
    assert 0 < continued.found < continued.outputs and continued.left == 1
    assert continued.notice.startswith(f"continued: {continued.found} of {continued.outputs} outputs found, 1 to make")
    assert job.status().notices == (continued.notice,)
    assert continued.notice in caplog.text
    assert news(job.history(), 0, Terminal())[0].startswith("continued: ")


@pytest.mark.parametrize(("before", "after"), [((3, "2GB"), (2, "500MB")), ((4, "500MB"), (1, "1GB"))])
def test_a_run_goes_on_with_other_slots_and_memory(
    data: Path, tmp_path: Path, before: tuple[int, str], after: tuple[int, str]
) -> None:
    """Plans for other resources divide the work into other parts: the plan that the outputs are of is one to run."""
    text = "SELECT a.k % 7 AS k, sum(b.v) AS total FROM facts a JOIN facts b ON a.v = b.v GROUP BY 1 ORDER BY 1"
    sizes = ({"slots": slots, "memory": memory} for slots, memory in (before, after))
    with qoop.connect(data, checkpoints=tmp_path, staged=True, **next(sizes)) as first:  # type: ignore[arg-type]
        rows = first.sql(text).fetchall()
    last = max(tmp_path.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    last.unlink()  # as if it had been killed before the last output was on disk
    with qoop.connect(data, checkpoints=tmp_path, staged=True, **next(sizes)) as second:  # type: ignore[arg-type]
        job = second.submit(text)
        assert job.result().fetchall() == rows == expected(data)
    [continued] = [record for record in job.history() if isinstance(record, Continued)]
    assert continued.found > 0 and continued.left == 1


def test_an_answer_that_was_there_is_told_as_such(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [str(data), "--checkpoints", str(tmp_path), "--staged", "--format", "csv", "-c", TEXT]
    assert main(command) == 0
    first = capsys.readouterr()
    assert first.err == "" and first.out.splitlines()[1:] == [f"{k},{total}" for k, total in expected(data)]
    assert main(command) == 0
    second = capsys.readouterr()
    assert second.out == first.out and second.err.startswith("qoop: continued: the answer was there")


def test_outputs_that_find_no_space_are_warned_of_once_for_each_job(data: Path, tmp_path: Path) -> None:
    with (
        session(data, tmp_path, checkpoint_budget="1KB") as found,
        pytest.warns(RuntimeWarning) as caught,
    ):
        with noticed(found) as job:
            assert job.result().fetchall() == expected(data)
        found.unregister_function("later")
        with noticed(found) as other:
            assert other.result().fetchall() == expected(data)
    messages = [str(one.message) for one in caught]
    assert [text.partition(":")[0] for text in messages] == [job.id, other.id]
    for text in messages:
        assert "checkpoint_budget is 1 KB, " in text and "QOOP_CHECKPOINT_BUDGET" in text
        assert "If the query is killed, it starts again" in text and "at the worst from zero" in text
    assert sum(isinstance(record, Saved) and not record.kept for record in job.history()) > 1
    [notice] = [record.notice for record in job.history() if isinstance(record, NotSaved)]
    assert job.status().notices == (notice,) and notice in messages[0]


def test_the_command_line_and_the_shell_warn_in_a_line(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qoop.session.parts.usual_budget", lambda _: 1000)
    with one_line_warnings(), session(data, tmp_path) as found, noticed(found) as job:
        assert len(job.result()) == 7
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("qoop: job1: an output of ") and "checkpoint_budget is 1 KB by default" in line


def test_a_query_fails_where_its_outputs_must_outlive_the_process(data: Path, tmp_path: Path) -> None:
    with (
        warnings.catch_warnings(),
        session(data, tmp_path, checkpoint_budget="1KB", checkpoint_full="error") as found,
    ):
        warnings.simplefilter("error")
        with noticed(found) as job, pytest.raises(qoop.DiskFull, match=r"checkpoint_budget is 1 KB"):
            job.result()
        assert job.state == "FAILED"
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(qoop.DiskFull, match="cannot be written"):
        session(data, file / "folder", checkpoint_full="error")
    with pytest.raises(qoop.ConfigError, match="checkpoint_full must be one of warn, error"):
        qoop.connect(checkpoint_full="maybe")


DECIDED = """
WITH q AS (SELECT k, sum(v / 3.0::DOUBLE) AS s FROM facts GROUP BY k),
d AS MATERIALIZED (SELECT x.k, count(*) AS n FROM q AS x JOIN q AS y ON x.k = y.k + 1 WHERE x.s > y.s GROUP BY x.k)
SELECT a.k % 7 AS m, sum(a.n + b.n)::BIGINT AS n FROM d AS a JOIN d AS b ON a.k = b.k + 1 GROUP BY m ORDER BY m
"""
"""Digits decide the rows of the first join, so of all above it."""
ONE_TASK = """
import os, signal, sys, qoop
from qoop.engine.backends.local import LocalBackend
starts, start = [], LocalBackend.start
def count(backend, machine, spec):
    if starts:
        backend.store.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    starts.append(spec)
    start(backend, machine, spec)
LocalBackend.start = count
with qoop.connect(sys.argv[1], slots=1, memory="500MB", checkpoints=sys.argv[2], staged=True) as found:
    print(found.submit(sys.argv[3], resume=True).result().fetchall(), [spec.stage.shareable for spec in starts])
"""


def test_a_query_that_digits_decide_ends_in_processes_of_one_task_each(data: Path, tmp_path: Path) -> None:
    """Each saves its task, and is killed when it begins another."""
    ended = subprocess.CompletedProcess[str]([], -signal.SIGKILL)
    with session(data, tmp_path / "other") as whole:
        expected, most = whole.sql(DECIDED).fetchall(), 30
        assert expected
    while ended.returncode == -signal.SIGKILL and (most := most - 1):
        words = [sys.executable, "-c", ONE_TASK, str(data), str(tmp_path / "place"), DECIDED]
        ended = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    assert ended.stdout.strip() == f"{expected} [False]", "the last of several tasks that digits decide"


def test_what_rests_on_digits_serves_the_next_process_on_one_machine_alone(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The nodes of a cluster would read the files of a lost one in place of those that are made again."""
    with session(data, tmp_path) as before:
        assert before.submit(DECIDED).result().fetchall()
    goes_on: list[bool] = []

    def submitted(request: JobRequest) -> None:
        goes_on.append(request.limits.goes_on)
        raise qoop.QueryError("seen")

    with session(data, tmp_path) as found:
        monkeypatch.setattr(found.cluster, "submit", submitted)
        for nodes in (None, "auto"):
            monkeypatch.setattr(found._starts, "_config", replace(found.config, ray=nodes))
            with pytest.raises(qoop.QueryError, match="seen"):
                found.submit(DECIDED, resume=True)
    assert goes_on == [True, False]
