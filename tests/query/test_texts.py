"""Texts and names that once got through: each is answered as DuckDB does, or refused with an error of ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qoop


@pytest.fixture(scope="module")
def session() -> Iterator[qoop.Session]:
    with qoop.connect(slots=2, memory="500MB") as session:
        session.register("t", pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]}))
        yield session


@pytest.mark.parametrize("text", ["SELECT 1e2+3", "SELECT 1e2-a FROM t", "SELECT 1.e2+3, 1e-1+1e1", "SELECT 2.5e+0"])
def test_numbers_with_an_exponent_before_a_sign(session: qoop.Session, text: str) -> None:
    with duckdb.connect() as oracle:
        oracle.execute("CREATE TABLE t AS SELECT range + 1 AS a FROM range(3)")
        assert sorted(session.sql(text).fetchall()) == sorted(oracle.execute(text).fetchall()) != []


@pytest.mark.parametrize("name", ["text", "self", "pa", "session", "table", "statements", "spec", "duckdb"])
def test_variables_of_ours_are_no_tables_and_others_only_where_that_is_wanted(name: str) -> None:
    table = pa.table({"a": [1]})  # were it read, the query would answer
    with (
        qoop.connect(slots=1, memory="500MB", local_frames=name != "table") as session,
        pytest.raises(qoop.BindError, match="does not exist") as refused,
    ):
        session.sql(f'SELECT * FROM "{name}"')
    assert "Python" not in str(refused.value) and len(table) == 1


@pytest.mark.parametrize(
    "text",
    [
        "FROM query_table('t' || '')",
        "SELECT * FROM query('FROM ' || 't')",
        "WITH q AS (FROM query_table([upper('t')])) FROM q",
        "SELECT (SELECT count(*) FROM duckdb_databases())",
        "FROM duckdb_temporary_files()",
        "FROM pg_catalog.pg_proc",
        "FROM pragma_storage_info('t')",
        "FROM (SHOW ALL TABLES)",
        "FROM (DESCRIBE)",
        "FROM ( desc )",
        "PRAGMA database_size",
    ],
)
def test_what_tells_of_the_kernel_in_place_of_the_session_is_refused(session: qoop.Session, text: str) -> None:
    with pytest.raises(qoop.QueryError, match=r"names tables by a text|would describe|not for a session"):
        session.sql(text)


@pytest.mark.parametrize("end", ["LIMIT 'x'", "ORDER BY a LIMIT 'x'", "LIMIT '2' OFFSET 'x'", "LIMIT '1' OFFSET '0'"])
def test_a_text_in_limit_is_a_number_or_refused(session: qoop.Session, end: str) -> None:
    text = f"SELECT * FROM (SELECT 1 AS a) AS one {end}"
    if "x" in end:
        with pytest.raises(qoop.BindError, match=r"(LIMIT|OFFSET) takes a number, not 'x'"):
            session.sql(text)
    else:
        assert session.sql(text).fetchall() == [(1,)]


def test_words_of_such_functions_elsewhere_are_only_words(session: qoop.Session) -> None:
    assert session.sql("SELECT 'query_table(1)' AS query, 1 AS duckdb_tables").fetchall() == [("query_table(1)", 1)]


UNNAMED = [pa.array([{"a": 1, "A": 2}]), pa.array([[{"a": 1, "A": 2}]])]
if duckdb.__version__ < "2":  # which calls it a TUPLE
    UNNAMED.append(pa.array([{"": 1}]))


@pytest.mark.parametrize("rows", UNNAMED, ids=str)
def test_a_type_without_a_name_is_refused_and_spoils_nothing(rows: pa.Array) -> None:
    with qoop.connect(slots=1, memory="500MB") as session:
        with pytest.raises(qoop.SourceError, match="column u of table bad has a type that SQL cannot name"):
            session.register("bad", pa.table({"u": rows}))
        assert session.sql("SELECT 1 AS x").fetchall() == [(1,)]
        assert list(session.tables()) == []


def test_unions_are_kept_and_read() -> None:
    with qoop.connect(slots=2, memory="500MB") as session:
        made = (
            "SELECT CASE WHEN range % 2 = 0 THEN union_value(k := range) ELSE NULL END AS u, range AS n FROM range(9)"
        )
        session.sql(f"CREATE TABLE u AS {made}")
        for _ in range(2):
            assert session.sql("SELECT u.k, n FROM u WHERE n > 5 ORDER BY n").fetchall() == [(6, 6), (None, 7), (8, 8)]
            assert session.sql("SELECT 1 AS x").fetchall() == [(1,)]
        assert len(session.sql("SELECT u, count(*) FROM u GROUP BY u")) == 6


# Names

PATHS = ["../x", "/tmp/victim", "a/b", "a\\b", ".hidden", "_draft", "a*", "con", "Nul.x", "n" * 300, "é" * 120]


@pytest.mark.parametrize("name", PATHS)
def test_a_table_in_a_folder_has_the_name_of_a_file(tmp_path: Path, name: str) -> None:
    with qoop.connect(slots=1, memory="500MB", tables=tmp_path / "kept") as session:
        with pytest.raises(qoop.QueryError, match="cannot be called"):
            session.sql(f'CREATE TABLE "{name}" AS SELECT 1 AS a')
        session.register(name, pa.table({"a": [7]}))  # in memory it is a name like any other
        session.sql(f'CREATE VIEW "{name} view" AS FROM "{name}"')
        assert session.sql(f'FROM "{name} view"').fetchall() == [(7,)]
        session.sql(f'DROP VIEW "{name} view"; DROP TABLE "{name}"')
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_to_drop_a_table_removes_no_file_from_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    pq.write_table(pa.table({"a": [1]}), tmp_path / "victim.parquet")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "victim.csv.parquet")
    (tmp_path / "victim.csv").write_text("a\n1\n")
    before = sorted(tmp_path.rglob("*"))
    with qoop.connect(slots=1, memory="500MB", tables=tmp_path / "kept") as session:
        for name in ("victim.csv", "victim.parquet"):
            session.sql(f"FROM '{tmp_path / name}'")
            session.sql(f'DROP TABLE "{tmp_path / name}"')
        session.register("../victim", tmp_path / "victim.parquet")
        session.sql('DROP TABLE "../victim"')
    assert sorted(tmp_path.rglob("*")) == before


def test_to_drop_a_table_that_hides_a_kept_one_leaves_that(tmp_path: Path) -> None:
    with qoop.connect(slots=1, memory="500MB", tables=tmp_path) as session:
        session.sql("CREATE TABLE k AS SELECT 1 AS a")
        session.register("k", pa.table({"a": [2]}))
        session.sql("DROP TABLE k")
    with qoop.connect(slots=1, memory="500MB", tables=tmp_path) as session:
        assert session.sql("FROM k").fetchall() == [(1,)]
        session.sql("DROP TABLE k")
    with qoop.connect(slots=1, memory="500MB", tables=tmp_path) as session:
        assert session.sql("SHOW TABLES").fetchall() == []  # a thread may have read the files until the end


def test_a_table_made_again_in_another_case_is_one_table(tmp_path: Path) -> None:
    with qoop.connect(slots=1, memory="500MB", tables=tmp_path) as session:
        session.sql("CREATE TABLE zz AS SELECT 1 AS a; CREATE OR REPLACE TABLE ZZ AS SELECT 2 AS a")
    with qoop.connect(slots=1, memory="500MB", tables=tmp_path) as session:
        assert session.sql("FROM zz").fetchall() == [(2,)] and list(session.tables()) == ["ZZ"]


# Paths


@pytest.mark.parametrize("path", ["a\0b", "\ud800", "n" * 300, "é" * 200, "file:///" + "x" * 300, "~nobody/x"])
@pytest.mark.parametrize("way", ["register", "register_path", "register_folder", "register_database", "resume"])
def test_what_is_no_path_is_refused(session: qoop.Session, way: str, path: str) -> None:
    with pytest.raises((qoop.SourceError, qoop.ConfigError)):
        if way == "register":
            session.register("p", f"{path}.parquet")
        else:
            getattr(session, way)(path)


@pytest.mark.parametrize("option", ["tables", "checkpoints", "trace", "plan_cache"])
@pytest.mark.parametrize("path", ["a\0b", "n" * 300])
def test_options_that_are_no_paths(option: str, path: str) -> None:
    with pytest.raises(qoop.ConfigError, match="is no path"):
        qoop.connect(slots=1, memory="300MB", **{option: path})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800"])
def test_names_that_no_text_can_hold(session: qoop.Session, name: str) -> None:
    with pytest.raises(qoop.CatalogError, match="name"):
        session.register(name, pa.table({"a": [1]}))


@pytest.mark.parametrize("value", ["\0", "\ud800"])
def test_values_of_options_that_no_text_can_hold(session: qoop.Session, value: str) -> None:
    with pytest.raises(qoop.ConfigError, match="cannot be"):
        session.set("TimeZone", value)
