"""Tables that live: created with columns, changed by statements; DuckDB on the same data is the oracle."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import qoop
from qoop.session.session import Session

SCRIPT = (
    "CREATE TABLE t (a INTEGER, b VARCHAR, c DECIMAL(9,2), d DATE)",
    "CREATE TABLE other AS SELECT * FROM (VALUES (2, 'deux'), (9, 'neuf')) AS o(k, name)",
    "INSERT INTO t VALUES (1, 'one', 1.5, '2020-01-01'), (2, 'two', NULL, NULL), (3, NULL, 3, '2021-02-03')",
    "INSERT INTO t (b, a) SELECT name, k + 1 FROM other WHERE k > 5",
    "INSERT INTO t BY NAME SELECT 'x' AS b, 7 AS a",
    "INSERT INTO t (a) (SELECT k FROM other)",
    "UPDATE t SET b = o.name FROM other AS o WHERE o.k = t.a",
    "UPDATE t SET c = c * 2 WHERE a < 3",
    "DELETE FROM t WHERE a IN (SELECT k FROM other WHERE k = 9)",
    "DELETE FROM t WHERE a = 1000",
    "MERGE INTO t USING other AS o ON t.a = o.k WHEN MATCHED THEN UPDATE SET b = 'met' "
    "WHEN NOT MATCHED THEN INSERT (a, b) VALUES (o.k, o.name)",
)


@pytest.fixture(params=["memory", "folder"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Session]:
    folder = tmp_path if request.param == "folder" else None
    with qoop.connect(slots=2, memory="500MB", tables=folder) as opened:
        yield opened


def test_changes_are_those_of_duckdb(session: Session) -> None:
    with duckdb.connect() as oracle:
        for text in SCRIPT:
            assert session.sql(text).fetchall() == (oracle.execute(text).fetchall() or [(0,)]), text
        expected = oracle.execute("FROM t ORDER BY ALL").fetchall()
        assert len(expected) == 7
        assert session.sql("FROM t ORDER BY a, b, c, d").fetchall() == expected
        assert session.sql("FROM t").types == ["INTEGER", "VARCHAR", "DECIMAL(9,2)", "DATE"]


def test_what_is_kept_in_a_folder_lives_on(tmp_path: Path) -> None:
    with qoop.connect(slots=1, memory="300MB", tables=tmp_path) as first:
        first.sql("CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1), (2)")
    with qoop.connect(slots=1, memory="300MB", tables=tmp_path) as second:
        second.sql("UPDATE t SET a = a + 10")
        assert second.sql("SELECT a FROM t ORDER BY a").fetchall() == [(11,), (12,)]


KILLED = """
import os, sys, qoop
from qoop.catalog.sources import created
session = qoop.connect(slots=1, memory="300MB", tables=sys.argv[1])
session.sql("CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1), (2)")
created.publish = lambda *_: os.kill(os.getpid(), 9)
session.sql("DELETE FROM t")
"""


def test_a_kill_between_write_and_swap_leaves_the_old_version(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert ended.returncode == -9
    with qoop.connect(slots=1, memory="300MB", tables=tmp_path) as session:
        assert session.sql("SELECT a FROM t ORDER BY a").fetchall() == [(1,), (2,)]


def test_of_changes_in_two_threads_none_is_lost(session: Session) -> None:
    session.sql("CREATE TABLE t (a INTEGER)")
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda a: session.sql(f"INSERT INTO t VALUES ({a})"), range(10)))
    assert session.sql("SELECT a FROM t ORDER BY a").fetchall() == [(a,) for a in range(10)]


def test_data_of_the_user_is_never_changed(session: Session, tmp_path: Path) -> None:
    file = tmp_path / "given" / "mine.parquet"
    file.parent.mkdir()
    duckdb.sql("SELECT 1 AS a").write_parquet(str(file))
    session.register("mine", file)
    session.register("arrow", pa.table({"a": [1]}))
    session.sql("CREATE VIEW v AS FROM mine")
    before = file.read_bytes()
    for text in ("INSERT INTO mine VALUES (2)", "UPDATE mine SET a = 2", "DELETE FROM arrow"):
        with pytest.raises(qoop.CatalogError, match="statements do not change it: CREATE TABLE name AS"):
            session.sql(text)
    with pytest.raises(qoop.CatalogError, match="v is a view"):
        session.sql("DELETE FROM v")
    assert file.read_bytes() == before


def test_a_table_that_is_registered_over_one_of_ours_is_not_ours() -> None:
    with qoop.connect(slots=1, memory="300MB") as session:
        session.sql("CREATE TABLE t (a INTEGER)")
        session.register("t", pa.table({"a": [1]}))
        with pytest.raises(qoop.CatalogError, match="statements do not change it"):
            session.sql("DELETE FROM t")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE TABLE n (a INTEGER PRIMARY KEY)", "PRIMARY KEY"),
        ("CREATE TABLE n (a INTEGER NOT NULL)", "NOT NULL"),
        ("CREATE TABLE n (a INTEGER CHECK (a > 1))", "CHECK"),
        ("CREATE TABLE n (a INTEGER UNIQUE)", "UNIQUE"),
        ("CREATE TABLE n (a INTEGER DEFAULT 3)", "DEFAULT 3"),
        ("CREATE TABLE n (a INTEGER, b INTEGER GENERATED ALWAYS AS (a + 1))", "cannot keep"),
        ("CREATE TABLE n (a VARCHAR COLLATE NOCASE)", "COLLATE"),
        ("CREATE TABLE n (a NOSUCH)", "NOSUCH"),
        ("CREATE TABLE t (a INTEGER)", "there is a table t already"),
        ("INSERT INTO t VALUES (1) RETURNING a", "RETURNING"),
        ("INSERT OR REPLACE INTO t VALUES (1)", "INSERT OR REPLACE needs a key"),
        ("INSERT INTO t VALUES ('x')", "Could not convert"),
        ("INSERT INTO nothing VALUES (1)", "there is no table nothing|unknown table"),
        ("ROLLBACK", "BEGIN first"),
    ],
)
def test_what_cannot_be_is_said_and_nothing_changes(text: str, message: str) -> None:
    with qoop.connect(slots=1, memory="300MB") as session:
        session.sql("CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (5)")
        with pytest.raises(qoop.QoopError, match=message):
            session.sql(text)
        assert session.sql("FROM t").fetchall() == [(5,)]
