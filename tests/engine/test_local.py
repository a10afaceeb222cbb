"""The local backend: attempts, reports, stopping, and what is left after it is closed."""

from __future__ import annotations

import sys
import threading
import time
import traceback
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from waits import PATIENCE, until

from qoop.catalog.catalog import Catalog
from qoop.catalog.errors import (
    CheckpointError,
    ConfigError,
    DiskFull,
    ExecutionError,
    OutOfMemory,
    Revoked,
    TableChanged,
)
from qoop.catalog.table import Table
from qoop.engine.backends.base import Backend
from qoop.engine.backends.interpreter import TURN_SECONDS
from qoop.engine.backends.local import LocalBackend
from qoop.engine.events import (
    Begun,
    CheckpointLost,
    Event,
    Queued,
    SlotsChanged,
    TaskFailed,
    TaskStopped,
    TaskSucceeded,
    WorkObserved,
)
from qoop.engine.kernel import Kernel
from qoop.engine.storage.retention import Retention
from qoop.engine.task import AttemptId, CheckpointKey, ResolvedInput, TaskId, TaskSpec, checkpoint_key
from qoop.planner.plan import Layout, Resources, Stage, StageInput, TableInput

NUMBERS = count(1)
MEMORY = 1_000_000_000
N = (("n", "BIGINT"),)
LONG = Stage(
    "long", "SELECT count(*) AS n FROM range(1000000000) a, range(1000) b WHERE (a.range * b.range) % 7 = 3",
    (), N, 1, "long",
)  # fmt: skip
ONE = Stage("one", "SELECT 1::BIGINT AS n", (), N, 1, "one")


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[LocalBackend]:
    backend = LocalBackend(2, MEMORY, spill_dir=tmp_path)
    yield backend
    backend.close()


def a_spec(
    stage: Stage,
    part: int = 0,
    inputs: tuple[ResolvedInput, ...] = (),
    tables: Mapping[str, Table] | None = None,
    memory: float = 200e6,
    durable: bool = False,
    job: str = "job",
) -> TaskSpec:
    attempt = AttemptId(TaskId(job, stage.id, part), next(NUMBERS))
    available = Resources(1, memory)
    return TaskSpec(attempt, stage, checkpoint_key(stage, part), inputs, tables or {}, available, durable=durable)


def queries(backend: LocalBackend, spec: TaskSpec) -> bool:
    """True while DuckDB works for the attempt."""
    attempt = backend._attempts.get(spec.attempt)
    return attempt is not None and attempt.kernel is not None and attempt.kernel._querying


def run(backend: LocalBackend, spec: TaskSpec) -> list[Event]:
    backend.start("local", spec)
    return collect(backend, 1)


def collect(backend: LocalBackend, reports: int) -> list[Event]:
    """Events until that many attempts have ended, but for waiting and progress."""
    return [event for event in collect_all(backend, reports) if not isinstance(event, Queued | Begun | WorkObserved)]


def collect_all(backend: LocalBackend, reports: int) -> list[Event]:
    events: list[Event] = []
    while sum(isinstance(event, TaskSucceeded | TaskFailed | TaskStopped) for event in events) < reports:
        found = backend.wait(PATIENCE)
        assert found, f"no report; so far {events}"
        events.extend(found)
    return events


def test_it_is_a_backend(backend: LocalBackend) -> None:
    base: Backend = backend
    (capacity,) = base.machines().values()
    assert capacity.cpu == 2 and 0 < capacity.memory < MEMORY


def test_an_attempt_that_nobody_can_take_up_is_queued_until_it_begins(backend: LocalBackend) -> None:
    specs = [a_spec(ONE) for _ in range(5)]
    for spec in specs:
        backend.start("local", spec)
    told = collect_all(backend, 5)
    waited = {event.attempt for event in told if isinstance(event, Queued)}
    assert {spec.attempt for spec in specs[2:]} <= waited  # the others if their kernels were not open yet
    for attempt in waited:
        kinds = [type(event) for event in told if getattr(event, "attempt", None) == attempt]
        assert kinds == [Queued, Begun, TaskSucceeded]
    accounts = {event.attempt: event.account for event in told if isinstance(event, TaskSucceeded)}
    assert all(account is not None and (account.waited > 0 or at not in waited) for at, account in accounts.items())


def test_an_attempt_that_is_taken_up_at_once_is_reported_once(backend: LocalBackend) -> None:
    for _ in range(4):
        backend.start("local", a_spec(ONE))
    collect(backend, 4)  # both kernels are open now
    for part in range(20):
        backend.start("local", a_spec(ONE, part + 1))
        (event,) = collect_all(backend, 1)
        assert isinstance(event, TaskSucceeded) and event.account is not None
        assert event.committed.seconds <= event.account.seconds  # which holds waiting and handing over, too


def test_a_shuffle_of_two_stages(backend: LocalBackend) -> None:
    make = Stage(
        "make", "SELECT range AS n, range % 10 AS k FROM range(1000)", (), (*N, ("k", "BIGINT")), 2, "make",
        Layout(("k",), 3),
    )  # fmt: skip
    group = Stage(
        "group", "SELECT k, sum(n)::BIGINT AS n FROM x GROUP BY k", (StageInput("x", "make", "partition"),),
        (("k", "BIGINT"), *N), 3, "group",
    )  # fmt: skip
    makers = [a_spec(make, part) for part in range(2)]
    for spec in makers:
        backend.start("local", spec)
    facts = [event.committed for event in collect(backend, 2) if isinstance(event, TaskSucceeded)]
    assert [sum(fact.rows) for fact in facts] == [1000, 1000] and all(fact.seconds > 0 for fact in facts)
    readers = [
        a_spec(group, part, (ResolvedInput("x", tuple(spec.key for spec in makers), part),)) for part in range(3)
    ]
    for spec in readers:
        backend.start("local", spec)
    assert all(isinstance(event, TaskSucceeded) for event in collect(backend, 3))
    out = pa.concat_tables([backend.read(spec.key) for spec in readers])
    expected = duckdb.sql("SELECT range % 10 AS k, 2 * sum(range) AS n FROM range(1000) GROUP BY k ORDER BY k")
    assert out.sort_by("k").to_pylist() == [{"k": k, "n": int(n)} for k, n in expected.fetchall()]
    assert {fact.key for fact in backend.present([spec.key for spec in (*makers, *readers)])} == {
        spec.key for spec in (*makers, *readers)
    }
    backend.release("job", [spec.key for spec in (*makers, *readers)])
    assert not backend.present([spec.key for spec in (*makers, *readers)]) and backend.store.used == 0


def test_stop_of_a_running_attempt(backend: LocalBackend) -> None:
    spec = a_spec(LONG)
    backend.start("local", spec)
    until(lambda: queries(backend, spec))
    begun = time.process_time()
    backend.stop(spec.attempt)
    assert collect(backend, 1) == [TaskStopped(spec.attempt)]
    assert time.process_time() - begun < 1.0, "DuckDB works on for 20 ms"
    assert not backend.present([spec.key])
    assert isinstance(run(backend, a_spec(ONE))[0], TaskSucceeded)


def test_an_interrupt_that_is_lost_is_repeated(backend: LocalBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB forgets one that comes before the query runs."""
    interrupt, lost = Kernel.interrupt, []

    def forgetful(kernel: Kernel) -> None:
        if len(lost) < 3:
            lost.append(kernel)
        else:
            interrupt(kernel)

    monkeypatch.setattr(Kernel, "interrupt", forgetful)
    spec = a_spec(LONG)
    backend.start("local", spec)
    until(lambda: queries(backend, spec))
    backend.stop(spec.attempt)
    assert collect(backend, 1) == [TaskStopped(spec.attempt)]
    assert len(lost) == 3


@pytest.mark.parametrize("pause", [0.0, 0.0005, 0.001, 0.002, 0.005])
def test_stop_at_any_moment(backend: LocalBackend, pause: float) -> None:
    specs = [a_spec(LONG) for _ in range(4)]  # two wait for a slot
    for spec in specs:
        backend.start("local", spec)
    time.sleep(pause)
    for spec in specs:
        backend.stop(spec.attempt)
    assert set(collect(backend, 4)) == {TaskStopped(spec.attempt) for spec in specs}


def test_stop_of_what_is_unknown_or_over(backend: LocalBackend) -> None:
    spec = a_spec(ONE)
    backend.stop(spec.attempt)
    run(backend, spec)
    backend.stop(spec.attempt)
    assert backend.wait(0.05) == []
    assert isinstance(run(backend, a_spec(ONE))[0], TaskSucceeded)


def test_wake_and_timeout(backend: LocalBackend) -> None:
    assert backend.wait(0) == []
    threading.Timer(0.05, backend.wake).start()
    began = time.perf_counter()
    assert backend.wait(PATIENCE) == [] and time.perf_counter() - began < PATIENCE


def test_an_error_is_reported_not_retryable(backend: LocalBackend) -> None:
    (event,) = run(backend, a_spec(Stage("bad", "SELECT error('oh') AS n", (), N, 1, "bad")))
    assert isinstance(event, TaskFailed) and not event.retryable
    assert type(event.error) is ExecutionError and "oh" in str(event.error) and event.error.stage == "bad"


def test_a_failure_holds_no_rows(backend: LocalBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[weakref.ref[pa.Table]] = []

    def put(committed: object, job: object, partitions: tuple[pa.Table, ...], *_: object) -> None:
        rows.extend(map(weakref.ref, partitions))
        try:
            raise OSError("the disk is gone")
        except OSError as error:
            raise RuntimeError("it cannot be kept") from error

    monkeypatch.setattr(backend.store, "put", put)
    (event,) = run(backend, a_spec(ONE))
    assert isinstance(event, TaskFailed) and [there() for there in rows] == [None]
    story = "".join(traceback.format_exception(event.error))
    assert "the disk is gone" in story and "it cannot be kept" in story and ", in put" in story


def test_want_of_memory_is_retryable(backend: LocalBackend) -> None:
    stage = Stage(
        "big", "SELECT string_agg(range::VARCHAR) AS n FROM range(30000000)", (), (("n", "VARCHAR"),), 1, "big"
    )
    (event,) = run(backend, a_spec(stage, memory=20e6))
    assert isinstance(event, TaskFailed) and event.retryable and isinstance(event.error, OutOfMemory)


def test_an_input_that_is_gone_is_lost(backend: LocalBackend) -> None:
    key = CheckpointKey("nowhere", "layout", 0)
    stage = Stage("s", "SELECT n FROM x", (StageInput("x", "y", "all"),), N, 1, "s")
    lost, failed = run(backend, a_spec(stage, inputs=(ResolvedInput("x", (key,)),)))
    assert lost == CheckpointLost(key)
    assert isinstance(failed, TaskFailed) and failed.retryable and isinstance(failed.error, CheckpointError)


def test_a_table_that_changed_under_the_task(backend: LocalBackend, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    duckdb.connect().execute(f"COPY (SELECT range AS n FROM range(10)) TO '{path}' (FORMAT parquet)")
    table = Catalog().register("t", str(path))
    stage = Stage("scan", "SELECT n FROM t", (TableInput("t", "t", table.version, ("n",), True),), N, 1, "scan")
    assert isinstance(run(backend, a_spec(stage, tables={"t": table}))[0], TaskSucceeded)
    backend.release("job", [checkpoint_key(stage, 0)])
    duckdb.connect().execute(f"COPY (SELECT range AS n FROM range(11)) TO '{path}' (FORMAT parquet)")
    (event,) = run(backend, a_spec(stage, tables={"t": table}))
    assert isinstance(event, TaskFailed) and isinstance(event.error, TableChanged) and not event.retryable


def test_results_outlive_what_is_dropped(backend: LocalBackend) -> None:
    spec = a_spec(ONE)
    run(backend, spec)
    table = backend.read(spec.key)
    backend.release("job", [spec.key])
    assert table.to_pylist() == [{"n": 1}]


def test_inputs_are_kept_for_the_reader(backend: LocalBackend) -> None:
    producer = a_spec(ONE)
    run(backend, producer)
    stage = Stage("read", "SELECT n FROM x", (StageInput("x", "one", "all"),), N, 1, "read")
    reader = a_spec(stage, inputs=(ResolvedInput("x", (producer.key,)),), job="other")
    backend.start("local", reader)
    backend.release("job", [producer.key])
    assert isinstance(collect(backend, 1)[0], TaskSucceeded)
    assert backend.present([producer.key])
    backend.release("other", [producer.key])
    assert not backend.present([producer.key])


def test_close_leaves_nothing(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    spill, durable = tmp_path / "spill", tmp_path / "durable"
    backend = LocalBackend(2, MEMORY, spill, Retention(durable))
    big = Stage("big", "SELECT range AS n FROM range(20000000) ORDER BY hash(range)", (), N, 1, "big")
    run(backend, a_spec(ONE, durable=True))
    backend.start("local", a_spec(big, memory=50e6))  # spills
    longs = [a_spec(LONG) for _ in range(3)]
    for spec in longs:
        backend.start("local", spec)
    until(lambda: queries(backend, longs[0]))
    begun = time.process_time()
    backend.close()
    assert time.process_time() - begun < 3.0
    assert set(threading.enumerate()) <= before
    assert list(spill.iterdir()) == []
    assert len(list(durable.glob("*.json"))) == 1
    backend.close()


def test_a_later_process_finds_what_was_durable(tmp_path: Path) -> None:
    first = LocalBackend(1, MEMORY, tmp_path, Retention(tmp_path / "durable"))
    spec = a_spec(ONE, durable=True)
    run(first, spec)
    first.close()
    later = LocalBackend(1, MEMORY, tmp_path, Retention(tmp_path / "durable"))
    assert [fact.key for fact in later.present([spec.key])] == [spec.key]
    assert later.read(spec.key).to_pylist() == [{"n": 1}]
    later.close()


def test_slots_that_go_take_the_attempts_begun_last(backend: LocalBackend) -> None:
    first, second = a_spec(LONG), a_spec(LONG)
    backend.start("local", first)
    backend.start("local", second)
    backend.resize(1, None)
    changed, failed = collect(backend, 1)
    assert changed == SlotsChanged("local", Resources(1, MEMORY // 2)) == SlotsChanged(*_only(backend.machines()))
    assert isinstance(failed, TaskFailed) and failed.retryable and isinstance(failed.error, Revoked)
    assert failed.attempt == second.attempt and not backend.present([second.key])
    assert all(isinstance(event, Begun | WorkObserved) for event in backend.wait(0.05))  # the other goes on
    backend.stop(first.attempt)
    assert collect(backend, 1) == [TaskStopped(first.attempt)]


def test_memory_that_goes_takes_attempts_and_spills_outputs(backend: LocalBackend) -> None:
    numbers = Stage("numbers", "SELECT range AS n FROM range(1000000)", (), N, 1, "numbers")
    spec = a_spec(numbers)
    run(backend, spec)
    assert backend.store.used >= 8_000_000
    long = a_spec(LONG, memory=200e6)
    backend.start("local", long)
    backend.resize(None, 20_000_000)
    assert isinstance(collect(backend, 1)[-1], TaskFailed)
    until(lambda: backend.store.used <= backend.store.budget, lambda: f"{backend.store.used} bytes are still in memory")
    assert backend.store.budget == 1_250_000 and backend.read(spec.key).num_rows == 1_000_000


def test_threads_come_and_go_with_the_slots(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    backend = LocalBackend(1, MEMORY, spill_dir=tmp_path)
    for slots in (3, 0, 2, 0):
        backend.resize(slots, None)
        until(lambda: len(set(threading.enumerate()) - before) == slots, threading.enumerate)  # noqa: B023
        if slots:
            assert isinstance(run(backend, a_spec(ONE))[-1], TaskSucceeded)
    refused = run(backend, a_spec(ONE))[-1]
    assert isinstance(refused, TaskFailed) and isinstance(refused.error, Revoked)
    with pytest.raises(ConfigError, match="-1 slots"):
        backend.resize(-1, None)
    backend.close()
    assert set(threading.enumerate()) <= before and list(tmp_path.iterdir()) == []


def test_threads_of_extra_slots_stay_for_the_next_ones(backend: LocalBackend) -> None:
    def worked() -> set[threading.Thread]:
        specs = [replace(a_spec(LONG), extra=True) for _ in range(5)]
        for spec in specs:
            backend.start("local", spec)
        until(lambda: all(queries(backend, spec) for spec in specs))
        for spec in specs:
            backend.stop(spec.attempt)
        collect(backend, len(specs))
        return {thread for thread in threading.enumerate() if thread.name.startswith("qoop-slot")}

    assert worked() == worked()


def test_kernels_are_replaced_when_memory_falls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, opened, closed = set(threading.enumerate()), [], []
    init, close = Kernel.__init__, Kernel.close
    monkeypatch.setattr(Kernel, "__init__", lambda kernel, *told: (init(kernel, *told), opened.append(kernel))[0])
    monkeypatch.setattr(Kernel, "close", lambda kernel: (close(kernel), closed.append(kernel))[0])
    backend = LocalBackend(3, MEMORY, spill_dir=tmp_path)
    busy = a_spec(LONG, memory=1e6)
    backend.start("local", busy)
    until(lambda: queries(backend, busy))
    for slots, memory in ((3, MEMORY // 2), (1, MEMORY // 3), (2, MEMORY), (2, MEMORY // 2)):
        backend.resize(slots, memory)
    backend.stop(busy.attempt)
    assert collect(backend, 1)[-1] == TaskStopped(busy.attempt)
    until(
        lambda: len(set(threading.enumerate()) - before) <= 2 and len(opened) - len(closed) == 1,
        lambda: (threading.enumerate(), opened, closed),
    )
    assert opened[0] in closed, "only one is opened ahead, a new one"
    assert isinstance(run(backend, a_spec(ONE))[-1], TaskSucceeded)
    backend.close()
    assert set(threading.enumerate()) <= before


def _only(machines: Mapping[str, Resources]) -> tuple[str, Resources]:
    ((name, capacity),) = machines.items()
    return name, capacity


def test_threads_take_short_turns_while_any_backend_is_open(tmp_path: Path) -> None:
    usual = sys.getswitchinterval()
    first, second = (LocalBackend(1, MEMORY, spill_dir=tmp_path) for _ in range(2))
    first.close()
    assert sys.getswitchinterval() == pytest.approx(min(usual, TURN_SECONDS))
    second.close()
    second.close()
    assert sys.getswitchinterval() == usual


def test_bad_arguments(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigError):
        LocalBackend(0, MEMORY)
    with pytest.raises(DiskFull, match="spill"):
        LocalBackend(1, MEMORY, spill_dir=tmp_path / "file")
    with pytest.warns(RuntimeWarning, match="checkpoint directory .* cannot be written"):
        LocalBackend(1, MEMORY, tmp_path, Retention(tmp_path / "file")).close()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
