"""Names that a WITH gives again: of views, of other queries of a WITH, of tables. DuckDB is the oracle."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import qoop

MADE = (
    "CREATE TABLE t AS SELECT i, i % 3 AS k FROM range(10) AS r(i)",
    "CREATE VIEW v AS SELECT i, k FROM t WHERE i > 3",
    "CREATE VIEW u AS SELECT * FROM v JOIN (SELECT DISTINCT k FROM t) USING (k)",
    "CREATE VIEW w AS WITH v AS (SELECT 1 AS i) SELECT * FROM v",
    "CREATE VIEW spread AS PIVOT t ON k IN (0, 1)",
)
TEXTS = (
    "WITH v AS (SELECT * FROM v) SELECT * FROM v",
    "WITH v AS (SELECT 5 AS i) SELECT v.i, u.i FROM v, u",
    "WITH v AS (SELECT i FROM u) SELECT * FROM v",
    "WITH w AS (FROM w), v AS (FROM v) SELECT v.i FROM v, w",
    "WITH v AS (FROM main.v WHERE i > 5) SELECT v.i, x.k FROM v JOIN main.v AS x USING (i)",
    "SELECT main.v.i FROM memory.main.v WHERE main.v.k = 1",
    "WITH t AS (SELECT i + 100 AS i FROM t) SELECT v.i, t.i FROM v, t WHERE v.i + 100 = t.i",
    "SELECT v.i, q.i FROM (WITH v AS (FROM v WHERE i < 7) FROM v) AS q, v WHERE q.i = v.i",
    "WITH v AS (FROM v) SELECT v.i, unnest([k, v.i]) FROM v, w",
    "WITH RECURSIVE v(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM v WHERE n < 4) SELECT n, u.i FROM v, u",
    "WITH v AS (FROM spread) SELECT count(*) FROM v, u",
    "WITH t AS (SELECT i + 100 AS i FROM t), q AS (WITH t AS (SELECT i + 1000 AS i FROM t) FROM t) FROM q",
    "WITH a AS (FROM t), b AS (SELECT unnest([i, i]) AS i FROM a), c AS (WITH a AS (SELECT 7 AS i FROM a) "
    "SELECT a.i, b.i AS j FROM a, b) SELECT sum(i), sum(j), count(*) FROM c",
    "WITH a AS (SELECT i FROM t) SELECT i, (WITH a AS (SELECT max(i) AS m FROM a) SELECT m FROM a) FROM a",
)


@pytest.fixture(scope="module", params=[False, True], ids=["whole", "staged"])
def both(request: pytest.FixtureRequest) -> Iterator[tuple[qoop.Session, duckdb.DuckDBPyConnection]]:
    """A session and a DuckDB with the same tables and views."""
    with qoop.connect(slots=2, staged=request.param) as session, duckdb.connect() as oracle:
        for text in MADE:
            session.sql(text)
            oracle.execute(text)
        yield session, oracle


@pytest.mark.parametrize("text", TEXTS)
def test_the_nearest_with_gives_a_name_its_meaning(
    both: tuple[qoop.Session, duckdb.DuckDBPyConnection], text: str
) -> None:
    session, oracle = both
    theirs = oracle.sql(text)
    result = session.sql(text)
    assert (result.columns, result.types) == (theirs.columns, [str(type_) for type_ in theirs.types])
    ours, rows = sorted(map(repr, result.fetchall())), sorted(map(repr, theirs.fetchall()))
    assert rows
    assert ours == rows


def test_show_describes_a_table(both: tuple[qoop.Session, duckdb.DuckDBPyConnection]) -> None:
    session, oracle = both
    for text in ("SHOW t", "show v; -- a view", "SHOW SELECT 1 AS a"):
        assert session.sql(text).fetchall() == oracle.execute(text).fetchall() != []


def test_aliases_in_other_case_are_the_names(both: tuple[qoop.Session, duckdb.DuckDBPyConnection]) -> None:
    session, oracle = both
    for text in ("SELECT i AS I, K FROM t LIMIT 1", 'SELECT "K" AS "K", k AS kk FROM v LIMIT 1'):
        assert session.sql(text).columns == oracle.sql(text).columns


def test_rows_have_no_numbers(both: tuple[qoop.Session, duckdb.DuckDBPyConnection]) -> None:
    session, _ = both
    assert session.sql("SELECT i AS rowid FROM t ORDER BY rowid LIMIT 1").fetchall() == [(0,)]
    for text in ("SELECT rowid FROM t", "SELECT i FROM t WHERE t.rowid = 1"):
        with pytest.raises(qoop.BindError, match="rowid"):
            session.sql(text)


def test_what_duckdb_knows_of_its_rows_is_refused(both: tuple[qoop.Session, duckdb.DuckDBPyConnection]) -> None:
    with pytest.raises(qoop.BindError, match=r"stats\(\) would describe"):
        both[0].sql("SELECT stats(i) FROM t")
