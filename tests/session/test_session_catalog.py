"""A session answers questions about its catalog as DuckDB does, and reads tables in the schemas of a DuckDB file."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import qoop

MADE = (
    "CREATE SCHEMA s2; CREATE TABLE s2.t2 AS SELECT range AS x, -range AS y FROM range(5);"
    "CREATE TABLE m AS SELECT 1 AS x"
)
VIEW = "CREATE VIEW v AS SELECT s2.t2.x, 'a' AS z FROM s2.t2 WHERE x > 1"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("data") / "two.duckdb")
    with duckdb.connect(path) as made:
        made.execute(MADE)
    return path


@pytest.fixture(scope="module")
def oracle() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        made.execute(f"{MADE}; {VIEW}")
        yield made


@pytest.fixture(scope="module")
def session(file: str) -> Iterator[qoop.Session]:
    with qoop.connect(slots=1, memory="500MB") as opened:
        opened.register_path(file)
        opened.sql(VIEW)
        yield opened


@pytest.mark.parametrize(
    "text",
    [
        "SELECT table_schema, table_name, table_type FROM information_schema.tables",
        "SELECT information_schema.columns.column_name FROM information_schema.columns WHERE table_name = 'v'",
        "SELECT schema_name, table_name, estimated_size, column_count FROM duckdb_tables()",
        "SELECT d.column_name, data_type, m.x FROM duckdb_columns AS d, m WHERE NOT internal",
        "SELECT view_name, sql FROM duckdb_views WHERE NOT internal",
        "SELECT nspname, relname FROM pg_catalog.pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace",
        "SELECT type, name FROM sqlite_master",
        "SELECT (SELECT count(*) FROM duckdb_tables()) AS n",
        "PRAGMA table_info('s2.t2')",
        "PRAGMA show_tables",
        "FROM s2.t2",
        "SELECT s2.t2.x, T2.y, b.x FROM S2.t2 JOIN s2.t2 AS b ON t2.x = b.x + 1",
        "SELECT 'é' AS e, x FROM s2.t2 UNION ALL FROM v",
        "DESCRIBE s2.t2",
        "SHOW ALL TABLES",
        "SUMMARIZE s2.t2",
    ],
)
def test_the_session_answers_as_duckdb_does(
    session: qoop.Session, oracle: duckdb.DuckDBPyConnection, text: str
) -> None:
    found, expected = session.sql(text), oracle.execute(text)
    assert found.columns == [name for name, *_ in expected.description or ()]
    assert sorted(map(repr, found.fetchall())) == sorted(map(repr, expected.fetchall())) != []


def test_what_is_asked_of_the_catalog_is_no_table_to_anybody(session: qoop.Session) -> None:
    assert session.sql("SELECT table_name FROM duckdb_tables()").fetchall() == [("m",), ("t2",)]
    assert set(session.tables()) == {"m", "s2.t2"}
    assert [name for (name,) in session.sql("SHOW TABLES").fetchall()] == ["m", "s2.t2", "v"]
    with pytest.raises(qoop.BindError, match=r"Tables here: m, s2.t2, v\n"):
        session.sql("FROM s2.nothing")
    assert [name for name, _ in session.describe("PRAGMA table_info('m')")][:2] == ["cid", "name"]


@pytest.mark.parametrize("create", ["CREATE TABLE {} AS SELECT 7 AS x", "CREATE VIEW {} AS SELECT 7 AS x"])
def test_a_table_or_view_hides_what_the_catalog_has_by_its_name(create: str) -> None:
    with qoop.connect(slots=1) as session, duckdb.connect() as oracle:
        for name in ("pg_class", "sqlite_master", "duckdb_databases", "PRAGMA_database_list"):
            _ = session.sql(create.format(name)), oracle.execute(create.format(name))
            for text in (f"SELECT {name}.x FROM {name}", f"FROM main.{name}", f"WITH t AS (FROM {name}) FROM t"):
                assert session.sql(text).fetchall() == oracle.sql(text).fetchall() == [(7,)]
            assert session.describe(f"FROM {name}") == (("x", "INTEGER"),)


def test_a_view_does_not_read_what_it_would_hide() -> None:
    with qoop.connect(slots=1) as session:
        with pytest.raises(qoop.CatalogError, match="would read itself"):
            session.sql("CREATE VIEW pg_tables AS SELECT tablename FROM pg_tables")
        session.sql("CREATE VIEW pg_tables AS SELECT tablename FROM pg_catalog.pg_tables")
        session.sql("CREATE TABLE m AS SELECT 1 AS x")
        assert ("m",) in session.sql("FROM pg_tables").fetchall()


def test_a_query_of_a_with_hides_the_catalog(session: qoop.Session) -> None:
    assert session.sql("WITH duckdb_databases AS (SELECT 7 AS x) FROM duckdb_databases").fetchall() == [(7,)]


def test_a_view_of_the_catalog_tells_of_it_as_it_is(session: qoop.Session) -> None:
    session.sql("CREATE OR REPLACE VIEW names AS SELECT table_name FROM information_schema.tables")
    assert session.sql("FROM names ORDER BY ALL").fetchall() == [("m",), ("names",), ("t2",), ("v",)]
    session.sql("CREATE TABLE late AS SELECT 1 AS a")
    assert ("late",) in session.sql("FROM names").fetchall()
    session.sql("DROP TABLE late; DROP VIEW names")


def test_a_table_that_is_not_there_is_named(session: qoop.Session) -> None:
    with pytest.raises(qoop.BindError, match=r"pragma_table_info.*nothing does not exist"):
        session.sql("PRAGMA table_info('nothing')")
