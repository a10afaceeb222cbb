"""Queries that the planner takes apart, though SQL has them in a form of DuckDB's own: stars, COLUMNS, USING, ALL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from taken_apart import Both, both

STARS = (
    "SELECT COLUMNS(*) FROM t",
    "SELECT min(COLUMNS(*)) FROM t",
    "SELECT min(COLUMNS(*)) AS m FROM t",
    "SELECT COLUMNS('k|n') + 1 FROM t",
    "SELECT COLUMNS(c -> c LIKE 'k%') FROM t",
    "SELECT COLUMNS(['i','k']) FROM t",
    r"""SELECT COLUMNS('(i)') AS "x_\1" FROM t""",
    r"""SELECT COLUMNS('(i|k)') AS "x_\1" FROM t""",
    "SELECT COLUMNS(t.*) FROM t",
    "SELECT COLUMNS(* EXCLUDE (S)) * 2 FROM t",
    "SELECT sum(COLUMNS(* EXCLUDE (S))) FROM t GROUP BY k",
    "SELECT coalesce(*COLUMNS('i|k')) FROM t",
    "SELECT i FROM t WHERE COLUMNS('i|k') > 2",
    "SELECT * REPLACE (i+1 AS i) FROM t",
    "SELECT * REPLACE (i+1 AS I, upper(S) AS s) FROM t",
    "SELECT t.* REPLACE (i+1 AS i) FROM t",
    "SELECT * EXCLUDE (i) FROM t",
    "SELECT * EXCLUDE i FROM t",
    "SELECT * RENAME (i AS j2) FROM t",
    "SELECT * EXCLUDE (k) RENAME (i AS j2) FROM t",
    "SELECT * FROM t JOIN u USING (k)",
    "SELECT t.*, u.* FROM t JOIN u USING (k)",
    "SELECT * FROM t LEFT JOIN u USING (k)",
    "SELECT * FROM t RIGHT JOIN u USING (k)",
    "SELECT * FROM t FULL JOIN u USING (k)",
    "SELECT * FROM t FULL JOIN u USING (K)",
    "SELECT k, count(*) FROM t FULL JOIN u USING (k) GROUP BY k",
    "SELECT * FROM t NATURAL JOIN u",
    "SELECT * FROM t JOIN u USING (k) JOIN w USING (k)",
    "SELECT * EXCLUDE (k) FROM t JOIN u USING (k)",
    "SELECT * EXCLUDE (t.k) FROM t JOIN u ON t.k=u.k",
    "SELECT * REPLACE (k+1 AS k) FROM t JOIN u USING (k)",
    "SELECT * LIKE 'k%' FROM t",
    "SELECT * SIMILAR TO 'k|i' FROM t",
    "SELECT i, k FROM t ORDER BY ALL",
    "SELECT k, i FROM t ORDER BY ALL DESC",
    "SELECT k, i+1 FROM t ORDER BY ALL DESC NULLS LAST",
    "SELECT n, count(*) FROM t GROUP BY ALL ORDER BY ALL",
    "SELECT DISTINCT k, n FROM t ORDER BY ALL",
    "SELECT k, n FROM t UNION ALL SELECT k, j FROM u ORDER BY ALL",
    "SELECT * FROM (SELECT * REPLACE (k*2 AS k) FROM t) x JOIN u USING (k)",
    "SELECT * FROM t SEMI JOIN u USING (k)",
    "SELECT * FROM t a JOIN t b USING (i, k)",
    "SELECT * FROM t FULL JOIN u USING (k) FULL JOIN w USING (k)",
    "SELECT k, count(*), sum(i) FROM t FULL JOIN u USING (k) RIGHT JOIN w USING (k) GROUP BY ALL",
    "SELECT t.k, u.k, k FROM t FULL JOIN u USING (k)",
    "SELECT t.k, u.k, k FROM t RIGHT JOIN u USING (k)",
    "SELECT t.k, u.k, k FROM t LEFT JOIN nothing u USING (k)",
    "SELECT t.k, u.k, k FROM t FULL JOIN nothing u USING (k) ORDER BY k, i",
    "SELECT * FROM (SELECT * FROM t JOIN u ON t.k = u.k)",
    "SELECT k_1 FROM (SELECT * FROM t JOIN u ON t.k = u.k)",
    "SELECT max(COLUMNS('k|j')) FROM (SELECT * FROM t JOIN u ON t.k = u.k)",
    "WITH q AS (SELECT * EXCLUDE (f) RENAME (S AS s2) FROM t) SELECT s2, min(COLUMNS('i|n')) FROM q GROUP BY s2 "
    "ORDER BY ALL",
    "SELECT COLUMNS(*)::VARCHAR FROM t",
    "SELECT * FROM t NATURAL LEFT JOIN u",
    "SELECT * FROM t NATURAL FULL JOIN u",
    "SELECT * FROM nothing NATURAL JOIN t",
    "SELECT * FROM t JOIN u USING (k), w",
    "SELECT * FROM t JOIN u USING (k), w JOIN nothing USING (k)",
    "SELECT k FROM t FULL JOIN u USING (k) WHERE k > 1 ORDER BY k",
    "SELECT k, row_number() OVER (PARTITION BY k ORDER BY i, j) FROM t FULL JOIN u USING (k)",
    "SELECT -i AS i, k FROM t ORDER BY ALL DESC NULLS FIRST",
    "SELECT * REPLACE (-i AS i) FROM t ORDER BY i",
    "SELECT -COLUMNS('i') FROM t ORDER BY i",
    "SELECT * REPLACE (-i AS i) FROM t WHERE i > 3",
    "SELECT S, sum(COLUMNS(* EXCLUDE (S, i))) FROM t GROUP BY S",
    "SELECT sum(COLUMNS('i|k')) OVER (PARTITION BY n) FROM t",
    r"""SELECT COLUMNS('i|k') AS "c\0" FROM t""",
    "SELECT COLUMNS(c -> c LIKE '%k%') AS z FROM t, u",
    "SELECT greatest(*COLUMNS('i|k|n')) AS g FROM t",
    "SELECT i FROM t WHERE COLUMNS(* EXCLUDE (S, f)) >= 1",
    "SELECT (SELECT max(COLUMNS('j')) FROM u WHERE u.k = t.k) FROM t",
    "SELECT * FROM t WHERE k IN (SELECT COLUMNS('k') FROM u)",
    "SELECT *, count(*) OVER () FROM t JOIN u USING (k) ORDER BY ALL LIMIT 5",
    "SELECT i, k FROM t UNION SELECT j, k FROM u ORDER BY ALL DESC LIMIT 4",
    "SELECT * FROM t JOIN u USING (k) UNION ALL SELECT * FROM t JOIN u USING (k) ORDER BY ALL",
    "SELECT k, n FROM t GROUP BY CUBE (k, n) ORDER BY ALL",
    "SELECT 1, k FROM t ORDER BY ALL",
    "SELECT t.* EXCLUDE (i), u.* EXCLUDE (k) FROM t JOIN u USING (k)",
    "SELECT * FROM t ANTI JOIN u USING (k)",
    "SELECT * FROM (SELECT k::SMALLINT AS k FROM t) a FULL JOIN u USING (k)",
    "SELECT * FROM (SELECT k::SMALLINT AS k FROM t) a RIGHT JOIN u USING (k)",
    "select * from (select 1 a,2 a, 3 a_1, 4 A)",
    "with q as (select k a, n a from t) select a_1 from q",
)
WHOLE = {
    "SELECT * FROM t ORDER BY *": "Star: *",
    "SELECT * EXCLUDE (u.k) FROM t JOIN u USING (k)": "EXCLUDE of one of the columns that USING made one",
}


@pytest.fixture(scope="module")
def world() -> Iterator[Both]:
    with both() as made:
        yield made


@pytest.mark.parametrize("text", STARS)
def test_stars_are_spelt_out(world: Both, text: str) -> None:
    world.check(text)
    assert world.reasons(text) == []


@pytest.mark.parametrize("text", WHOLE)
def test_what_runs_whole_says_why(world: Both, text: str) -> None:
    world.check(text)
    assert world.reasons(text) == [WHOLE[text]]
