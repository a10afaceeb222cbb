"""Prepared statements, variables and transactions, as DuckDB answers them."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest

import qoop

ROWS = pa.table({"a": [1, 2, 3], "b": ["x", "y, (z)", None]})


@pytest.fixture
def session() -> Iterator[qoop.Session]:
    with qoop.connect(slots=1, memory="500MB") as made:
        made.register("t", ROWS)
        yield made


@pytest.mark.parametrize(
    "text",
    [
        "PREPARE q AS SELECT a + $1 AS n FROM t WHERE b = $2; EXECUTE q(10, 'y, (z)')",
        "PREPARE q AS SELECT a FROM t WHERE a > ? ORDER BY a; EXECUTE q(1); EXECUTE Q(1 + 1)",
        "PREPARE q AS SELECT $low, $high; EXECUTE q(high := [1, 2], low := 3)",
        "PREPARE q AS SELECT count(*) FROM t; EXECUTE q",
        "PREPARE q AS SELECT 1; PREPARE q AS SELECT 2; EXECUTE q",
        "SET VARIABLE v = 2; SELECT a FROM t WHERE a < getvariable('v')",
        "SET VARIABLE V = (SELECT max(a) FROM t); SELECT getvariable('v') + 1 AS n, 'getvariable(''v'')' AS said",
        "SET VARIABLE v = [DATE '2026-01-02']; SELECT getvariable( /* it */ 'v')[1] AS d, typeof(getvariable('v'))",
        "SET VARIABLE v = 7::TINYINT; RESET VARIABLE v; SELECT getvariable('v') AS n, getvariable('none') AS m",
        "CALL generate_series(3)",
        "BEGIN; SELECT 1; COMMIT; BEGIN; ROLLBACK; SELECT 2",
    ],
)
def test_they_answer_as_in_duckdb(text: str, session: qoop.Session) -> None:
    with duckdb.connect() as other:
        other.register("t", ROWS)
        theirs = other.execute(text).fetchall()
    assert theirs and session.sql(text).fetchall() == theirs


def test_a_prepared_change_is_done_as_often_as_it_is_asked_for(session: qoop.Session) -> None:
    session.sql("CREATE TABLE made (n INTEGER); PREPARE more AS INSERT INTO made VALUES ($1)")
    for number in range(3):
        session.sql(f"EXECUTE more({number})")
    assert session.sql("SELECT n FROM made ORDER BY n").fetchall() == [(0,), (1,), (2,)]
    session.sql("DEALLOCATE more")
    with pytest.raises(qoop.QueryError, match="no prepared statement more; there are: none"):
        session.sql("EXECUTE more(4)")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("PREPARE q AS SELECT $1; EXECUTE q", "the parameter .1 has no value"),
        ("PREPARE q AS SELECT 1; EXECUTE q(2)", "no parameters, for: 1"),
        ("PREPARE q AS SELECT 1; DEALLOCATE r", "there are: q"),
        ("COMMIT", "BEGIN first"),
        ("BEGIN; BEGIN", "a transaction already"),
        ("BEGIN; CREATE TABLE made (n INTEGER); ROLLBACK", "nothing is rolled back"),
    ],
)
def test_mistakes_are_reported(text: str, message: str, session: qoop.Session) -> None:
    with pytest.raises(qoop.QueryError, match=message):
        session.sql(text)


def test_a_rollback_that_is_refused_ends_the_transaction(session: qoop.Session) -> None:
    with pytest.raises(qoop.QueryError, match="nothing is rolled back"):
        session.sql("BEGIN; CREATE TABLE kept AS SELECT 1 AS n; ROLLBACK")
    assert session.sql("BEGIN; FROM kept; COMMIT; FROM kept").fetchall() == [(1,)]


def test_threads_are_slots_and_a_locked_session_remembers_nothing(session: qoop.Session) -> None:
    session.sql("SET threads = 2")
    assert session.available.cpu == 2
    session.sql("RESET threads")
    with qoop.connect(slots=1, memory="500MB", locked=True) as locked:
        for text in ("PREPARE q AS SELECT 1", "SET VARIABLE v = 1", "BEGIN", "SET threads = 2"):
            with pytest.raises(qoop.Forbidden):
                locked.sql(text)


def test_a_result_is_gone_through_row_by_row(session: qoop.Session) -> None:
    result = session.sql("SELECT a, b FROM t ORDER BY a")
    assert list(result) == list(result) == result.fetchall() and result.fetchmany(2) == [(1, "x"), (2, "y, (z)")]
    assert [column[:2] for column in result.description] == [("a", "BIGINT"), ("b", "VARCHAR")]
