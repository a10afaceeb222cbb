"""Tasks in slices: each is saved by itself, and a process that goes on uses those that an earlier one has saved."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import duckdb
import pyarrow as pa
import pytest
from waits import PATIENCE

from qoop.catalog.catalog import Catalog
from qoop.catalog.table import Table
from qoop.engine.backends.local import LocalBackend
from qoop.engine.backends.sliced import SlicedTask
from qoop.engine.events import Event, TaskFailed, TaskSucceeded
from qoop.engine.kernel import Kernel
from qoop.engine.storage.manifest import checkpoint_name
from qoop.engine.storage.retention import Retention
from qoop.engine.task import AttemptId, ResolvedInput, Slice, Slicing, TaskId, TaskSpec, checkpoint_key, slices_of
from qoop.planner.plan import Layout, Resources, Stage, StageInput, TableInput

N = (("n", "BIGINT"),)
KEYED = (("k", "BIGINT"), *N)
MAKE = Stage("make", "SELECT range % 1000 AS k, range AS n FROM range(30000)", (), KEYED, 1, "make", Layout(("k",), 3))
GROUP = Stage(
    "group", "SELECT k, sum(n)::BIGINT AS n FROM x GROUP BY k", (StageInput("x", "make", "partition"),), KEYED, 3,
    "group", Layout(("n",), 2),
)  # fmt: skip
GROUPED = "SELECT range % 1000 AS k, sum(range)::BIGINT AS n FROM range(30000) GROUP BY k ORDER BY k"


NUMBERS = count(1)


def a_spec(
    stage: Stage, part: int, slicing: Slicing | None, *inputs: ResolvedInput, tables: Mapping[str, Table] | None = None
) -> TaskSpec:
    attempt = AttemptId(TaskId("job", stage.id, part), next(NUMBERS))
    return TaskSpec(
        attempt, stage, checkpoint_key(stage, part), inputs, tables or {}, Resources(1, 200e6), durable=True,
        slicing=slicing,
    )  # fmt: skip


def run(backend: LocalBackend, *specs: TaskSpec) -> list[Event]:
    """The ends of attempts, in order."""
    for spec in specs:
        backend.start("local", spec)
    ends: list[Event] = []
    while len(ends) < len(specs):
        found = backend.wait(PATIENCE)
        assert found
        ends += [event for event in found if isinstance(event, TaskSucceeded | TaskFailed)]
    return ends


class Killed(Exception):
    """The end of a process in the middle of a task."""


class Place:
    """Backends, one after the other, with one folder of durable outputs. computed: the slices that kernels ran.
    seconds: that a slice may take. waits: what is lost has been noted as too long before."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.computed, self.left = folder, list[Slice | None](), 100
        self.backend: LocalBackend | None = None
        self.seconds, self.waits, self.noted = 0.0, True, threading.Event()
        usual, note = Kernel.run, SlicedTask._note_length

        def noting(task: SlicedTask) -> None:
            note(task)
            self.noted.set()

        def counted(kernel: Kernel, spec: TaskSpec, *rest: object) -> object:
            if not self.left:
                assert not self.waits or self.noted.wait(PATIENCE)
                raise Killed
            self.left -= 1
            self.computed.append(spec.slice)
            return usual(kernel, spec, *rest)  # type: ignore[arg-type]

        monkeypatch.setattr(Kernel, "run", counted)
        monkeypatch.setattr(SlicedTask, "_note_length", noting)

    def new(self) -> LocalBackend:
        self.close()
        spill = self.folder / "spill"
        spill.mkdir(parents=True, exist_ok=True)
        self.backend = LocalBackend(1, 1e9, spill_dir=spill, retention=Retention(self.folder / "kept"))
        self.computed.clear()
        return self.backend

    def close(self) -> None:
        if self.backend is not None:
            self.backend.close()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    place = Place(tmp_path, monkeypatch)
    yield place
    place.close()


def readers(backend: LocalBackend, most: int, seconds: float = 0.0) -> list[TaskSpec]:
    made = a_spec(MAKE, 0, None)
    [event] = run(backend, made)
    assert isinstance(event, TaskSucceeded)
    slicing = Slicing(most, {"x": MAKE.layout}, seconds)
    return [a_spec(GROUP, part, slicing, ResolvedInput("x", (made.key,), part)) for part in range(3)]


def interrupted(place: Place, most: int, left: int) -> None:
    """Run the first reader in a process that ends after this number of its slices."""
    first, *_ = readers(place.new(), most, place.seconds)
    place.left = left
    place.noted.clear()
    assert place.backend is not None
    [failed] = run(place.backend, first)
    place.left = 100
    assert isinstance(failed, TaskFailed)


def test_a_task_goes_on_after_the_slices_that_an_earlier_process_has_saved(place: Place) -> None:
    interrupted(place, 4, 2)
    assert place.computed[1:] == [Slice(0, 4), Slice(2, 4)]
    backend = place.new()
    specs = readers(backend, 8)
    facts = [event.committed for event in run(backend, *specs) if isinstance(event, TaskSucceeded)]
    sliced = [one for one in place.computed if one is not None]
    assert sliced[:4] == [Slice(1, 8), Slice(5, 8), Slice(3, 8), Slice(7, 8)] and len(sliced) == 4 + 8 + 8
    out = pa.concat_tables([backend.read(spec.key) for spec in specs])
    rows = [(row["k"], row["n"]) for row in out.sort_by("k").to_pylist()]
    assert rows == duckdb.sql(GROUPED).fetchall() and len(rows) == 1000
    assert sum(sum(one.rows) for one in facts) == 1000 and all(len(one.rows) == 2 for one in facts)


def test_what_was_cut_finer_stays_so(place: Place) -> None:
    """A life that seems longer would else begin with more than it can end."""
    interrupted(place, 4, 1)
    backend = place.new()
    first, second, _ = readers(backend, 1)
    run(backend, first, second)
    assert place.computed[1:] == [Slice(2, 4), Slice(1, 4), Slice(3, 4), None]


def test_a_slice_that_cannot_be_read_is_computed_again(place: Place) -> None:
    interrupted(place, 2, 1)
    backend = place.new()
    first, *_ = readers(backend, 2)
    for file in (place.folder / "kept").glob("*"):
        if file.is_file() and file.suffix != ".json":
            file.write_bytes(b"damaged")
    [event] = run(backend, first)
    assert isinstance(event, TaskSucceeded) and [one for one in place.computed if one] == [Slice(0, 2), Slice(1, 2)]


def numbers(folder: Path) -> Table:
    path = folder / "rows.parquet"
    duckdb.sql("SELECT range AS n FROM range(20000)").write_parquet(str(path), row_group_size=2048)
    return Catalog().register("rows", str(path))


def scan(table: Table) -> Stage:
    """In two tasks."""
    return Stage("scan", "SELECT n FROM rows", (TableInput("rows", "rows", table.version, ("n",), True),), N, 2, "scan")


def test_the_slices_of_a_table_are_pieces_of_it(place: Place, tmp_path: Path) -> None:
    table = numbers(tmp_path)
    spec = a_spec(scan(table), 1, Slicing(4), tables={"rows": table})
    backend = place.new()
    [event] = run(backend, spec)
    assert isinstance(event, TaskSucceeded) and len(place.computed) == 4
    whole = table.split(2)[1]
    assert sorted(backend.read(spec.key)["n"].to_pylist()) == list(range(20000 - whole.rows, 20000))


def test_a_task_that_was_lost_without_a_slice_is_cut_finer(place: Place) -> None:
    """Its estimate was too low: as where one of its parts has most of the rows."""
    interrupted(place, 1, 0)
    interrupted(place, 1, 0)
    interrupted(place, 1, 1)
    assert place.computed[1:] == [Slice(0, 4)]
    backend = place.new()
    first, *_ = readers(backend, 1)
    [event] = run(backend, first)
    assert isinstance(event, TaskSucceeded) and place.computed[1:] == [Slice(2, 4), Slice(1, 4), Slice(3, 4)]


def test_a_task_that_had_just_begun_is_not_cut_finer(place: Place) -> None:
    """A process that is killed loses all that it is at, however short."""
    place.seconds, place.waits = 2 * PATIENCE, False
    interrupted(place, 1, 0)
    interrupted(place, 1, 0)
    backend = place.new()
    [event] = run(backend, readers(backend, 1, place.seconds)[0])
    assert isinstance(event, TaskSucceeded) and place.computed[1:] == [None] and not place.noted.is_set()


def test_the_first_task_of_a_process_is_cut_finer_once_it_was_lost(place: Place, tmp_path: Path) -> None:
    """Else processes that live for less than `seconds` would get no further."""
    table = numbers(tmp_path)
    spec = a_spec(scan(table), 0, Slicing(1, seconds=2 * PATIENCE), tables={"rows": table})
    place.left = 0
    [failed] = run(place.new(), spec)
    place.left = 100
    [event] = run(place.new(), spec)
    assert isinstance(failed, TaskFailed) and isinstance(event, TaskSucceeded)
    assert place.computed == [Slice(0, 2), Slice(1, 2)]


def test_a_task_in_slices_is_not_written_again_and_the_next_process_finds_it(place: Place) -> None:
    backend = place.new()
    [first, *_] = readers(backend, 4)
    [event] = run(backend, first)
    assert isinstance(event, TaskSucceeded)
    rows = backend.read(first.key)
    backend.release(first.attempt.task.job, [first.key])
    backend = place.new()
    [found] = backend.store.present([first.key], "next")
    assert found.rows == event.committed.rows and sum(found.rows) == rows.num_rows > 0
    assert [backend.store.read(first.key, part).num_rows for part in range(2)] == list(found.rows)
    assert backend.read(first.key).sort_by("k") == rows.sort_by("k") and not place.computed
    written = [file.stat().st_size for file in (place.folder / "kept").glob("*.arrow")]
    assert sum(size > 1_000 for size in written) == 4 + 1, "the slices, and what they read"


def test_a_slice_that_is_gone_is_computed_again(place: Place) -> None:
    backend = place.new()
    run(backend, readers(backend, 2)[0])
    backend = place.new()
    [first, *_] = readers(backend, 2)
    [one, _] = Slice().halves()
    name = checkpoint_name(one.key(first.key))
    (place.folder / "kept" / f"{name}.json").unlink()
    assert not backend.store.present([first.key], "next")
    [event] = run(backend, first)
    assert isinstance(event, TaskSucceeded) and [one for one in place.computed if one] == [one]


def test_the_seconds_of_a_task_are_those_of_all_its_slices(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of those that another process has made: the next ones plan by it."""
    clock = SimpleNamespace(perf_counter=count(0.0, 100.0).__next__)
    monkeypatch.setattr("qoop.engine.backends.sliced.time", clock)
    interrupted(place, 4, 3)
    backend = place.new()
    first, *_ = readers(backend, 4)
    [event] = run(backend, first)
    assert isinstance(event, TaskSucceeded) and 300.0 <= event.committed.seconds < 400.0


def test_tasks_are_cut_that_could_as_well_be_more() -> None:
    table = replace(GROUP, inputs=(TableInput("rows", "rows", "1", ("n",), True),))
    targets = (float("inf"), 1.0, 0.6, 0.5, 0.2, 0.001)
    assert [slices_of(table, 1.0, seconds) for seconds in targets] == [1, 1, 2, 2, 8, 16]
    assert [slices_of(GROUP, 1.0, seconds) for seconds in targets] == [1, 1, 1, 1, 2, 16], "each finds its rows again"
    assert not slices_of(replace(GROUP, width=1), 1.0, 0.1), "its groups may be anywhere"
    assert not slices_of(replace(GROUP, inputs=(StageInput("x", "make", "all"),)), 1.0, 0.1)
    assert not slices_of(replace(GROUP, inputs=(*GROUP.inputs, StageInput("y", "other", "forward"))), 1.0, 0.1)
