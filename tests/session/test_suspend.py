"""Jobs that stop here and go on there: what a bundle holds, what is taken from it, what is refused."""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from waits import PATIENCE, until

import qoop
from qoop.__main__ import main
from qoop.catalog.errors import ConfigError, DiskFull, SourceError, Suspended, TableChanged
from qoop.catalog.signed_json import opened, sealed
from qoop.catalog.user_key import user_key
from qoop.engine.history import Started
from qoop.engine.kernel import Kernel
from qoop.engine.storage.segments import checksum
from qoop.query import bundle
from qoop.query.job import Job

ROWS = 600_000
TEXT = (
    "SELECT k, n, f FROM (SELECT i % 50 AS k, count(*) AS n, sum(i // 7) AS f FROM t GROUP BY k) "
    "JOIN (SELECT i % 50 AS k, max(s) AS s FROM t GROUP BY k) USING (k) ORDER BY k"
)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows") / "t.parquet"
    table = pa.table({"i": np.arange(ROWS), "s": [f"row {i}" for i in range(ROWS)]})
    pq.write_table(table, path, row_group_size=100_000)
    return path


@pytest.fixture
def data(tmp_path: Path, rows: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    shutil.copy(rows, folder)
    return folder


@pytest.fixture
def expected(data: Path) -> list[tuple[object, ...]]:
    with qoop.connect(slots=2) as session:
        session.register_folder(data)
        return session.sql(TEXT).fetchall()


@pytest.fixture
def pause(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], threading.Event]:
    """`pause(n)`: from the n-th task on, tasks wait; the event is set when one does."""
    run, waits, counted = Kernel.run, threading.Event(), threading.Lock()
    state = {"left": 1 << 30}

    def slow(
        self: Kernel, spec: object, read: object, between: Callable[[], None] = lambda: None, *more: object
    ) -> object:
        with counted:
            state["left"] -= 1
            stopped = state["left"] < 0
        while stopped:
            waits.set()
            between()
            time.sleep(0.005)
        return run(self, spec, read, between, *more)  # type: ignore[arg-type]

    def begin(tasks: int) -> threading.Event:
        state["left"] = tasks
        waits.clear()
        return waits

    monkeypatch.setattr(Kernel, "run", slow)
    return begin


def suspended(
    data: Path, path: Path, waits: threading.Event, slots: int = 4, memory: str = "2GB", text: str = TEXT
) -> Job:
    with qoop.connect(slots=slots, memory=memory) as session:
        session.register_folder(data)
        job = session.submit(text)
        assert waits.wait(60)
        until(lambda: job.progress().present)  # one task at least was let through
        job.suspend(path)
        assert job.state == "SUSPENDED"
        with pytest.raises(Suspended, match=str(path)):
            job.result()
        return job


def test_a_job_goes_on_elsewhere_on_another_size_and_back(
    data: Path, tmp_path: Path, expected: list[tuple[object, ...]], pause: Callable[[int], threading.Event]
) -> None:
    first = suspended(data, tmp_path / "one", pause(3))
    done = sum(len(output.rows) > 0 for output in first.progress().present)
    assert done == 0  # nothing of it is left in the session
    waits = pause(0)
    with qoop.connect(slots=1, memory="500MB") as session:
        job = session.resume(tmp_path / "one")
        assert waits.wait(60)
        job.suspend(tmp_path / "two")
    pause(1 << 30)
    job = qoop.resume(tmp_path / "two", slots=4, memory="2GB")
    assert job.result().fetchall() == expected


def test_a_bundle_is_plain_and_whole(data: Path, tmp_path: Path, pause: Callable[[int], threading.Event]) -> None:
    suspended(data, tmp_path / "bundle", pause(3))
    facts = json.loads((tmp_path / "bundle" / "bundle.json").read_text())
    assert (facts["format"], facts["version"], facts["query"]) == ("qoop-bundle", 3, TEXT)
    assert facts["tables"][0]["place"] == {"kind": "folder", "path": str(data)}
    names = {path.suffix for path in (tmp_path / "bundle" / "checkpoints").iterdir()}
    assert names == {".json", ".arrow"}
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_what_the_bundle_holds_is_not_done_again(
    data: Path, tmp_path: Path, expected: list[tuple[object, ...]], pause: Callable[[int], threading.Event]
) -> None:
    suspended(data, tmp_path / "bundle", pause(4), slots=2)
    pause(1 << 30)
    held = {json.loads(path.read_text())["key"]["signature"]: 1 for path in (tmp_path / "bundle").glob("*/*.json")}
    with qoop.connect(slots=2, memory="2GB") as session:
        job = session.resume(tmp_path / "bundle")
        assert job.result().fetchall() == expected
        plan = job.plan
        total = sum(stage.width for stage in plan.stages)
        started = [record for record in job.history() if isinstance(record, Started)]
        assert held and len(started) < total
        until(lambda: not session.backend.store._entries, "what was adopted is still there")


def test_the_command_line_resumes(
    data: Path, tmp_path: Path, pause: Callable[[int], threading.Event], capsys: pytest.CaptureFixture[str]
) -> None:
    suspended(data, tmp_path / "bundle", pause(3))
    pause(1 << 30)
    assert main(["resume", str(tmp_path / "bundle"), "--slots", "1", "--memory", "500MB", "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == ["k,n,f", "0,12000,514237715"]


def test_tables_that_moved_are_named_and_those_that_changed_refused(
    data: Path, tmp_path: Path, expected: list[tuple[object, ...]], pause: Callable[[int], threading.Event]
) -> None:
    suspended(data, tmp_path / "bundle", pause(3))
    pause(1 << 30)
    data.rename(tmp_path / "moved")
    with pytest.raises(SourceError, match="data"):
        qoop.resume(tmp_path / "bundle", slots=1)
    job = qoop.resume(tmp_path / "bundle", slots=1, data=[tmp_path / "moved"])
    assert job.result().fetchall() == expected
    data.mkdir()
    pq.write_table(pa.table({"i": [1], "s": ["x"]}), data / "t.parquet")
    with pytest.raises(TableChanged, match=r"t, once at .*data.* has changed"):
        qoop.resume(tmp_path / "bundle", slots=1)


def test_copies_of_tables_are_known_by_what_they_hold(
    data: Path, tmp_path: Path, expected: list[tuple[object, ...]], pause: Callable[[int], threading.Event]
) -> None:
    suspended(data, tmp_path / "bundle", pause(4), slots=2)
    pause(1 << 30)
    shutil.copytree(data, tmp_path / "copy")
    shutil.copytree(data, tmp_path / "other")
    shutil.rmtree(data)
    with qoop.connect(slots=2, memory="2GB") as session:
        job = session.resume(tmp_path / "bundle", [tmp_path / "copy"])
        assert job.result().fetchall() == expected
        started = sum(isinstance(record, Started) for record in job.history())
        assert started < sum(stage.width for stage in job.plan.stages)
    rows = pq.read_table(tmp_path / "other" / "t.parquet")
    changed = rows.set_column(0, "i", pa.array([1, *rows["i"].to_pylist()[1:]], rows["i"].type))
    pq.write_table(changed, tmp_path / "other" / "t.parquet")
    with pytest.raises(TableChanged, match="or is a copy that the bundle does not know"):
        qoop.resume(tmp_path / "bundle", data=[tmp_path / "other"])
    (tmp_path / "bundle" / "contents.json").unlink()
    with pytest.raises(TableChanged, match="or is a copy that the bundle does not know"):
        qoop.resume(tmp_path / "bundle", data=[tmp_path / "copy"])


@pytest.mark.parametrize("kind", ["csv", "duckdb"])
def test_copies_of_text_and_of_databases_are_the_same_anyway(tmp_path: Path, kind: str) -> None:
    place, copy = tmp_path / f"t.{kind}", tmp_path / "copy" / f"t.{kind}"
    if kind == "csv":
        place.write_text("a\n1\n2\n")
    else:
        with duckdb.connect(str(place)) as database:
            database.execute("CREATE TABLE t AS SELECT unnest([1, 2]) AS a")
    with qoop.connect(slots=1) as session:
        session.register_path(place)
        session.resize(slots=0)
        session.submit("SELECT sum(a) FROM t").suspend(tmp_path / "bundle", copies=False)
    copy.parent.mkdir()
    place.rename(copy)
    assert qoop.resume(tmp_path / "bundle", data=[copy]).result().fetchall() == [(3,)]


def test_a_table_in_memory_cannot_follow(tmp_path: Path, pause: Callable[[int], threading.Event]) -> None:
    waits = pause(1)
    with qoop.connect(slots=2) as session:
        session.register("t", pa.table({"i": np.arange(ROWS), "s": ["x"] * ROWS}))
        job = session.submit(TEXT)
        assert waits.wait(60)
        job.suspend(tmp_path / "bundle")
    with pytest.raises(SourceError, match="lived in the memory"):
        qoop.resume(tmp_path / "bundle", slots=1)


def test_damaged_checkpoints_are_made_again(
    data: Path, tmp_path: Path, expected: list[tuple[object, ...]], pause: Callable[[int], threading.Event]
) -> None:
    suspended(data, tmp_path / "bundle", pause(5))
    pause(1 << 30)
    for path in (tmp_path / "bundle").glob("*/*.arrow"):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    assert qoop.resume(tmp_path / "bundle", slots=2).result().fetchall() == expected


def test_what_is_no_bundle(tmp_path: Path, data: Path, pause: Callable[[int], threading.Event]) -> None:
    with pytest.raises(ConfigError, match="no suspended job"):
        qoop.resume(tmp_path / "nothing", slots=1)
    suspended(data, tmp_path / "bundle", pause(3))
    text = tmp_path / "bundle" / "bundle.json"
    body = opened(text.read_bytes())
    text.write_text(sealed({**body, "version": 99}, user_key()))
    with pytest.raises(ConfigError, match="99"):
        qoop.resume(tmp_path / "bundle", slots=1)
    text.write_text(json.dumps({**body, "version": 1}))  # of before there were checksums
    with pytest.raises(ConfigError, match=r"has format \('qoop-bundle', 1\)"):
        qoop.resume(tmp_path / "bundle", slots=1)
    for change in ({"timestamp": "2020'; COPY x TO 'y'; '"}, {"tables": 3}, {"settings": [[1, 2]]}, {"plans": [{}]}):
        text.write_text(sealed({**body, **change}, user_key()))
        with pytest.raises(ConfigError, match="damaged"):
            qoop.resume(tmp_path / "bundle", slots=1)
    text.write_text(sealed(body, user_key()).replace("i % 50", "i % 51"))
    with pytest.raises(ConfigError, match="damaged: its content does not match its checksum"):
        qoop.resume(tmp_path / "bundle", slots=1)
    text.write_text("{")
    with pytest.raises(ConfigError, match="damaged"):
        qoop.resume(tmp_path / "bundle", slots=1)


def test_what_cannot_be_suspended(data: Path, tmp_path: Path, pause: Callable[[int], threading.Event]) -> None:
    waits = pause(1)
    with qoop.connect(slots=2) as session:
        session.register_folder(data)
        job = session.submit(TEXT)
        assert waits.wait(60)
        with pytest.raises(ConfigError, match="something at"):
            job.suspend(data)
        assert not job.wait(0)
        pause(1 << 30)
        job.cancel()
        job.wait()
        with pytest.raises(ConfigError, match="cancelled"):
            job.suspend(tmp_path / "late")
        assert not (tmp_path / "late").exists()


def test_a_job_goes_on_where_a_bundle_cannot_be_written(
    data: Path, tmp_path: Path, pause: Callable[[int], threading.Event]
) -> None:
    (tmp_path / "file").touch()
    waits = pause(1)
    with qoop.connect(slots=2) as session:
        session.register_folder(data)
        job = session.submit(TEXT)
        assert waits.wait(60)
        with pytest.raises(DiskFull, match=r"the bundle directory .*file cannot be written"):
            job.suspend(tmp_path / "file" / "bundle")
        assert not job.wait(0)


def test_a_bundle_that_is_not_written_whole_leaves_nothing(
    data: Path, tmp_path: Path, pause: Callable[[int], threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    waits = pause(3)
    monkeypatch.setattr(bundle, "write_synced", fails)  # of what is written last
    with pytest.raises(DiskFull, match="No space left"):
        suspended(data, tmp_path / "bundles" / "one", waits)
    assert list((tmp_path / "bundles").iterdir()) == []


@pytest.mark.parametrize("grace", [0.0, 0.05])
def test_a_job_whose_bundle_is_not_written_whole_goes_on_and_loses_nothing(
    data: Path, tmp_path: Path, expected: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch, grace: float
) -> None:
    run, begun, opened = Kernel.run, itertools.count(), threading.Event()

    def slow(
        self: Kernel, spec: object, read: object, between: Callable[[], None] = lambda: None, *more: object
    ) -> object:
        while next(begun) >= 3 and not opened.wait(0.005):
            between()
        return run(self, spec, read, between, *more)  # type: ignore[arg-type]

    def fails(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Kernel, "run", slow)
    with qoop.connect(slots=4, memory="2GB") as session:
        session.register_folder(data)
        job = session.submit(TEXT)
        until(lambda: job.progress().present)
        held = {output.key for output in job.progress().present}
        with monkeypatch.context() as patch:
            patch.setattr(bundle, "write_synced", fails)
            with pytest.raises(DiskFull, match="No space left"):
                job.suspend(tmp_path / "one", grace)
        assert held <= {output.key for output in job.progress().present}
        opened.set()
        assert job.result().fetchall() == expected
    assert not (tmp_path / "one").exists()


def test_what_a_process_left_that_was_killed_while_it_wrote_a_bundle_goes(
    data: Path, tmp_path: Path, pause: Callable[[int], threading.Event]
) -> None:
    with bundle.begun(tmp_path / "bundles" / "dead") as draft:
        (draft / "checkpoints").mkdir(parents=True)
        (draft / "checkpoints" / "half.arrow").touch()
        os.rename(draft.parent, tmp_path / "moved")  # nobody removes it
    os.rename(tmp_path / "moved", draft.parent)
    suspended(data, tmp_path / "bundles" / "one", pause(3))
    assert [path.name for path in (tmp_path / "bundles").iterdir()] == ["one"]


def test_the_grace_lets_tasks_under_way_finish(
    data: Path, tmp_path: Path, expected: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, began, opened = Kernel.run, threading.Event(), threading.Event()

    def slow(
        self: Kernel, spec: object, read: object, between: Callable[[], None] = lambda: None, *more: object
    ) -> object:
        began.set()
        while not opened.wait(0.005):
            between()
        return run(self, spec, read, between, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(Kernel, "run", slow)
    for grace, least in ((0.0, 0), (PATIENCE, 1)):
        began.clear()
        with qoop.connect(slots=2, replan=False) as session:
            session.register_folder(data)
            job = session.submit(TEXT)
            assert began.wait(60)
            if grace:
                threading.Timer(0.3, opened.set).start()
            job.suspend(tmp_path / f"grace{grace}", grace)
        held = list((tmp_path / f"grace{grace}" / "checkpoints").glob("*.json"))
        assert bool(held) == bool(least)
    assert qoop.resume(tmp_path / f"grace{PATIENCE}", slots=2).result().fetchall() == expected


def test_the_at_a_query_is_kept(data: Path, tmp_path: Path, pause: Callable[[int], threading.Event]) -> None:
    """now() is what it was when the query was begun, so what was made by then is not made again."""
    text = TEXT.replace("count(*) AS n", "max(now()) AS n").replace("max(s)", "max(s || current_date::VARCHAR)")
    suspended(data, tmp_path / "bundle", pause(3), slots=2, text=text)
    timestamp = json.loads((tmp_path / "bundle" / "bundle.json").read_text())["timestamp"]
    held = {tuple(json.loads(path.read_text())["key"].values()) for path in (tmp_path / "bundle").glob("*/*.json")}
    pause(1 << 30)
    with qoop.connect(slots=2, memory="2GB") as session:
        job = session.resume(tmp_path / "bundle")
        begun = {at.isoformat(sep=" ") for _, at, _ in job.result(60).fetchall()}
        assert begun == {timestamp.replace("+00", "+00:00")}
        again = {astuple(record.key) for record in job.history() if isinstance(record, Started)}
        assert held and job.plans[0].stages and not held <= again


def tasks(job: Job) -> int:
    """The tasks of the plan that it ended by."""
    return sum(stage.width for stage in job.plans[-1].stages)


def started(job: Job) -> int:
    return sum(isinstance(record, Started) for record in job.history())


def test_a_bundle_of_somebody_else_is_done_again_unless_it_is_trusted(
    data: Path,
    tmp_path: Path,
    expected: list[tuple[object, ...]],
    pause: Callable[[int], threading.Event],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    suspended(data, tmp_path / "bundle", pause(4), slots=2)
    pause(1 << 30)
    monkeypatch.setenv("QOOP_KEY", "the key of another machine")
    with pytest.warns(RuntimeWarning, match="does not bear the seal of your key"):
        fresh = qoop.resume(tmp_path / "bundle", slots=2, memory="2GB")
    assert fresh.result().fetchall() == expected
    trusted = qoop.resume(tmp_path / "bundle", slots=2, memory="2GB", trust=True)
    assert trusted.result().fetchall() == expected
    monkeypatch.delenv("QOOP_KEY")
    own = qoop.resume(tmp_path / "bundle", slots=2, memory="2GB")
    assert own.result().fetchall() == expected
    assert started(fresh) == tasks(fresh)
    assert started(own) < tasks(own) and started(trusted) < tasks(trusted)


def test_planted_outputs_and_plans_are_not_believed(
    data: Path, tmp_path: Path, expected: list[tuple[object, ...]], pause: Callable[[int], threading.Event]
) -> None:
    """An attacker who can write to the folder changes rows and meets every checksum, but cannot make the seal."""
    suspended(data, tmp_path / "bundle", pause(5))
    pause(1 << 30)
    for path in (tmp_path / "bundle" / "checkpoints").glob("*.json"):
        body = opened(path.read_bytes())
        file = path.parent / body["data"]
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
        for segment in body["segments"]:
            rows = bytes(content)[segment["offset"] :][: segment["length"]]
            segment["checksum"], segment["sha256"] = checksum(rows), hashlib.sha256(rows).hexdigest()
        path.write_text(sealed(body))
    assert qoop.resume(tmp_path / "bundle", slots=2).result().fetchall() == expected


def test_a_bundle_changes_no_session_that_others_use(data: Path, tmp_path: Path) -> None:
    with qoop.connect(slots=1, staged=True, locked=True) as session:
        session.register_folder(data)
        session.set("TimeZone", "Asia/Tokyo")
        session.resize(slots=0)  # it cannot end before
        session.submit(TEXT).suspend(tmp_path / "bundle")
    with qoop.connect(slots=1, locked=True) as other:
        other.register_folder(data)
        zone = other.sql("SELECT current_setting('TimeZone')").fetchall()
        with pytest.raises(ConfigError, match="made under other settings of timezone"):
            other.resume(tmp_path / "bundle")
        assert other.sql("SELECT current_setting('TimeZone')").fetchall() == zone != [("Asia/Tokyo",)]
        other.set("TimeZone", "Asia/Tokyo")
        assert other.resume(tmp_path / "bundle").result().fetchall()
    with qoop.connect(slots=1, locked=True) as empty:
        empty.set("TimeZone", "Asia/Tokyo")
        with pytest.raises(ConfigError, match="reads t, which this session does not have"):
            empty.resume(tmp_path / "bundle")
        assert list(empty.tables()) == []
