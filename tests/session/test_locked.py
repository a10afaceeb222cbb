"""A locked session: SQL reads registered tables and computes with their rows, and does nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qoop
from qoop.catalog.errors import ConfigError, Forbidden, QoopError, QueryError, UnknownTable
from qoop.interfaces.dbapi import ProgrammingError
from qoop.interfaces.dbapi import connect as connect_dbapi

SECRET = "the secret of the canary"


@dataclass(frozen=True)
class World:
    """folder: files that no text may read, write or remove. out: where texts may copy to."""

    session: qoop.Session
    folder: Path
    out: Path

    def untouched(self) -> None:
        """Nothing of the folder has changed, and nothing is new."""
        assert sorted(os.listdir(self.folder)) == sorted([*CANARIES, "link.csv"])
        assert (self.folder / "canary.csv").read_text() == f"secret\n{SECRET}\n"


CANARIES = ("canary.csv", "canary.json", "canary.txt", "canary.parquet", "canary.duckdb", "schema.sql", "load.sql")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder, out = tmp_path_factory.mktemp("canaries"), tmp_path_factory.mktemp("out")
    for name in ("canary.csv", "canary.txt"):
        (folder / name).write_text(f"secret\n{SECRET}\n")
    (folder / "canary.json").write_text(json.dumps({"secret": SECRET}))
    (folder / "schema.sql").write_text("CREATE TABLE imported (a INTEGER);")
    (folder / "load.sql").write_text("")
    pq.write_table(pa.table({"secret": [SECRET]}), folder / "canary.parquet")
    with duckdb.connect(str(folder / "canary.duckdb")) as database:
        database.execute("CREATE TABLE secrets AS SELECT ? AS secret", [SECRET])
    (folder / "link.csv").symlink_to(folder / "canary.csv")
    (out / "away").symlink_to(folder)
    (out / "there.csv").symlink_to(folder / "canary.csv")
    with qoop.connect(slots=2, memory="1GB", locked=True, copy_to=[out]) as session:
        session.register("t", pa.table({"a": [1, 2, 3], "path": [str(folder / "canary.csv")] * 3}))
        session.register("name with ' and \"", pa.table({"a": [1]}))
        yield World(session, folder, out)


READING = (
    "FROM read_csv('{0}/canary.csv')",
    "FROM read_csv_auto('{0}/canary.csv')",
    "FROM READ_CSV('{0}/canary.csv')",
    "FROM \"read_csv\"('{0}/canary.csv')",
    "FROM main.read_csv('{0}/canary.csv')",
    "FROM system.main.read_csv('{0}/canary.csv')",
    "FROM read_json('{0}/canary.json')",
    "FROM read_json_objects('{0}/canary.json')",
    "FROM read_ndjson('{0}/canary.json')",
    "FROM read_parquet('{0}/canary.parquet')",
    "FROM read_parquet(['{0}/canary.parquet'])",
    "FROM parquet_scan('{0}/canary.parquet')",
    "FROM parquet_metadata('{0}/canary.parquet')",
    "FROM parquet_file_metadata('{0}/canary.parquet')",
    "FROM parquet_kv_metadata('{0}/canary.parquet')",
    "FROM parquet_schema('{0}/canary.parquet')",
    "FROM parquet_bloom_probe('{0}/canary.parquet', 'secret', 'x')",
    "FROM read_text('{0}/canary.txt')",
    "FROM read_blob('{0}/canary.txt')",
    "FROM read_duckdb('{0}/canary.duckdb', table_name = 'secrets')",
    "FROM sniff_csv('{0}/canary.csv')",
    "FROM glob('{0}/*')",
    "FROM iceberg_scan('{0}')",
    "FROM delta_scan('{0}')",
    "FROM sqlite_scan('{0}/canary.duckdb', 'secrets')",
    "FROM postgres_scan('', 'public', 'secrets')",
    "FROM '{0}/canary.csv'",
    "FROM '{0}/canary.parquet'",
    "FROM '{0}/*.parquet'",
    "FROM '{0}/link.csv'",
    'FROM "{0}/canary.csv"',
    "FROM 's3://bucket/secret.parquet'",
    "FROM 'https://example.invalid/secret.csv'",
    "FROM '/proc/self/environ'",
    "FROM read_text('/proc/self/environ')",
    "FROM read_csv('/dev/stdin')",
    "FROM 'data:text/csv,a'",
    "SELECT * FROM t, '{0}/canary.csv'",
    "SELECT * FROM t JOIN '{0}/canary.csv' ON true",
    "SELECT * FROM t LEFT JOIN read_csv('{0}/canary.csv') ON true",
    "SELECT * FROM t ASOF JOIN read_text('{0}/canary.txt') AS r ON t.a >= r.size",
    "SELECT * FROM t POSITIONAL JOIN read_text('{0}/canary.txt')",
    "SELECT (SELECT content FROM read_text('{0}/canary.txt'))",
    "SELECT a FROM t WHERE a = (SELECT size FROM read_text('{0}/canary.txt'))",
    "SELECT a FROM t WHERE a IN (SELECT size FROM read_blob('{0}/canary.txt'))",
    "SELECT a FROM t WHERE EXISTS (FROM '{0}/canary.csv')",
    "SELECT a FROM t GROUP BY a HAVING a < (SELECT count(*) FROM '{0}/canary.csv')",
    "SELECT a FROM t QUALIFY row_number() OVER () <= (SELECT count(*) FROM '{0}/canary.csv')",
    "SELECT a FROM t ORDER BY (SELECT max(size) FROM read_text('{0}/canary.txt'))",
    "SELECT a FROM t LIMIT (SELECT count(*) FROM '{0}/canary.csv')",
    "SELECT a FROM t OFFSET (SELECT count(*) FROM '{0}/canary.csv')",
    "SELECT sum(a) FILTER (a > (SELECT count(*) FROM '{0}/canary.csv')) FROM t",
    "SELECT sum(a) OVER (ORDER BY (SELECT count(*) FROM '{0}/canary.csv')) FROM t",
    "SELECT CASE WHEN true THEN (SELECT content FROM read_text('{0}/canary.txt')) END",
    "SELECT [x FOR x IN [(SELECT content FROM read_text('{0}/canary.txt'))]]",
    "SELECT list_transform([1], lambda x: (SELECT content FROM read_text('{0}/canary.txt')))",
    "SELECT {{'a': (SELECT content FROM read_text('{0}/canary.txt'))}}",
    "SELECT ARRAY(SELECT content FROM read_text('{0}/canary.txt'))",
    "SELECT * FROM t, LATERAL (SELECT content FROM read_text(t.path))",
    "SELECT * FROM t, read_text(t.path)",
    "SELECT * FROM range((SELECT count(*) FROM '{0}/canary.csv'))",
    "SELECT * FROM (VALUES ((SELECT content FROM read_text('{0}/canary.txt'))))",
    "VALUES ((SELECT content FROM read_text('{0}/canary.txt')))",
    "SELECT a FROM t UNION ALL SELECT size FROM read_text('{0}/canary.txt')",
    "SELECT a FROM t EXCEPT SELECT size FROM read_text('{0}/canary.txt')",
    "WITH r AS (FROM read_text('{0}/canary.txt')) FROM r",
    "WITH r AS MATERIALIZED (FROM '{0}/canary.csv') FROM r",
    "WITH RECURSIVE r AS (SELECT content FROM read_text('{0}/canary.txt') UNION ALL FROM r WHERE false) FROM r",
    "WITH RECURSIVE r AS (SELECT 'x' AS c UNION ALL SELECT content FROM r, read_text('{0}/canary.txt')) FROM r",
    'WITH "{0}/canary.csv" AS (FROM "{0}/canary.csv") FROM "{0}/canary.csv"',
    'SELECT * FROM (WITH "{0}/canary.csv" AS (SELECT 1) FROM "{0}/canary.csv") AS x, "{0}/canary.csv"',
    "FROM (PIVOT '{0}/canary.csv' ON secret IN ('x') USING count(*))",
    "FROM (UNPIVOT '{0}/canary.csv' ON secret)",
    "SELECT * FROM '{0}/canary.csv' TABLESAMPLE 10%",
    "DESCRIBE '{0}/canary.csv'",
    "DESCRIBE FROM read_csv('{0}/canary.csv')",
    "SUMMARIZE '{0}/canary.csv'",
    "FROM (DESCRIBE '{0}/canary.csv')",
    "EXPLAIN FROM '{0}/canary.csv'",
    "EXPLAIN ANALYZE FROM read_csv('{0}/canary.csv')",
    "EXPLAIN ALTERNATIVES FROM read_csv('{0}/canary.csv')",
    "EXPLAIN HISTORY FROM read_csv('{0}/canary.csv')",
    "CREATE VIEW seen AS FROM '{0}/canary.csv'",
    "CREATE VIEW seen AS SELECT (SELECT content FROM read_text('{0}/canary.txt'))",
    "CREATE TABLE taken AS FROM '{0}/canary.csv'",
    "CREATE TABLE taken AS FROM read_blob('{0}/canary.txt')",
    "COPY (FROM '{0}/canary.csv') TO '{1}/x.csv'",
    "COPY (FROM read_text('{0}/canary.txt')) TO '{1}/x.csv'",
    "COPY \"{0}/canary.csv\" TO '{1}/x.csv'",
    "SELECT 1; FROM read_text('{0}/canary.txt')",
    "FROM query('FROM read_text(''{0}/canary.txt'')')",
    "FROM query('FROM t')",
    "FROM query_table('{0}/canary.csv')",
    "FROM query_table(['t'])",
    "FROM histogram('{0}/canary.csv', secret)",
    "FROM histogram_values('{0}/canary.csv', secret)",
    "FROM json_execute_serialized_sql(json_serialize_sql('FROM read_text(''{0}/canary.txt'')'))",
    "SELECT json_serialize_plan('FROM read_text(''{0}/canary.txt'')')",
    "PRAGMA json_execute_serialized_sql(json_serialize_sql('FROM read_text(''{0}/canary.txt'')'))",
)
"""Ways to read a file. {{0}}: the folder of the canaries, {{1}}: one that may be copied to."""

WRITING = (
    "COPY t TO '{0}/new.csv'",
    "COPY t TO '{0}/canary.csv'",
    "COPY t TO '{1}/../new.csv'",
    "COPY t TO '{1}/away/new.csv'",
    "COPY t TO '{1}/away/canary.csv'",
    "COPY t TO '{1}/there.csv'",
    "COPY t TO '{1}'",
    "COPY t TO '{1}/x' (FORMAT csv, PARTITION_BY (a), FILENAME_PATTERN '../away/{{i}}')",
    "COPY t TO '{1}/x' (FORMAT csv, PARTITION_BY (a), FILE_EXTENSION '/../away/x')",
    "COPY t TO 's3://bucket/new.csv'",
    "COPY t TO '/dev/stdout'",
    "COPY (SELECT 1) TO '{0}/new.parquet' (FORMAT parquet)",
    "COPY t FROM '{0}/canary.csv'",
    "EXPORT DATABASE '{0}/export'",
    "IMPORT DATABASE '{0}'",
    "ATTACH '{0}/canary.duckdb' AS c",
    "ATTACH '{0}/new.duckdb'",
    "DETACH memory",
    "USE memory",
    "INSTALL httpfs",
    "FORCE INSTALL httpfs",
    "LOAD httpfs",
    "LOAD '{0}/canary.duckdb'",
    "UPDATE EXTENSIONS",
    "CREATE SECRET (TYPE s3)",
    "DROP SECRET x",
    "CREATE MACRO m() AS TABLE FROM read_text('{0}/canary.txt')",
    "CREATE FUNCTION f() AS 1",
    "CREATE TYPE x AS INTEGER",
    "CREATE SEQUENCE s",
    "CREATE SCHEMA s",
    "CREATE TABLE n (a INTEGER)",
    "INSERT INTO t VALUES (1)",
    "DELETE FROM t",
    "UPDATE t SET a = 1",
    "ALTER TABLE t ADD COLUMN b INTEGER",
    "DROP TABLE t",
    "DROP TABLE IF EXISTS t",
    "DROP TABLE \"{0}/canary.csv\"",
    "CREATE OR REPLACE TABLE t AS SELECT 1",
    "CREATE OR REPLACE TABLE T AS SELECT 1",
    "PREPARE p AS FROM read_text('{0}/canary.txt')",
    "EXECUTE p",
    "CALL enable_logging(storage = 'file', storage_path = '{0}/log')",
    "FROM enable_logging(storage = 'file', storage_path = '{0}/log')",
    "FROM enable_profiling(save_location = '{0}/profile')",
    "FROM truncate_duckdb_logs()",
    "FROM force_checkpoint()",
    "FROM checkpoint()",
    "SELECT write_log('x')",
    "CHECKPOINT",
    "VACUUM",
    "BEGIN",
    "LOAD icu; SELECT 1",
)  # fmt: skip
"""Ways to write, to remove, or to bring something in."""

TELLING = (
    "FROM duckdb_settings()",
    "FROM duckdb_settings",
    "FROM duckdb_secrets()",
    "FROM duckdb_extensions()",
    "FROM duckdb_databases()",
    "FROM duckdb_tables",
    "FROM duckdb_temporary_files()",
    "FROM duckdb_memory()",
    "FROM duckdb_logs",
    "FROM which_secret('s3://x', 's3')",
    "FROM information_schema.tables",
    "FROM pg_catalog.pg_settings",
    "FROM pg_settings",
    "FROM sqlite_master",
    "FROM system.main.duckdb_settings",
    "FROM memory.main.t",
    "FROM temp.t",
    "WITH duckdb_settings AS (FROM duckdb_settings) FROM duckdb_settings",
    "SELECT * FROM (WITH duckdb_settings AS (SELECT 1) FROM duckdb_settings) AS x, duckdb_settings",
    "WITH RECURSIVE duckdb_settings AS (SELECT name FROM duckdb_settings UNION FROM duckdb_settings) FROM t",
    "PRAGMA database_size",
    "PRAGMA table_info('t')",
    "PRAGMA version",
    "FROM pragma_database_size()",
    "FROM pragma_platform()",
    "FROM pragma_user_agent()",
    "SHOW DATABASES",
    "SHOW ALL TABLES; FROM (SHOW ALL TABLES)",
    "FROM (SHOW DATABASES)",
    "SELECT getenv('HOME')",
    "SELECT version()",
    "SELECT current_setting('temp_directory')",
    "SELECT current_setting(path) FROM t",
    "SELECT current_setting('TEMP' || '_directory')",
    "SELECT main.current_setting('memory_limit')",
    "SELECT t.pg_get_viewdef(1) FROM t",
    "SELECT pg_sleep(1)",
    "SELECT sleep_ms(1)",
    "SELECT getvariable('x')",
    "SELECT nextval('s')",
    "SET threads = 1",
    "SET memory_limit = '1GB'",
    "SET slots = 1",
    "SET memory = '1GB'",
    "SET watch_machine = true",
    "RESET slots",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "SET temp_directory = '{0}'",
    "SET allowed_paths = ['{0}/canary.csv']",
    "SET home_directory = '{0}'",
    "SET search_path = 'system'",
    "SET schema = 'system'",
    "SET VARIABLE x = 1",
    "SET file_search_path = '{0}'",
    "SET log_query_path = '{0}/log'",
    "SET profile_output = '{0}/profile'",
    "SET custom_extension_repository = '{0}'",
    "SET TimeZone = (SELECT content FROM read_text('{0}/canary.txt'))",
)
"""Ways to learn of the machine, or to change how it works."""

MEANINGS = (*READING, *WRITING, *TELLING)


@pytest.mark.parametrize("text", MEANINGS)
def test_a_locked_session_refuses(world: World, text: str) -> None:
    with pytest.raises((QueryError, ConfigError, UnknownTable)) as raised:
        world.session.sql(text.format(world.folder, world.out))
    assert SECRET not in str(raised.value)
    world.untouched()


def test_what_is_refused_is_named_with_what_is_allowed(world: World) -> None:
    with pytest.raises(Forbidden, match=r"read_csv\(\) is refused; of table functions there are .*range"):
        world.session.sql("FROM read_csv('x')")
    with pytest.raises(Forbidden, match=r"'x.csv' is not a registered table. Tables here: .*t"):
        world.session.sql("FROM 'x.csv'")
    with pytest.raises(Forbidden, match=f"it may copy to files in {world.out}"):
        world.session.sql("COPY t TO 'x.csv'")
    with pytest.raises(Forbidden, match=r"current_setting.*TimeZone"):
        world.session.sql("SELECT current_setting('threads')")


@pytest.mark.parametrize("text", [text for text in READING if "EXPLAIN" not in text and ";" not in text][::7])
def test_no_door_leads_around(world: World, text: str) -> None:
    """Other ways to hand a text in."""
    text = text.format(world.folder, world.out)
    session = world.session
    cursor = connect_dbapi(session=session).cursor()
    doors = (
        session.submit, session.explain, session.alternatives, session.learn, session.describe,
        lambda text: session.explain(text, analyze=True), lambda text: session.sql(f"SELECT ?; {text}", [1]),
        lambda text: session.sql(f"FROM ({text}) AS x"), lambda text: session.submit(text, resume=True).result(),
    )  # fmt: skip
    for door in doors:
        with pytest.raises(QueryError):
            door(text)
    with pytest.raises(ProgrammingError):
        cursor.execute(text)


def test_parameters_are_values_and_open_nothing(world: World) -> None:
    path = str(world.folder / "canary.csv")
    for text in ("FROM read_csv(?)", "FROM read_csv($1)", "SELECT * FROM t, read_text(?)"):
        with pytest.raises(QueryError):
            world.session.sql(text, [path])
    with pytest.raises(QueryError):
        world.session.sql("FROM ?", [path])
    assert world.session.sql("SELECT ?", [f"' UNION SELECT content FROM read_text('{path}') --"]).fetchall() != []


ALLOWED = (
    ("SELECT sum(a) FROM t", 6),
    ("SELECT sum(a) FROM main.T", 6),
    ("SELECT max(a) FROM \"name with ' and \"\"\"", 1),
    ("WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 3) SELECT max(i) FROM r", 3),
    ("WITH t AS (SELECT 7 AS a) SELECT a FROM t", 7),
    ("WITH a AS (SELECT 4 AS x), b AS (FROM a) SELECT (SELECT x FROM b)", 4),
    ("SELECT count(*) FROM range(5)", 5),
    ("SELECT count(*) FROM generate_series(1, 5), t", 15),
    ("SELECT sum(u) FROM unnest([1, 2]) AS x(u)", 3),
    ("SELECT count(*) FROM json_each('[1, 2]')", 2),
    ("SELECT current_setting('default_order')", "ASCENDING"),
    ("SELECT count(*) FROM (DESCRIBE t)", 2),
    ("SELECT count(*) FROM (SUMMARIZE t)", 2),
    ("SELECT sum(\"1\") FROM (PIVOT t ON a IN (1) USING count(*))", 1),
    ("SELECT 'FROM read_csv(''x'')'", "FROM read_csv('x')"),
    ("SELECT a FROM t WHERE path LIKE '%.csv' LIMIT 1", 1),
)  # fmt: skip


@pytest.mark.parametrize(("text", "answer"), ALLOWED)
def test_a_locked_session_answers_what_reads_registered_tables(world: World, text: str, answer: object) -> None:
    assert world.session.sql(text).fetchone()[0] == answer  # type: ignore[index]


def test_views_tables_options_and_copies_of_its_own(world: World) -> None:
    session = world.session
    session.sql("CREATE VIEW big AS SELECT a FROM t WHERE a > 1")
    session.sql("CREATE OR REPLACE TABLE made AS FROM big")
    session.sql("CREATE OR REPLACE TABLE made AS SELECT a + 1 AS a FROM made")
    assert session.sql("SELECT sum(a) FROM made").fetchall() == [(7,)]
    session.sql("COPY made TO '{}'".format(world.out / "made.csv"))
    assert (world.out / "made.csv").read_text() == "a\n3\n4\n"
    session.sql("DROP TABLE made; DROP VIEW big; SET TimeZone = 'UTC'; RESET TimeZone")
    world.untouched()


def test_without_folders_nothing_is_copied(tmp_path: Path) -> None:
    with qoop.connect(slots=1, locked=True) as session, pytest.raises(Forbidden, match="it may copy to no folder"):
        session.sql(f"COPY (SELECT 1) TO '{tmp_path / 'x.csv'}'")
    assert list(tmp_path.iterdir()) == []


def test_the_program_itself_is_trusted(tmp_path: Path) -> None:
    """It registers files by their path, changes the size, and writes results."""
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "a.parquet")
    with qoop.connect(slots=1, memory="1GB", locked=True) as session:
        session.register("a", tmp_path / "a.parquet")
        session.resize(slots=2)
        result = session.sql("SELECT sum(a) FROM a")
        result.copy_to(tmp_path / "out.csv")
    assert result.fetchall() == [(3,)]
    assert (tmp_path / "out.csv").exists()


def test_a_lock_comes_from_the_environment_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("QOOP_LOCKED", "on")
    monkeypatch.setenv("QOOP_COPY_TO", f"{tmp_path}{os.pathsep}{tmp_path / 'other'}")
    with qoop.connect(slots=1) as session:
        assert session.config.copy_to == (tmp_path.resolve(), tmp_path.resolve() / "other")
        with pytest.raises(Forbidden):
            session.sql("FROM read_text('/etc/hostname')")
        session.sql(f"COPY (SELECT 1 AS a) TO '{tmp_path / 'x.csv'}'")
    assert (tmp_path / "x.csv").read_text() == "a\n1\n"


def test_copy_to_a_bucket_installs_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with qoop.connect(slots=1) as session, pytest.raises(QoopError, match=r"httpfs, which is not installed.*INSTALL"):
        session.sql("COPY (SELECT 1) TO 's3://bucket/x.csv'")
    assert list(tmp_path.rglob("*.duckdb_extension*")) == []
