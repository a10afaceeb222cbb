"""A part of a processor for a group of processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from qoop.catalog.errors import ConfigError
from qoop.tpcds.on_ray.cpu_quota import CpuQuota

BEGIN = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.stdin.readline()]).wait()"
SPIN = """import time; began = time.monotonic()
while time.monotonic() - began < 1.0: pass
print(time.process_time() / (time.monotonic() - began))
"""


def test_processes_that_are_taken_and_those_they_begin_have_no_more_together() -> None:
    name = f"qoop-test-{os.getpid()}"
    try:
        quota = CpuQuota(name, 0.2)
    except ConfigError as error:
        pytest.skip(str(error))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    begun = [subprocess.Popen([sys.executable, "-c", BEGIN], **pipes) for _ in range(2)]  # type: ignore[call-overload]
    try:
        for one in begun:
            quota.take(one.pid)
        for one in begun:
            one.stdin.write(f"exec({SPIN!r})\n".encode())
            one.stdin.flush()
        assert name not in Path("/proc/self/cgroup").read_text()
        parts = [float(one.communicate()[0]) for one in begun]
    finally:
        quota.close()
    assert 0 < sum(parts) < 0.35


def test_what_is_written_for_each_version(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    (first / "cpu").mkdir(parents=True)
    second.mkdir()
    CpuQuota("some", 0.25, first)
    CpuQuota("some", 0.25, second)
    assert (first / "cpu" / "some" / "cpu.cfs_quota_us").read_text() == "5000"
    assert (first / "cpu" / "some" / "cpu.cfs_period_us").read_text() == "20000"
    assert (second / "some" / "cpu.max").read_text() == "5000 20000"
    assert (second / "cgroup.subtree_control").read_text() == "+cpu"


def test_where_no_group_can_be_made_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="part of a processor here"):
        CpuQuota("some", 0.25, tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="not 0"):
        CpuQuota("some", 0, tmp_path)
    theirs = tmp_path / "cpu" / "some"
    theirs.mkdir(parents=True)
    with pytest.raises(ConfigError, match="some"):
        CpuQuota("some", 0.25, tmp_path)
    assert list(theirs.iterdir()) == []
