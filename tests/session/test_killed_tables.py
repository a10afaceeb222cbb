"""A process that is killed while it creates a table in a folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

import qoop

KILLED = """
import os, sys, qoop
from qoop.catalog.sources import created
session = qoop.connect(slots=1, memory="300MB", tables=sys.argv[1])
session.sql("CREATE TABLE kept AS SELECT 1 AS a")
created.publish = lambda *_: os.kill(os.getpid(), 9)
session.sql("CREATE TABLE lost AS SELECT * FROM range(10000)")
"""


@pytest.mark.parametrize("statement", ["SELECT 1", "CREATE TABLE other AS SELECT 2 AS b"])
def test_its_draft_goes_when_the_next_session_begins(tmp_path: Path, statement: str) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert len(os.listdir(tmp_path)) == 2
    with qoop.connect(slots=1, memory="300MB", tables=tmp_path) as session:
        assert os.listdir(tmp_path) == ["kept"]
        session.sql(statement)
        assert session.sql("SELECT * FROM kept").fetchall() == [(1,)]
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


WRITER = """
import os, signal, sys
from random import Random
from threading import Timer
import qoop
from qoop.query.statements.created import storage
folder, seed = sys.argv[1:]
draw = Random(int(seed))
storage.PIECE_ROWS = 50
with qoop.connect(slots=1, memory="300MB", tables=folder) as session:
    session.sql("CREATE TABLE IF NOT EXISTS t AS SELECT i AS a, 0 AS age FROM range(200) r(i)")
    Timer(draw.uniform(0, 1), os.kill, (os.getpid(), signal.SIGKILL)).start()
    while True:
        for text in (
            "INSERT INTO t SELECT i, (SELECT max(age) FROM t) FROM range(10) r(i)",
            "UPDATE t SET age = age + 1",
            "DELETE FROM t WHERE a % 10 = 0 AND a < 10",
            "INSERT INTO t SELECT 0, age FROM t LIMIT 1",
        ):
            session.sql(text)
"""


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_a_whole_version(tmp_path: Path) -> None:
    """Each change leaves rows of one age."""
    for seed in range(12):
        ended = subprocess.run([sys.executable, "-c", WRITER, str(tmp_path), str(seed)], check=False, timeout=60)
        assert ended.returncode == -9
        with qoop.connect(slots=1, memory="300MB", tables=tmp_path) as session:
            [(ages, rows)] = session.sql("SELECT count(DISTINCT age), count(*) FROM t").fetchall()
            assert ages == 1 and rows >= 199
            named = {Path(path).name for path in session.tables()["t"].source.identities()}  # type: ignore[attr-defined]
        there = {name for name in os.listdir(tmp_path / "t") if name.endswith(".parquet")}
        assert named <= there


def test_two_processes_change_one_table_in_turn(tmp_path: Path) -> None:
    text = """
import sys, qoop
with qoop.connect(slots=1, memory="300MB", tables=sys.argv[1]) as session:
    for number in range(6):
        session.sql(f"INSERT INTO t VALUES ({number}, 0)")
        session.sql("UPDATE t SET n = n + 1 WHERE a = 0")
"""
    with qoop.connect(slots=1, memory="300MB", tables=tmp_path) as session:
        session.sql("CREATE TABLE t AS SELECT -1 AS a, 0 AS n")
        writers = [subprocess.Popen([sys.executable, "-c", text, str(tmp_path)]) for _ in range(2)]
        seen = set()
        while any(writer.poll() is None for writer in writers):
            seen.add(session.sql("SELECT count(*) FROM t").fetchall()[0][0])
        assert [writer.returncode for writer in writers] == [0, 0]
        assert session.sql("SELECT count(*), count(DISTINCT a) FROM t").fetchall() == [(13, 7)]
        assert len(seen) > 2, "the session reads the changes of other processes"


def test_a_table_of_an_earlier_version_of_qoop_becomes_a_folder(tmp_path: Path) -> None:
    duckdb.sql("SELECT range AS a FROM range(5)").write_parquet(str(tmp_path / "t.parquet"))
    with qoop.connect(slots=1, memory="300MB", tables=tmp_path) as session:
        session.sql("INSERT INTO t VALUES (7)")
        assert session.sql("SELECT count(*), sum(a) FROM t").fetchall() == [(6, 17)]
        os.link(next((tmp_path / "t").glob("_*.parquet")), tmp_path / "t.parquet")  # a kill had left the file
    with qoop.connect(slots=1, memory="300MB", tables=tmp_path) as session:
        assert session.sql("SELECT count(*), sum(a) FROM t").fetchall() == [(6, 17)]
        session.sql("DELETE FROM t WHERE a = 7")
        assert not (tmp_path / "t.parquet").exists()
    duckdb.sql("SELECT 1 AS a").write_parquet(str(tmp_path / "t.parquet"))
    with pytest.raises(qoop.SourceError, match="holds table t twice"):
        qoop.connect(slots=1, memory="300MB", tables=tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "no manifest that this version of qoop reads"),
        ('{"format": 9}', "its format is 9"),
        ('{"format": 1, "columns": [], "pieces": ["../../etc/x.parquet"]}', "is no name of a piece"),
    ],
)
def test_a_damaged_manifest_is_named(tmp_path: Path, text: str, message: str) -> None:
    with qoop.connect(slots=1, memory="300MB", tables=tmp_path) as session:
        session.sql("CREATE TABLE t AS SELECT 1 AS a; CREATE TABLE other AS SELECT 2 AS b")
        (tmp_path / "t" / "_2.json").write_text(text)
        with pytest.raises(qoop.SourceError, match=message):
            session.sql("FROM t")
        assert session.sql("FROM other").fetchall() == [(2,)]
