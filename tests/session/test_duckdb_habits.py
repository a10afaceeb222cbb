"""The calls that users of DuckDB's Python package know; DuckDB on the same data is the oracle."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

import qoop
from qoop.query.result import Result

QUERY = "SELECT * FROM (VALUES (1, 'x', 1.5), (2, NULL, NULL), (NULL, 'y', 2.5)) AS t(a, b, c) ORDER BY a"


@pytest.fixture(scope="module")
def session() -> Iterator[qoop.Session]:
    with qoop.connect(slots=1, memory="300MB") as opened:
        yield opened


@pytest.fixture(scope="module")
def result(session: qoop.Session) -> Result:
    return session.sql(QUERY)


def test_a_text_runs_without_connect() -> None:
    numbers = pa.table({"n": [1, 2]})
    assert len(numbers) == 2
    assert qoop.sql("SELECT sum(n) + ? FROM numbers", [4]).fetchall() == [(7,)]
    qoop.sql("CREATE OR REPLACE TABLE kept AS SELECT 5 AS five")
    assert qoop.sql("FROM kept").fetchall() == [(5,)]


def test_the_session_of_the_process_ends_with_it_and_is_another_one_in_a_child() -> None:
    text = """
import os, qoop
qoop.sql("CREATE TABLE t AS SELECT 1 AS a")
child = os.fork()
if child == 0:
    qoop.sql("CREATE TABLE t AS SELECT 2 AS a")
    print(qoop.sql("FROM t").fetchall(), flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(qoop.sql("FROM t").fetchall())
"""
    # DuckDB's threads make the fork itself worth a warning to later versions of Python.
    words = [sys.executable, "-W", "error::ResourceWarning", "-c", text]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("[(2,)]\n[(1,)]\n", 0), done.stderr
    assert "ResourceWarning" not in done.stderr


def test_connect_takes_data(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as made:
        made.execute("CREATE TABLE items AS SELECT 3 AS a")
        made.execute(f"COPY (SELECT 4 AS a) TO '{tmp_path / 'sales.parquet'}'")
        made.execute(f"COPY (SELECT 5 AS a) TO '{tmp_path / 'more.csv'}'")
    with qoop.connect(tmp_path / "shop.duckdb", str(tmp_path / "sales.parquet"), tmp_path / "more.csv") as opened:
        union = "SELECT * FROM items UNION ALL FROM sales UNION ALL FROM more ORDER BY 1"
        assert opened.sql(union).fetchall() == [(3,), (4,), (5,)]
    with qoop.connect(tmp_path, threads=1) as opened:
        assert opened.config.slots == 1 and list(opened.tables()) == ["sales"]
    with qoop.connect(":memory:", slots=1) as opened:
        assert not opened.tables()


def test_what_connect_cannot_open_is_named(tmp_path: Path) -> None:
    with pytest.raises(qoop.SourceError, match=r"nothing\.duckdb"):
        qoop.connect(tmp_path / "nothing.duckdb")
    with pytest.raises(qoop.ConfigError, match=r"connect\(slots=2\)"):
        qoop.connect(2)  # type: ignore[arg-type]
    with pytest.raises(qoop.ConfigError, match=r"slots and threads"):
        qoop.connect(slots=1, threads=2)
    with pytest.raises(qoop.ConfigError, match=r"slots must be a whole number"):
        qoop.connect(threads=0)


def test_execute_takes_values_and_cursor_runs_in_the_session(session: qoop.Session) -> None:
    session.execute("CREATE OR REPLACE TABLE t AS SELECT range AS a FROM range(4)")
    assert session.execute("SELECT a FROM t WHERE a > ? ORDER BY a", [1]).fetchall() == [(2,), (3,)]
    assert session.execute("SELECT a FROM t WHERE a = $it", {"it": 3}).fetchone() == (3,)
    with session.cursor() as cursor:
        assert cursor.execute("SELECT a FROM t WHERE a < ? ORDER BY a", [2]).fetchall() == [(0,), (1,)]
        assert cursor.execute("FROM t ORDER BY a").df().a.tolist() == [0, 1, 2, 3]
        assert cursor.execute("FROM t").arrow().num_rows == len(cursor.execute("FROM t").fetchdf()) == 4
        assert len(cursor.execute("FROM t").pl()) == cursor.rowcount == 4


def test_unregister_forgets_what_was_registered(session: qoop.Session) -> None:
    session.register("Gone", pa.table({"a": [1]}))
    session.unregister("gone")
    with pytest.raises(qoop.BindError, match="Gone does not exist"):
        session.sql("FROM Gone")
    with pytest.raises(qoop.UnknownTable, match="gone"):
        session.unregister("gone")
    session.sql("CREATE OR REPLACE TABLE made AS SELECT 1 AS a")
    with pytest.raises(qoop.QoopError, match="DROP TABLE made"):
        session.unregister("made")
    assert session.sql("FROM made").fetchall() == [(1,)]


def test_a_result_is_a_table_by_the_name_of_its_variable(session: qoop.Session) -> None:
    found = session.sql("SELECT range AS a FROM range(5)")
    assert len(found) == 5
    found = session.sql("SELECT a * 10 AS a FROM found WHERE a > 2")
    assert session.sql("SELECT sum(a) FROM found").fetchall() == [(70,)]


def test_a_result_has_the_readers_of_duckdb(result: Result) -> None:
    theirs = duckdb.sql(QUERY)
    assert result.shape == theirs.shape == (3, 3)
    pd.testing.assert_frame_equal(result.fetchdf(), theirs.fetchdf())
    assert result.to_arrow_table().equals(theirs.to_arrow_table())
    ours, expected = result.fetchnumpy(), theirs.fetchnumpy()
    assert list(ours) == list(expected) == ["a", "b", "c"]
    assert all(ours[name].tolist() == expected[name].tolist() for name in expected)
    batches = list(result.fetch_record_batch(2))
    assert [len(batch) for batch in batches] == [2, 1]
    assert pa.Table.from_batches(batches).equals(theirs.to_arrow_table())
    with pytest.raises(qoop.ConfigError, match="rows_per_batch"):
        list(result.fetch_record_batch(0))


def test_a_column_of_a_result_is_a_result(result: Result) -> None:
    assert result["b"].fetchall() == duckdb.sql(QUERY)["b"].fetchall() == [("x",), (None,), ("y",)]
    assert result["B"].columns == ["b"] and result[["c", "a"]].columns == ["c", "a"]
    assert result[["c", "a"]].types == ["DECIMAL(2,1)", "INTEGER"]
    with pytest.raises(qoop.BindError, match="no column z; there are: a, b, c"):
        result["z"]
    with pytest.raises(qoop.BindError, match="not 0; there are: a, b, c"):
        result[0]  # type: ignore[index]


def test_a_result_writes_files(result: Result, tmp_path: Path) -> None:
    result.write_parquet(tmp_path / "rows.parquet", compression="zstd", row_group_size=5000)
    file = f"'{tmp_path / 'rows.parquet'}'"
    assert duckdb.sql(f"FROM {file}").fetchall() == result.fetchall()
    assert duckdb.sql(f"SELECT DISTINCT compression FROM parquet_metadata({file})").fetchall() == [("ZSTD",)]
    duckdb.sql(QUERY).write_csv(str(tmp_path / "theirs.csv"), sep=";", header=False, na_rep="-")
    result.write_csv(tmp_path / "ours.csv", sep=";", header=False, na_rep="-")
    assert (tmp_path / "ours.csv").read_bytes() == (tmp_path / "theirs.csv").read_bytes() != b""
    result.write_parquet(tmp_path / "parts", partition_by=["b"])
    assert sorted(os.listdir(tmp_path / "parts")) == ["b=__HIVE_DEFAULT_PARTITION__", "b=x", "b=y"]
    with pytest.raises(qoop.QueryError, match="nonsense"):
        result.write_csv(tmp_path / "none.csv", nonsense=1)
    with pytest.raises(qoop.QueryError, match="no option"):
        result.write_csv(tmp_path / "none.csv", **{"x) TO 'y'": 1})
    assert not (tmp_path / "none.csv").exists()


def test_dir_shows_what_users_use(result: Result) -> None:
    assert dir(qoop) == sorted(qoop.__all__)
    assert {"sql", "connect", "Session", "QoopError"} <= set(dir(qoop))
    assert {"fetchdf", "shape", "write_csv", "to_arrow_table"} <= set(dir(result))
    assert not [name for name in dir(result) if name.startswith("_") or name in ("lossless", "expressed")]
    assert all(hasattr(result, name) for name in dir(result))


@pytest.mark.parametrize(
    ("name", "advice"), [("frame", ""), ("orderz", '\nDid you mean "orders"?'), ("pg_indexs", ""), ("sqlite_m", "")]
)
def test_the_advice_for_an_unknown_table_is_a_table_of_the_session(name: str, advice: str) -> None:
    with qoop.connect(slots=1, memory="300MB") as opened:
        opened.register("orders", pa.table({"a": [1]}))
        opened.register("items", pa.table({"a": [1]}))
        with pytest.raises(qoop.BindError) as error:
            opened.sql(f"SELECT * FROM {name}")
    assert f"Table with name {name} does not exist!{advice}\nTables here: items, orders\n" in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT filename, count(*), sum(x) FROM '{}/*.parquet' GROUP BY 1 ORDER BY 1",
        "SELECT file_index, file_row_number, * FROM '{}/*.parquet' WHERE file_row_number > 0 ORDER BY x",
        "SELECT t.filename, a.x, a.* FROM '{}/a.parquet' JOIN '{}/c.csv' AS t ON t.y = a.x ORDER BY ALL",
        "SELECT c.y, (SELECT max(filename) FROM '{}/b.parquet' WHERE x > c.y) FROM '{}/c.csv' ORDER BY ALL",
        "CREATE OR REPLACE VIEW v AS SELECT c.y, filename FROM '{}/c.csv'; FROM v ORDER BY y",
    ],
)
def test_files_have_the_names_and_the_columns_that_duckdb_gives_them(
    session: qoop.Session, tmp_path: Path, text: str
) -> None:
    with duckdb.connect() as oracle:
        oracle.execute(f"COPY (SELECT 1 AS x UNION ALL SELECT 2) TO '{tmp_path}/a.parquet'")
        oracle.execute(f"COPY (SELECT 3 AS x UNION ALL SELECT 4) TO '{tmp_path}/b.parquet'")
        oracle.execute(f"COPY (SELECT 2 AS y, 'z' AS z) TO '{tmp_path}/c.csv'")
        text = text.replace("{}", str(tmp_path))
        expected = oracle.execute(text).fetchall()
    assert session.sql(text).fetchall() == expected != []
