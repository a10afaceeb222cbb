"""CREATE MACRO against DuckDB: the same rows, columns and types, in stages."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest

import qoop

TABLE = pa.table({"i": list(range(2000)), "k": [row % 7 for row in range(2000)], "s": ["x", "y"] * 1000})
MACROS = (
    "CREATE MACRO plus(a, b := 5) AS a + b",
    "CREATE MACRO main.Twice(a) AS a * 2",
    "CREATE MACRO nested(a) AS twice(plus(a, b := 1))",
    "CREATE MACRO spread(a) AS max(a) - min(a)",
    "CREATE MACRO field(a) AS {'a': a, 'b': [a]}",
    "CREATE MACRO above(least) AS (SELECT count(*) FROM t WHERE i > least)",
    "CREATE MACRO rows_of(which, most := 5) AS TABLE SELECT i, k FROM t WHERE k = which AND i < most * 10 ORDER BY i",
    "CREATE MACRO three() AS TABLE VALUES (1), (2), (3)",
    "CREATE MACRO evens(a) AS list_filter(range(a), lambda x: x % 2 = 0)",
    "CREATE MACRO typed(a BIGINT, b DECIMAL(10, 2) := 1.5, c := 'z') AS typeof(a) || typeof(b) || c",
    "CREATE MACRO lists(a DOUBLE, b INT[] := [1]) AS TABLE SELECT typeof(a) AS x, b AS y",
    "CREATE MACRO length_of(p) AS sqrt(p.x * p.x + p.y * p.y)",
    "CREATE MACRO largest(q) AS (SELECT max(q.i) FROM t AS q)",
    "CREATE MACRO of_table(name) AS TABLE FROM query_table(name)",
)
QUERIES = (
    "SELECT plus(i), plus(i, 1), plus(i, b := k), plus(b := 2, a := i) AS x FROM t ORDER BY i LIMIT 5",
    "SELECT twice(plus(i)), TWICE(i) FROM t WHERE plus(k) = 7 ORDER BY 2 LIMIT 3",
    "SELECT nested(k), count(*) FROM t GROUP BY nested(k) ORDER BY 1",
    "SELECT k, spread(i), spread(twice(i)) AS s FROM t GROUP BY k ORDER BY k",
    "SELECT DISTINCT plus(k) FROM t ORDER BY 1",
    "SELECT sum(plus(i)) OVER (PARTITION BY k ORDER BY i) AS o FROM t ORDER BY i LIMIT 4",
    "SELECT above(1990), above(k * 300) FROM (SELECT 3 AS k) ORDER BY ALL",
    "FROM rows_of(3)",
    "SELECT r.i, q.k FROM rows_of(2, most := 8) r JOIN rows_of(2) AS q USING (i) ORDER BY ALL",
    "SELECT count(*), twice(col0) FROM three(), t GROUP BY col0 ORDER BY 2",
    "WITH c AS (SELECT twice(i) FROM t WHERE i < 3) SELECT * FROM c ORDER BY ALL",
    "SELECT *, plus(i) FROM t ORDER BY i LIMIT 3",
    "SELECT plus(a.i), *, plus(b.k), 1 + 1 FROM t a JOIN t b USING (i, s) ORDER BY ALL LIMIT 3",
    "SELECT main.plus(i), memory.main.twice(k) FROM t ORDER BY ALL LIMIT 3",
    "SELECT field(i) FROM t ORDER BY i LIMIT 2",
    "SELECT plus(1) UNION ALL SELECT 2 ORDER BY 1",
    "SELECT evens(k + 3), twice FROM (SELECT k, k AS twice FROM t WHERE i < 4) ORDER BY ALL",
    "SELECT 'plus(1)', plus(1) -- plus(2)",
    "SELECT typed(1), typed(2, 3), typed(i::TINYINT, c := 'y') FROM t WHERE i < 2",
    "SELECT * FROM lists(1), lists(2, [2, 3]) AS more",
    "SELECT length_of({'x': 3, 'y': 4}), length_of(p), length_of(u.p) FROM (SELECT {'x': k, 'y': 1} AS p FROM t) u "
    "ORDER BY ALL LIMIT 3",
    "SELECT largest(7)",
    "SELECT max(i) FROM of_table('t')",
)


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[qoop.Session, duckdb.DuckDBPyConnection]]:
    with qoop.connect(slots=2, memory="1GB", staged=True) as session, duckdb.connect() as theirs:
        session.register("t", TABLE)
        theirs.register("t", TABLE)
        for text in MACROS:
            session.sql(text)
            theirs.execute(text)
        yield session, theirs


@pytest.mark.parametrize("text", QUERIES)
def test_calls_have_duckdbs_rows_and_columns(both: tuple[qoop.Session, duckdb.DuckDBPyConnection], text: str) -> None:
    session, theirs = both
    expected = theirs.sql(text)
    rows = expected.fetchall()
    found = session.sql(text)
    assert found.fetchall() == rows != []
    assert (found.columns, found.types) == (expected.columns, [str(one) for one in expected.types])


def test_a_call_runs_in_stages(both: tuple[qoop.Session, duckdb.DuckDBPyConnection]) -> None:
    assert "runs whole" not in both[0].explain("SELECT k, spread(twice(i)) FROM t GROUP BY k")


def test_views_call_macros_as_they_are_now(both: tuple[qoop.Session, duckdb.DuckDBPyConnection]) -> None:
    session, _ = both
    session.sql("CREATE MACRO of_view(a) AS a + 1; CREATE VIEW v AS SELECT of_view(i) AS j FROM t WHERE i < 2")
    assert sorted(session.sql("FROM v").fetchall()) == [(1,), (2,)]
    session.sql("CREATE OR REPLACE MACRO of_view(a) AS a + 10")
    assert sorted(session.sql("SELECT twice(j) FROM v").fetchall()) == [(20,), (22,)]
    session.sql("DROP VIEW v; DROP MACRO of_view")
    with pytest.raises(qoop.BindError, match="of_view does not exist"):
        session.sql("SELECT of_view(1)")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE MACRO plus(a) AS a", "there is a macro plus already"),
        ("CREATE MACRO fresh(a) AS a + unknown", "unknown"),
        ("SELECT typed('a')", "add explicit type casts"),
        ("CREATE MACRO fresh(a) AS a, (a, b) AS a + b", "has one form"),
        ("CREATE MACRO other.fresh(a) AS a", "in the schema main"),
        ("DROP MACRO fresh", "there is no macro fresh; there are: above, evens"),
        ("SELECT plus()", r"the arguments of plus do not fit: it is plus\(a, b := 5\)"),
        ("SELECT plus(1, c := 2)", "do not fit"),
        ("SELECT plus(1, 2, 3)", "do not fit"),
        ("SELECT (1).plus()", r"call the macro as plus\(…\)"),
        ("SELECT plus('a')", "add explicit type casts"),
    ],
)
def test_errors_say_what_is_wrong(
    both: tuple[qoop.Session, duckdb.DuckDBPyConnection], text: str, message: str
) -> None:
    with pytest.raises(qoop.QoopError, match=message):
        both[0].sql(text).fetchall()


def test_nothing_is_made_or_dropped_without_being_asked(
    both: tuple[qoop.Session, duckdb.DuckDBPyConnection],
) -> None:
    session, _ = both
    session.sql("CREATE MACRO IF NOT EXISTS plus(a) AS 'other'; DROP MACRO IF EXISTS fresh")
    assert session.sql("SELECT plus(1)").fetchall() == [(6,)]


def test_a_locked_session_has_none() -> None:
    with qoop.connect(slots=1, memory="500MB", locked=True) as session:
        session.register("t", TABLE)
        with pytest.raises(qoop.Forbidden, match="has no macros"):
            session.sql("CREATE MACRO count(a) AS 0")


def test_a_variable_gives_its_column_duckdbs_name() -> None:
    texts = ("SET VARIABLE v = 3", "SELECT getvariable('v') + i, getvariable('v') AS x, i FROM range(2) r(i)")
    with qoop.connect(slots=1, memory="500MB") as session, duckdb.connect() as theirs:
        for text in texts:
            found, expected = session.sql(text), theirs.sql(text)
        assert found.fetchall() == expected.fetchall() and found.columns == expected.columns
