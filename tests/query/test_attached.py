"""Attached DuckDB files: names of two and three parts, USE, and what DuckDB says to the same texts."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

import qoop
from qoop.catalog.errors import Forbidden, QueryError, SourceError
from qoop.catalog.extensions import file_of, is_here
from qoop.catalog.sources.sqlite_rows import type_of

TEXTS = (
    "SELECT * FROM shop.items ORDER BY ALL",
    "SELECT shop.items.name, i.price FROM shop.items JOIN shop.main.items i USING (id) ORDER BY ALL",
    "SELECT shop.old.items.id, count(*) AS n FROM shop.old.items GROUP BY ALL ORDER BY ALL",
    "SELECT o.id FROM shop.old.items o WHERE o.id IN (SELECT id FROM SHOP.Items) ORDER BY ALL",
    "WITH items AS (SELECT 7 AS id) SELECT * FROM items, shop.items s ORDER BY ALL",
    "SELECT * FROM shop.items UNION ALL FROM shop.old.items ORDER BY ALL",
    "SELECT max(price) FROM other.items",
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("d")
    with duckdb.connect(str(folder / "shop.duckdb")) as made:
        made.execute("CREATE TABLE items AS SELECT i AS id, 'n' || i AS name, i * 1.5 AS price FROM range(9) t(i)")
        made.execute("CREATE SCHEMA old; CREATE TABLE old.items AS SELECT i % 3 AS id, '' AS name, 0.0 AS price "
                     "FROM range(7) t(i)")  # fmt: skip
    with duckdb.connect(str(folder / "other.duckdb")) as made:
        made.execute("CREATE TABLE items AS SELECT 77.0 AS price")
    return str(folder / "shop.duckdb"), str(folder / "other.duckdb")


@pytest.fixture
def session(files: tuple[str, str]) -> Iterator[qoop.Session]:
    with qoop.connect(slots=1, memory="1GB") as made:
        made.sql(f"ATTACH '{files[0]}' AS shop (READ_ONLY); ATTACH '{files[1]}'")
        yield made


@pytest.fixture(scope="module")
def oracle(files: tuple[str, str]) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        made.execute(f"ATTACH '{files[0]}' AS shop (READ_ONLY); ATTACH '{files[1]}' (READ_ONLY)")
        yield made


@pytest.mark.parametrize("text", TEXTS)
def test_queries_have_duckdbs_rows(session: qoop.Session, oracle: duckdb.DuckDBPyConnection, text: str) -> None:
    theirs = oracle.execute(text)
    ours = session.sql(text)
    assert ours.columns == [name for name, *_ in theirs.description or ()]
    found = ours.fetchall()
    assert found and found == theirs.fetchall()


def test_use_says_which_database_names_are_of(session: qoop.Session) -> None:
    with pytest.raises(qoop.QueryError):
        session.sql("SELECT count(*) FROM items")
    assert session.sql("USE shop; SELECT count(*) FROM items").fetchall() == [(9,)]
    assert session.sql("USE shop.old; SELECT count(*) FROM items").fetchall() == [(7,)]
    assert session.sql("USE other; SELECT price FROM items").fetchall() == [(77.0,)]
    with pytest.raises(QueryError, match="other is in use: USE memory first"):
        session.sql("DETACH other")
    session.sql("USE memory; CREATE TABLE items AS SELECT 1 AS own")
    assert session.sql("SELECT own FROM items").fetchall() == [(1,)]


def test_databases_are_shown_and_go(session: qoop.Session) -> None:
    assert session.sql("SHOW DATABASES").fetchall() == [("memory",), ("other",), ("shop",)]
    found = session.sql("SELECT table_schema, table_name FROM information_schema.tables ORDER BY ALL").fetchall()
    assert ("shop", "items") in found and ("other", "items") in found
    session.sql("DETACH other")
    assert session.sql("SHOW DATABASES").fetchall() == [("memory",), ("shop",)]
    with pytest.raises(qoop.QueryError):
        session.sql("FROM other.items")
    session.sql("DETACH DATABASE IF EXISTS other")
    with pytest.raises(QueryError, match="there is no database other; there are memory, shop"):
        session.sql("DETACH other")


def test_what_is_written_to_the_file_is_observed(session: qoop.Session, tmp_path: Path) -> None:
    path = str(tmp_path / "mine.duckdb")
    with duckdb.connect(path) as made:
        made.execute("CREATE TABLE items AS SELECT 77 AS price")
    session.sql(f"ATTACH '{path}'")
    assert session.sql("FROM mine.items").fetchall() == [(77,)]
    with duckdb.connect(path) as made:
        made.execute("UPDATE items SET price = 78")
    assert session.sql("FROM mine.items").fetchall() == [(78,)]


def test_what_is_not_attached_is_reported(session: qoop.Session, files: tuple[str, str], tmp_path: Path) -> None:
    for text, wrong in (
        (f"ATTACH '{files[0]}' AS shop", "there is a database shop already"),
        (f"ATTACH '{files[0]}' AS memory", "there is a database memory already"),
        ("ATTACH 'x.db' (TYPE mysql)", "takes READ_ONLY and TYPE duckdb, sqlite or postgres here, not TYPE MYSQL"),
        ("ATTACH 'dbname=x' (TYPE postgres)", "AS name"),
        ("USE nothing", "there is no database nothing; there are memory, other, shop"),
        ("USE shop.nothing", "there is no schema nothing with tables in shop"),
    ):
        with pytest.raises(QueryError, match=wrong):
            session.sql(text)
    with pytest.raises(SourceError):
        session.sql(f"ATTACH '{tmp_path}/none.duckdb'")
    assert session.sql("SHOW DATABASES").fetchall() == [("memory",), ("other",), ("shop",)]
    session.sql(f"ATTACH IF NOT EXISTS '{files[1]}' AS shop")
    assert session.sql("SELECT count(*) FROM shop.items").fetchall() == [(9,)]
    session.sql(f"ATTACH OR REPLACE '{files[1]}' AS shop")
    assert session.sql("SELECT count(*) FROM shop.items").fetchall() == [(1,)]


@pytest.mark.skipif(not is_here("sqlite"), reason="duckdb-extension-sqlite-scanner is not installed")
@pytest.mark.parametrize("extended", [True, False])
def test_an_sqlite_file_is_read_as_duckdb_reads_it(
    extended: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not extended:
        monkeypatch.setattr("qoop.catalog.sources.sqlite.is_here", lambda name: False)
        monkeypatch.setattr("qoop.catalog.extensions.is_here", lambda name: False)
    path = tmp_path / "no tes.db"
    with closing(sqlite3.connect(path)) as made:
        made.execute(
            "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT, weight REAL, day DATE, data BLOB, at DATETIME)"
        )
        made.executemany(
            "INSERT INTO notes VALUES (?, ?, ?, ?, ?, ?)",
            [
                (number, f"n{number % 5}", number / 4, "2024-01-02", b"ab", "2024-01-02T03:04:05.5Z")
                for number in range(12_000)
            ],
        )
        made.execute("CREATE TABLE names (text TEXT PRIMARY KEY, id INT) WITHOUT ROWID")
        made.execute("INSERT INTO names VALUES ('n1', 1), ('n2', NULL)")
        made.commit()
        with qoop.connect(slots=2, memory="1GB", staged=True) as session, duckdb.connect() as oracle:
            oracle.execute(f"LOAD '{file_of('sqlite')}'; ATTACH '{path}' AS notes (READ_ONLY)")
            session.sql(f"ATTACH '{path}' AS notes (TYPE sqlite)")
            for text in (
                "SELECT * FROM notes.notes WHERE id % 700 = 1",
                "SELECT n.id AS name, count(*) AS n, sum(weight) AS w, max(day) AS d FROM notes.notes "
                "JOIN notes.names AS n USING (text) GROUP BY ALL",
            ):
                found, expected = session.sql(text), oracle.sql(text)
                assert found.types == list(map(str, expected.types))
                assert sorted(map(repr, found.fetchall())) == sorted(map(repr, expected.fetchall())) != []
            made.execute("DELETE FROM notes WHERE id > 9")
            made.commit()
            assert session.sql("SELECT count(*) FROM notes.notes").fetchall() == [(10,)]


def test_a_locked_session_attaches_nothing(files: tuple[str, str]) -> None:
    with qoop.connect(slots=1, memory="1GB", locked=True) as session:
        for text in (f"ATTACH '{files[0]}' AS shop", "USE memory", "SHOW DATABASES", "DETACH shop"):
            with pytest.raises(Forbidden):
                session.sql(text)


def test_a_suspended_query_finds_its_attached_tables_again(session: qoop.Session, tmp_path: Path) -> None:
    session.resize(slots=0)
    job = session.submit("SELECT count(*) AS n FROM shop.old.items JOIN shop.items USING (id)")
    job.suspend(tmp_path / "paused")
    resumed = qoop.resume(tmp_path / "paused", slots=1, memory="500MB")
    assert resumed.result().fetchall() == [(7,)]


@pytest.mark.skipif(not is_here("sqlite"), reason="duckdb-extension-sqlite-scanner is not installed")
def test_without_the_extension_columns_of_sqlite_have_its_types(tmp_path: Path) -> None:
    words = (
        "INT", "BOOLEAN", "POINT", "VARCHAR(20)", "CLOB", "", "blob", "REAL", "DOUBLE PRECISION", "FLOAT", "NUMERIC",
        "DECIMAL(10,2)", "DATE", "DATETIME", "TIMESTAMPTZ", "TIME", "JSON", "UUID", "date time", "HUGEINT", "bytea",
    )  # fmt: skip
    path = tmp_path / "types.db"
    with closing(sqlite3.connect(path)) as made:
        made.execute(f"CREATE TABLE t ({', '.join(f'c{place} {word}' for place, word in enumerate(words))})")
    with duckdb.connect() as oracle:
        oracle.execute(f"LOAD '{file_of('sqlite')}'; ATTACH '{path}' AS declared (READ_ONLY)")
        expected = [type_ for _, type_, *_ in oracle.execute("DESCRIBE declared.t").fetchall()]
    assert [type_of(word) for word in words] == expected


def test_an_sqlite_value_of_another_type_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qoop.catalog.sources.sqlite.is_here", lambda name: False)
    monkeypatch.setattr("qoop.catalog.extensions.is_here", lambda name: False)
    with closing(sqlite3.connect(tmp_path / "odd.db")) as made:
        made.execute("CREATE TABLE t (x INT, d DATE)")
        made.execute("INSERT INTO t VALUES ('many', 'soon')")
        made.commit()
    with qoop.connect(slots=1, memory="500MB") as session:
        session.register_database(tmp_path / "odd.db")
        for column, type_ in (("x", "BIGINT"), ("d", "DATE")):
            with pytest.raises(qoop.QoopError, match=f"column {column} of t has a value that is no {type_}"):
                session.sql(f"SELECT {column} FROM t")
