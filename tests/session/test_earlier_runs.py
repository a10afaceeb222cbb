"""A run that finds nothing of an unfinished run of its text says why; one that finds outputs goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qoop
from qoop.engine.notices import Continued
from qoop.query.job import Job
from qoop.session import earlier_runs

TEXT = "SELECT k % 7 AS k, sum(CAST(word AS BIGINT)) AS total FROM words GROUP BY 1 ORDER BY 1"
"""It fails as long as there is a word that is no number."""


def write(folder: Path, last: str, rows: int = 100_000) -> Path:
    numbers = list(range(rows))
    table = pa.table({"k": numbers, "word": [str(n) for n in numbers[:-1]] + [last]})
    pq.write_table(table, folder / "words.parquet", row_group_size=rows // 6)
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return write(folder, "bad")


def session(data: Path, folder: Path, **options: object) -> qoop.Session:
    found = qoop.connect(slots=2, memory="500MB", checkpoints=folder, staged=True, **options)  # type: ignore[arg-type]
    found.register_folder(data)
    return found


def unfinished(data: Path, folder: Path, text: str = TEXT) -> None:
    """A run that fails, and whose outputs are gone."""
    with session(data, folder) as found:
        job = found.submit(text)
        with pytest.raises(qoop.ExecutionError, match="bad"):
            job.result()
    for path in folder.glob("*.json"):
        path.unlink()


def reasons(job: Job) -> tuple[str, ...]:
    job.wait()
    return job.status().notices


def test_changed_data_are_the_reason_that_nothing_goes_on(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    unfinished(data, folder)
    write(data, "99999")
    with session(data, folder) as found:
        job = found.submit(TEXT)
        rows = job.result().fetchall()
        assert reasons(job) == ("not continued: since the unfinished run of this text words has changed",)
        assert any(job.status().notices[0] in str(record) for record in job.history())
        assert not list((folder / "runs").glob("*.json"))  # it has its answer
        assert all("not continued" not in notice for notice in reasons(found.submit(TEXT)))
    with duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW words AS FROM '{data / 'words.parquet'}'")
        assert rows == connection.execute(TEXT).fetchall() and len(rows) == 7


def test_other_settings_versions_and_keys_are_reasons(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "kept"
    unfinished(data, folder)
    with session(data, folder) as found:
        assert reasons(found.submit(TEXT)) == (
            "not continued: the unfinished run of this text left no output that this plan reads",
        )
        for path in folder.glob("*.json"):
            path.unlink()
        found.set("default_null_order", "NULLS_FIRST")
        [reason] = reasons(found.submit(TEXT))
        assert "default_null_order was as usual and is 'NULLS_FIRST'" in reason
    unfinished(data, folder)
    with monkeypatch.context() as patched, session(data, folder) as found:
        patched.setattr(earlier_runs, "planner_version", lambda: "another")
        assert "qoop was another version" in reasons(found.submit(TEXT))[0]
    unfinished(data, folder)
    with monkeypatch.context() as patched, session(data, folder) as found:
        version = duckdb.__version__
        patched.setattr(duckdb, "__version__", "0.9")
        assert f"DuckDB was {version} and is 0.9" in reasons(found.submit(TEXT))[0]
    unfinished(data, folder)
    monkeypatch.setenv("QOOP_KEY", "a key of sixteen characters")
    with session(data, folder) as found:
        assert "is not sealed with this key" in reasons(found.submit(TEXT))[0]


def test_an_edited_text_is_a_reason_and_a_text_of_its_own_is_none(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    unfinished(data, folder)
    write(data, "99999")
    with session(data, folder) as found:
        [reason] = reasons(found.submit(TEXT.replace("% 7", "% 8")))
        assert reason.startswith("not continued: the unfinished run had another text: SELECT k % 7 AS k")
        assert reasons(found.submit("SELECT count(*) FROM words")) == ()


def test_long_texts_of_unfinished_runs_are_not_taken_apart(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, long = tmp_path / "kept", f"{TEXT} -- {'x' * 100_000}"
    unfinished(data, folder, long)
    write(data, "99999")
    with session(data, folder) as found:
        assert found._starts.earlier_runs is not None
        shorter, longer = found.planning.plan(TEXT.replace("% 7", "% 8")), found.planning.plan(long)
        lexed: list[str] = []
        normal = earlier_runs.normal_text
        monkeypatch.setattr(earlier_runs, "normal_text", lambda text: (lexed.append(text), normal(text))[1])
        found._starts.earlier_runs.begin(shorter).end(answered=True)
        assert long not in lexed and shorter.bound.text in lexed
        assert found._starts.earlier_runs.begin(longer).why, "a run of the same text is found by its name"


def test_a_run_that_is_under_way_is_not_an_unfinished_one(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    with session(data, folder) as found, session(data, folder) as other:
        planned = found.planning.plan(TEXT)
        assert found._starts.earlier_runs is not None and other._starts.earlier_runs is not None
        begun = found._starts.earlier_runs.begin(planned)
        assert other._starts.earlier_runs.begin(planned).why == ""
        begun.end(answered=False)
        assert other._starts.earlier_runs.begin(planned).why != ""


@pytest.mark.parametrize(
    "owner, continues", [(("shop", "ann/a"), True), (("shop", "bob"), False), ((), False), (("shop/ann", "a"), False)]
)
def test_a_run_goes_on_with_what_a_killed_one_of_the_same_user_left(
    data: Path, tmp_path: Path, owner: tuple[str, ...], continues: bool
) -> None:
    """An answer that is there at once would show what other users have queried."""
    with session(data, tmp_path / "kept") as found:
        planned, earlier = found.planning.plan(TEXT), found._starts.earlier_runs
        assert earlier is not None
        first = earlier.begin(planned, ("shop", "ann/a"))
        first.end(answered=False)
    assert not first.continues
    with session(data, tmp_path / "kept") as found:
        assert found._starts.earlier_runs is not None
        assert found._starts.earlier_runs.begin(planned, owner).continues is continues


def test_notes_do_not_fill_the_folder(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(earlier_runs, "_MOST", 3)
    with session(data, tmp_path / "kept") as found:
        assert found._starts.earlier_runs is not None
        for number in range(8):
            planned = found.planning.plan(f"SELECT count(*) AS c{number} FROM words WHERE k > {number}")
            found._starts.earlier_runs.begin(planned).end(answered=False)
        assert len(list((tmp_path / "kept" / "runs").glob("*.json"))) <= 4


KILLED = """
import sys, threading
import qoop
data, folder = sys.argv[1:]
with qoop.connect(slots=2, memory="500MB", checkpoints=folder) as session:
    session.register_folder(data)
    session.register_function("later", lambda n: threading.Event().wait(60) and n, ["BIGINT"], "BIGINT", version="1")
    job = session.submit("SELECT k, later(n) AS n FROM (SELECT k % 7 AS k, count(*) AS n FROM words GROUP BY 1)")
    saved = False
    while not (saved or job.wait(0.01)):
        saved = any(type(record).__name__ == "Saved" for record in job.history())
    print("saved" if saved else "ended", flush=True)
    job.wait(60)
"""


def test_a_killed_run_goes_on_and_says_so(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    write(data, "0", rows=600_000)
    command = [sys.executable, "-c", KILLED, str(data), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        line = child.stdout.readline()
        os.kill(child.pid, signal.SIGKILL)
    assert line == b"saved\n"
    with qoop.connect(slots=2, memory="500MB", checkpoints=folder) as found:
        found.register_folder(data)
        found.register_function("later", lambda n: n, ["BIGINT"], "BIGINT", version="1")
        job = found.submit("SELECT k, later(n) AS n FROM (SELECT k % 7 AS k, count(*) AS n FROM words GROUP BY 1)")
        rows = sorted(job.result().fetchall())
    with duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW words AS FROM '{data / 'words.parquet'}'")
        assert rows == connection.execute("SELECT k % 7, count(*) FROM words GROUP BY 1 ORDER BY 1").fetchall()
    [found_again] = [record for record in job.history() if isinstance(record, Continued)]
    assert found_again.found >= 1 and found_again.left >= 1
    assert not list((folder / "runs").glob("*.json"))
