"""Reports of long attempts while they run: DuckDB's own count of progress, and the cost of other programs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from waits import until

from qoop.catalog.priority import BEHIND, NICENESS
from qoop.engine.backends import work_watch
from qoop.engine.backends.local import MACHINE, LocalBackend
from qoop.engine.backends.work_watch import ThreadTimes, WorkWatch
from qoop.engine.events import Event, TaskSucceeded, WorkObserved
from qoop.engine.task import AttemptId, TaskId, TaskSpec, checkpoint_key
from qoop.planner.plan import ISOLATED, Resources, Stage


@contextmanager
def crowd() -> Iterator[None]:
    """A program for each CPU, which works all the time."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait()


def work(seconds: float) -> float:
    """Work that long on a CPU; returns the seconds that passed."""
    since, until = time.perf_counter(), time.thread_time() + seconds
    while time.thread_time() < until:
        pass
    return time.perf_counter() - since


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="the system does not tell who waits for a CPU")
def test_who_waits_for_a_cpu_is_known() -> None:
    times = ThreadTimes()
    with crowd():
        passed = work(0.2)
        times.read()
    assert times.ran == pytest.approx(0.2, rel=0.5)
    assert times.ran * times.slowed == pytest.approx(passed, rel=0.5) and times.slowed > 1.0


@pytest.mark.parametrize(
    ("ran", "waited", "by_others"),
    [
        pytest.param(2.0, 1.0, 0.0, id="three threads of its own on two CPUs"),
        pytest.param(1.0, 1.0, 1.0, id="two, next to two other programs"),
        pytest.param(1.2, 1.8, 0.8, id="three, next to two other programs"),
        pytest.param(1.0, 0.1, 0.1, id="one that wakes often"),
    ],
)
def test_what_threads_of_the_process_make_each_other_wait_is_not_of_others(
    ran: float, waited: float, by_others: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    times = [("1", (0, 0))]
    monkeypatch.setattr(work_watch, "_threads", lambda: iter(times))
    monkeypatch.setattr(work_watch, "usable_cpus", lambda: {0, 1})
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    known = ThreadTimes()
    now, times = 11.0, [("1", (round(0.5e9 * ran), round(0.5e9 * waited))), ("2", (round(0.5e9 * ran), 0))]
    times.append(("3", (0, round(0.5e9 * waited))))
    known.read(begun=10.0)  # it was idle before
    assert (known.ran, known.waited) == (pytest.approx(ran), pytest.approx(by_others))


@pytest.mark.parametrize("opaque", ["DuckDB plans it", ISOLATED])
def test_a_long_query_reports_its_progress_and_the_cpu_seconds_of_its_own_process(opaque: str, tmp_path: Path) -> None:
    path = tmp_path / "numbers.parquet"
    rows = pa.table({"i": range(300_000), "k": [i % 1_000 for i in range(300_000)]})
    pq.write_table(rows, path, row_group_size=10_000)
    sql = f"SELECT count(*) AS n FROM '{path}' a JOIN '{path}' b ON a.k = b.k WHERE hash(a.i, b.i) % 7 = 3"
    with closing(LocalBackend(1, 1_000_000_000, spill_dir=tmp_path)) as backend:
        attempt = start(backend, "all", sql, opaque)
        events: list[Event] = []
        while not any(isinstance(event, TaskSucceeded) for event in events):
            events += backend.wait(60)
    seen = [event for event in events if isinstance(event, WorkObserved)]
    parts = [event.part for event in seen if event.part is not None]
    used = [event.cpu_seconds for event in seen if event.cpu_seconds is not None]
    assert parts == sorted(parts) and all(0 < part <= 1 for part in parts) and parts
    assert used == sorted(used) and (used[-1] > 0.1 if opaque == ISOLATED else not used)
    assert all(event.attempt == attempt and event.slowed >= 1.0 for event in seen)


@pytest.mark.skipif(sys.platform != "linux", reason="only there threads have priorities of their own")
def test_a_long_task_goes_behind_others_and_another_worker_takes_its_place(tmp_path: Path) -> None:
    """Its thread stays behind, so it takes no other task."""
    slow = "SELECT count(*) AS n FROM range(1000000) a, range(1000000) b WHERE hash(a.range, b.range) = 3"
    with closing(LocalBackend(1, 1_000_000_000, spill_dir=tmp_path)) as backend:
        backend.let_short_go_first()
        long = start(backend, "long", slow)
        while not behind():
            assert all(isinstance(event, WorkObserved) for event in backend.wait(60))
        backend.stop(long)
        short = start(backend, "short", "SELECT 1 AS n")
        events: list[Event] = []
        while not any(isinstance(event, TaskSucceeded) for event in events):
            events += backend.wait(60)
        assert [event.attempt for event in events if isinstance(event, TaskSucceeded)] == [short]
        while behind():  # its thread ends
            time.sleep(0.001)


@pytest.mark.skipif(sys.platform != "linux", reason="only there threads have priorities of their own")
def test_what_a_thread_behind_others_starts_is_not_behind(tmp_path: Path) -> None:
    """The worker in its place, and the thread that writes outputs: all later work would be behind."""
    slow = "SELECT count(*) AS n FROM range(1000000) a, range(1000000) b WHERE hash(a.range, b.range) = 3"
    before = set(threading.enumerate())
    with closing(LocalBackend(1, 1_000_000_000, spill_dir=tmp_path)) as backend:
        backend.let_short_go_first(lambda job: True)
        long = start(backend, "long", slow)
        started = until(lambda: len(new := [*set(threading.enumerate()) - before]) >= 2 and behind() and new)
        assert len(behind()) == 1, started
        backend.stop(long)


@pytest.mark.skipif(sys.platform != "linux", reason="only there threads have priorities of their own")
def test_an_attempt_of_a_long_job_goes_behind_at_once() -> None:
    watch = WorkWatch(lambda event: None)
    attempt = AttemptId(TaskId("job", "s1", 0), 1)
    niceness: list[int] = []
    behind: list[float] = []
    went: list[int] = []

    def watched(is_long: bool) -> None:
        with watch.watched(attempt, lambda: None, lambda: None, is_long):
            niceness.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
            before = watch.behind_seconds()
            work(0.05)
            behind.append(watch.behind_seconds() - before)

    def in_a_thread(is_long: bool) -> None:
        thread = threading.Thread(target=watched, args=(is_long,))
        thread.start()
        thread.join()

    in_a_thread(is_long=True)  # no attempt goes behind here
    watch.urgent, watch.went_behind = 60.0, went.append
    in_a_thread(is_long=False)
    in_a_thread(is_long=True)
    watch.close()
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    assert niceness == [usual, usual, min(BEHIND, usual + NICENESS)] and len(went) == 1
    assert behind[:2] == [0.0, 0.0] and behind[2] >= 0.03
    assert watch.behind_seconds() >= behind[2], "also once it has ended"


def start(backend: LocalBackend, name: str, sql: str, opaque: str = "DuckDB plans it") -> AttemptId:
    stage = Stage(name, sql, (), (("n", "BIGINT"),), 1, name, opaque=opaque, whole=True)
    attempt = AttemptId(TaskId("job", name, 0), 1)
    backend.start(MACHINE, TaskSpec(attempt, stage, checkpoint_key(stage, 0), (), {}, Resources(1, 200e6)))
    return attempt


def behind() -> list[int]:
    """The threads of this process that let others go first."""
    found = []
    for thread in map(int, os.listdir("/proc/self/task")):
        with suppress(ProcessLookupError):
            if os.getpriority(os.PRIO_PROCESS, thread) > os.getpriority(os.PRIO_PROCESS, os.getpid()):
                found.append(thread)
    return found
