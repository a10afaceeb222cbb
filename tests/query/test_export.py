"""EXPORT DATABASE writes what DuckDB imports, and IMPORT DATABASE reads what DuckDB exports."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import qoop

MADE = (
    'CREATE SCHEMA s; CREATE SCHEMA "odd s";'
    "CREATE TABLE t AS SELECT range AS a, CASE range WHEN 3 THEN '' WHEN 4 THEN NULL ELSE 'q'',\"' || range END AS b, "
    "[range::HUGEINT] AS h, INTERVAL (range) DAY AS i, {'x': range * 1.5} AS st, 'ab'::BLOB AS bl FROM range(7);"
    'CREATE TABLE s.t AS SELECT 1 AS x; CREATE TABLE "odd s"."T t" AS SELECT DATE \'2024-01-01\' AS "a day";'
    "CREATE TABLE none (a INTEGER); CREATE MACRO twice(v) AS v * 2;"
    "CREATE VIEW v AS SELECT x + 1 AS y FROM s.t; CREATE VIEW s.w(z) AS SELECT twice(y) FROM v"
)  # fmt: skip
TABLES = ("t", "s.t", '"odd s"."T t"', "none", "v", "s.w")


@pytest.fixture
def session() -> Iterator[qoop.Session]:
    with qoop.connect(slots=1, memory="500MB") as made:
        yield made


@contextmanager
def _moved(folder: Path, options: str, more: str = "") -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB that has imported what another one has exported: CSV does not keep all apart."""
    with duckdb.connect() as first:
        first.execute(f"{MADE}; {more}; EXPORT DATABASE '{folder}' {options}")
    with duckdb.connect() as second:
        second.execute(f"IMPORT DATABASE '{folder}'")
        yield second


@pytest.mark.parametrize("options", ["", " (FORMAT parquet, COMPRESSION zstd)"])
def test_duckdb_imports_what_was_exported(session: qoop.Session, tmp_path: Path, options: str) -> None:
    session.sql(MADE)
    session.register("given", pa.table({"k": ["a", "b"]}))
    assert session.sql(f"EXPORT DATABASE '{tmp_path}/out'{options}").fetchall() == [(5,)]
    os.rename(tmp_path / "out", tmp_path / "moved")
    with duckdb.connect() as found, _moved(tmp_path / "theirs", options) as oracle:
        oracle.execute("CREATE TABLE given AS SELECT unnest(['a', 'b']) AS k")
        found.execute(f"IMPORT DATABASE '{tmp_path}/moved'")
        for table in (*TABLES, "given"):
            expected = oracle.sql(f"FROM {table}")
            assert found.sql(f"FROM {table}").types == expected.types
            assert found.sql(f"FROM {table}").fetchall() == expected.fetchall()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["moved", "theirs"]


@pytest.mark.parametrize("options", ["", "(FORMAT parquet)"])
def test_what_duckdb_exported_is_imported(session: qoop.Session, tmp_path: Path, options: str) -> None:
    more = (
        "CREATE SEQUENCE q; CREATE TYPE mood AS ENUM ('a', 'b'); "
        "CREATE TABLE strict (a INTEGER PRIMARY KEY, m VARCHAR DEFAULT 'none', n VARCHAR NOT NULL); "
        "INSERT INTO strict VALUES (1, 'x', 'y'); CREATE INDEX i ON strict (m)"
    )
    with _moved(tmp_path / "d", options, more) as oracle:
        imported = session.sql(f"SELECT 1; IMPORT DATABASE '{tmp_path}/d'; ")
        assert imported.columns == ["name", "rows", "left_out"]
        rows = {name: (count, out) for name, count, out in imported.fetchall()}
        assert rows["t"] == (7, None) and rows["q"] == (0, "SEQUENCE") and rows["none"] == (0, None)
        assert rows["strict"][1].split("; ") == [
            "INDEX i",
            "NOT NULL",
            "NOT NULL",
            "PRIMARY KEY(a)",
            "m DEFAULT 'none'",
        ]
        for table in (*TABLES, "strict"):
            expected, found = oracle.sql(f"FROM {table}"), session.sql(f"FROM {table} ORDER BY ALL")
            assert found.types == list(map(str, expected.types))
            assert sorted(map(repr, found.fetchall())) == sorted(map(repr, expected.fetchall()))
        assert session.sql("INSERT INTO s.t VALUES (5); SELECT max(z) FROM s.w").fetchall() == [(12,)]


def test_an_import_that_fails_leaves_nothing(session: qoop.Session, tmp_path: Path) -> None:
    with duckdb.connect() as oracle:
        oracle.execute(f"{MADE}; CREATE VIEW odd AS SELECT 1; EXPORT DATABASE '{tmp_path}/d'")
    session.sql("CREATE VIEW odd AS SELECT 2 AS x")
    with pytest.raises(qoop.CatalogError, match="there is a view odd already"):
        session.sql(f"IMPORT DATABASE '{tmp_path}/d'")
    assert session.sql("SHOW TABLES").fetchall() == [("odd",)]
    assert session.sql("SHOW SCHEMAS").fetchall() == [("memory", "main", True)]
    session.sql(f"DROP VIEW odd; IMPORT DATABASE '{tmp_path}/d'")
    with pytest.raises(qoop.CatalogError, match="there is a table none already"):
        session.sql(f"IMPORT DATABASE '{tmp_path}/d'")


def test_what_cannot_be_moved_is_reported(session: qoop.Session, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "schema.sql").write_text("CREATE TABLE t (a INTEGER);")
    (tmp_path / "bad" / "load.sql").write_text("COPY t FROM 'bad/../../../etc/passwd' (FORMAT 'csv')")
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as made:
        made.execute("CREATE TABLE items AS SELECT 1 AS a")
    session.sql("CREATE TABLE t AS SELECT 1 AS a")
    for text, wrong in (
        ("IMPORT DATABASE 'nothing'", "nothing is no folder of EXPORT DATABASE: there is no schema.sql and"),
        (f"IMPORT DATABASE '{tmp_path}/bad'", "cannot import"),
        (f"EXPORT DATABASE '{tmp_path}/full'", "there is something already"),
        (f"EXPORT DATABASE '{tmp_path}/new' (FORMAT xlsx)", "exported as csv or parquet, not as xlsx"),
        (f"EXPORT DATABASE '{tmp_path}/new' (FORMAT parquet, NONSENSE 3)", "nonsense"),
        (f"EXPORT DATABASE '{tmp_path}/no/such/new'", "cannot export to"),
        (f"ATTACH '{tmp_path}/shop.duckdb'; CREATE VIEW v AS FROM shop.items; EXPORT DATABASE '{tmp_path}/new'",
         "view v cannot be exported: what it reads is not exported either"),
        (f"USE shop; IMPORT DATABASE '{tmp_path}/full'", "USE memory before IMPORT"),
    ):  # fmt: skip
        with pytest.raises(qoop.QoopError) as raised:
            session.sql(text)
        assert wrong.lower() in str(raised.value).lower()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad", "full", "shop.duckdb"]


def test_a_locked_session_moves_nothing(tmp_path: Path) -> None:
    with qoop.connect(slots=1, memory="500MB", locked=True) as session:
        for text in (f"EXPORT DATABASE '{tmp_path}/x'", f"IMPORT DATABASE '{tmp_path}/x'"):
            with pytest.raises(qoop.Forbidden):
                session.sql(text)
