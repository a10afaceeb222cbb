"""All statements that DuckDB parses, and all options of COPY: each works as in DuckDB, or its error names it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

import qoop
from qoop.catalog.duckdb_introspection import type_of
from qoop.session.session import Session

TABLES = """
CREATE TABLE t AS SELECT 7 AS a, 'x' AS b UNION ALL SELECT 8, 'y';
CREATE TABLE u AS SELECT 8 AS a, 'z' AS b; CREATE VIEW v AS FROM t"""
ROWS = "FROM t ORDER BY ALL"

QUERIES = (
    "SELECT a + 1 FROM t ORDER BY 1", "VALUES (1), (2)", "TABLE u", "FROM v ORDER BY a", "(SELECT 1)",
    "WITH q AS (FROM t) SELECT max(a) FROM q", "PIVOT t ON a USING count(*) GROUP BY b ORDER BY b",
    "UNPIVOT u ON a", "DESCRIBE t", "DESC t", "SHOW t", "SUMMARIZE u", "SHOW TABLES", "SHOW ALL TABLES",
    "SHOW ALL", "DESCRIBE", "SHOW",
    "SHOW TABLES FROM main", "SHOW DATABASES", "CALL range(3)", "PRAGMA version", "PRAGMA show_tables",
    "PRAGMA show_databases", "PRAGMA show_tables_expanded", "PRAGMA table_info('t')", "PRAGMA table_info(t)",
    "PRAGMA platform", "PRAGMA collations", "PREPARE p AS SELECT 5", "PREPARE p AS SELECT $1 + 1; EXECUTE p(4)",
    "PREPARE p AS SELECT 5; DEALLOCATE p", "SET VARIABLE n = 3; SELECT getvariable('n')",
    "SET VARIABLE n = 3; RESET VARIABLE n",
)  # fmt: skip
"""Statements whose answers are DuckDB's. SUMMARIZE and the like have no parts that hang on chance here."""

CHANGES = (
    "INSERT INTO t VALUES (9, 'w')", "INSERT INTO t DEFAULT VALUES", "INSERT INTO t BY NAME SELECT 'n' AS b",
    "WITH q AS (SELECT 1 AS a, 'q' AS b) INSERT INTO t FROM q",
    "WITH q(a) AS (SELECT 1), r AS (FROM q) INSERT INTO t (a) WITH s AS (FROM r) FROM s",
    "WITH q AS (SELECT 1 AS a) INSERT INTO t VALUES ((SELECT a FROM q), 'v')",
    "UPDATE t SET b = 'new' WHERE a = 8", "WITH q AS (FROM u) UPDATE t SET b = q.b FROM q WHERE q.a = t.a",
    "WITH RECURSIVE q(n) AS (SELECT 7 UNION SELECT n + 1 FROM q WHERE n < 8) UPDATE t SET b = 'r' FROM q WHERE n = t.a",
    "WITH update AS MATERIALIZED (FROM u) UPDATE t SET b = update.b FROM update WHERE update.a = t.a",
    "DELETE FROM t WHERE a = 8", "DELETE FROM t USING u WHERE u.a = t.a",
    "WITH q AS (FROM u) DELETE FROM t USING q WHERE q.a = t.a", "TRUNCATE u", "TRUNCATE TABLE t",
    "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN UPDATE SET b = u.b",
    "WITH q AS (FROM u) MERGE INTO t USING q ON t.a = q.a WHEN MATCHED THEN DELETE",
    "ALTER TABLE t ADD COLUMN c INTEGER", "ALTER TABLE t ADD COLUMN IF NOT EXISTS a INTEGER", "ALTER TABLE t DROP b",
    "ALTER TABLE t RENAME COLUMN b TO c", "ALTER TABLE t RENAME b TO c", "ALTER TABLE t ALTER a TYPE DOUBLE",
    "ALTER TABLE t ALTER COLUMN a SET DATA TYPE VARCHAR USING a || b", "ALTER TABLE IF EXISTS nothing DROP COLUMN a",
    "ALTER TABLE u RENAME TO w; INSERT INTO t FROM w", "ALTER TABLE IF EXISTS nothing RENAME TO w",
    "CREATE TABLE n AS FROM t; INSERT INTO t FROM n", "CREATE TABLE n (a INTEGER); DROP TABLE n",
    "CREATE OR REPLACE TABLE t AS SELECT 3 AS c", "CREATE TEMP TABLE n AS SELECT 1", "CREATE VIEW n AS SELECT 1",
    "CREATE SCHEMA s; CREATE TABLE s.t AS FROM t; DELETE FROM t", "CREATE SCHEMA s; DROP SCHEMA s",
    "CREATE SCHEMA s; CREATE TABLE s.n AS SELECT 5 AS a; ALTER TABLE s.n RENAME TO m; INSERT INTO t (a) FROM s.m",
    "CREATE MACRO m(x) AS x + 1; INSERT INTO t (a) SELECT m(1)", "CREATE FUNCTION m(x) AS x; DROP FUNCTION m",
    "DROP VIEW v", "BEGIN; DELETE FROM t; COMMIT", "START TRANSACTION; INSERT INTO t (a) VALUES (1); END",
    "SET threads = 2", "SET GLOBAL threads = 2", "RESET threads", "PRAGMA threads = 2", "PRAGMA memory_limit='1GB'",
    "SET TimeZone = 'UTC'", "SET TIME ZONE 'UTC'; INSERT INTO t (b) SELECT current_setting('TimeZone')",
    "USE main", "CREATE SCHEMA s; SET SCHEMA 's'; CREATE TABLE x AS SELECT 1 AS a; INSERT INTO main.t (a) FROM s.x",
)  # fmt: skip
"""Statements after which the table `t` is DuckDB's."""

REFUSED = {
    "CHECKPOINT": "CHECKPOINT", "FORCE CHECKPOINT": "FORCE CHECKPOINT", "CHECKPOINT memory": "CHECKPOINT",
    "ANALYZE": "ANALYZE", "ANALYZE t": "ANALYZE", "VACUUM": "VACUUM", "VACUUM ANALYZE t": "VACUUM",
    "COMMENT ON TABLE t IS 'x'": "COMMENT", "COPY FROM DATABASE a TO b": "COPY FROM DATABASE",
    "UPDATE EXTENSIONS": "UPDATE EXTENSIONS", "UPDATE EXTENSIONS (json)": "UPDATE EXTENSIONS",
    "ALTER VIEW v RENAME TO w": "ALTER VIEW", "ALTER SEQUENCE s OWNED BY t": "ALTER SEQUENCE",
    "ALTER TABLE t ADD PRIMARY KEY (a)": "PRIMARY KEY", "ALTER TABLE t ALTER a SET DEFAULT 3": "DEFAULT",
    "ALTER TABLE t ADD COLUMN c INTEGER DEFAULT 3": "DEFAULT", "ALTER TABLE t ALTER a SET NOT NULL": "NOT NULL",
    "ALTER TABLE t ALTER b TYPE VARCHAR COLLATE NOCASE": "COLLATE", "ALTER TABLE v DROP COLUMN a": "v is a view",
    "INSERT OR REPLACE INTO t VALUES (1, 'x')": "INSERT OR REPLACE",
    "INSERT OR IGNORE INTO t FROM u": "INSERT OR IGNORE",
    "INSERT INTO t FROM u ON CONFLICT DO NOTHING": "ON CONFLICT",
    "INSERT INTO t FROM u ON CONFLICT (a) DO UPDATE SET b = 'x'": "ON CONFLICT",
    "INSERT INTO t VALUES (1, 'x') RETURNING a": "RETURNING", "CREATE INDEX i ON t (a)": "CREATE INDEX",
    "CREATE UNIQUE INDEX i ON t (a)": "CREATE INDEX", "CREATE SEQUENCE s": "CREATE SEQUENCE",
    "CREATE OR REPLACE TEMP SEQUENCE s": "CREATE SEQUENCE", "CREATE TYPE m AS ENUM ('a')": "CREATE TYPE",
    "CREATE SECRET x (TYPE s3)": "CREATE SECRET", "CREATE PERSISTENT SECRET x (TYPE s3)": "CREATE SECRET",
    "DROP INDEX i": "DROP INDEX", "DROP SEQUENCE s": "DROP SEQUENCE", "DROP TYPE m": "DROP TYPE",
    "DROP SECRET x": "DROP SECRET", "EXPLAIN INSERT INTO t FROM u": "not of INSERT",
    "EXPLAIN (FORMAT json) SELECT 1": "(FORMAT json)", "ATTACH ':memory:' AS m": ":memory:",
    "DETACH nothing": "nothing", "PRAGMA enable_profiling": "PRAGMA enable_profiling",
    "PRAGMA enable_progress_bar": "PRAGMA enable_progress_bar", "PRAGMA force_checkpoint": "PRAGMA force_checkpoint",
    "PRAGMA import_database('x')": "PRAGMA import_database", "PRAGMA database_size": "database_size",
    "PRAGMA storage_info('t')": "storage_info", "PRAGMA explain_output = 'all'": "explain_output",
    "PRAGMA nothing": "PRAGMA nothing", "SET nothing = 1": "nothing", "SET search_path = 's,main'": "one schema",
    "COPY t TO 'x.csv' (FORMAT csv, RETURN_FILES)": "RETURN_FILES", "EXECUTE nothing": "nothing",
    "IMPORT DATABASE 'no such folder'": "no such folder", "COMMIT": "transaction", "ROLLBACK": "transaction",
    "LOAD nothing_of_that_name": "nothing_of_that_name",
}  # fmt: skip
"""Statements with what their error says."""

ELSEWHERE = {
    "COPY": "the tests below", "EXPORT": "test_export.py", "ATTACH": "test_attached.py", "LOAD": "test_extensions.py",
    "EXPLAIN": "test_explaining.py",
}  # fmt: skip
NEVER = {
    "INVALID", "ANALYZE", "VARIABLE_SET", "CREATE_FUNC", "RELATION", "EXTENSION", "LOGICAL_PLAN", "MULTI",
    "COPY_DATABASE",
}  # fmt: skip
"""Kinds that no text has in one of the kernels: DuckDB makes them itself, or keeps the name of old."""


Both = tuple[Session, duckdb.DuckDBPyConnection]


@contextmanager
def opened() -> Iterator[Both]:
    with qoop.connect(slots=2, memory="500MB") as session, duckdb.connect() as oracle:
        for text in (TABLES, COPIED):
            session.sql(text)
            oracle.execute(text)
        oracle.execute("SET threads = 1")
        yield session, oracle


@pytest.fixture(scope="module")
def both() -> Iterator[Both]:
    """For statements that leave the tables as they are."""
    with opened() as found:
        yield found


@pytest.fixture
def own() -> Iterator[Both]:
    with opened() as found:
        yield found


def kinds(text: str) -> set[str]:
    if text.startswith("PRAGMA"):  # DuckDB runs some while it parses them
        return {"PRAGMA"}
    return {type_of(statement).name for statement in duckdb.extract_statements(text)}


def test_every_kind_that_the_parser_has_is_here() -> None:
    found = {kind for text in (*QUERIES, *CHANGES, *REFUSED) if "IMPORT" not in text for kind in kinds(text)}
    assert set(duckdb.StatementType.__members__) - NEVER - set(ELSEWHERE) <= found


@pytest.mark.parametrize("text", QUERIES)
def test_a_query_answers_as_duckdb(text: str, both: Both) -> None:
    session, oracle = both
    expected = oracle.execute(text)
    assert session.sql(text).fetchall() == expected.fetchall()


@pytest.mark.parametrize("text", CHANGES)
def test_a_change_is_that_of_duckdb(text: str, own: Both) -> None:
    session, oracle = own
    answer, expected = session.sql(text).fetchall(), oracle.execute(text).fetchall()
    assert answer == expected or kinds(text) & {"SET", "CREATE", "PRAGMA"}
    assert session.sql("DESCRIBE t").fetchall() == oracle.execute("DESCRIBE t").fetchall()
    assert session.sql(ROWS).fetchall() == oracle.execute(ROWS).fetchall()
    if "SCHEMA" not in text:  # SHOW TABLES lists the tables of all schemas here
        assert session.sql("SHOW TABLES").fetchall() == oracle.execute("SHOW TABLES").fetchall()


@pytest.mark.parametrize("text", REFUSED)
def test_what_a_session_does_not_do_is_refused_by_its_own_name(text: str, both: Both) -> None:
    session, _ = both
    before = session.sql(ROWS).fetchall()
    with pytest.raises(qoop.QoopError) as error:
        session.sql(text)
    assert REFUSED[text] in str(error.value)
    assert session.sql(ROWS).fetchall() == before != []


COPIED = """CREATE TABLE c AS SELECT range::INTEGER AS a, CASE WHEN range <> 2 THEN 'x' || range END AS b,
DATE '2020-01-02' AS d FROM range(3)"""
CSV = (
    "", "HEADER", "HEADER false", "DELIM ';'", "DELIMITER '|'", "SEP '|'", "QUOTE ''''", "ESCAPE '!'", "NULL 'x'",
    "NULLSTR 'x'", "FORCE_QUOTE (b)", "FORCE_QUOTE *", "DATEFORMAT '%d.%m.%Y'", "DATE_FORMAT '%d.%m.%Y'",
    "TIMESTAMPFORMAT '%d.%m.%Y'", "TIMESTAMP_FORMAT '%d'", "ENCODING 'UTF-8'", "COMPRESSION gzip", "COMPRESSION zstd",
    "PREFIX '[', SUFFIX ']', NEW_LINE ','", "NEW_LINE '\\r\\n'", "FORCE_NOT_NULL (b)", "SAMPLE_SIZE 5", "NOTHING 5",
    "USE_TMP_FILE false", "OVERWRITE_OR_IGNORE", "OVERWRITE true", "APPEND", "PER_THREAD_OUTPUT",
    "FILE_SIZE_BYTES '1MB'", "PARTITION_BY (a)", "PARTITION_BY (a), WRITE_PARTITION_COLUMNS",
    "PARTITION_BY (a), FILENAME_PATTERN 'x_{i}'", "PARTITION_BY (a), FILE_EXTENSION 'txt'",
    "PARTITION_BY (a), HIVE_FILE_PATTERN false", "RETURN_FILES", "RETURN_STATS", "WRITE_EMPTY_FILE false",
    "PRESERVE_ORDER",
)  # fmt: skip
PARQUET = (
    "", "COMPRESSION zstd", "CODEC zstd", "COMPRESSION zstd, COMPRESSION_LEVEL 5", "COMPRESSION brotli",
    "COMPRESSION lz4", "COMPRESSION nothing", "ROW_GROUP_SIZE 1000", "CHUNK_SIZE 1000", "ROW_GROUP_SIZE_BYTES 100000",
    "ROW_GROUPS_PER_FILE 1", "FIELD_IDS {a: 1, b: 2}", "FIELD_IDS auto", "KV_METADATA {me: 'x'}", "PARQUET_VERSION v2",
    "DICTIONARY_SIZE_LIMIT 10", "DICTIONARY_COMPRESSION_RATIO_THRESHOLD 2", "STRING_DICTIONARY_PAGE_SIZE_LIMIT 1000",
    "BLOOM_FILTER_FALSE_POSITIVE_RATIO 0.5", "WRITE_BLOOM_FILTER false", "ENCRYPTION_CONFIG {footer_key: 'k'}",
    "GEOPARQUET_VERSION 'V1'", "SHREDDING {b: 'VARCHAR'}", "RETURN_STATS", "RETURN_FILES", "BATCH_SIZE 10",
)  # fmt: skip
JSON = ("", "ARRAY", "ARRAY true", "COMPRESSION gzip", "DATEFORMAT '%d.%m.%Y'", "TIMESTAMPFORMAT '%d'", "NOTHING 1")
OPTIONS = (
    *(f"FORMAT csv, {option}" for option in CSV), *(f"FORMAT parquet, {option}" for option in PARQUET),
    *(f"FORMAT json, {option}" for option in JSON), "FORMAT xlsx", "FORMAT arrow", "FORMAT nothing", "FORMAT blob",
    "FORMAT 'csv'",
)  # fmt: skip
OPTIONS_ALONE = ("", "CSV HEADER", "(DELIMITER ';')", "WITH (FORMAT parquet)", "WITH (HEADER false)", "DELIMITER '|'")
READ = (
    "", "(FORMAT csv)", "(HEADER true)", "(FORMAT csv, DELIM ',')", "(NULLSTR 'x1')", "(SKIP 1)", "(AUTO_DETECT false)",
    "(FORCE_NOT_NULL (b))", "(ENCODING 'UTF-8')", "(IGNORE_ERRORS)", "(DATEFORMAT '%Y-%m-%d')", "(NOTHING 5)",
    "(FORMAT parquet)", "(FORMAT nothing)", "(PARTITION_BY (a))", "(ALLOW_QUOTED_NULLS false)", "(SAMPLE_SIZE 1)",
)  # fmt: skip


@pytest.mark.parametrize("option", [*(f"({option.removesuffix(', ')})" for option in OPTIONS), *OPTIONS_ALONE])
def test_an_option_of_copy_works_or_is_refused_by_its_own_name(option: str, tmp_path: Path, both: Both) -> None:
    session, oracle = both
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    try:
        expected = oracle.execute(f"COPY (FROM c ORDER BY a) TO '{theirs}' {option}").fetchall()
        fault = "RETURN_"
    except duckdb.Error as error:
        expected, fault = None, "RETURN_" if "RETURN_" in option else str(error)
    if expected != [(3,)]:  # DuckDB refuses it, or answers with something else
        with pytest.raises(qoop.QueryError, match=re.escape(fault)):
            session.sql(f"COPY (FROM c ORDER BY a) TO '{ours}' {option}")
        assert not ours.exists()
        return
    assert session.sql(f"COPY (FROM c ORDER BY a) TO '{ours}' {option}").fetchall() == expected
    assert contents(ours) == contents(theirs) != {}


def contents(path: Path) -> dict[str, object]:
    """The files by name; of Parquet the rows, since DuckDB 2 knows of its own tables which columns hold no NULL."""
    files = [path] if path.is_file() else [found for found in sorted(path.rglob("*")) if found.is_file()]
    return {str(file.relative_to(path)): rows_or_bytes(file) for file in files}


def rows_or_bytes(file: Path) -> object:
    return (
        duckdb.sql(f"FROM read_parquet('{file}')").fetchall() if file.read_bytes()[:4] == b"PAR1" else file.read_bytes()
    )


@pytest.mark.parametrize("option", READ)
def test_copy_reads_a_file_with_options_as_duckdb(option: str, tmp_path: Path, both: Both) -> None:
    session, oracle = both
    session.sql("CREATE OR REPLACE TABLE t AS SELECT 7 AS a, 'x' AS b")
    oracle.execute("CREATE OR REPLACE TABLE t AS SELECT 7 AS a, 'x' AS b")
    (tmp_path / "rows.csv").write_text('a,b\n1,x1\n2,\n3,""\n')
    text = f"COPY t FROM '{tmp_path / 'rows.csv'}' {option}"
    try:
        expected = oracle.execute(text).fetchall()
    except duckdb.Error:
        with pytest.raises(qoop.QoopError):
            session.sql(text)
    else:
        assert session.sql(text).fetchall() == expected
    assert session.sql(ROWS).fetchall() == oracle.execute(ROWS).fetchall() != []


def test_copy_reads_chosen_columns_into_a_table(tmp_path: Path, own: Both) -> None:
    session, oracle = own
    oracle.execute(f"COPY (SELECT 'p' AS b, 5 AS a) TO '{tmp_path / 'rows.parquet'}'")
    for text in (
        f"COPY t (b, a) FROM '{tmp_path / 'rows.parquet'}'",
        f"COPY t (b) TO '{tmp_path / 'column.csv'}'",
        f"COPY t (b) FROM '{tmp_path / 'column.csv'}'",
    ):
        assert session.sql(text).fetchall() == oracle.execute(text).fetchall()
    assert session.sql(ROWS).fetchall() == oracle.execute(ROWS).fetchall()
    assert len(session.sql(ROWS)) == 6
    with pytest.raises(qoop.SourceError, match=r"nothing\.csv"):
        session.sql("COPY t FROM 'nothing.csv'")
