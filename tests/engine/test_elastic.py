"""Elastic tasks: DuckDB gets threads and memory, and gives them back, while it runs a query."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qoop.catalog.errors import Revoked
from qoop.engine.backends.local import LocalBackend
from qoop.engine.events import (
    Begun,
    Event,
    Queued,
    SlotsChanged,
    TaskFailed,
    TaskRegranted,
    TaskSucceeded,
    WorkObserved,
)
from qoop.engine.instance import Instance
from qoop.engine.kernel import Kernel
from qoop.engine.storage.growing import InMemory
from qoop.engine.task import AttemptId, TaskId, TaskSpec, checkpoint_key
from qoop.planner.packing import shrunk_to_fit
from qoop.planner.plan import Resources, Stage

MEMORY = 1_000_000_000
ROWS = 40_000_000
NUMBERS = count(1)
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="children are limited on Linux alone")
LONG = Stage(
    "whole", f"SELECT count(DISTINCT range % 1000)::BIGINT AS n FROM range({ROWS})", (), (("n", "BIGINT"),), 1, "whole"
)
"""Most of a second of work, which DuckDB divides among threads."""


def elastic(cpu: float = 1, most: int = 2, memory: float = 200e6, locked: bool = False) -> TaskSpec:
    stage = replace(LONG, opaque="DuckDB plans it", whole=True, slots=most)
    attempt = AttemptId(TaskId("job", stage.id, 0), next(NUMBERS))
    key = checkpoint_key(stage, 0)
    return TaskSpec(attempt, stage, key, (), {}, Resources(cpu, memory), most=most, locked=locked)


@pytest.fixture(params=["thread", pytest.param("process", marks=linux_only)])
def backend(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LocalBackend]:
    backend = LocalBackend(2, MEMORY, spill_dir=tmp_path)
    if request.param == "process":
        backend.isolate()
    yield backend
    backend.close()


def ended(backend: LocalBackend, reports: int = 1) -> list[Event]:
    """All events until that many attempts have ended, but for waiting and progress."""
    events: list[Event] = []
    while sum(isinstance(event, TaskSucceeded | TaskFailed) for event in events) < reports:
        events += backend.wait(60)
    return [event for event in events if not isinstance(event, Queued | Begun | WorkObserved)]


def regranted(events: list[Event]) -> list[Resources]:
    return [event.resources for event in events if isinstance(event, TaskRegranted)]


def answer(backend: LocalBackend, events: list[Event]) -> list[int]:
    (done,) = (event for event in events if isinstance(event, TaskSucceeded))
    rows: list[int] = backend.read(done.committed.key)["n"].to_pylist()
    return rows


@pytest.mark.parametrize("locked", [False, True])
def test_duckdb_takes_a_thread_more_while_it_runs(backend: LocalBackend, locked: bool) -> None:
    spec = elastic(locked=locked)
    backend.start("local", spec)
    backend.regrant(spec.attempt, Resources(2, 200e6))
    events = ended(backend)
    assert regranted(events) == [Resources(2, 200e6)]
    assert answer(backend, events) == [1000]


def test_a_kernel_can_have_fewer_threads_than_were_lent_before(tmp_path: Path) -> None:
    """As when the slots of a session fall between two queries. DuckDB refuses fewer threads than are lent."""
    instance = Instance(tmp_path)
    for threads, lent in ((3, 3), (2, 1), (2, 2), (4, 4), (2, 2), (1, None), (3, 3)):
        wanted: dict[str, object] = {"threads": threads}
        if lent is not None:
            wanted["external_threads"] = lent
        instance.configure(wanted)
        (found,) = instance.connection.execute("SELECT current_setting('threads')").fetchall()
        assert found == (threads,)
    instance.close()


def test_slots_that_go_leave_it_running_on_the_rest(backend: LocalBackend) -> None:
    spec = elastic(2)
    backend.start("local", spec)
    backend.resize(1, None)
    events = ended(backend)
    assert isinstance(events[0], SlotsChanged) and not any(isinstance(event, TaskFailed) for event in events)
    assert [one.cpu for one in regranted(events)] == [1]
    assert answer(backend, events) == [1000]


def test_memory_that_goes_is_given_back(backend: LocalBackend) -> None:
    spec = elastic(2, memory=400e6)
    backend.start("local", spec)
    backend.resize(1, MEMORY // 4)
    events = ended(backend)
    (kept,) = regranted(events)
    assert kept.memory <= MEMORY / 8 and answer(backend, events) == [1000]


def test_memory_that_goes_is_given_back_by_one_that_can_have_no_more_slots(backend: LocalBackend) -> None:
    spec = elastic(1, most=1, memory=400e6)
    backend.start("local", spec)
    backend.resize(1, MEMORY // 4)
    events = ended(backend)
    (kept,) = regranted(events)
    assert kept == Resources(1, MEMORY / 8) and answer(backend, events) == [1000]


def test_without_a_slot_it_has_to_go(backend: LocalBackend) -> None:
    backend.start("local", elastic(2))
    backend.resize(0, None)
    events = ended(backend)
    (failed,) = (event for event in events if isinstance(event, TaskFailed))
    assert isinstance(failed.error, Revoked) and failed.retryable and not regranted(events)


def test_of_several_those_begun_last_go_first(backend: LocalBackend) -> None:
    first, second = elastic(1), replace(elastic(1), stage=replace(LONG, signature="other"))
    backend.start("local", first)
    backend.start("local", second)
    backend.resize(1, None)
    events = ended(backend, 2)
    assert [event.attempt for event in events if isinstance(event, TaskFailed)] == [second.attempt]


def test_a_kernel_changes_the_task_that_runs_and_no_other(tmp_path: Path) -> None:
    kernel, spec = Kernel(tmp_path / "spill"), elastic()
    done = threading.Event()
    changed: list[bool] = []

    def change() -> None:
        while not done.is_set():
            assert not kernel.regrant(elastic(), Resources(2, 200e6))  # which is not there
            if kernel.regrant(spec, Resources(2, 200e6)):
                changed.append(True)
                return

    thread = threading.Thread(target=change)
    thread.start()
    made = kernel.run(spec, lambda _: pytest.fail("it reads nothing"), begin=InMemory)
    done.set()
    thread.join()
    assert changed and not kernel.regrant(spec, Resources(1, 200e6))
    assert made.tables[0]["n"].to_pylist() == [1000]
    fixed = kernel.run(replace(elastic(), most=0), lambda _: pytest.fail("it reads nothing"), begin=InMemory)
    assert fixed.tables[0]["n"].to_pylist() == [1000]  # its options are as usual again
    kernel.close()


SIZES = st.builds(Resources, st.integers(1, 8), st.integers(1, 100))


@given(st.lists(st.tuples(SIZES, st.booleans()), max_size=6), SIZES)
def test_what_is_kept_fits_and_only_what_is_elastic_shrinks(
    held: list[tuple[Resources, bool]], capacity: Resources
) -> None:
    kept = shrunk_to_fit(held, capacity)
    assert sum((one for one in kept if one is not None), Resources()).fits(capacity)
    for (had, is_elastic), has in zip(held, kept, strict=True):
        assert has is None or has == had or (is_elastic and has.cpu >= 1 and has.fits(had))
    if held and (held[0][1] or held[0][0].fits(capacity)):
        assert kept[0] is not None  # the first stays if it can
