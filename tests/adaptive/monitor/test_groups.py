"""Control groups of the kernel, of both versions: recorded files, and real groups where this machine permits them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from math import inf
from pathlib import Path

import pytest
from waits import until

from qoop.adaptive.monitor.alarm import Alarm
from qoop.adaptive.monitor.available import safe_memory
from qoop.adaptive.monitor.cgroup import FirstVersionGroup, Group, groups
from qoop.adaptive.monitor.machine import Machine
from qoop.adaptive.monitor.reading import Throttle
from qoop.catalog.errors import ConfigError
from qoop.tpcds.control_groups import ControlGroup

GB = 10**9


class Files:
    """Control groups as files below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def group(self, folder: str, **files: str) -> None:
        for name, text in files.items():
            path = self.root / folder / name.replace("_", ".", 1)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_the_lower_of_max_and_high_limits_a_group(files: Files) -> None:
    files.group("a", memory_max="4000000000\n", memory_high="1000000000\n")
    files.group("b", memory_max="max\n", memory_high="max\n")
    assert (
        Group(files.root / "a", Path.read_text).memory() == GB
        and Group(files.root / "b", Path.read_text).memory() == inf
    )


def test_pages_of_files_are_not_in_use(files: Files) -> None:
    """A table that was read three times lies in active pages: the kernel takes them back when memory is needed."""
    stat = "anon 100000000\nfile 700000000\nactive_file 400000000\ninactive_file 300000000\nslab_reclaimable 50000000\n"
    files.group("a", memory_current="900000000\n", memory_stat=stat)
    assert Group(files.root / "a", Path.read_text).memory_used() == 150_000_000


def test_groups_of_version_1_limit_memory_and_cpus_each_in_its_hierarchy(files: Files) -> None:
    (files.root / "membership").write_text("4:memory:/pods/one\n3:cpu,cpuacct:/pods/one\n1:name=systemd:/x\n0::/\n")
    stat = "cache 1\ntotal_active_file 100\ntotal_inactive_file 200\n"
    files.group(
        "memory/pods/one", memory_limit_in_bytes="2000000000\n", memory_usage_in_bytes="1300\n", memory_stat=stat
    )
    files.group("memory", memory_limit_in_bytes="9223372036854771712\n", memory_usage_in_bytes="9\n")
    files.group("cpu,cpuacct/pods", cpu_cfs_quota_us="-1\n", cpu_cfs_period_us="100000\n", cpuacct_usage="9\n")
    files.group(
        "cpu,cpuacct/pods/one", cpu_cfs_quota_us="50000\n", cpu_cfs_period_us="100000\n", cpuacct_usage="2500000000\n"
    )
    (files.root / "cpu,cpuacct" / "cpuacct.usage").write_text("1\n")
    found = groups(files.root, files.root / "membership")
    assert all(isinstance(group, FirstVersionGroup) for group in found)
    assert min(group.memory() for group in found) == 2 * GB and min(group.cpus() for group in found) == 0.5
    (inner,) = (group for group in found if group.cpus() == 0.5)
    assert inner.cpu_seconds() == 2.5
    assert [group.memory_used() for group in found if group.memory() == 2 * GB] == [1000]


def test_a_neighbour_at_its_limit_is_not_pressure_here(files: Files) -> None:
    proc = files.root / "proc"
    files.group("proc/self", cgroup="0::/a\n")
    files.group("proc", stat="cpu0 1 0 0 0 0 0 0 0\n", meminfo="MemTotal: 100 kB\nMemAvailable: 90 kB\n")
    files.group("proc/pressure", memory="some avg10=70.00 avg60=0 avg300=0 total=1\n")
    (files.root / "cgroup").mkdir()
    (files.root / "cgroup" / "cgroup.controllers").write_text("memory\n")
    files.group("cgroup/a", memory_pressure="some avg10=0.00 avg60=0 avg300=0 total=1\n", memory_max="1000000000\n")
    machine = Machine(proc, files.root / "cgroup", lambda: 0.0, lambda: 0.0)
    assert not machine.read().squeezed
    files.group("cgroup/a", memory_pressure="some avg10=30.00 avg60=0 avg300=0 total=1\n")
    assert machine.read().squeezed


def test_a_group_at_memory_high_is_slowed_down_also_if_it_is_around_this_one(files: Files) -> None:
    (files.root / "self").mkdir()
    files.group("self", cgroup="0::/pod/one\n")
    files.group("", stat="cpu0 1 0 0 0 0 0 0 0\n", meminfo="MemTotal: 100 kB\nMemAvailable: 90 kB\n")
    (files.root / "cgroup").mkdir()
    (files.root / "cgroup" / "cgroup.controllers").write_text("memory\n")
    stat = "active_file 500000000\n"
    files.group(
        "cgroup/pod", memory_max="max\n", memory_high="1000000000\n", memory_current="1480000000\n", memory_stat=stat
    )
    files.group("cgroup/pod/one", memory_max="max\n", memory_high="max\n", memory_current="800000000\n")
    machine = Machine(files.root, files.root / "cgroup", lambda: 0.0, lambda: 0.0)
    assert machine.read().throttle == Throttle(GB, 980_000_000)
    files.group("cgroup/pod", memory_current="1400000000\n")
    assert machine.read().throttle is None


def test_the_soft_limit_of_version_1_is_no_limit(files: Files) -> None:
    files.group("a", memory_soft_limit_in_bytes="1000\n", memory_limit_in_bytes="2000000000\n")
    group = FirstVersionGroup(files.root / "a", Path.read_text, files.root / "a")
    assert group.memory() == 2 * GB and group.memory_high() == inf


def test_an_alarm_rings_at_once_when_a_limit_changes() -> None:
    limits = iter([2 * GB, 2 * GB, 2 * GB, GB])
    alarm = Alarm(limits=lambda: next(limits))
    begun = time.monotonic()
    assert alarm.wait(3600.0) and time.monotonic() - begun < 60.0
    alarm.close()


def test_an_alarm_waits_is_stopped_and_survives_a_group_that_is_gone(tmp_path: Path) -> None:
    alarm = Alarm([(tmp_path / "gone" / "memory.events", b"")])
    begun = time.monotonic()
    assert alarm.wait(0.1) and time.monotonic() - begun >= 0.09
    alarm.stop()
    assert not alarm.wait(60.0)
    alarm.close()
    alarm.stop()  # a closed one stays closed
    alarm.close()


_IN_GROUP = """
import sys
from pathlib import Path
import qoop
with qoop.connect() as session:
    print(session.config.memory, int(session.available.cpu), flush=True)
    session.sql("CREATE TABLE t AS SELECT i, i % 1000 AS k, repeat('x', 40) AS s FROM range(200000) r(i)")
    expected = [(1000, 200000)]
    print("ready", flush=True)
    for line in sys.stdin:
        job = session.submit("SELECT count(*), sum(n) FROM (SELECT k, count(*) AS n, max(s) FROM t GROUP BY k)")
        assert job.result().fetchall() == expected
        print(int(session.available.memory), int(session.available.cpu), session.held_back or "-", flush=True)
"""


_READS_ITS_TABLE = """
import sys
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import qoop
from qoop.adaptive.monitor.machine import Machine
rows, file = 25_000_000, sys.argv[1]
with pq.ParquetWriter(file, pa.schema({"i": pa.int64()}), compression="none", use_dictionary=False) as writer:
    for first in range(0, rows, 1_000_000):
        writer.write_table(pa.table({"i": np.arange(first, first + 1_000_000)}))
with qoop.connect() as session:
    session.register("t", file)
    before = session.available.memory
    for _ in range(3):  # a page that is read again is active: the kernel takes it back later than others
        assert session.sql("SELECT sum(i) FROM t").fetchall() == [(rows * (rows - 1) // 2,)]
    pool = min((pool for pool in Machine().read().memory if pool.group), key=lambda pool: pool.limit)
    print(int(pool.limit), int(pool.others), session.available.memory == before, flush=True)
"""


_AT_HIGH = """
import time
import qoop
with qoop.connect() as session:
    before = session.available.memory
    job = session.submit("SELECT count(*) FROM range(30000) a, range(2000000) b WHERE a.range * b.range % 7 = 3")
    print("running", flush=True)
    while session.available.memory == before:
        time.sleep(0.01)
    print(int(before), int(session.available.memory), session.held_back, *job.history(), sep=chr(10))
    job.cancel()
"""


_SLOWED_DOWN = """
import logging, sys
import qoop
from qoop.engine.memory import anonymous_memory
logging.basicConfig(stream=sys.stdout, format="%(message)s")
text = "SELECT count(n) AS n FROM (SELECT row_number() OVER (ORDER BY hash(i)) AS n FROM range(3000000) r(i))"
with qoop.connect(slots=1, memory="1GB") as session:
    before = anonymous_memory()
    job = session.submit(text)
    while not job.wait(0.005) and anonymous_memory() < before + 100_000_000:
        pass
    logging.getLogger("qoop.session").setLevel(logging.INFO)
    print("running", flush=True)
    print(job.result().fetchall(), flush=True)
"""


_IN_PROCESSES = """
import sys
import qoop
text = "SELECT count(n) AS n FROM (SELECT row_number() OVER (ORDER BY hash(i)) AS n FROM range(2000000) r(i))"
watched, killed = len(sys.argv) > 1, "were taken away" if len(sys.argv) > 1 else "was killed"
with qoop.connect(slots=1, memory="1GB", isolation="process", watch_machine=watched) as session:
    job = session.submit(text)
    while not job.wait(0.005) and session.backend.used_by_children().memory < 100_000_000:
        pass
    print("running", flush=True)
    print(job.result().fetchall(), sum(killed in str(record) for record in job.history()), flush=True)
"""


_BY_DEFAULT = """
import sys
import qoop
from qoop.engine.processes import pool
from qoop.session import parts
pool._WORTH_A_START, parts.LONG_SECONDS = 0.0, 0.2
text = "SELECT count(n) AS n FROM (SELECT row_number() OVER (ORDER BY hash(i)) AS n FROM range(4000000) r(i))"
with qoop.connect(slots=1) as session:
    print(session.sql("SELECT 1 AS short").fetchall(), session.backend.used_by_children().memory, flush=True)
    for line in sys.stdin:
        job = session.submit(text)
        while not job.wait(0.005) and session.backend.used_by_children().memory < 150_000_000:
            pass
        print("running", flush=True)
        rows = job.result().fetchall()
        print(rows, sum("was killed" in str(one) or "were taken away" in str(one) for one in job.history()), flush=True)
"""


@pytest.fixture
def real_group() -> Iterator[ControlGroup]:
    """A real group of 2 GB and one and a half CPUs."""
    try:
        made = ControlGroup(f"qoop-test-{os.getpid()}")
    except ConfigError as error:
        pytest.skip(str(error))
    made.limit_memory(2 * GB)
    made.limit_cpus(1.5)
    yield made
    made.close()


def begun(group: ControlGroup, script: str, *arguments: str) -> subprocess.Popen[str]:
    """A process in a group, which watches its machine where that is the default."""
    environment = {name: text for name, text in os.environ.items() if name != "QOOP_WATCH_MACHINE"}
    command = group.inside([sys.executable, "-c", script, *arguments])
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def test_a_session_in_a_real_group_follows_its_limits_by_default(real_group: ControlGroup) -> None:
    with begun(real_group, _IN_GROUP) as process:
        assert process.stdin is not None and process.stdout is not None
        reply = process.stdout.readline

        def size() -> list[str]:
            print("again", file=process.stdin, flush=True)
            return reply().split(maxsplit=2)

        try:
            limit = real_group.limit_memory(2 * GB)
            assert reply().split() == [str(safe_memory(limit)), str(min(2, len(os.sched_getaffinity(0))))]
            assert reply() == "ready\n"
            limit = real_group.limit_memory(GB)
            until(lambda: int(size()[0]) == safe_memory(limit) // 2)
            real_group.limit_cpus(0.5)
            until(lambda: size()[1] == "1")
            assert "the control group allows" in size()[2]
            real_group.limit_cpus(1.5)  # half a CPU would make all that follows slow
            real_group.limit_memory(3 * GB)  # more than it was opened with
            until(lambda: int(size()[0]) > GB)
        finally:
            process.stdin.close()
            assert process.wait(60) == 0


def test_a_page_cache_full_of_its_own_tables_leaves_a_session_its_share(
    real_group: ControlGroup, tmp_path: Path
) -> None:
    limit = real_group.limit_memory(400_000_000)
    with begun(real_group, _READS_ITS_TABLE, str(tmp_path / "t.parquet")) as process:
        assert process.stdout is not None
        shown, others, kept = process.stdout.read().split()
    assert int(shown) == limit and real_group.file_pages() > 150_000_000, "the page cache of the group is not full"
    assert int(others) < 50_000_000 and kept == "True"


def test_a_session_at_memory_high_has_less_and_says_why(real_group: ControlGroup) -> None:
    high = real_group.folders[0] / "memory.high"
    if not high.exists():
        pytest.skip("memory.high is of version 2")
    with begun(real_group, _AT_HIGH) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        high.write_text("800000000")
        before, after, why, *history = process.stdout.readlines()
        assert int(before) == safe_memory(2 * 10**9 // 4096 * 4096) // 2
        assert int(after) == safe_memory(int(high.read_text())) // 2
        assert why.startswith("the control group allows 800 MB of memory")
        assert any("for tasks, since the control group allows 800 MB of memory" in record for record in history)
    assert process.returncode == 0 and real_group.kills() == 0


def test_a_session_that_memory_high_slows_down_says_so_and_goes_on_once_it_may(real_group: ControlGroup) -> None:
    """Its tasks end late: DuckDB needs pages until it sees that it is interrupted, and each costs up to 2 s."""
    high = real_group.folders[0] / "memory.high"
    if not high.exists():
        pytest.skip("memory.high is of version 2")
    with begun(real_group, _SLOWED_DOWN) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        high.write_text(str(int(0.7 * real_group.memory_in_use())))
        why = process.stdout.readline()
        high.write_text("max")
        *_, rows = process.stdout.readlines()
    assert "the kernel slows this process down: its control group uses" in why and "raise memory.high" in why
    assert rows == "[(3000000,)]\n" and process.returncode == 0 and real_group.kills() == 0


def test_memory_high_below_the_memory_in_use_costs_a_session_of_processes_one_task(real_group: ControlGroup) -> None:
    """A kill frees the memory of the task: whatever allocates above the limit is paused for up to 2 s at a time."""
    high = real_group.folders[0] / "memory.high"
    if not high.exists():
        pytest.skip("memory.high is of version 2")
    with begun(real_group, _IN_PROCESSES, "watched") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        limit = int(0.8 * real_group.memory_in_use())
        high.write_text(str(limit))
        until(lambda: real_group.memory_in_use() < limit)
        high.write_text("max")
        rows, taken = process.stdout.readline().rsplit(maxsplit=1)
    assert rows == "[(2000000,)]" and int(taken) >= 1
    assert process.returncode == 0 and real_group.kills() == 0


def test_kills_of_the_kernel_cost_a_session_of_processes_one_task(real_group: ControlGroup) -> None:
    with begun(real_group, _IN_PROCESSES) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        real_group.limit_memory(int(real_group.memory_in_use()) + 20_000_000)  # the task needs more
        until(real_group.kills)
        real_group.limit_memory(2 * GB)
        rows, killed = process.stdout.readline().rsplit(maxsplit=1)
        assert rows == "[(2000000,)]" and int(killed) >= 1
    assert process.returncode == 0


def test_a_limit_below_the_memory_in_use_costs_a_session_one_long_task_by_default(real_group: ControlGroup) -> None:
    if real_group.first_version:
        pytest.skip("version 1 refuses such a limit")
    with begun(real_group, _BY_DEFAULT) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "[(1,)] 0\n", "a short task needs no process"
        for _ in range(2):
            print("again", file=process.stdin, flush=True)
            assert process.stdout.readline() == "running\n"
            real_group.limit_memory(int(real_group.memory_in_use()) - 50_000_000)
            real_group.limit_memory(2 * GB)
            rows, ends = process.stdout.readline().rsplit(maxsplit=1)
            assert rows == "[(4000000,)]" and int(ends) >= 1
        process.stdin.close()
    assert process.returncode == 0
