"""Control groups for the processes of a benchmark or a test."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from qoop.catalog.errors import ConfigError
from qoop.tpcds.control_groups import ControlGroup

BEGIN = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.stdin.readline()]).wait()"
CPU_SECONDS = 0.1
SPIN = f"""import time; began, before = time.monotonic(), time.process_time()
while time.process_time() - before < {CPU_SECONDS}: pass
print(began, time.monotonic())
"""
GREEDY = "data = bytearray(400_000_000); data[::4096] = b'x' * len(data[::4096])"


@pytest.fixture
def group() -> Iterator[ControlGroup]:
    try:
        made = ControlGroup(f"qoop-test-{os.getpid()}")
    except ConfigError as error:
        pytest.skip(str(error))
    yield made
    made.close()


def test_processes_that_are_taken_and_those_they_begin_have_no_more_together(group: ControlGroup) -> None:
    group.limit_cpus(0.2, 20_000)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    begun = [subprocess.Popen([sys.executable, "-c", BEGIN], **pipes) for _ in range(2)]  # type: ignore[call-overload]
    for one in begun:
        group.take(one.pid)
    for one in begun:
        one.stdin.write(f"exec({SPIN!r})\n".encode())
        one.stdin.flush()
    assert group.folders[0].name not in Path("/proc/self/cgroup").read_text()
    began, ended = zip(*(map(float, one.communicate()[0].split()) for one in begun), strict=True)
    assert 2 * CPU_SECONDS / (max(ended) - min(began)) < 0.35


def test_a_process_that_takes_more_than_its_group_may_have_is_killed_and_counted(group: ControlGroup) -> None:
    assert group.limit_memory(100_000_000) <= 100_000_000 and group.kills() == 0
    done = subprocess.run(group.inside([sys.executable, "-c", GREEDY]), check=False)
    assert done.returncode == -9 and group.kills() == 1


def test_what_is_written_for_each_version(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    (first / "cpu").mkdir(parents=True)
    second.mkdir()
    for root in (first, second):
        ControlGroup("some", ["cpu"], root).limit_cpus(0.25, 20_000)
    assert (first / "cpu" / "some" / "cpu.cfs_quota_us").read_text() == "5000"
    assert (first / "cpu" / "some" / "cpu.cfs_period_us").read_text() == "20000"
    assert (second / "some" / "cpu.max").read_text() == "5000 20000"
    assert (second / "cgroup.subtree_control").read_text() == "+cpu"


def test_where_no_group_can_be_made_it_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no control group can be made here"):
        ControlGroup("some", root=tmp_path / "nowhere")
    (tmp_path / "memory" / "some").mkdir(parents=True)  # of another process
    (tmp_path / "cpu").mkdir()
    with pytest.raises(ConfigError, match="some"):
        ControlGroup("some", root=tmp_path)
    assert not (tmp_path / "cpu" / "some").exists()
