"""Tables made of queries, of every type: what is kept is what DuckDB would keep, the rest is refused."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import qoop
from qoop.catalog.errors import QueryError

VALUES = (
    "[1, NULL, 3]", "[[1], [2, NULL], []]", "{'a': 1, 'b': [2, NULL]}", "MAP {'a': 1, 'b': NULL}",
    "INTERVAL '1 month 2 days 3 seconds'", "170141183460469231731687303715884105727::HUGEINT", "1::UHUGEINT",
    "'b3bcb2a8-0b0d-4d2b-9a1d-1d1f5f0f6b1a'::UUID", "'\\xAA\\x00'::BLOB", "'10:00:00+02'::TIMETZ", "'0101'::BIT",
    "'2020-01-01 01:02:03.123456789'::TIMESTAMP_NS", "'2020-01-01'::TIMESTAMP_S", "'2020-01-01'::TIMESTAMP_MS",
    "'2020-01-01 10:00:00+02'::TIMESTAMPTZ", "'{\"a\": [1, null]}'::JSON", "union_value(n := 1)", "array_value(1, 2)",
    "TIME '10:00:00.123456'", "[170141183460469231731687303715884105727::HUGEINT]", "['101'::BIT]",
    "{'u': 'b3bcb2a8-0b0d-4d2b-9a1d-1d1f5f0f6b1a'::UUID}", "12345678901234567890123456789.5::DECIMAL(38,1)",
    "'-inf'::DOUBLE", "'nan'::FLOAT", "(-5)::TINYINT", "65535::USMALLINT", "18446744073709551615::UBIGINT", "'ä€😀'",
    "''", "DATE '0044-03-15 (BC)'", "'a'::ENUM ('a', 'b')", "['a'::ENUM ('a', 'b')]", "true",
)  # fmt: skip
REFUSED = {
    "memory": {"['a'::ENUM ('a', 'b')]"},
    "folder": {
        "'10:00:00+02'::TIMETZ", "'a'::ENUM ('a', 'b')", "['a'::ENUM ('a', 'b')]",
        "170141183460469231731687303715884105727::HUGEINT",
        "1::UHUGEINT", "'0101'::BIT", "'2020-01-01'::TIMESTAMP_S", "'2020-01-01'::TIMESTAMP_MS", "union_value(n := 1)",
        "array_value(1, 2)", "[170141183460469231731687303715884105727::HUGEINT]", "['101'::BIT]",
    },
}  # fmt: skip


@pytest.fixture(scope="module", params=["memory", "folder"])
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def session(place: str, tmp_path_factory: pytest.TempPathFactory) -> qoop.Session:
    folder: Path | None = tmp_path_factory.mktemp("tables") if place == "folder" else None
    with qoop.connect(slots=1, tables=folder) as made:
        yield made


@pytest.mark.parametrize("value", VALUES)
def test_a_value_is_kept_as_duckdb_keeps_it_or_refused(session: qoop.Session, place: str, value: str) -> None:
    make = f"CREATE OR REPLACE TABLE kept AS SELECT * FROM (VALUES (0, {value}), (1, NULL), (2, {value})) t(i, v)"
    if value in REFUSED[place]:
        with pytest.raises(QueryError, match=r"kept cannot be kept in .*: it would change v of .*; cast it"):
            session.sql(make)
        return
    session.sql(make)
    read = "SELECT i, v, typeof(v) AS t, v::VARCHAR AS text FROM kept ORDER BY i"
    with duckdb.connect() as oracle:
        oracle.execute(make)
        expected = oracle.execute(read)
        types = [str(type_) for _, type_, *_ in expected.description]
        rows = expected.fetchall()
    found = session.sql(read)
    assert repr(found.fetchall()) == repr(rows) and len(rows) == 3 and rows[1][1] is None
    assert len(types) == 4 and found.types[1] == rows[0][2]


def test_a_query_whose_rows_no_table_keeps_is_refused_before_it_runs(session: qoop.Session, place: str) -> None:
    type_ = {"memory": "ENUM ('a', 'b')[]", "folder": "HUGEINT"}[place]
    with pytest.raises(QueryError, match=r"long cannot be kept in .*: it would change v of .*; cast it"):
        session.sql(f"CREATE TABLE long AS SELECT NULL::{type_} AS v, error('it runs') AS e FROM range(10)")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT CAST('10:00:00+02' AS TIMETZ) AS t",
        "SELECT i, x::TIMETZ AS t FROM times WHERE CAST(x AS TIMETZ) > CAST('10:30:00+02' AS TIMETZ) ORDER BY i",
        "SELECT i FROM times WHERE TIMETZ '10:00:00+02' < x::TIMETZ AND x::TIMETZ NOT IN ('11:00:00+02') ORDER BY i",
        "SELECT TRY_CAST(x AS TIME WITH TIME ZONE) AS t, count(*) AS n FROM times GROUP BY t ORDER BY n, t::VARCHAR",
        "SELECT a.i, b.i AS j FROM times a JOIN times b ON a.x::TIMETZ = b.x::TIMETZ ORDER BY a.i, j",
    ],
)
def test_times_with_a_zone_within_a_query(session: qoop.Session, text: str) -> None:
    make = "SELECT i, ['10:00:00+02', '08:00:00+00', '11:00:00-03'][i % 3 + 1] AS x FROM range(9) t(i)"
    session.sql(f"CREATE OR REPLACE TABLE times AS {make}")
    with duckdb.connect() as oracle:
        oracle.execute(f"CREATE TABLE times AS {make}")
        expected = oracle.execute(text).fetchall()
    assert repr(session.sql(text).fetchall()) == repr(expected) and expected
