"""A parameter's value is a value, whatever it holds and whatever stands around the parameter.

The oracle is DuckDB's own binding."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import qoop

Both = tuple[qoop.Session, duckdb.DuckDBPyConnection]

AROUND = [
    r"E'it\'s what?'",
    r"E'\\' || '?'",
    "'?''?'",
    "$$ ? ' $1 $$",
    "$tag$ $$ ? $tag$",
    "'--' || '/*'",
    "/* ? /* ' ? */ $a */ 1",
    "-- it's ?\n 1",
    "'a'\n'? b'",
    "'a' -- ?\n '? b'",
    "{'?': 1, 'b': '$1'}",
    "'{\"?\": 2}' ->> '$.?'",
    "[1, 2][1:2]",
    "x'3f'",
    "(SELECT \"?\" FROM (SELECT 1 AS \"?\"))",
    "(SELECT \"a \"\" ?\" FROM (SELECT 1 AS \"a \"\" ?\"))",
    "'\U0001f600é' || '?'",
    "1e2+3",
    "- -1",
]  # fmt: skip
TEXT = st.text(st.characters(codec="utf-8"), max_size=12) | st.text("'\"\\$?;-/*() \n\0éE", max_size=12)
LEAVES = (
    st.none() | st.booleans() | st.integers(-(2**127), 2**127 - 1) | st.floats(allow_nan=False) | TEXT
    | st.binary(max_size=9) | st.decimals(-10**9, 10**9, places=3)
    | st.dates() | st.datetimes() | st.times() | st.timedeltas(timedelta(days=-9999), timedelta(days=9999)) | st.uuids()
)  # fmt: skip
VALUES = LEAVES | st.lists(st.integers(-5, 2**40), min_size=1, max_size=4) | st.lists(TEXT, min_size=1, max_size=4) | (
    st.dictionaries(st.text("ab '\"?", min_size=1, max_size=3), LEAVES, min_size=1, max_size=3)
    .filter(lambda fields: len({name.lower() for name in fields}) == len(fields))
)  # fmt: skip


@pytest.fixture(scope="module")
def both() -> Iterator[Both]:
    rows = pa.table({"a": [1, 2, 3, None], "b": ["x", "it's", "?", None]})
    with qoop.connect(slots=2, memory="500MB") as session, duckdb.connect() as oracle:
        session.register("t", rows)
        oracle.register("t", rows)
        yield session, oracle


def same(both: Both, text: str, values: list[object] | dict[str, object]) -> None:
    session, oracle = both
    expected = oracle.execute(text, values).fetchall()
    assert session.sql(text, values).fetchall() == expected != []


@settings(max_examples=50, deadline=None)
@given(VALUES, st.sampled_from(AROUND), st.sampled_from(AROUND))
def test_a_value_comes_back_as_it_was(both: Both, value: object, before: str, after: str) -> None:
    same(both, f"SELECT {before}, ? AS v, {after}, typeof($1)", [value])


@settings(max_examples=60, deadline=None)
@given(TEXT, st.sampled_from(AROUND))
def test_a_text_is_compared_and_never_read(both: Both, value: str, around: str) -> None:
    same(both, f"SELECT {around}, count(*) FROM t WHERE b = $v OR b IN ($v, 'x', $v) OR b LIKE $v", {"v": value})


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("SELECT a FROM t ORDER BY a NULLS LAST LIMIT ? OFFSET ?", [2, 1]),
        ("SELECT a FROM t WHERE a IN (?, ?, ?) ORDER BY a", [1, None, 3]),
        ("SELECT a FROM t WHERE a IN ? ORDER BY a", [[1, 3, 9]]),
        ("SELECT count(*) FROM t WHERE a NOT IN ?", [[1, None]]),
        ("SELECT a FROM t WHERE a = ANY(?) ORDER BY a", [[1, 3, 9]]),
        ("FROM (VALUES (?, ?), (?, 'c')) v(x, y) ORDER BY ALL", [1, "a", 2]),
        ("SELECT $1::VARCHAR || $1::INT, -?, ?::DATE", [5, 6, "2020-01-01"]),
        ("SELECT ?['a'], [1, 2][?], $1.a", [{"a": 1}, 2]),
        ("SELECT ?[2]", [[1, 2]]),
        ("SELECT INTERVAL (?) DAY, CASE ? WHEN 1 THEN ? END", [3, 1, "x"]),
        ("FROM range(?)", [3]),
        ("SELECT $é, $_a1, $É, $_A1", {"é": 1, "_a1": 2, "É": 3}),
        ('SELECT $"a b", $ c', {"a b": 1, "c": 2}),
        ("SELECT ?2, ?1", [1, "b"]),
        ("SELECT x'00' = ?, 'é' || ?, NOT?", [b"\0", "é", True]),
        ("SELECT (SELECT max(a) FROM t WHERE a < $n), $n IN (FROM t SELECT a)", {"n": 3}),
        ("SELECT '{\"k\": [1, 2]}'::JSON ->> ?", ["$.k[1]"]),
        ("SELECT ?, ?, ?", [UUID(int=7), Decimal("-1.50"), datetime(2020, 1, 1, tzinfo=UTC)]),
        ("SELECT ?, ?", [time(1, 2, 3), date(1, 1, 1)]),
        ("SELECT ? -- ?\n, ? /* ? */", [1, 2]),
        (r"SELECT E'\'', ?", ["a\xa0b\u3000"]),
    ],
)
def test_parameters_wherever_duckdb_takes_them(both: Both, text: str, values: list[object] | dict[str, object]) -> None:
    same(both, text, values)


@pytest.mark.parametrize(
    ("text", "values", "message"),
    [
        (r"SELECT E'it\'s what?'", ["x"], "values, but no parameters"),
        ("SELECT $$ ? $$ /* /* ? */ ? */ -- ?", ["x"], "values, but no parameters"),
        ("SELECT ?", [], "no values"),
        ("SELECT $b", {"a": 1}, r"the parameter \$b has no value"),
        ("SELECT ?", ["\ud800"], "not UTF-8"),
        ("SELECT ?", [object()], "cannot be the value"),
        ("SELECT ?", "x", "as a list or a dict"),
        ("SELECT ?", 5, "as a list or a dict"),
        ("SELECT ?", {1}, "has no value|as a list or a dict"),
        ("SELECT ? ?", [1, 2], "syntax error"),
        ("SELECT E?", ["x"], "syntax error"),
        ("SELECT 1\0?", [1], "NUL"),
        ("SELECT $a, ?", [1], "named and positional"),
    ],
)
def test_what_cannot_be_bound_is_reported(both: Both, text: str, values: object, message: str) -> None:
    with pytest.raises(qoop.QueryError, match=message):
        both[0].sql(text, values)  # type: ignore[arg-type]


def test_a_value_never_becomes_sql(both: Both, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("word\nhidden\n")
    attack = f" || (SELECT max(word) FROM read_csv('{tmp_path}/secret.csv')) || "
    for text in (r"SELECT E'it\'s what?' || ? || 'end' AS v", "SELECT $q$'$q$ || ? || $q$'$q$ AS v"):
        same(both, text, [attack])
        assert "hidden" not in str(both[0].sql(text, [attack]).fetchall())


def test_parameters_of_statements_that_are_no_query(tmp_path: Path) -> None:
    path = str(tmp_path / "it's ?.csv")
    with qoop.connect(slots=1, memory="500MB") as session:
        session.sql("CREATE TABLE made AS SELECT range AS n, $s AS s FROM range($m)", {"m": 3, "s": "it's ?"})
        session.sql(r"CREATE VIEW seen AS SELECT n, E'\'?' AS q FROM made WHERE n < ?", [2])
        assert session.sql("FROM seen ORDER BY n").fetchall() == [(0, "'?"), (1, "'?")]
        session.sql("COPY (SELECT s FROM made WHERE n = ?) TO '" + path.replace("'", "''") + "' (HEADER false)", [1])
        assert session.sql("EXPLAIN ALTERNATIVES SELECT n FROM made WHERE n < ?", [2]).columns[0] == "explain_key"
        job = session.submit("SELECT ? AS x", parameters=[("a", "b")])
        assert job.result().fetchall() == [(["a", "b"],)]
    assert Path(path).read_text() == "it's ?\n"
