"""Cells whose queries go on after the death of their kernel."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from facts_table import TEXT, expected, write_facts
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from waits import until

import qoop
from qoop.interfaces.detached import DetachedRun, detached_runs

SLOW = "SELECT k % 7 AS k, sum(length(md5((v + range)::VARCHAR) || k)) AS n FROM facts, range(8) GROUP BY 1 ORDER BY 1"
KERNEL = """
import sys, time
from IPython.core.interactiveshell import InteractiveShell
from qoop.interfaces import notebook

notebook._AT_ONCE = 0.0
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "qoop")
shell.run_line_magic("qoop", sys.argv[1])
shell.run_cell_magic("qoop", "", "SET slots = 1")
shell.run_cell_magic("qoop", "--detach report", sys.argv[2])
print("detached", flush=True)
time.sleep(600)
"""


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("QOOP_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    return write_facts(tmp_path / "data")


@pytest.fixture
def shell(data: Path) -> Iterator[InteractiveShell]:
    made = InteractiveShell.instance()
    made.run_line_magic("load_ext", "qoop")
    made.run_line_magic("qoop", str(data))
    yield made
    for run in list(detached_runs()):
        run.cancel()
    made.run_line_magic("qoop", "").close()
    InteractiveShell.clear_instance()


def begun_by_a_killed_kernel(data: Path) -> DetachedRun:
    command = [sys.executable, "-c", KERNEL, str(data), SLOW]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as kernel:
        assert kernel.stdout is not None
        shown = [kernel.stdout.readline() for _ in range(2)]
        os.killpg(kernel.pid, signal.SIGKILL)
    assert "goes on in process" in shown[0] and shown[1] == "detached\n", shown
    return DetachedRun("report")


def listed(run: DetachedRun) -> list[str]:
    command = [sys.executable, "-m", "qoop", "runs", run.record.checkpoints]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def test_a_cell_attaches_again_after_the_death_of_its_kernel(shell: InteractiveShell, data: Path) -> None:
    run = begun_by_a_killed_kernel(data)
    assert run.running and not run.ended, "the query survives its kernel"
    until(lambda: any(line.startswith(f"running in process {run.process}  ") for line in listed(run)))
    with capture_output() as captured:
        found = shell.run_cell_magic("qoop", "--detach report", SLOW)
    assert found.fetchall() == expected(data, SLOW) == shell.user_ns["report"].fetchall()
    assert any("succeeded" in output.data["text/html"] for output in captured.outputs)
    until(lambda: not run.running)
    assert listed(run) == []
    assert shell.run_line_magic("qoop", "--attach report").fetchall() == found.fetchall(), "as often as it is taken"
    with pytest.raises(qoop.ConfigError, match="report is another detached query"):
        shell.run_cell_magic("qoop", "--detach report", TEXT)


def test_a_query_whose_own_process_is_killed_goes_on_too(shell: InteractiveShell, data: Path) -> None:
    run = begun_by_a_killed_kernel(data)
    until(lambda: any(Path(run.record.checkpoints).glob("*.json")))
    os.kill(run.process, signal.SIGKILL)
    until(lambda: not run.running)
    assert not run.ended
    with capture_output() as captured:
        found = shell.run_line_magic("qoop", "--attach report")
    assert "the process of report had ended: another one goes on" in captured.stdout
    assert found.fetchall() == expected(data, SLOW)
    assert "continued: " in (run._folder / "log").read_text()


def test_a_detached_query_is_cancelled(shell: InteractiveShell, data: Path) -> None:
    run = begun_by_a_killed_kernel(data)
    process = run.process
    shell.run_line_magic("qoop", "--cancel report")
    assert not psutil.pid_exists(process) or psutil.Process(process).status() == psutil.STATUS_ZOMBIE
    for name in ("report", "../detached/report", ""):
        with pytest.raises(qoop.ConfigError, match=rf"no query runs detached by the name {name}; there are: none"):
            shell.run_line_magic("qoop", f"--attach {name}")


def test_what_cannot_be_detached_says_so(shell: InteractiveShell, data: Path) -> None:
    shell.run_cell_magic("qoop", "", "CREATE VIEW v AS SELECT k, v::HUGEINT AS big, INTERVAL 1 DAY AS i FROM facts")
    text = "SELECT big, i FROM v ORDER BY 1 LIMIT 3"
    found = shell.run_cell_magic("qoop", "--detach short", text) or shell.run_line_magic("qoop", "--attach short")
    session = shell.run_line_magic("qoop", "")
    assert (
        found.types == ["HUGEINT", "INTERVAL"] and found.fetchall() == session.sql(text).fetchall() and len(found) == 3
    )
    with pytest.raises(qoop.ConfigError, match="--detach needs a name"):
        shell.run_cell_magic("qoop", "--detach", TEXT)
    with pytest.raises(qoop.BindError):
        shell.run_cell_magic("qoop", "--detach wrong", "SELECT nothing FROM facts")
    session.register("here", pa.table({"a": [1]}))
    with pytest.raises(qoop.ConfigError, match="here is in the memory of this process"):
        shell.run_cell_magic("qoop", "--detach wrong", "FROM here")
    fails = "SELECT sum((k || 'x')::INTEGER) AS s FROM facts"
    with pytest.raises(qoop.QoopError, match="0x"):
        if shell.run_cell_magic("qoop", "--detach wrong", fails) is None:
            shell.run_line_magic("qoop", "--attach wrong")
    assert [run.name for run in detached_runs()] == ["short"], "an error that was shown is forgotten"
