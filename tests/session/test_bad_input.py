"""Mishaps around a query: one clear message of ours, the right exit code, and nothing left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qoop
from qoop.__main__ import main
from qoop.engine.storage.manifest import usual_budget

FOREVER = "SELECT sum(a.i * b.i % 7) AS s FROM big a, big b WHERE a.i + b.i > 5"
SORTED_FIVE_TIMES = "SELECT a.i, repeat('x', 1000) AS s FROM big a, big b WHERE b.i < 5 ORDER BY a.i DESC, b.i"
WIDE = "SELECT i, repeat('x', 1000) AS s FROM big ORDER BY i DESC"
OTHER_USER = 65534

Fails = Callable[..., str]
Mount = Callable[[str], Path]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with one table, big, of several row groups."""
    folder = tmp_path / "data"
    folder.mkdir()
    text = [f"{i * 7919 % 20011:x}" for i in range(20_000)]
    pq.write_table(pa.table({"i": range(20_000), "t": text}), folder / "big.parquet", row_group_size=5_000)
    return folder


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, here and in children."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.fixture
def fails(temporary: Path, capsys: pytest.CaptureFixture[str]) -> Fails:
    """Run a command line that must fail with one message, which is returned, and exit code 1, or 2 for wrong usage."""

    def run(*words: str | Path, code: int = 1) -> str:
        threads = set(threading.enumerate())
        assert main([str(word) for word in words]) == code
        out, err = capsys.readouterr()
        assert out == "" and err.startswith("qoop: ") and err.count("qoop: ") == 1 and "Traceback" not in err
        assert list(temporary.iterdir()) == [] and not set(threading.enumerate()) - threads
        return err

    return run


def start(*words: str | Path, preexec: Callable[[], None] | None = None) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "qoop", *map(str, words)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, preexec_fn=preexec)


def until(ready: Callable[[], object], process: subprocess.Popen[str]) -> None:
    """Wait for a moment in the life of a child."""
    deadline = time.monotonic() + 60
    while not ready():
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.01)


# Data


def test_a_file_that_was_cut_short(data: Path, fails: Fails) -> None:
    content = (data / "big.parquet").read_bytes()
    (data / "big.parquet").write_bytes(content[: len(content) // 2])
    assert "big.parquet is not a Parquet file, or was cut short" in fails("-c", "FROM big", "--data", data)


def test_a_file_among_others_that_is_not_parquet(data: Path, fails: Fails) -> None:
    (data / "other.parquet").write_text("this is no Parquet file")
    assert "other.parquet" in fails("-c", "SELECT count(*) FROM big, other", "--data", data)


def damage(path: Path) -> None:
    """Flip bytes in data pages; the footer, and so what registration sees, stays as it is."""
    content = bytearray(path.read_bytes())
    for place in range(len(content) // 3, len(content) // 2):
        content[place] ^= 0x5A
    path.write_bytes(content)


def test_damage_that_statistics_meet(data: Path, fails: Fails, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QOOP_STATISTICS", "full")
    damage(data / "big.parquet")
    assert "cannot read table big" in fails("-c", "SELECT max(t), sum(i) FROM big", "--data", data)


def test_damage_that_only_a_task_meets(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "SELECT max(t) AS t, sum(i) AS s FROM big"
    with qoop.connect(slots=2, memory="500MB") as session:
        session.register_folder(data)
        assert len(session.sql(text)) == 1
        stat = os.stat(data / "big.parquet")
        damage(data / "big.parquet")
        unchanged_stat = SimpleNamespace(stat=lambda _: stat)  # the disk has lost some bits
        monkeypatch.setattr("qoop.catalog.sources.file_stamp.os", unchanged_stat)
        with pytest.raises(qoop.SourceError, match=r"(?s)Stage .*could not read big"):
            session.sql(text)
        assert session.sql("SELECT 1 AS x").fetchall() == [(1,)]


def test_a_line_of_a_csv_file_that_is_met_late(tmp_path: Path, fails: Fails, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "items.csv").write_text("a,b\n" + "1,2\n" * 30_000 + "3\n")
    monkeypatch.setattr("qoop.catalog.sources.text._SNIFF_BYTES", 0)  # as if it were large
    message = fails("-c", f"SELECT sum(a) FROM '{tmp_path}/items.csv'")
    assert "items.csv: Invalid Input Error: CSV Error on Line: 30002" in message  # to statistics, or to a task
    assert "delimiter" not in message, "our own options are none of the user's"


def test_a_table_where_there_is_none(fails: Fails) -> None:
    message = fails("-c", "FROM item")
    assert "Table with name item does not exist!\nTables here: none" in message and "Did you mean" not in message


def test_a_table_that_changes_or_goes_between_registration_and_query(data: Path) -> None:
    with qoop.connect(slots=2, memory="500MB") as session:
        session.register_folder(data)
        pq.write_table(pa.table({"i": [1], "t": ["x"]}), data / "big.parquet")
        assert session.sql("SELECT count(*) FROM big").fetchall() == [(1,)]
        (data / "big.parquet").unlink()
        with pytest.raises(qoop.SourceError, match=r"big\.parquet"):
            session.sql("SELECT count(*) FROM big")


def test_a_table_that_changes_between_planning_and_running(data: Path) -> None:
    with qoop.connect(slots=1, memory="500MB") as session:
        session.register_folder(data)
        session.register("memory", pa.table({"i": range(2_000)}))
        blocking = session.submit("SELECT sum(a.i * b.i * c.i % 7) FROM memory a, memory b, memory c")
        job = session.submit("SELECT max(t) AS t FROM big")  # waits for the only slot
        pq.write_table(pa.table({"i": [1], "t": ["x"]}), data / "big.parquet")
        blocking.cancel()
        with pytest.raises(qoop.TableChanged, match=r"big\.parquet changed"):
            job.result(60)


@pytest.mark.parametrize("name", ["nothing", "empty", "text"])
def test_folders_that_hold_no_tables(tmp_path: Path, fails: Fails, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "read.me").write_text("hello")
    assert name in fails("-c", "SELECT 1", "--data", tmp_path / name)


def test_hidden_entries_of_a_folder_are_none_of_its_tables(data: Path) -> None:
    (data / ".making").mkdir()
    for hidden in (".making/big.parquet", ".other.parquet", "_draft.parquet"):
        (data / hidden).write_text("half written")
    with qoop.connect(slots=1) as session:
        session.register_folder(data)
        assert list(session.tables()) == ["big"]


def test_a_database_that_is_open_for_writing(tmp_path: Path, fails: Fails) -> None:
    path = tmp_path / "x.duckdb"
    code = f"import duckdb; c = duckdb.connect({str(path)!r}); c.execute('CREATE TABLE t(a INT)'); print(1, flush=True)"
    writer = subprocess.Popen(
        [sys.executable, "-c", code + "; input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None and writer.stdout.readline()
    try:
        assert "x.duckdb" in fails("-c", "FROM t", "--data", path)
    finally:
        writer.communicate("\n")
    with duckdb.connect(str(path)):
        assert "already open for writing in this process" in fails("-c", "FROM t", "--data", path)
    assert main(["-c", "FROM t", "--data", str(path)]) == 0


def test_a_file_that_is_no_database(tmp_path: Path, fails: Fails) -> None:
    (tmp_path / "x.duckdb").write_text("neither is this")
    assert "x.duckdb" in fails("-c", "FROM t", "--data", tmp_path / "x.duckdb")


# Text


def test_names_that_do_not_exist(data: Path, fails: Fails) -> None:
    assert "bigg" in fails("-c", "FROM bigg", "--data", data)
    message = fails("-c", "SELECT tt FROM big", "--data", data)
    assert '"tt" not found' in message and "^^" in message
    assert "TimeZone" in fails("-c", "SET TimeZoone = 'UTC'")
    assert "Atlantis" in fails("-c", "SET TimeZone = 'Atlantis'")


def test_text_that_is_not_utf_8(fails: Fails) -> None:
    assert "not UTF-8" in fails("-c", os.fsdecode(b"SELECT '\xff'"))
    with qoop.connect(slots=1) as session:
        for way in (session.explain, session.alternatives, session.prepare, session.learn, session.submit):
            with pytest.raises(qoop.ParseError, match="character 9"):
                way("SELECT '\udcff'")


@pytest.mark.parametrize("encoding", ["utf-8", "ascii:surrogateescape"])
def test_standard_input_that_is_not_utf_8(encoding: str) -> None:
    command = [sys.executable, "-m", "qoop"]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run(command, input=b"SELECT '\xff'", capture_output=True, env=environment, timeout=60)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"not UTF-8" in done.stderr and done.stderr.count(b"\n") == 1


# Options


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--slots", "0"], "slots"),
        (["--slots", "-2"], "slots"),
        (["--memory", "1KB"], "at least 16MiB"),
        (["--memory", "nonsense"], "'nonsense' is not a size"),
    ],
)
def test_options_with_values_that_make_no_sense(fails: Fails, words: list[str], message: str) -> None:
    assert message in fails("-c", "SELECT 1", *words, code=2)


def test_a_scale_below_the_least(tmp_path: Path, fails: Fails) -> None:
    assert "at least 0.01" in fails("tpcds", "generate", "--scale", "0.001", tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_environment_variables_with_values_that_make_no_sense(
    fails: Fails, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("QOOP_SLOTS", "few")
    assert "'few'" in fails("-c", "SELECT 1", code=2)
    monkeypatch.setenv("QOOP_SLOTS", "1")
    (tmp_path / "file").touch()
    monkeypatch.setenv("QOOP_SPILL", str(tmp_path / "file"))
    assert "spill directory" in fails("-c", "SELECT 1")


# Disks


def test_a_spill_directory_that_is_full(
    data: Path, fails: Fails, mount: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = mount("size=1m")
    monkeypatch.setenv("QOOP_SPILL", str(folder))
    by_duckdb = fails("-c", SORTED_FIVE_TIMES, "--data", data, "--memory", "128MiB", "--slots", "1")
    assert "s1" in by_duckdb and "SET threads" not in by_duckdb
    by_us = fails("-c", WIDE.replace("ORDER BY i DESC", ""), "--data", data, "--memory", "32MiB", "--slots", "1")
    assert f"cannot spill to {folder}" in by_us
    assert list(folder.iterdir()) == []


def test_a_checkpoint_directory_that_is_full(
    data: Path, mount: Mount, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QOOP_CHECKPOINT_BUDGET", "1GB")  # by default the tenth of such a disk
    folder = mount("size=1m,mode=700")
    text = "SELECT max(s) FROM (SELECT repeat(t, 300) AS s, i % 7000 AS k FROM big) GROUP BY k"
    assert main(["-c", text, "--data", str(data), "--checkpoints", str(folder)]) == 0
    assert "No space left on device" in capsys.readouterr().err
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with qoop.connect(slots=2, checkpoints=folder) as session:
            session.register_folder(data)
            assert session.submit("SELECT count(*) AS n FROM big", resume=True).result().fetchall() == [(20_000,)]
            assert len(session.sql(WIDE)) == 20_000


def test_a_folder_of_checkpoints_has_a_budget(tmp_path: Path) -> None:
    whole = shutil.disk_usage(tmp_path).total
    assert usual_budget(tmp_path / "not" / "there") == min(whole // 10, 100 * 10**9)


def test_directories_that_cannot_be_written(
    fails: Fails, mount: Mount, data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = mount("ro,size=1m,mode=700")
    for checkpoints in (folder, folder / "new"):
        assert main(["-c", "SELECT 1", "--checkpoints", str(checkpoints)]) == 0
        assert "Read-only file system" in capsys.readouterr().err
    assert "Read-only file system" in fails("tpcds", "generate", "--scale", "0.01", folder / "new")
    monkeypatch.setenv("QOOP_CACHE_DIR", str(folder))
    monkeypatch.setenv("QOOP_STATISTICS", "full")
    assert main(["-c", "SELECT count(*) AS n FROM big", "--data", str(data), "--format", "csv"]) == 0
    out, err = capsys.readouterr()
    assert out == "n\n20000\n" and err.startswith("qoop: statistics cannot be kept") and err.count("\n") == 1
    monkeypatch.setenv("QOOP_SPILL", str(folder))
    assert "Read-only file system" in fails("-c", "SELECT 1")


@contextmanager
def unprivileged() -> Iterator[None]:
    """Within it, file permissions hold for this process, even if it is root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(OTHER_USER)
    try:
        yield
    finally:
        os.seteuid(0)


def test_files_that_must_not_be_read(data: Path, fails: Fails, monkeypatch: pytest.MonkeyPatch) -> None:
    fails("-c", "SELECT no FROM big", "--data", data)  # loads modules, which may not be for everyone either
    (data / "big.parquet").chmod(0)
    data.parent.chmod(0o755)
    for folder in data.parents[1:]:
        if not folder.stat().st_mode & 0o001:
            folder.chmod(0o777)
    (data.parent / "tmp").chmod(0o777)
    monkeypatch.setenv("QOOP_CACHE_DIR", str(data / "cache"))
    with unprivileged():
        message = fails("-c", "SELECT count(*) FROM big", "--data", data)
    assert "big.parquet" in message and "Permission denied" in message


# The ends of processes


@pytest.mark.parametrize(
    ("number", "code", "message"),
    [
        (signal.SIGINT, 130, "qoop: interrupted\n"),
        (signal.SIGTERM, 143, "qoop: ended by SIGTERM\n"),
        (signal.SIGHUP, 129, "qoop: ended by SIGHUP\n"),
    ],
)
def test_signals_end_a_query_and_leave_nothing(
    data: Path, temporary: Path, number: signal.Signals, code: int, message: str
) -> None:
    process = start("-c", FOREVER.replace("big a", "big a, big c"), "--data", data, "--slots", "2")
    until(lambda: list(temporary.glob("*/kernel-*")) or list(temporary.iterdir()), process)
    time.sleep(0.5)  # so that it most likely runs by then
    process.send_signal(number)
    assert process.communicate(timeout=60) == ("", message)
    assert process.returncode == code
    assert list(temporary.iterdir()) == []


def test_what_a_killed_process_leaves_is_collected_by_the_next(data: Path, temporary: Path) -> None:
    process = start("-c", FOREVER.replace("big a", "big a, big c"), "--data", data)
    until(lambda: list(temporary.glob("*/lock")), process)
    with qoop.connect(slots=1):  # the lock is held: nothing is taken from a living process
        assert len(list(temporary.iterdir())) == 2
    process.kill()
    process.communicate()
    assert len(list(temporary.iterdir())) == 1
    with qoop.connect(slots=1) as session:
        assert len(list(temporary.iterdir())) == 1
        assert session.sql("SELECT 1 AS x").fetchall() == [(1,)]
    assert list(temporary.iterdir()) == []


CHECKPOINTED = """
import itertools, sys, qoop
data, folder, text = sys.argv[1:]
with qoop.connect(slots=2, memory="500MB", checkpoints=folder) as session:
    session.register_folder(data)
    for number in itertools.count(1000):  # what is there already is not written again
        session.submit(text.replace("1000", str(number))).result()
"""


def test_checkpoints_of_a_killed_process_are_whole_or_absent(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    text = "SELECT a.i % 1000 AS k, count(*) AS n, max(a.t) AS t FROM big a JOIN big b USING (t) GROUP BY k ORDER BY k"
    with qoop.connect(slots=2, memory="500MB") as session:
        session.register_folder(data)
        expected = session.sql(text).fetchall()
    for seconds in (0.0, 0.05):  # after the first file is begun
        process = subprocess.Popen([sys.executable, "-c", CHECKPOINTED, str(data), str(folder), text], text=True)
        known = set(folder.glob("*.arrow"))
        try:
            until(lambda: set(folder.glob("*.arrow")) - known, process)  # noqa: B023
            time.sleep(seconds)
        finally:
            process.kill()
            process.wait()
        with qoop.connect(slots=2, memory="500MB", checkpoints=folder) as session:
            session.register_folder(data)
            assert session.submit(text, resume=True).result().fetchall() == expected
    manifests, files = (len(list(folder.glob(kind))) for kind in ("*.json", "*.arrow"))
    assert manifests == files > 0


def test_a_full_and_a_closed_standard_output() -> None:
    query = f"{sys.executable} -m qoop --format csv -c 'FROM range(3)'"
    for where, message in (("/dev/full", "No space left on device"), ("&-", "closed")):
        done = subprocess.run(["bash", "-c", f"{query} >{where}"], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (1, "")
        assert message in done.stderr and done.stderr.startswith("qoop: ") and done.stderr.count("\n") == 1


def test_standard_output_that_cannot_hold_the_answer() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "qoop", "--format", "csv", "-c", "SELECT 'é' AS x"],
        capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert done.returncode == 1 and "PYTHONUTF8" in done.stderr and "Traceback" not in done.stderr


def test_an_answer_larger_than_the_memory(data: Path, temporary: Path) -> None:
    with qoop.connect(slots=1, memory="24MiB") as session:
        session.register_folder(data)
        result = session.sql("SELECT i, repeat('x', 5000) AS s FROM big")
    assert list(temporary.iterdir()) == []
    table = result.arrow()
    assert table.num_rows == 20_000 and table["s"][19_999].as_py() == "x" * 5000
