"""Small pieces of created tables are packed by a thread: nothing waits for it, and no row is lost, whatever comes."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import qoop
from qoop.catalog.table import FilesSource
from qoop.query.statements.created import background, folder
from qoop.query.statements.created.background import Packer
from qoop.session.session import Session

FIRST = "CREATE TABLE t AS SELECT i AS a, 'x' AS b FROM range(100) r(i)"
VIEW = "SELECT b, sum(a)::BIGINT AS s FROM t GROUP BY b"


class Watched(Packer):
    """A packer that stops before it publishes, while `go` is not set."""

    go, stopped, all = threading.Event(), threading.Event(), list[Packer]()

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self.all.append(self)


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    publish = background._replace

    def replace(*args: object) -> bool:
        Watched.stopped.set()
        assert Watched.go.wait(60)
        return publish(*args)  # type: ignore[arg-type]

    Watched.go.set()
    Watched.stopped.clear()
    Watched.all.clear()
    monkeypatch.setattr(background, "_replace", replace)
    monkeypatch.setattr(folder, "Packer", Watched)
    with qoop.connect(slots=1, memory="500MB", tables=tmp_path) as opened:
        yield opened


def pieces(session: Session) -> dict[str, str]:
    source = session.tables()["t"].source
    assert isinstance(source, FilesSource)
    return dict(source.identities())


def packed(session: Session) -> dict[str, str]:
    """The pieces when no packing goes on."""
    for one in Watched.all:
        one.wait()
    session.sql("SELECT 1 FROM t LIMIT 1")
    return pieces(session)


def held(session: Session) -> None:
    """Insert until a packed piece is about to be published."""
    Watched.go.clear()
    for number in range(1000, 1008):
        session.sql(f"INSERT INTO t VALUES ({number}, 'new')")
    assert Watched.stopped.wait(60)


def check(session: Session, *texts: str) -> None:
    """The table is DuckDB's after the same statements."""
    with duckdb.connect() as oracle:
        for text in (FIRST, *(f"INSERT INTO t VALUES ({number}, 'new')" for number in range(1000, 1008)), *texts):
            oracle.execute(text)
        expected = oracle.execute("FROM t ORDER BY ALL").fetchall()
    assert expected and session.sql("FROM t ORDER BY ALL").fetchall() == expected


def test_inserts_do_not_wait_for_a_packing(session: Session) -> None:
    session.sql(FIRST)
    held(session)
    before = pieces(session)
    session.sql("INSERT INTO t VALUES (5000, 'later')")
    assert len(pieces(session)) == len(before) + 1
    job = session.submit("SELECT count(*) FROM t")
    Watched.go.set()
    after = packed(session)
    assert job.result().fetchall() == [(109,)]
    assert len(after) == 3 and len(after.keys() & {*before}) == 1, "the packed one, the eighth row, and the later one"
    check(session, "INSERT INTO t VALUES (5000, 'later')")


@pytest.mark.parametrize(
    "text",
    ["DELETE FROM t WHERE a = 1003", "UPDATE t SET b = 'z' WHERE a % 2 = 0", "DELETE FROM t WHERE a < 2000",
     "ALTER TABLE t ADD COLUMN c INTEGER"],
)  # fmt: skip
def test_a_change_of_what_is_packed_counts(session: Session, text: str) -> None:
    session.sql(FIRST)
    held(session)
    session.sql(text)
    Watched.go.set()
    packed(session)
    more = [f"INSERT INTO t (a, b) VALUES ({number}, 'more')" for number in range(9)]
    for one in more:
        session.sql(one)
    assert len(packed(session)) < 9
    check(session, text, *more)


def test_a_change_reads_the_table_that_was_packed_since(session: Session) -> None:
    session.sql(FIRST)
    held(session)
    Watched.go.set()
    for one in Watched.all:
        one.wait()
    text = "INSERT INTO t SELECT a + 7000, b FROM t WHERE a < 3"
    session.sql(text)
    check(session, text)


def test_a_table_may_be_dropped_meanwhile(session: Session, tmp_path: Path) -> None:
    session.sql(FIRST)
    held(session)
    session.sql("DROP TABLE t")
    Watched.go.set()
    for one in Watched.all:
        one.wait()
    assert not (tmp_path / "t").exists()
    session.sql(FIRST)
    assert session.sql("SELECT count(*) FROM t").fetchall() == [(100,)]


def test_no_view_reads_packed_rows_again(session: Session) -> None:
    session.sql(FIRST)
    session.sql(f"CREATE MATERIALIZED VIEW v WITH (refresh_mode = 'incremental') AS {VIEW}")
    for number in range(40):
        session.sql(f"INSERT INTO t VALUES ({number}, 'y')")
        session.sql("REFRESH MATERIALIZED VIEW v")
        assert len(packed(session)) <= 8 + 8
        assert session.materialized_views()[0].lag == 0, "packed rows are no change"
        session.sql("REFRESH MATERIALIZED VIEW v")
        [view] = session.materialized_views()
        assert view.incremental and view.rows_read <= 1
    assert session.sql("FROM v ORDER BY b").fetchall() == session.sql(f"{VIEW} ORDER BY b").fetchall()


def test_what_a_killed_process_has_left_goes(session: Session, tmp_path: Path) -> None:
    session.sql(FIRST)
    for name, age in (("old", 1e6), ("young", 1.0)):
        draft = tmp_path / "t" / f".packed-{name}"
        draft.write_bytes(b"")
        moment = draft.stat().st_mtime - age
        os.utime(draft, (moment, moment))
    session.sql("INSERT INTO t VALUES (1, 'y')")
    assert [name for name in os.listdir(tmp_path / "t") if name.startswith(".packed")] == [".packed-young"]


def test_a_session_that_closes_does_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()

    def pack(connection: duckdb.DuckDBPyConnection, place: Path) -> bool:
        begun.set()
        connection.execute("SELECT sum(a.i * b.i) FROM range(10_000_000) a(i), range(10_000_000) b(i)")
        return True

    monkeypatch.setattr(background, "_pack", pack)
    with qoop.connect(slots=1, memory="500MB", tables=tmp_path) as session:
        session.sql(FIRST)
        for number in range(9):
            session.sql(f"INSERT INTO t VALUES ({number}, 'y')")
        assert begun.wait(60)
    assert not [one for one in threading.enumerate() if one.name == "qoop-packing"]


def test_a_failed_packing_is_in_the_log(
    session: Session, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def pack(connection: duckdb.DuckDBPyConnection, place: Path) -> bool:
        raise OSError("no space left")

    monkeypatch.setattr(background, "_pack", pack)
    session.sql(FIRST)
    for number in range(9):
        session.sql(f"INSERT INTO t VALUES ({number}, 'y')")
    assert len(packed(session)) == 10
    assert "the small pieces of table t stay apart: no space left" in caplog.text
