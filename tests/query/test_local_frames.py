"""Data frames of the program in queries, as DuckDB finds them."""

from __future__ import annotations

import datetime as dt
import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import qoop

of_the_module = pa.table({"n": [40, 2]})


def test_variables_are_tables_where_no_table_has_the_name() -> None:
    with qoop.connect(slots=1, memory="500MB") as session:
        frame = pd.DataFrame({"n": [1, 2]})
        lazy = pl.LazyFrame({"n": [2, 3]}).filter(pl.col("n") > 1)
        both = "SELECT frame.n FROM frame, lazy WHERE lazy.n = frame.n + 1 ORDER BY 1"
        assert session.sql("SELECT sum(n) FROM of_the_module").fetchall() == [(42,)]
        assert session.sql(both).fetchall() == [(1,), (2,)]
        frame.loc[0, "n"] = 10  # the same object
        assert session.submit("SELECT max(n) FROM frame").result().fetchall() == [(10,)]
        lazy = pl.LazyFrame({"n": [7]})
        assert session.sql("FROM lazy").fetchall() == [(7,)]
        session.register("frame", pa.table({"n": [5]}))
        assert session.sql("FROM frame").fetchall() == [(5,)], "a table goes before a variable"
        assert session.sql("WITH of_the_module AS (SELECT 1) FROM of_the_module").fetchall() == [(1,)]
        del lazy
        with pytest.raises(qoop.BindError, match="lazy"):
            session.sql("FROM lazy")


def test_relations_of_duckdb_and_columns_of_several_types_are_read_as_duckdb_does() -> None:
    with duckdb.connect() as connection, qoop.connect(slots=1, memory="500MB") as session:
        mixed = pd.DataFrame({"o": [1, "x", None], "n": [1, 2, 3]})
        assert len(mixed) == 3
        connection.execute("CREATE TABLE made AS SELECT 3 AS n")
        relation = connection.sql("FROM made")
        both = "SELECT o, n FROM mixed JOIN relation USING (n) UNION ALL FROM mixed ORDER BY ALL"
        assert session.sql(both).fetchall() == connection.sql(both).fetchall() != []
        assert session.sql("FROM mixed").types == ["VARCHAR", "BIGINT"]
        connection.execute("INSERT INTO made VALUES (4)")
        assert session.sql("SELECT sum(n) FROM relation").fetchall() == [(7,)] == relation.sum("n").fetchall()


@pytest.mark.parametrize("off", [{"local_frames": False}, {"locked": True}])
def test_they_can_be_left_alone(off: dict[str, bool]) -> None:
    with qoop.connect(slots=1, memory="500MB", **off) as session, pytest.raises(qoop.QoopError, match="of_the_module"):
        session.sql("FROM of_the_module")


def test_a_table_of_the_session_goes_before_a_variable() -> None:
    with qoop.connect(slots=1, memory="500MB") as session:
        t = pa.table({"n": [1]})
        assert session.sql("FROM t").fetchall() == [(1,)]
        assert not session.tables()
        session.sql("CREATE OR REPLACE TABLE t AS SELECT 2 AS n")
        t = pa.table({"n": [3]})
        assert session.sql("FROM t").fetchall() == [(2,)]
        assert session.sql("INSERT INTO t FROM range(5, 6)").fetchall() == [(1,)]
        assert session.sql("FROM t ORDER BY n").fetchall() == [(2,), (5,)]
        session.sql("DROP TABLE t")
        assert session.sql("FROM t").fetchall() == [(3,)]
        session.register("t", pa.table({"n": [4]}))
        assert session.sql("FROM t").fetchall() == [(4,)]
        del t


def test_a_query_that_cannot_begin_keeps_no_variable() -> None:
    with qoop.connect(slots=1, memory="500MB") as session:
        frame = pd.DataFrame({"n": [1]})
        before, odd = weakref.ref(frame), pd.DataFrame({"n": [object()]})
        for _ in range(2):
            try:
                session.sql("FROM frame, odd")
                pytest.fail("a table has no objects")
            except qoop.QoopError as error:
                assert "odd" in str(error)
        frame = pd.DataFrame({"n": [2]})
        assert session.sql("FROM frame").fetchall() == [(2,)] and len(odd) == 1
        gc.collect()
        assert before() is None


@pytest.mark.parametrize(
    "text",
    [
        "SELECT (SELECT max(n) FROM of_the_module), n FROM of_the_module",
        "SELECT (SELECT max(n) FROM of_the_module AS x), EXISTS (FROM of_the_module) FROM of_the_module LIMIT 1",
        "SELECT *, (SELECT of_the_module.n FROM of_the_module WHERE n < 3) FROM of_the_module",
        "TABLE of_the_module",
        "FROM range(3) UNION ALL TABLE of_the_module",
    ],
)
def test_columns_are_named_as_the_text_names_its_tables(text: str) -> None:
    with qoop.connect(slots=1, memory="500MB") as session, duckdb.connect() as connection:
        expected = connection.execute(text)
        names, found = [name for name, *_ in expected.description], session.sql(text)
        assert [name.lower() for name in found.columns] == [name.lower() for name in names]
        assert sorted(found.fetchall()) == sorted(expected.fetchall()) != []


def test_a_query_of_a_with_goes_before_a_variable() -> None:
    with qoop.connect(slots=1, memory="500MB") as session:
        t = pa.table({"n": [1]})
        assert session.sql("WITH t AS (SELECT 2 AS n) FROM t").fetchall() == [(2,)]
        assert session.sql("WITH t AS (SELECT n + 1 AS n FROM t) FROM t, (FROM t) AS u").fetchall() == [(2, 2)]
        assert session.sql("FROM t, (WITH t AS (SELECT 7 AS n) FROM t) AS u").fetchall() == [(1, 7)]
        recursive = "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 3) SELECT sum(n) FROM t"
        assert session.sql(recursive).fetchall() == [(6,)]
        assert not session.tables()
        del t


READS_A_VARIABLE = [
    "SELECT sum(t.n) FROM t",
    "SELECT (SELECT max(n) FROM t)",
    "PIVOT t ON k USING sum(n)",
    "UNPIVOT t ON n INTO NAME a VALUE b",
    "SELECT * FROM t PIVOT (sum(n) FOR k IN ('a', 'b'))",
    "DESCRIBE t",
    "SELECT t.n FROM main.t, t AS u WHERE t.n = u.n ORDER BY ALL",
]


@pytest.mark.parametrize("query", READS_A_VARIABLE)
def test_a_variable_is_read_wherever_a_table_is(query: str) -> None:
    t = pa.table({"n": [1, 2], "k": ["a", "b"]})
    with qoop.connect(slots=1, memory="500MB") as session:
        assert session.sql(query).fetchall() == duckdb.sql(query).fetchall() != []
    del t


def test_tables_change_by_what_variables_hold() -> None:
    change = [
        "CREATE TABLE kept AS FROM t", "INSERT INTO kept FROM t", "UPDATE kept SET n = t.n * 10 FROM t WHERE t.n = 2",
        "DELETE FROM kept USING t WHERE kept.n = 20 AND t.n = 1",
    ]  # fmt: skip
    t = pa.table({"n": [1, 2]})
    with qoop.connect(slots=1, memory="500MB") as session, duckdb.connect() as oracle:
        for text in change[:3]:
            session.sql(text)
            oracle.sql(text)
        query = "FROM kept ORDER BY n"
        assert session.sql(query).fetchall() == oracle.sql(query).fetchall() != []
        session.sql(change[3])
        oracle.sql(change[3])
        assert session.sql(query).fetchall() == oracle.sql(query).fetchall()
    del t


def test_each_thread_reads_its_own_variable() -> None:
    def summed(number: int) -> list[int]:
        t = pa.table({"n": [number] * 10})
        found = []
        for _ in range(20):
            found += session.sql("SELECT sum(n) FROM t").fetchall()[0]
        del t
        return found

    with qoop.connect(slots=2, memory="500MB") as session, ThreadPoolExecutor(4) as threads:
        assert list(threads.map(summed, range(8))) == [[10 * number] * 20 for number in range(8)]


def test_values_of_before_are_not_kept() -> None:
    with qoop.connect(slots=1, memory="500MB") as session:
        for number in range(5):
            t = pa.table({"n": [number]})
            assert session.sql("FROM t").fetchall() == [(number,)]
        del t
        assert len(session._tables.catalog.tables()) == 1


@pytest.mark.parametrize("staged", [False, True])
def test_categories_of_pandas_are_enums_in_their_own_order(staged: bool) -> None:
    sizes = pd.Categorical(["mid", None, "low", "high", "mid"], categories=["low", "mid", "high", "it's"])
    frame = pd.DataFrame({"size": sizes, "half": np.arange(5).astype("f2")})
    texts = [
        "SELECT min(size), max(size), typeof(min(size)), sum(half) FROM frame",
        "SELECT size, count(*), sum(half) FROM frame GROUP BY size ORDER BY size DESC NULLS LAST",
        "SELECT half FROM frame WHERE size > 'low' ORDER BY half",
    ]
    with qoop.connect(slots=1, memory="300MB", staged=staged) as session, duckdb.connect() as oracle:
        for text in texts:
            assert session.sql(text).fetchall() == oracle.sql(text).fetchall() != []
        make = "CREATE TABLE kept AS SELECT size, 1 AS n FROM frame; INSERT INTO kept VALUES ('high', 2)"
        change = "UPDATE kept SET size = 'low' WHERE size = 'mid'; FROM kept ORDER BY size NULLS FIRST, n"
        assert len(frame) == 5 and oracle.execute(make) and session.sql(make)
        assert session.sql(change).fetchall() == oracle.execute(change).fetchall() != []


ARRAYS: dict[str, object] = {
    "one": np.arange(3),
    "rows": np.array([["a", "b"], ["c", "a"]]),
    "several": (np.array([1.5, 2.5]), np.array(["2024-01-01", "NaT"], dtype="M8[ns]")),
    "by name": {"n": np.array([2, 1]), "t": np.array(["x", None], dtype=object)},
}
OBJECTS: dict[str, object] = {
    "numbers": pd.DataFrame({"n": [1, None, 2], "big": [2**70, 1, -1]}, dtype=object),
    "a number beyond the sample": pd.DataFrame({"n": [1] * 2000 + [2**40]}, dtype=object),
    "nested values": pd.DataFrame({"l": [[1], None], "s": [{"x": [1]}, {"x": []}], "m": [{"x": 1}, {"y": "z"}]}),
    "dates and moments": pd.DataFrame({"d": [dt.date(2026, 1, 1), dt.datetime(2026, 1, 1, 12)]}),
    "times with zones": pd.DataFrame({"t": [dt.time(1, tzinfo=dt.UTC), None]}),
    "names twice": pd.DataFrame([[1, 2, 3, 4]], columns=["n", "N", "n", ""]),
    "names in other cases": pa.table({"n": [1], "N": [2]}),
}


@pytest.mark.parametrize("data", [*ARRAYS.values(), *OBJECTS.values()], ids=[*ARRAYS, *OBJECTS])
def test_arrays_and_objects_have_the_types_and_names_that_duckdb_gives_them(data: object) -> None:
    """DuckDB takes the type of all from the first thousand, and refuses what does not fit it."""
    with qoop.connect(slots=1, memory="300MB", staged=True) as session, duckdb.connect() as oracle:
        found = session.sql("FROM data")
        assert len(found) > 0
        try:
            expected = oracle.sql("FROM data")
        except duckdb.InvalidInputException as error:
            assert "sample" in str(error)
            return
        assert (list(found.columns), found.types) == (expected.columns, list(map(str, expected.types)))
        assert found.fetchall() == expected.fetchall()


def test_an_array_is_read_as_it_is_when_it_is_asked_for() -> None:
    with qoop.connect(slots=1, memory="300MB") as session:
        numbers = np.arange(3)
        assert session.sql("SELECT sum(column0) FROM numbers").fetchall() == [(3,)]
        numbers[0] = 10
        assert session.sql("SELECT sum(column0) FROM numbers").fetchall() == [(13,)]


def test_addresses_of_objects_are_no_values() -> None:
    frame = pl.DataFrame({"n": [1], "o": pl.Series([object()], dtype=pl.Object)})
    with qoop.connect(slots=1, memory="300MB") as session, pytest.raises(qoop.SourceError, match="objects of Python"):
        session.register("t", frame)
