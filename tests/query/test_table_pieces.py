"""Created tables as pieces: random changes equal DuckDB's, and touch no more pieces than they must."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import qoop
from qoop.catalog.errors import DiskFull
from qoop.catalog.sources import created, packing
from qoop.catalog.table import FilesSource
from qoop.query.statements.created import storage
from qoop.query.statements.created.folder import FolderTables, write_table
from qoop.session.session import Session

MAKE = "CREATE OR REPLACE TABLE t AS SELECT i AS a, 'n' || i % 3 AS b, [i] AS l, i / 4 AS f FROM range(23) r(i)"
OTHER = "CREATE OR REPLACE TABLE other AS SELECT i * 3 AS k, 'o' || i AS n FROM range(9) r(i)"
NUMBER = st.integers(0, 25)
CHANGES = st.one_of(
    st.builds("INSERT INTO t (a, b) VALUES ({0}, 'v'), (NULL, NULL)".format, NUMBER),
    st.builds("INSERT INTO t (a, f) SELECT i, i FROM range({0}) r(i)".format, NUMBER),
    st.builds("INSERT INTO t (a, b) SELECT a + 1, b FROM t WHERE a % 5 = {0}".format, st.integers(0, 5)),
    st.builds("INSERT INTO t (a) VALUES ((SELECT max(a) FROM t) + {0})".format, NUMBER),
    st.builds("WITH w AS (FROM range({0}) r(i)) INSERT INTO t (a) SELECT i FROM w".format, NUMBER),
    st.builds("UPDATE t SET a = a + 1, f = NULL WHERE a = {0}".format, NUMBER),
    st.builds("UPDATE t SET l = [a, {0}] WHERE a % 7 = 0".format, NUMBER),
    st.builds("UPDATE t SET a = a + {0}, f = -f".format, NUMBER),
    st.builds("UPDATE t SET l = [a], b = o.n FROM (SELECT max(n) AS n FROM other WHERE k <> {0}) AS o".format, NUMBER),
    st.builds("UPDATE t SET b = o.n FROM other AS o WHERE o.k = t.a AND o.k < {0}".format, NUMBER),
    st.builds("UPDATE t SET a = (SELECT max(a) FROM t) WHERE a < {0} AND b = 'n1'".format, NUMBER),
    st.builds("WITH w AS (SELECT {0} AS x) UPDATE t AS z SET b = 'w' FROM w WHERE z.a = w.x".format, NUMBER),
    st.builds("DELETE FROM t WHERE a = {0} OR a IS NULL".format, NUMBER),
    st.builds("DELETE FROM t AS x USING other AS o WHERE x.a = o.k AND o.k > {0}".format, NUMBER),
    st.just("DELETE FROM t WHERE a IN (SELECT a FROM t GROUP BY a HAVING count(*) > 1)"),
    st.builds(
        "MERGE INTO t USING (SELECT k, n FROM other WHERE k <> {0}) AS o ON t.a = o.k "
        "WHEN MATCHED AND o.k % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET b = o.n "
        "WHEN NOT MATCHED THEN INSERT (a, b) VALUES (o.k, o.n)".format,
        NUMBER,
    ),
    st.builds(
        "MERGE INTO t USING other ON a = k AND a < {0} WHEN NOT MATCHED BY SOURCE AND a > 20 THEN DELETE".format, NUMBER
    ),
    st.builds("UPDATE main.t SET b = 'm' WHERE main.t.a = {0} AND NOT t.f > {0}".format, NUMBER),
    st.builds("UPDATE t x SET f = 1, b = CASE WHEN a IS DISTINCT FROM {0} THEN b END WHERE x.a < {0}".format, NUMBER),
    st.builds("UPDATE t SET b = n FROM other o JOIN (SELECT {0} AS y) w ON o.k > y WHERE a = k".format, NUMBER),
    st.builds("UPDATE t SET a = -1 WHERE EXISTS (FROM other WHERE k = t.a AND k <> {0}) OR b IS NULL".format, NUMBER),
    st.builds("DELETE FROM t WHERE (SELECT count(*) FROM other WHERE k = a) > 0 AND a > {0}".format, NUMBER),
    st.builds("DELETE FROM t x WHERE a IN (SELECT k FROM other LIMIT 2) AND x.a <> {0}".format, NUMBER),
    st.builds("DELETE FROM t WHERE hash(t) % 9 = 1 AND a < {0}".format, NUMBER),
    st.builds("DELETE FROM t WHERE f = {0} AND b::INTEGER > 1".format, NUMBER),
    st.builds(
        "MERGE INTO t x USING (SELECT {0} AS k UNION SELECT 3) o ON CASE WHEN x.a > 2 THEN x.a = k END "
        "WHEN MATCHED THEN UPDATE SET b = 'c' WHEN NOT MATCHED THEN INSERT (a) VALUES (k)".format,
        NUMBER,
    ),
    st.builds(
        "WITH o AS (SELECT {0} AS a, 'u' AS b) MERGE INTO main.t USING o USING (a) "
        "WHEN MATCHED THEN UPDATE SET b = o.b".format,
        NUMBER,
    ),
    st.builds("MERGE INTO t USING other ON a = k WHEN MATCHED AND a = {0} THEN UPDATE SET a = b::INT".format, NUMBER),
    st.just("DELETE FROM t"),
    st.just("TRUNCATE t"),
    st.just("ALTER TABLE t ADD COLUMN IF NOT EXISTS z INTEGER"),
    st.just("ALTER TABLE t DROP COLUMN IF EXISTS z"),
    st.just("UPDATE t SET a = a // 0 WHERE a = 3"),
    st.builds("UPDATE t SET a = b::BIGINT WHERE a = {0}".format, NUMBER),
)


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Session, Session]]:
    folder = tmp_path_factory.mktemp("tables")
    with qoop.connect(slots=1, memory="500MB") as one, qoop.connect(slots=1, memory="500MB", tables=folder) as two:
        yield one, two


def answer(run: Session | duckdb.DuckDBPyConnection, text: str) -> object:
    """The number of rows of a change; the text of no error."""
    try:
        found = run.sql(text).fetchall() if isinstance(run, qoop.Session) else run.execute(text).fetchall()
    except (qoop.QueryError, duckdb.Error):
        return "error"
    return found if not text.startswith(("ALTER", "TRUNCATE")) else None


@settings(max_examples=3, deadline=None)
@given(changes=st.lists(CHANGES, min_size=3, max_size=8))
def test_random_changes_are_those_of_duckdb(sessions: tuple[Session, Session], changes: list[str]) -> None:
    with duckdb.connect() as oracle, pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "PIECE_ROWS", 6)
        for session in sessions:
            oracle.execute(MAKE)
            oracle.execute(OTHER)
            for text in (MAKE, OTHER):
                session.sql(text)
            for text in changes:
                assert answer(session, text) == answer(oracle, text), text
                expected = oracle.execute("FROM t ORDER BY ALL").fetchall()
                found = session.sql("FROM t ORDER BY ALL")
                assert found.fetchall() == expected, text
                assert found.types == [row[1] for row in oracle.execute("DESCRIBE t").fetchall()]


@pytest.fixture(params=["memory", "folder"])
def session(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setattr(storage, "PIECE_ROWS", 100)
    with qoop.connect(slots=1, memory="500MB", tables=tmp_path if request.param == "folder" else None) as opened:
        opened.sql("CREATE TABLE t AS SELECT i AS a, 'x' AS b FROM range(1000) r(i)")
        yield opened


def pieces(session: Session) -> dict[str, str]:
    source = session.tables()["t"].source
    assert isinstance(source, FilesSource)
    return dict(source.identities())


@pytest.mark.parametrize(
    ("text", "gone", "came"),
    [
        ("INSERT INTO t SELECT i, 'y' FROM range(5) r(i)", 0, 1),
        ("INSERT INTO t VALUES (5000, 'z')", 0, 1),
        ("DELETE FROM t WHERE a = 555", 1, 1),
        ("DELETE FROM t WHERE a BETWEEN 300 AND 499", 2, 0),
        ("UPDATE t SET b = 'z' WHERE a IN (5, 7, 905)", 2, 2),
        ("MERGE INTO t USING (SELECT 42 AS k UNION ALL SELECT 7000) ON a = k WHEN MATCHED THEN DELETE "
         "WHEN NOT MATCHED THEN INSERT VALUES (k, 'm')", 1, 2),
        ("UPDATE t SET b = 'z' WHERE a = 4000", 0, 0),
    ],
)  # fmt: skip
def test_a_change_replaces_the_pieces_that_it_touches(
    session: Session, text: str, gone: int, came: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "_SIZES", ())
    before = pieces(session)
    session.sql(text)
    after = pieces(session)
    assert (len(before.keys() - after.keys()), len(after.keys() - before.keys())) == (gone, came)
    assert all(after[name] == before[name] for name in before.keys() & after.keys())


@pytest.mark.parametrize(
    ("text", "loaded"),
    [
        ("DELETE FROM t WHERE a = 555", 1),
        ("UPDATE t SET b = 'z' WHERE a BETWEEN 195 AND 204", 2),
        ("UPDATE t x SET b = n FROM o WHERE x.a = o.k", 3),
        ("DELETE FROM t USING o WHERE a = k AND n = 'o2'", 1),
        ("MERGE INTO t USING o ON a = k WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (k, n)", 3),
        ("DELETE FROM t WHERE a < 0 OR b IS NULL", 0),
        ("DELETE FROM t WHERE a IN (SELECT max(a) FROM t)", 10),
        ("DELETE FROM t WHERE a = 555 AND random() >= 0", 10),
        ("UPDATE t SET b = substr(now()::VARCHAR, 1, 1) WHERE a = 555", 1),
        ("UPDATE t SET b = 'z'", 10),
    ],
)
def test_a_change_loads_the_pieces_that_it_touches(
    session: Session, text: str, loaded: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    for kind in (FolderTables, storage.MemoryTables):
        whole = kind.rows
        monkeypatch.setattr(kind, "rows", lambda *args, whole=whole: (seen.append(args[-1]), whole(*args))[1])
    create = "CREATE TABLE o AS SELECT i * 250 AS k, 'o' || i AS n FROM range(1, 5) r(i)"
    with duckdb.connect() as oracle:
        oracle.execute("CREATE TABLE t AS SELECT i AS a, 'x' AS b FROM range(1000) r(i)")
        for run in (session.sql, oracle.execute):
            run(create)
        assert session.sql(text).fetchall() == oracle.execute(text).fetchall()
        assert session.sql("FROM t ORDER BY ALL").fetchall() == oracle.execute("FROM t ORDER BY ALL").fetchall()
    assert len(seen) == loaded


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("UPDATE t SET b = 'z'", 10),
        ("UPDATE t SET b = k FROM (SELECT 'k' || max(a) AS k FROM o) AS s WHERE t.a >= 100", 9),
        ("DELETE FROM t WHERE a % 2 = 0", 10),
        ("INSERT INTO t SELECT a + 1000, b FROM o", 10),
        ("UPDATE t SET b = (SELECT max(b) FROM t)", 1),
    ],
)
def test_a_change_of_many_rows_holds_those_of_a_piece_at_a_time(
    session: Session, text: str, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    for kind in (FolderTables, storage.MemoryTables):
        for name in ("rows", "put"):
            whole = getattr(kind, name)
            monkeypatch.setattr(kind, name, lambda *args, do=whole, is_=name: (done.append(is_), do(*args))[1])
    with duckdb.connect() as oracle:
        oracle.execute("CREATE TABLE t AS SELECT i AS a, 'x' AS b FROM range(1000) r(i)")
        for run in (session.sql, oracle.execute):
            run("CREATE TABLE o AS SELECT i AS a, 'o' AS b FROM range(1000) r(i)")
        assert session.sql(text).fetchall() == oracle.execute(text).fetchall()
        assert session.sql("FROM t ORDER BY ALL").fetchall() == oracle.execute("FROM t ORDER BY ALL").fetchall()
    between = "".join(word[0] for word in done).split("p")
    assert sum(map(bool, between)) == steps or (text.startswith("INSERT") and len(between) == steps + 1)


def test_a_change_that_fails_in_the_middle_changes_nothing(session: Session, tmp_path: Path) -> None:
    session.sql("UPDATE t SET b = 'bad' WHERE a = 555")
    before, files = session.sql("FROM t ORDER BY a").fetchall(), sorted(tmp_path.rglob("*.parquet"))
    text = "UPDATE t SET a = CASE b WHEN 'x' THEN a + 1 ELSE b::BIGINT END"
    with pytest.raises(qoop.QueryError, match="bad"):
        session.sql(text)
    assert session.sql("FROM t ORDER BY a").fetchall() == before
    assert sorted(tmp_path.rglob("*.parquet")) == files
    session.sql("UPDATE t SET b = 'x'")
    assert session.sql(text).fetchall() == [(1000,)]


@pytest.mark.parametrize("session", ["memory"], indirect=True)
def test_pieces_in_memory_are_packed_and_stay_few(session: Session) -> None:
    with duckdb.connect() as oracle:
        oracle.execute("CREATE TABLE t AS SELECT i AS a, 'x' AS b FROM range(1000) r(i)")
        for number in range(40):
            for run in (session.sql, oracle.execute):
                run(f"INSERT INTO t VALUES ({number}, 'new')")
            assert len(pieces(session)) <= 10 + 7
        assert session.sql("FROM t ORDER BY ALL").fetchall() == oracle.execute("FROM t ORDER BY ALL").fetchall()


def test_a_query_reads_the_version_that_it_began_with(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(created, "_GRACE", 0.0)
    session.resize(slots=0)
    job = session.submit("SELECT count(*), sum(a) FROM t")
    for end in (200, 400, 600):  # each removes what the one before has left
        session.sql(f"DELETE FROM t WHERE a < {end}")
    session.resize(slots=1)
    assert job.result().fetchall() == [(1000, 499500)]
    assert session.sql("SELECT count(*) FROM t").fetchall() == [(400,)]


def test_an_error_that_is_not_of_its_files_is_no_full_disk(tmp_path: Path) -> None:
    def check() -> None:
        raise ConnectionResetError("of the caller")

    with qoop.connect(slots=1, tables=tmp_path) as session:
        rows = session.sql("SELECT 1 AS i")
    with pytest.raises(ConnectionResetError, match="of the caller"):
        write_table(tmp_path, "t", rows, check)
    assert not (tmp_path / "t").exists()
    (tmp_path / "t").write_text("")
    with pytest.raises(DiskFull, match=rf"table t cannot be kept in {tmp_path}: "):
        write_table(tmp_path, "t", rows, lambda: None)


def test_a_version_is_synced_before_its_manifest_appears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each new piece and the manifest before it has its name; then the folders with new names."""
    steps: list[tuple[str, str]] = []
    sync, move = os.fsync, os.replace

    def synced(file: int) -> None:
        steps.append(("sync", os.path.basename(os.readlink(f"/proc/self/fd/{file}"))))
        sync(file)

    def moved(draft: Path, path: Path) -> None:
        steps.append(("move", os.path.basename(path)))
        move(draft, path)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", moved)
    with qoop.connect(slots=1, memory="500MB", tables=tmp_path / "tables") as session:
        known = set[str]()
        for number, statement in enumerate((MAKE, "INSERT INTO t (a) VALUES (99)", "DELETE FROM t WHERE a = 3"), 1):
            steps.clear()
            session.sql(statement)
            pieces = set(created.manifest_of(tmp_path / "tables" / "t").pieces)
            folders = [("sync", "t")] + [("sync", "tables")] * (number == 1)
            before, after = steps[: -1 - len(folders)], steps[-1 - len(folders) :]
            assert after == [("move", f"_{number}.json"), *folders]
            assert sorted(before) == sorted(("sync", name) for name in {created._DRAFT, *pieces - known})
            assert pieces - known
            known |= pieces
        steps.clear()
        session.sql("DROP TABLE t")
        assert steps == [("sync", created._DRAFT), ("move", "_4.dropped"), ("sync", "t")]
