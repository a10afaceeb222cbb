"""Schemas that texts create: their tables and views are read, changed and shown as DuckDB does it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import qoop

MADE = (
    "CREATE SCHEMA s; CREATE SCHEMA IF NOT EXISTS s; CREATE SCHEMA empty;"
    "CREATE TABLE s.t AS SELECT range AS x, 'n' || range AS name FROM range(6);"
    "CREATE TABLE memory.s.made (x BIGINT, day DATE); CREATE TABLE main.t AS SELECT 70 AS x, 'main' AS name;"
    "INSERT INTO s.made SELECT x, DATE '2024-01-01' + x::INTEGER FROM s.t; INSERT INTO S.T VALUES (100, 'late');"
    "UPDATE s.t SET name = (SELECT max(name) FROM main.t) WHERE x IN (SELECT x + 1 FROM s.made WHERE x > 3);"
    "DELETE FROM memory.s.made WHERE x = 0;"
    "MERGE INTO s.made USING s.t ON made.x = t.x WHEN MATCHED THEN UPDATE SET day = NULL WHEN NOT MATCHED THEN "
    "INSERT VALUES (t.x, NULL);"
    "CREATE VIEW s.v AS SELECT max(x) AS most FROM s.t; CREATE VIEW s.viewed AS FROM t;"
    "CREATE VIEW over AS SELECT most + 1 AS more FROM s.v;"
    "CREATE TABLE few AS SELECT range AS x FROM range(200); DELETE FROM few WHERE x IN (SELECT most FROM s.v);"
    "DELETE FROM few WHERE x IN (SELECT more FROM over);"
    "USE s; CREATE TABLE within AS SELECT x FROM t WHERE x < 2; CREATE VIEW seen AS SELECT count(*) AS n FROM t;"
    "UPDATE within SET x = x + (SELECT max(x) FROM t); USE memory"
)  # fmt: skip


@pytest.fixture(scope="module")
def session() -> Iterator[qoop.Session]:
    with qoop.connect(slots=1, memory="500MB") as made:
        made.sql(MADE)
        yield made


@pytest.fixture(scope="module")
def oracle() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        made.execute(MADE)
        yield made


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM s.t",
        "SELECT memory.s.t.x, made.day FROM memory.s.t JOIN s.made USING (x)",
        "FROM t",
        "FROM main.t UNION ALL FROM S.T",
        "FROM s.made",
        "SELECT most, more FROM s.v, over",
        "FROM s.within",
        "FROM s.seen",
        "FROM s.viewed",
        "WITH t AS (SELECT 1 AS one) SELECT t.one, b.x FROM t, s.t AS b",
        "DESCRIBE s.t",
        "FROM query('SELECT max(x) AS m FROM s.t; -- all')",
        "SELECT q.x FROM query_table(['s.t', 'main.t']) AS q WHERE q.x > 4",
        "FROM query('FROM query(''SELECT 5 AS five'')')",
        "SHOW SCHEMAS",
        "SHOW TABLES FROM s",
        "SHOW TABLES FROM main",
        "SELECT table_schema, table_name, table_type FROM information_schema.tables",
        "SELECT schema_name FROM information_schema.schemata WHERE catalog_name = 'memory'",
        "SELECT schema_name, table_name, column_count FROM duckdb_tables()",
        "SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal",
    ],
)
def test_it_is_as_in_duckdb(session: qoop.Session, oracle: duckdb.DuckDBPyConnection, text: str) -> None:
    found, expected = session.sql(text), oracle.execute(text)
    assert found.columns == [name for name, *_ in expected.description or ()]
    assert sorted(map(repr, found.fetchall())) == sorted(map(repr, expected.fetchall())) != []


def test_temporary_tables_have_the_names_that_duckdb_gives_them() -> None:
    made = (
        "CREATE TEMP TABLE t AS FROM range(4) r(b); CREATE TEMP TABLE temp.u AS SELECT 2 AS b;"
        "INSERT INTO temp.t SELECT b + 9 FROM temp.main.u; UPDATE temp.main.t SET b = -b WHERE temp.t.b = 3;"
        "DELETE FROM temp.t WHERE b IN (FROM temp.u); ALTER TABLE temp.t ADD COLUMN c INTEGER"
    )
    texts = (
        "SELECT temp.t.b, t.c, temp.main.u.b FROM temp.t JOIN temp.main.u ON t.b < u.b ORDER BY ALL",
        "SELECT x.b, temp.b FROM temp.t AS x, temp.u AS temp ORDER BY ALL",
    )
    with qoop.connect(slots=1, memory="500MB") as session, duckdb.connect() as oracle:
        for run in (session.sql, oracle.execute):
            run(made)
        for text in texts:
            assert session.sql(text).fetchall() == oracle.execute(text).fetchall() != []
        with pytest.raises(qoop.BindError, match="nothing does not exist"):
            session.sql("FROM temp.nothing")
        for text in ("CREATE TABLE temp.v", "CREATE OR REPLACE VIEW temp.main.v", "CREATE TEMP TABLE memory.v"):
            with pytest.raises(duckdb.Error):
                oracle.execute(f"{text} AS SELECT 1")
            with pytest.raises(qoop.QueryError, match="CREATE TEMP TABLE v"):
                session.sql(f"{text} AS SELECT 1")
        session.sql("DROP TABLE temp.t")
        with pytest.raises(qoop.BindError, match="t does not exist"):
            session.sql("FROM t")


def test_use_says_which_schema_names_are_of(session: qoop.Session) -> None:
    assert session.sql("USE s; SELECT count(*) FROM t").fetchall() == [(7,)]
    assert session.sql("SHOW SCHEMAS").fetchall() == [
        ("memory", "empty", False), ("memory", "main", False), ("memory", "s", True)
    ]  # fmt: skip
    with pytest.raises(qoop.CatalogError, match="s is in use: USE memory first"):
        session.sql("DROP SCHEMA s CASCADE")
    assert session.sql("USE main; SELECT name FROM t").fetchall() == [("main",)]


@pytest.mark.parametrize("staged", [None, True])
@pytest.mark.parametrize("used", ["USE s", "SET schema = 'S'", "SET search_path TO 's'", "USE d", "USE d.z"])
def test_what_texts_say_of_the_schema_in_use_is_as_in_duckdb(tmp_path: Path, used: str, staged: bool | None) -> None:
    path = tmp_path / "d.duckdb"
    with duckdb.connect(str(path)) as made:
        made.execute("CREATE SCHEMA z; CREATE TABLE z.t AS SELECT 1 AS a; CREATE TABLE t AS SELECT 2 AS a")
    began = (
        f"CREATE SCHEMA s; ATTACH '{path}' AS d (READ_ONLY); CREATE TABLE s.t AS SELECT 6 AS current_schema;"
        "CREATE MACRO in_use() AS current_schema(); CREATE VIEW v AS SELECT current_schema() FROM range(2);"
    )
    texts = [
        "SELECT current_schema(), current_schemas(true), current_schemas(false) AS f, current_database()",
        "SELECT 'é', Current_Schema ( ) || pg_catalog.current_schema(), 'current_schema()', [x || current_schema() FOR "
        "x IN ['é']]",
        "SELECT current_schema, current_catalog, current_setting('schema'), current_setting('Search_Path')",
        "SELECT in_search_path('memory', 's'), in_search_path('d', 'main'), in_search_path('d', 'z')",
        "SELECT current_schema() AS x, count(*) FROM range(10) t(a) WHERE current_database() <> '' GROUP BY 1",
        "SELECT current_schema FROM (SELECT 1) q(current_schema)",
        "SELECT q.current_schema, current_schema FROM (SELECT 1 AS current_schema) q",
        "SELECT current_schema FROM memory.s.t",
        "DESCRIBE SELECT current_schema()",
        *(() if "d" in used.split()[1] else ("SELECT in_use(), (SELECT current_schema())", "FROM main.v")),
    ]
    with qoop.connect(slots=1, memory="300MB", staged=staged) as session, duckdb.connect() as oracle:
        session.sql(began + used)
        oracle.execute(began + used)
        for text in texts:
            expected = oracle.execute(text)
            got = session.sql(text)
            assert list(got.columns) == [name for name, *_ in expected.description]
            assert got.fetchall() == expected.fetchall()
        for call in ("in_search_path('d', x)", "current_schemas(len(range(300000000)) = 0)"):
            with pytest.raises(qoop.BindError, match="takes constants alone"):
                session.sql(f"SELECT {call} FROM (VALUES ('s')) AS t(x)")
        session.sql("RESET schema")
        assert session.sql("SELECT current_schema()").fetchall() == [("main",)]


def test_a_temporary_table_is_found_whatever_schema_is_in_use() -> None:
    texts = (
        "CREATE SCHEMA s; USE s; CREATE TEMP TABLE t AS SELECT 1 AS x; CREATE TEMP VIEW v AS SELECT x + 1 AS y FROM t;"
        "USE main; CREATE OR REPLACE TEMP TABLE t AS FROM range(2) r(x); ALTER TABLE t RENAME TO u; USE s;"
        "INSERT INTO u VALUES (7); CREATE TEMP TABLE t AS FROM u"
    )
    with qoop.connect(slots=1, memory="500MB") as made, duckdb.connect() as oracle:
        made.sql(texts)
        oracle.execute(texts)
        for schema in ("main", "s"):
            text = f"USE {schema}; SELECT * FROM t, u, v ORDER BY ALL"
            assert made.sql(text).fetchall() == oracle.execute(text).fetchall() != []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("CREATE SCHEMA s", "there is a schema s already"),
        ("CREATE SCHEMA main", "there is a schema main already"),
        ("CREATE SCHEMA memory", "a schema cannot be called memory"),
        ('CREATE SCHEMA "a.b"', "a schema cannot be called a.b"),
        ("CREATE SCHEMA other.s", "a schema has one name, in the database memory"),
        ("CREATE SCHEMA dotted", "names of tables begin with dotted. already"),
        ("CREATE TABLE nope.t (a INTEGER)", "there is no schema nope in this session; there are main, empty, s"),
        ("CREATE TABLE nope.t AS SELECT 1", "there is no schema nope"),
        ("INSERT INTO nope.t VALUES (1)", "there is no schema nope"),
        ("DROP TABLE nope.t", "there is no schema nope"),
        ("DROP TABLE s.nothing", "there is no table s.nothing"),
        ("DROP SCHEMA s", "schema s is not empty: it has s.made, s.seen"),
        ("DROP SCHEMA main", "there is no schema main in this session"),
        ("DROP SCHEMA IF EXISTS main CASCADE", "there is no schema main in this session"),
        ("DROP SCHEMA nope", "there is no schema nope"),
        ('CREATE TABLE "s.x" AS SELECT 1', "s is a schema"),
        ("CREATE VIEW s.t AS SELECT 1", "there is a table s.t already"),
        ("SHOW TABLES FROM nope", "there is no schema nope"),
        ("USE nope", "there is no database nope; there are memory, and schemas empty, s"),
        ("ATTACH 'x.duckdb' AS s", "there is a schema s"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_reported(session: qoop.Session, text: str, wrong: str) -> None:
    session.sql('CREATE OR REPLACE TABLE "dotted.name" AS SELECT 1 AS a')
    with pytest.raises(qoop.QoopError) as raised:
        session.sql(text)
    assert wrong in str(raised.value)
    session.sql('DROP TABLE "dotted.name"; DROP TABLE IF EXISTS nope.t')


def test_a_schema_goes_with_all_that_is_in_it() -> None:
    with qoop.connect(slots=1, memory="500MB") as session:
        session.sql("CREATE SCHEMA a; CREATE TABLE a.t AS SELECT 1 AS x; CREATE VIEW a.v AS FROM a.t")
        session.sql("DROP SCHEMA a CASCADE; DROP SCHEMA IF EXISTS a")
        assert session.sql("SHOW TABLES").fetchall() == [] and list(session.tables()) == []
        session.sql("CREATE SCHEMA a; CREATE TABLE a.t AS SELECT 2 AS x")
        assert session.sql("FROM a.t").fetchall() == [(2,)]


def test_schemas_and_their_tables_outlive_the_session(tmp_path: Path) -> None:
    with qoop.connect(slots=1, memory="500MB", tables=tmp_path) as session:
        session.sql(
            "CREATE SCHEMA S; CREATE SCHEMA empty; CREATE TABLE s.t AS SELECT 1 AS x; INSERT INTO s.t VALUES (2)"
        )
    with qoop.connect(slots=1, memory="500MB", tables=tmp_path) as session:
        assert session.sql("INSERT INTO s.t VALUES (3); SELECT sum(x) FROM s.t").fetchall() == [(6,)]
        assert [name for _, name, _ in session.sql("SHOW SCHEMAS").fetchall()] == ["S", "empty", "main"]
        session.sql("DROP SCHEMA empty; DROP TABLE s.t; DROP SCHEMA s")
    assert list(tmp_path.iterdir()) == []


def test_a_locked_session_reads_schemas_and_makes_none(tmp_path: Path) -> None:
    with qoop.connect(slots=1, memory="500MB", tables=tmp_path) as session:
        session.sql("CREATE SCHEMA s; CREATE TABLE s.t AS SELECT 5 AS x")
    with qoop.connect(slots=1, memory="500MB", tables=tmp_path, locked=True) as session:
        assert session.sql("FROM s.t").fetchall() == [(5,)]
        for text in ("CREATE SCHEMA other", "DROP SCHEMA s CASCADE"):
            with pytest.raises(qoop.Forbidden, match="makes no schemas"):
                session.sql(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT (SELECT s.t.a FROM s.t WHERE s.t.a < z.t.a) AS x FROM z.t",
        "SELECT s.t.a, z.t.b FROM s.t JOIN z.t ON s.t.a < z.t.a",
        "SELECT main.t.a, s.t.a FROM main.t, s.t",
        "SELECT * FROM s.t, z.t, t",
        "SELECT s.t.a FROM s.t UNION ALL SELECT t.a FROM z.t",
        "SELECT t.a FROM s.t UNION ALL SELECT t.b FROM z.t",
        "SELECT t.a FROM z.t WHERE t.a IN (SELECT s.t.a + 2 FROM s.t)",
    ],
)
def test_tables_of_one_name_in_several_schemas_are_told_apart(text: str) -> None:
    make = """CREATE SCHEMA s; CREATE SCHEMA z; CREATE TABLE s.t AS SELECT 1 AS a; CREATE TABLE t AS SELECT 2 AS a;
        CREATE TABLE z.t AS SELECT 3 AS a, 4 AS b"""
    with qoop.connect(slots=1, memory="300MB") as session, duckdb.connect() as oracle:
        for statement in make.split(";"):
            session.sql(statement)
            oracle.execute(statement)
        found, expected = session.sql(text), oracle.sql(text)
        assert (found.columns, sorted(found.fetchall())) == (expected.columns, sorted(expected.fetchall()))
        assert len(found) > 0
