"""Processes that work for another end with it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waits import until

PARENT = """
import os, time
from qoop.tpcds.processes import pool
if __name__ == "__main__":
    workers = pool(2)
    print(*{workers.submit(os.getpid).result() for _ in range(20)}, flush=True)
    workers.submit(time.sleep, 600).result()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_works_on_for_a_process_that_was_killed(number: signal.Signals, tmp_path: Path) -> None:
    script = tmp_path / "parent.py"  # spawned processes import it
    script.write_text(PARENT)
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        workers = [int(pid) for pid in parent.stdout.readline().split()]
        assert workers
        assert all(map(is_alive, workers))
        parent.send_signal(number)
        parent.wait()
    until(lambda: not any(map(is_alive, workers)))


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
