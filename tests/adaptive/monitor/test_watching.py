"""Sessions that follow their machine: what others take is left to them, and the user's word wins."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from waits import until

import qoop
from qoop.__main__ import _watching
from qoop.adaptive.cluster.sizing import Sizing
from qoop.adaptive.monitor.alarm import Alarm
from qoop.adaptive.monitor.available import safe_memory
from qoop.adaptive.monitor.machine import Machine, _busy
from qoop.adaptive.monitor.reading import Pool, Reading
from qoop.adaptive.monitor.watch import Watch
from qoop.catalog.errors import ConfigError
from qoop.catalog.priority import usable_cpus
from qoop.engine.history import CapacityReported
from qoop.planner.plan import Resources

LONG = "SELECT sum(a.i * b.i % 7) AS s FROM big a, big b WHERE a.i + b.i > 5"
COUNT = "SELECT i % 3 AS d, count(*) AS n FROM big GROUP BY ALL ORDER BY d"
MEMORY = 10**9
SOON = 60.0


class Stage:
    """A machine that is as the test says; an hour passes between two readings."""

    def __init__(self) -> None:
        self.others, self.memory = 0.0, 16e9
        self._hours = itertools.count()
        self.looked = threading.Semaphore(0)

    def alarm(self) -> Alarm:
        return Alarm()

    def read(self) -> Reading:
        self.looked.release()
        return Reading(3600.0 * next(self._hours), (Pool(2, self.others),), (Pool(self.memory),))


@pytest.fixture(autouse=True)
def by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine is watched where it is for users."""
    monkeypatch.delenv("QOOP_WATCH_MACHINE")


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    made = Stage()
    monkeypatch.setattr("qoop.session.parts.Sizing", partial(Sizing, machine=lambda: made))
    monkeypatch.setattr("qoop.adaptive.monitor.watch.Watch", partial(Watch, every=0.005))
    return made


@pytest.fixture
def session(stage: Stage) -> Iterator[qoop.Session]:
    with qoop.connect(slots=2, memory=MEMORY, watch_machine=True) as made:
        made.register("big", pa.table({"i": np.arange(300_000)}))
        yield made


def settled(stage: Stage) -> None:
    """Wait until the machine was looked at often enough for whatever is to follow."""
    for _ in range(10):
        assert stage.looked.acquire(timeout=SOON)


def capacities(job: qoop.Job) -> list[str]:
    return [str(record) for record in job.history() if isinstance(record, CapacityReported)]


def test_what_others_take_is_left_to_them_while_a_query_runs_and_the_record_says_why(
    session: qoop.Session, stage: Stage
) -> None:
    running = session.submit(LONG)
    stage.others = 1.1
    until(lambda: session.available.cpu == 1)
    assert session.held_back == "other programs take 1.1 of 2 cpus: 1 slot"
    counted = session.submit(COUNT)
    stage.others = 0.0
    until(lambda: session.available.cpu == 2 and not session.held_back)
    until(lambda: len(capacities(running)) > 2)
    reports = capacities(running)
    assert "has 1 slot and 500 MB for tasks, since other programs take 1.1 of 2 cpus: 1 slot" in reports[1]
    assert reports[2].endswith("has 2 slots and 500 MB for tasks, since the cpus are free again")
    running.cancel()
    assert counted.result(SOON).fetchall() == [(d, 100_000) for d in range(3)]


def test_the_word_of_the_user_holds_until_it_is_given_back(session: qoop.Session, stage: Stage) -> None:
    session.resize(slots=2)
    stage.others, stage.memory = 1.5, 0.5e9
    until(lambda: session.available.memory < MEMORY / 2)  # of memory the user has said nothing
    settled(stage)
    assert session.available.cpu == 2 and "cpus" not in session.held_back
    session.resize(slots="auto")
    assert session.available.cpu == 1
    session.sql("SET memory = '900MB'; SET slots = 2")
    settled(stage)
    assert session.available == Resources(2, 450_000_000) and not session.held_back
    session.sql("RESET slots; RESET memory")
    assert session.available == Resources(1, 225_000_000)


def test_it_is_switched_off_and_on(session: qoop.Session, stage: Stage) -> None:
    stage.others = 2.0
    until(lambda: session.available.cpu == 1)
    session.sql("SET watch_machine = false")
    assert session.available == Resources(2, MEMORY // 2) and not session.held_back
    session.sql("SET watch_machine = true")
    until(lambda: session.available.cpu == 1)
    with pytest.raises(ConfigError, match="watch_machine must be one of"):
        session.sql("SET watch_machine = 'perhaps'")


def test_without_being_asked_nothing_is_watched(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    with qoop.connect(slots=2, memory=MEMORY) as session:
        stage.others = 2.0
        assert not stage.looked.acquire(timeout=0.1) and session.available.cpu == 2
    monkeypatch.setenv("QOOP_WATCH_MACHINE", "yes")
    with qoop.connect(slots=2, memory=MEMORY) as session:
        until(lambda: session.available.cpu == 1)


def test_slots_that_the_command_line_names_stand(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qoop.adaptive.monitor.machine.Machine.readable", lambda: True)
    stage.others = 2.0
    with _watching(qoop.connect(slots=2, memory=MEMORY), Namespace(slots=2)) as session:
        assert stage.looked.acquire(timeout=60) and stage.looked.acquire(timeout=60)
        assert session.available.cpu == 2
        session.resize(slots="auto")
        until(lambda: session.available.cpu == 1)
    with _watching(qoop.connect(slots=2, memory=MEMORY), Namespace(slots=None)) as session:
        until(lambda: session.available.cpu == 1)


def test_a_machine_that_cannot_be_read_any_more_leaves_the_session_alone(
    session: qoop.Session, stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> Reading:
        raise OSError("gone")

    monkeypatch.setattr(stage, "read", broken)
    until(lambda: "watched no more" in caplog.text)
    assert session.sql("SELECT 7").fetchall() == [(7,)]


def test_a_real_program_takes_the_cpus_and_a_query_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the machine the tests run on, with all that is read of it: only how long a change must last is shortened."""
    monkeypatch.setattr("qoop.adaptive.monitor.watch.Watch", partial(Watch, every=0.1, less_after=0.3, more_after=1e9))
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    try:
        with qoop.connect(slots=4, memory=MEMORY) as session:
            session.register("big", pa.table({"i": np.arange(300_000)}))
            running = session.submit(LONG)
            session.set("watch_machine", True)
            until(lambda: session.available.cpu < 4)
            assert "other programs take" in session.held_back
            until(lambda: any(isinstance(one, CapacityReported) and one.why for one in running.history()))
            running.cancel()
            assert session.sql(COUNT).fetchall() == [(d, 100_000) for d in range(3)]
    finally:
        for process in busy:
            process.kill()
            process.wait()


def test_what_real_programs_take_is_taken_from_a_session_and_comes_back_when_they_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other work on this machine counts as our own: it would not pause for the test."""
    cpus = frozenset(sorted(usable_cpus())[:2])
    busy: list[subprocess.Popen[bytes]] = []
    proc = proc_of(tmp_path)
    (proc / "self" / "cgroup").write_text("")
    (proc / "stat").unlink()

    def all_but_theirs() -> float:
        (proc / "stat").write_text(Path("/proc/stat").read_text())
        return _busy(proc / "stat") - sum(seconds_of(process.pid) for process in busy)

    machine = partial(Machine, proc, tmp_path / "cgroup", all_but_theirs)
    monkeypatch.setattr("qoop.adaptive.monitor.machine.usable_cpus", lambda: cpus)
    monkeypatch.setattr("qoop.session.parts.Sizing", partial(Sizing, machine=machine))
    monkeypatch.setattr("qoop.adaptive.monitor.watch.Watch", partial(Watch, every=0.1, less_after=0.3, more_after=0.5))
    try:
        busy.extend(subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2))
        with qoop.connect(slots=16, memory=MEMORY, watch_machine=True) as session:
            until(lambda: session.available.cpu < 16)
            assert "other programs take" in session.held_back
            for process in busy:
                process.send_signal(signal.SIGSTOP)
            until(lambda: session.available.cpu == 16 and not session.held_back)
            for process in busy:
                process.send_signal(signal.SIGCONT)
            until(lambda: session.available.cpu < 16)
    finally:
        for process in busy:
            process.kill()
            process.wait()


def proc_of(folder: Path) -> Path:
    """A /proc whose files are this machine's, but for that which tells of control groups."""
    proc = folder / "proc"
    (proc / "self").mkdir(parents=True)
    for name in ("stat", "meminfo", "self/status"):
        (proc / name).symlink_to(f"/proc/{name}")
    return proc


def seconds_of(pid: int) -> float:
    """Of the CPUs that a process has used."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def test_limits_of_a_control_group_that_change_while_a_query_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On files of the form that the kernel gives them; the machine's own for all else."""
    proc, group = proc_of(tmp_path), tmp_path / "cgroup" / "job"
    group.mkdir(parents=True)
    (proc / "self" / "cgroup").write_text("0::/job\n")
    (group.parent / "cgroup.controllers").write_text("cpu memory\n")
    (group / "cpu.max").write_text("max 100000\n")
    (group / "memory.max").write_text("max\n")
    monkeypatch.setattr(
        "qoop.session.parts.Sizing", partial(Sizing, machine=lambda: Machine(proc, tmp_path / "cgroup"))
    )
    monkeypatch.setattr("qoop.adaptive.monitor.watch.Watch", partial(Watch, every=0.05, less_after=0.1, more_after=1e9))
    with qoop.connect(slots=2, memory="1GB", watch_machine=True) as session:
        session.register("big", pa.table({"i": np.arange(300_000)}))
        running = session.submit(LONG)
        (group / "memory.max").write_text("800000000\n")
        until(lambda: session.available.memory == safe_memory(800_000_000) // 2)
        (group / "cpu.max").write_text("50000 100000\n")
        until(lambda: session.available.cpu == 1)
        running.cancel()
        assert session.sql(COUNT).fetchall() == [(d, 100_000) for d in range(3)]
