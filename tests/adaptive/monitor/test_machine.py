"""Readings of a machine: from files as the kernel writes them, and on the machine that the tests run on."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from qoop.adaptive.monitor.available import available_memory, available_slots
from qoop.adaptive.monitor.cgroup import groups
from qoop.adaptive.monitor.held_files import HeldFiles
from qoop.adaptive.monitor.machine import Machine, own_bytes
from qoop.adaptive.monitor.reading import tightest
from qoop.engine.memory import Used

TICKS = os.sysconf("SC_CLK_TCK")
GB = 10**9
BUSY = "while True: pass"


@dataclass
class Files:
    """A machine of two CPUs, and control groups /a and /a/b of which this process is in the second, as files."""

    root: Path
    at: float = 0.0
    own: float = 0.0
    bytes: float = 0.5e9

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def begin(self, free: int = 14_000_000, pressure: float = 0.0) -> None:
        self.write("proc/self/cgroup", "1:cpu:/elsewhere\n0::/a/b\n")
        self.write("proc/meminfo", f"MemTotal: 16000000 kB\nMemFree: 1 kB\nMemAvailable: {free} kB\n")
        self.write("proc/pressure/memory", f"some avg10={pressure} avg60=0.00 avg300=0.00 total=1\nfull avg10=0.0\n")
        self.write("cgroup/cgroup.controllers", "cpu memory\n")
        self.write("cgroup/a/b/memory.max", "max\n")
        self.cpu(0, 0)

    def cpu(self, user: float, nice: float, group: float = 0.0) -> None:
        """Seconds that the CPUs have worked so far, and that group /a has used."""
        cpus = "".join(f"cpu{n} {int(user * TICKS / 2)} {int(nice * TICKS / 2)} 0 9999 0 0 0 0 0 0\n" for n in range(2))
        self.write("proc/stat", f"cpu  1 2 3\n{cpus}cpu7 999999 0 0 0 0 0 0 0 0 0\nctxt 5\n")
        self.write("cgroup/a/cpu.stat", f"usage_usec {int(group * 1e6)}\nuser_usec 1\n")

    def machine(self) -> Machine:
        return Machine(self.root / "proc", self.root / "cgroup", lambda: self.own, lambda: self.bytes, lambda: self.at)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    monkeypatch.setattr("qoop.adaptive.monitor.machine.usable_cpus", lambda: frozenset({0, 1}))
    monkeypatch.setattr(os, "nice", lambda by: 0)
    made = Files(tmp_path)
    made.begin()
    return made


def test_others_are_what_the_cpus_have_worked_without_us_and_without_what_gives_way(files: Files) -> None:
    machine = files.machine()
    files.at, files.own = 10.0, 6.0
    files.cpu(user=17.0, nice=3.0)
    (pool,) = machine.read().cpus
    assert (pool.limit, pool.others) == (2, pytest.approx(1.1))


def test_our_children_that_give_way_are_not_taken_from_the_work_of_others(files: Files) -> None:
    used = Used()
    machine = Machine(
        files.root / "proc", files.root / "cgroup", lambda: files.own, lambda: 0.5e9, lambda: files.at, lambda: used
    )
    files.at, files.own, used = 10.0, 2.0, Used(7.0, 0, 4.0)
    files.cpu(user=17.0, nice=4.0)
    (pool,) = machine.read().cpus
    assert pool.others == pytest.approx(1.2)


def test_a_group_around_ours_limits_us_and_others_in_it_take_of_it(files: Files) -> None:
    files.write("cgroup/a/cpu.max", "150000 100000\n")
    files.write("cgroup/a/memory.max", "4000000000\n")
    files.write("cgroup/a/memory.current", "2500000000\n")
    files.write("cgroup/a/memory.stat", "anon 1\ninactive_file 1000000000\n")
    machine = files.machine()
    files.at, files.own = 10.0, 6.0
    files.cpu(user=6.0, nice=0.0, group=10.0)
    seen = machine.read()
    assert [(pool.limit, pool.others, pool.group) for pool in seen.cpus] == [(2, 0, False), (1.5, 0.4, True)]
    assert [(pool.limit, pool.others) for pool in seen.memory] == [(16_384_000_000, pytest.approx(1.548e9)), (4e9, 1e9)]
    assert tightest(seen.memory).left == 3e9
    files.write("cgroup/a/cpu.max", "max 100000\n")
    assert len(machine.read().cpus) == 1


def test_programs_that_wait_for_memory_are_noticed(files: Files) -> None:
    assert not files.machine().read().squeezed
    files.begin(pressure=45.0)
    assert files.machine().read().squeezed
    (files.root / "proc/pressure/memory").unlink()
    assert not files.machine().read().squeezed


def test_groups_are_found_in_a_hybrid_and_where_the_path_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "membership").write_text("4:memory:/x\n0::/deep/er\n")
    (tmp_path / "root" / "unified" / "deep").mkdir(parents=True)
    found = groups(tmp_path / "root", tmp_path / "membership")
    assert [group.folder.name for group in found] == ["deep", "unified"]
    assert groups(tmp_path / "root", tmp_path / "nothing") == ()
    assert groups()[:0] == () and available_slots() >= 1 and available_memory() > 10**8


def test_what_another_process_takes_is_seen_on_this_machine() -> None:
    """Two busy processes: at least some of the machine must be theirs. Wide limits: others may be busy, too."""
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(2)]
    try:
        machine, begun = Machine(), time.process_time()
        used_before = _seconds_of(busy)
        while _seconds_of(busy) - used_before < 0.5:
            time.sleep(0.05)
        used = _seconds_of(busy) - used_before
        before = machine._before.at
        seen = machine.read()
        told = seen.cpus[0].others * (seen.at - before)
        assert told >= 0.5 * used and time.process_time() >= begun
    finally:
        for process in busy:
            process.kill()
            process.wait()


def test_what_this_process_does_is_not_taken_for_another() -> None:
    """Nobody can be seen to take more than there is, however busy this process is."""
    machine, begun = Machine(), time.process_time()
    while time.process_time() - begun < 0.5:
        sum(range(10_000))
    seen = machine.read()
    assert seen.cpus[0].others <= seen.cpus[0].limit + 0.1
    assert 0 < seen.memory[0].left <= seen.memory[0].limit


def test_memory_of_this_process_is_its_own() -> None:
    before = own_bytes(Path("/proc"))
    held = b"x" * 200_000_000
    assert own_bytes(Path("/proc")) - before > 0.9 * len(held)


def _seconds_of(processes: list[subprocess.Popen[bytes]]) -> float:
    stats = (Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split() for process in processes)
    return sum(int(words[11]) + int(words[12]) for words in stats) / TICKS


def test_a_held_file_is_read_as_it_is_now_and_one_that_is_gone_is_not_found(tmp_path: Path) -> None:
    files, path = HeldFiles(), tmp_path / "memory.max"
    with pytest.raises(FileNotFoundError):
        files.text(path)
    for text in ("max\n", "1000000\n", "x" * 70_000, "x" * 65_536, "12\n"):
        path.write_text(text)
        assert files.text(path) == text
    assert len(opened_below(tmp_path)) == 1
    del files
    assert not opened_below(tmp_path)


def opened_below(folder: Path) -> list[str]:
    """The files that this process has open there."""
    links = (os.readlink(f"/proc/self/fd/{file}") for file in os.listdir("/proc/self/fd") if exists(file))
    return [link for link in links if link.startswith(str(folder))]


def exists(file: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{file}")
