"""Statements other than queries do in a session what they do in DuckDB; what a session does not do, it says."""

from __future__ import annotations

import datetime
import decimal
import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qoop
from qoop.query.config import configure
from qoop.session.session import Session

ITEMS = pa.table({"item": ["tea", "tea", "rice", None], "price": [3, 4, 2, 1]})


@pytest.fixture
def session() -> Iterator[Session]:
    with qoop.connect(slots=2, memory="500MB") as made:
        made.register("items", ITEMS)
        yield made


@pytest.fixture
def theirs() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        made.register("given", ITEMS)
        made.execute("CREATE TABLE items AS FROM given; DROP VIEW given")
        yield made


@pytest.mark.parametrize(
    "text",
    [
        "CREATE VIEW cheap AS SELECT * FROM items WHERE price < 4; FROM cheap ORDER BY ALL",
        "CREATE VIEW v(a, b) AS SELECT item, sum(price) FROM items GROUP BY 1; SELECT b, a FROM v ORDER BY ALL",
        "CREATE VIEW v AS FROM items; CREATE VIEW w AS SELECT price FROM v; SELECT count(*) FROM w, v",
        "CREATE VIEW v AS SELECT 1 AS x; CREATE VIEW w AS FROM v; CREATE OR REPLACE VIEW v AS SELECT 2 AS x; FROM w",
        "CREATE VIEW v AS SELECT 1 AS x; CREATE VIEW IF NOT EXISTS v AS SELECT 2 AS x; FROM v",
        "CREATE VIEW v AS SELECT 1 AS x; WITH v AS (SELECT 7 AS y) FROM v",
        "CREATE VIEW v AS SELECT 1 AS x; WITH u AS (FROM v) SELECT * FROM u, v",
        "CREATE VIEW v AS SELECT 3 AS x; WITH RECURSIVE r(n) AS (SELECT x FROM v UNION ALL SELECT n-1 FROM r WHERE n>0)"
        " SELECT sum(n) FROM r",
        "CREATE VIEW v AS WITH a AS (FROM items) SELECT max(price) AS m FROM a; SELECT m FROM v -- last",
        "CREATE VIEW \"odd name\" AS SELECT 1 AS \"odd column\"; SELECT \"odd column\" FROM \"odd name\"",
        "CREATE VIEW v AS FROM items; DROP VIEW v; CREATE TABLE v AS SELECT 4 AS four; FROM v",
        "CREATE TABLE t AS SELECT item, sum(price) AS total FROM items GROUP BY item; FROM t ORDER BY ALL",
        "CREATE TABLE t AS SELECT 1 AS a; CREATE OR REPLACE TABLE t AS SELECT a + 1 AS a FROM t; FROM t",
        "CREATE TABLE t AS SELECT 1 AS a; CREATE TABLE IF NOT EXISTS t AS SELECT 2 AS a; FROM t",
        "CREATE TEMP TABLE t AS SELECT uuid()::VARCHAR <> '' AS u, INTERVAL 2 DAY AS i, [1::HUGEINT] AS h; FROM t",
        "CREATE TABLE t AS SELECT 1 AS a, 2 AS a; FROM t",
        "CREATE TABLE t (p, \"q r\") AS SELECT price, item, 1 AS n FROM items ORDER BY ALL; FROM t LIMIT 2",
        "CREATE TABLE t (p) AS WITH w AS (FROM items) SELECT price FROM w -- no\n WITH NO DATA -- rows\n; DESCRIBE t",
        "CREATE TABLE t AS FROM items WITH DATA; FROM t ORDER BY ALL",
        "CREATE TABLE t AS FROM items WHERE false; SELECT count(*), max(item) FROM t",
        "CREATE TABLE t AS SELECT 1; DROP TABLE t; DROP TABLE IF EXISTS t; SELECT 2 AS left",
        "CREATE VIEW v AS FROM items; DESCRIBE v",
        "CREATE VIEW v AS FROM items; SELECT column_name, count FROM (SUMMARIZE v) ORDER BY ALL",
        "CREATE VIEW v AS SELECT 1; CREATE TABLE t AS SELECT 2; SHOW TABLES",
        "CREATE TABLE t AS SELECT * FROM items",
    ],
)  # fmt: skip
def test_it_is_as_in_duckdb(session: Session, theirs: duckdb.DuckDBPyConnection, text: str) -> None:
    result = session.sql(text)
    expected = theirs.sql(text) or theirs.sql("SELECT 4 AS Count")  # their CREATE TABLE AS has no relation
    assert result.columns == expected.columns and result.fetchall() == expected.fetchall()
    assert len(result), "an empty answer shows nothing"


@pytest.mark.parametrize("all_rows", ["", "ALL"])
def test_a_set_operation_is_sorted_by_an_expression_where_duckdb_does(
    session: Session, theirs: duckdb.DuckDBPyConnection, all_rows: str
) -> None:
    text = f"SELECT price AS p FROM items UNION {all_rows} SELECT -price FROM items ORDER BY p % 3, -p LIMIT 4"
    try:
        expected = theirs.sql(text).fetchall()
    except duckdb.BinderException:  # before DuckDB 2
        with pytest.raises(qoop.BindError, match="Could not ORDER BY"):
            session.sql(text)
    else:
        assert session.sql(text).fetchall() == expected != []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE VIEW items AS SELECT 1", "there is a table items already"),
        ("CREATE OR REPLACE VIEW items AS SELECT 1", "there is a table items already"),
        ("CREATE TABLE items AS SELECT 1", "there is a table items already"),
        ("CREATE VIEW v AS SELECT nope FROM items", "nope"),
        ("CREATE VIEW v AS SELECT 1 AS x; SELECT y FROM v", 'column "y" not found'),
        ("DROP VIEW items", "DROP TABLE drops it"),
        ("DROP TABLE nothing", "there is no table nothing"),
        ("DROP VIEW nothing", "there is no view nothing"),
        ("CREATE SEQUENCE s", "CREATE SEQUENCE is not for a session"),
        ("CREATE TABLE s.t AS SELECT 1", "there is no schema s"),
        ("CREATE TABLE t AS SELECT ['a'::ENUM('a', 'b')] AS e", "would change e of enum"),
        ("COPY items FROM 'x.csv'", "statements do not change it: CREATE TABLE name AS"),
        ("COPY items TO '/no/such/folder/x.csv'", "/no/such/folder/x.csv"),
        ("COPY items TO 'x.csv' (NONSENSE 3)", "nonsense"),
        ("INSERT INTO items VALUES ('x', 1)", "statements do not change it: CREATE TABLE name AS"),
        ("SELECT ?", "parameters"),
        ("FROM 'missing.parquet'", "missing.parquet"),
        ("SET nonsense = 1", "slots, memory"),
        ("SET memory = 'much'", "much"),
    ],
)
def test_what_cannot_be_is_reported(session: Session, text: str, message: str) -> None:
    with pytest.raises(qoop.QoopError) as raised:
        session.sql(text)
    assert message.lower() in str(raised.value).lower()


def test_an_error_in_a_query_over_a_view_points_into_what_was_written(session: Session) -> None:
    session.sql("CREATE VIEW v AS SELECT 1 AS x")
    with pytest.raises(qoop.BindError) as raised:
        session.sql("SELECT x,\n  y FROM v")
    assert "line 2:   y FROM v\n          ^" in str(raised.value)


def test_rows_are_copied_to_files_and_read_from_them(session: Session, tmp_path: Path) -> None:
    made = session.sql(f"COPY (SELECT item, price FROM items ORDER BY price) TO '{tmp_path}/x.parquet'")
    assert made.columns == ["Count"] and made.fetchall() == [(4,)]
    assert pq.read_table(tmp_path / "x.parquet").to_pydict() == {
        "item": [None, "rice", "tea", "tea"], "price": [1, 2, 3, 4],
    }  # fmt: skip
    session.sql(f"COPY items TO '{tmp_path}/x.json'; COPY items TO '{tmp_path}/x.csv' (HEADER, DELIMITER '|')")
    assert json.loads((tmp_path / "x.json").read_text().splitlines()[0]) == {"item": "tea", "price": 3}
    assert (tmp_path / "x.csv").read_text().startswith("item|price\n")
    text = f"SELECT sum(a.price), sum(b.price) FROM '{tmp_path}/x.parquet' a JOIN \"{tmp_path}/x.csv\" b USING (price)"
    assert session.sql(text).fetchall() == [(10, 10)]
    assert "runs whole" not in session.explain(text)
    assert session.sql("SHOW TABLES").fetchall() == [("items",)]


def test_a_file_that_has_changed_is_read_as_it_is_now(session: Session, tmp_path: Path) -> None:
    for number in (1, 2):
        session.sql(f"COPY (SELECT {number} AS n) TO '{tmp_path}/x.parquet'")
        assert session.sql(f"FROM '{tmp_path}/x.parquet'").fetchall() == [(number,)]
        assert session.sql(f"FROM '{tmp_path}/*.parquet'").fetchall() == [(number,)]


def test_tables_in_a_folder_outlive_the_session(tmp_path: Path) -> None:
    with qoop.connect(slots=1, tables=tmp_path / "kept") as session:
        session.register("items", ITEMS)
        session.sql("CREATE TABLE totals AS SELECT item, sum(price)::BIGINT AS total FROM items GROUP BY item")
        session.sql("CREATE TABLE gone AS SELECT 1 AS one; DROP TABLE gone")
        with pytest.raises(qoop.QueryError, match="Parquet: it would change h of HUGEINT"):
            session.sql("CREATE TABLE huge AS SELECT 1::HUGEINT AS h")
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["totals"]
    with qoop.connect(slots=1, tables=tmp_path / "kept") as session:
        assert session.sql("FROM totals ORDER BY ALL").fetchall() == [("rice", 2), ("tea", 7), (None, 1)]


def test_slots_and_memory_can_be_set(session: Session) -> None:
    session.sql("SET slots = 1; SET memory = '300MB'")
    assert session.available.cpu == 1
    session.sql("RESET slots")
    assert session.available.cpu == 2


VALUES = [
    None, True, 7, -7, 2**70, 1.5, float("inf"), decimal.Decimal("-1.50"), "it's", b"\x00'x", datetime.date(2026, 1, 2),
    datetime.datetime(2026, 1, 2, 3, 4, 5, 6), datetime.time(1, 2, 3), datetime.timedelta(days=1, seconds=-1),
    uuid.UUID(int=5), [1, None], {"a": 1, "b": "x"},
    datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
    datetime.time(1, 2, 3, tzinfo=datetime.UTC), -0.0, {}, 2**31, -(2**31), 2**40, 2**64,
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_parameter_comes_back(session: Session, value: object) -> None:
    ((found, same),) = session.sql("SELECT ? AS v, [$1] = [$1] AS w", [value]).fetchall()
    assert found == value and type(found) is type(value) and same


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("SELECT typeof(price::TINYINT + ?) AS t FROM items", 127), ("SELECT typeof(?) AS t", 2**31),
        ("SELECT price::UBIGINT - ? AS v FROM items", 2**40), ("SELECT price::DECIMAL(4, 1) * ? AS v FROM items", 7),
        ("SELECT item FROM items ORDER BY price LIMIT $1 OFFSET $1", 1), ("SELECT 1 / ? AS v", -0.0),
        ("SELECT ? AS v, typeof($1) AS t", numpy.float64(1.5)), ("SELECT ? AS v", numpy.array([1, 2])),
        ("SELECT ? AS v", numpy.datetime64("2020-01-01")), ("SELECT ? AS v", pandas.NaT), ("SELECT ? AS v", pandas.NA),
    ],
    ids=repr,
)  # fmt: skip
def test_a_parameter_is_what_it_is_in_duckdb(session: Session, text: str, value: object) -> None:
    found = session.sql(text, [value])
    with duckdb.connect() as oracle:
        oracle.register("items", ITEMS)
        assert repr(found.fetchall()) == repr(oracle.execute(text, [value] * text.count("?") or [value]).fetchall())


def test_times_of_numpy_that_python_has_no_type_for(session: Session) -> None:
    found = session.sql("SELECT ? AS v", [numpy.datetime64("2020-01-01T00:00:00.000001", "ns")])
    assert found.fetchall() == [(datetime.datetime(2020, 1, 1, 0, 0, 0, 1),)]


def test_parameters_by_name_and_number(session: Session) -> None:
    rows = session.sql("SELECT item FROM items WHERE price > $least AND item <> '$least ?'", {"least": 3}).fetchall()
    assert rows == [("tea",)]
    assert session.submit("SELECT $2 - $1 AS d -- ?", parameters=[1, 5]).result().fetchall() == [(4,)]
    for text, values in [("SELECT ?", []), ("SELECT ?", [1, 2]), ("SELECT $a", {"b": 1}), ("SELECT ?", [object()])]:
        with pytest.raises(qoop.QueryError):
            session.sql(text, values)


def test_qoop_toml_comes_after_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "qoop.toml").write_text('slots = 3\nmemory = "1GB"\nreplan = false\n')
    monkeypatch.setenv("QOOP_MEMORY", "2GB")
    config = configure()
    assert (config.slots, config.memory, config.replan) == (3, 2_000_000_000, False)
    assert configure(slots=1).slots == 1
    (tmp_path / "qoop.toml").write_text("slotz = 3")
    with pytest.raises(qoop.ConfigError, match=r"no option slotz; there are slots"):
        configure()
    monkeypatch.setenv("QOOP_CONFIG", str(tmp_path / "missing.toml"))
    with pytest.raises(qoop.ConfigError, match=r"missing.toml"):
        configure()
