"""Sources that DuckDB runs while the rest of a query is planned, LATERAL as a join, and fields of structs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from taken_apart import Both, both

AS_JOINS = (
    "SELECT t.k, x.m FROM t, (SELECT max(j) AS m FROM u WHERE u.k = t.k) x",
    "SELECT t.k, x.j FROM t LEFT JOIN (SELECT j FROM u WHERE u.k = t.k AND u.j > 5) AS x ON true",
    "SELECT t.k, x.j FROM t, (SELECT t.j FROM u AS t WHERE t.k > 2) x",
    "SELECT t.k, x.m FROM t JOIN (SELECT j, t.i + j AS m FROM u WHERE u.k = t.k) x ON x.m > 10 AND x.j < t.i",
    "SELECT t.k, x.m FROM t, (SELECT max(j) AS m FROM u WHERE k = t.k) x, LATERAL (SELECT x.m + 1 AS y) z",
    "WITH q AS (SELECT * FROM u) SELECT t.i, x.c FROM t, (SELECT count(*) AS c FROM q WHERE q.k = t.k) x",
    "SELECT t.k, x.m FROM t, LATERAL (SELECT max(j) AS m FROM u WHERE u.k = t.k) x",
    """
    SELECT t.k, x.m FROM t, LATERAL (SELECT count(*) AS m, sum(j) + 1 AS s, count(j) * 2 FROM u WHERE u.k =
    t.k AND j > 3) x""",
    "SELECT t.k, x.j FROM t, LATERAL (SELECT j FROM u WHERE u.k = t.k) x",
    "SELECT t.k, x.j FROM t LEFT JOIN LATERAL (SELECT j FROM u WHERE u.k = t.k AND u.j > 5) x ON true",
    "SELECT t.k, x.c FROM t, LATERAL (SELECT t.k + 1 AS c) x",
    "SELECT t.k, x.c, y.d FROM t, LATERAL (SELECT t.k + 1 AS c) x, LATERAL (SELECT x.c * 2 AS d) y",
    "SELECT t.k, x.j FROM t, LATERAL (SELECT j, t.i + j AS z FROM u WHERE u.k < t.k) x WHERE z > 4",
    "SELECT t.k, j, c FROM t, LATERAL (SELECT j, count(*) AS c FROM u WHERE u.k = t.k GROUP BY j) x",
    "SELECT t.k, a FROM t, LATERAL (SELECT j FROM u WHERE u.k = t.k) x(a)",
    "SELECT * FROM t, LATERAL (SELECT k, j FROM u WHERE u.k = t.k) x",
    "SELECT t.k, x.m FROM t JOIN LATERAL (SELECT max(j) AS m FROM u WHERE u.k = t.k) x ON x.m > 3",
    "SELECT t.k, x.m FROM t LEFT JOIN LATERAL (SELECT count(*) AS m FROM u WHERE u.k = t.k) x ON true",
    "SELECT k, sum(m) FROM t, LATERAL (SELECT count(*) AS m FROM u WHERE u.k = t.k AND u.j > 2) x GROUP BY k",
    "SELECT t.k, x.m FROM t, LATERAL (SELECT max(j) AS m FROM u) x",
    "SELECT t.k, x.a FROM t, LATERAL (SELECT S AS a FROM nothing WHERE nothing.k = t.k) x",
    "SELECT t.k, x.a FROM t LEFT JOIN LATERAL (SELECT S AS a, 1 AS one FROM nothing WHERE nothing.k = t.k) x ON true",
    """
    SELECT t.n, x.m FROM t, LATERAL (SELECT max(j) AS m, coalesce(max(j), -1) AS c, 7 AS seven FROM u WHERE
    u.k = t.n) x""",
    "SELECT t.i, x.j FROM t LEFT JOIN LATERAL (SELECT j FROM u WHERE j > 9) x ON true",
    "SELECT t.i, x.j FROM t LEFT JOIN LATERAL (SELECT k AS j FROM nothing) x ON true",
    "SELECT t.i, x.j FROM t LEFT JOIN LATERAL (SELECT max(j) AS j FROM u) x ON true",
    "SELECT t.i, x.j FROM t, LATERAL (SELECT k AS j FROM nothing) x",
    """
    SELECT x.a, z.b FROM u CROSS JOIN LATERAL (SELECT u.k + 1 AS a) x LEFT JOIN LATERAL (SELECT count(*) AS
    b FROM t WHERE t.k = x.a) z ON true""",
    "SELECT t.i, w.k, x.c FROM t, w JOIN LATERAL (SELECT t.k + w.k AS c) x ON c > 3",
)
FIELDS = (
    "SELECT w.st.b FROM w WHERE st.a = 1 AND w.st.b LIKE 'z%'",
    "SELECT t.i FROM t JOIN w ON t.k = w.st.a",
    "SELECT st.a, count(*) FROM w GROUP BY st.a",
)
WHOLE = (
    "SELECT t.k, x.j FROM t, LATERAL (SELECT DISTINCT j % 2 AS j FROM u WHERE u.k = t.k) x",
    "SELECT t.k, x.j FROM t, LATERAL (SELECT j FROM u WHERE u.k = t.k ORDER BY j LIMIT 1) x",
    "SELECT t.k, x.m FROM t LEFT JOIN LATERAL (SELECT count(*) AS m FROM u WHERE u.k = t.k) x ON x.m > 1",
    "SELECT t.i, x.m FROM t, LATERAL (SELECT sum(j) AS m FROM u WHERE u.j < t.k) x",
    "SELECT t.k, x.m FROM t, LATERAL (SELECT max(j) AS m FROM u WHERE u.k = t.k HAVING count(*) > 1) x",
    "SELECT t.i FROM t WHERE EXISTS (SELECT 1 FROM u, LATERAL (SELECT w.k FROM w WHERE w.k = u.k AND w.k < t.k) x)",
    "SELECT u.j, x.S FROM u, LATERAL (SELECT S FROM t WHERE t.k = u.k UNION ALL SELECT 'b') x",
    "SELECT q.x FROM (SELECT {'a': 1, 'b': {'c': 2}} AS s) p, LATERAL (SELECT s.b.c AS x) q",
    "SELECT * FROM generate_series(3, 1) a(i)",
    "SELECT * FROM range(5, 2)",
    "SELECT count(*) FROM t, unnest(['a', NULL, 'c']) q(z)",
    "SELECT x.unnest FROM unnest([1, 2]) AS x",
    "WITH RECURSIVE a AS (SELECT 1 AS x) SELECT * FROM a",
)
SOURCES = (
    "SELECT * FROM range(-3, 3) a(i), range(2) b(j)",
    "SELECT * FROM range(10, 0, -3) a(i) JOIN t USING (i)",
    "SELECT range, t.i FROM range(3) JOIN t ON range.range = t.i",
    "SELECT i FROM t WHERE i IN (SELECT * FROM range(3))",
    "SELECT a.i FROM range(3) a(i) JOIN range(3) b(i) USING (i)",
    "WITH q AS (FROM range(4) r(i)) SELECT count(*) FROM q JOIN q AS p ON q.i < p.i",
    """
    SELECT x.d, count(*) FROM generate_series(DATE '2020-01-01', DATE '2020-01-05', INTERVAL 1 DAY) x(d)
    LEFT JOIN u ON u.d = x.d GROUP BY ALL""",
    "SELECT column_name, u.k FROM (SUMMARIZE t) s JOIN u ON s.count = 40 WHERE u.j = 1",
    """
    SELECT k, count(*) FROM (SELECT * FROM t PIVOT (sum(i) FOR k IN (0, 1, 2) GROUP BY n, S)) p JOIN u ON
    u.k = p.n GROUP BY k""",
    "SELECT nm, sum(v) FROM (SELECT k, j::BIGINT AS j FROM u) UNPIVOT (v FOR nm IN (k, j)) GROUP BY nm",
    """
    SELECT nm, k2 FROM (SELECT k AS k2, j::BIGINT AS j FROM u) AS s UNPIVOT (v FOR nm IN (j)) JOIN t ON t.k
    = k2 WHERE t.i < 9""",
    """
    WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM r WHERE x < 10), s AS (SELECT x * 2 AS y FROM
    r) SELECT s.y, t.i FROM s JOIN t ON s.y = t.i""",
    """
    WITH RECURSIVE r(x) AS (SELECT 1 UNION SELECT x+1 FROM r WHERE x < 10) SELECT a.x, b.x FROM r a JOIN r b
    ON a.x = b.x + 1""",
    """
    WITH RECURSIVE b AS (SELECT k FROM u WHERE k > 2), r(x) AS (SELECT k FROM b UNION SELECT x-1 FROM r
    WHERE x > 0) SELECT count(*) FROM r, b""",
    """
    SELECT (WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM r WHERE x < 5) SELECT sum(x) FROM r),
    k FROM t""",
    "SELECT sum(i) FROM t TABLESAMPLE 100% WHERE k > 1",
    "SELECT k, sum(i) FROM t WHERE k > 1 GROUP BY k USING SAMPLE 100%",
)


@pytest.fixture(scope="module")
def world() -> Iterator[Both]:
    with both() as made:
        yield made


@pytest.mark.parametrize("text", AS_JOINS)
def test_a_lateral_is_a_join(world: Both, text: str) -> None:
    world.check(text)
    assert world.reasons(text) == []


@pytest.mark.parametrize("text", FIELDS)
def test_fields_of_structs(world: Both, text: str) -> None:
    world.check(text)
    assert world.reasons(text) == []


@pytest.mark.parametrize("text", WHOLE)
def test_what_is_no_join_runs_whole(world: Both, text: str) -> None:
    world.check(text)


@pytest.mark.parametrize("text", SOURCES)
def test_the_rest_around_a_source_is_planned(world: Both, text: str) -> None:
    world.check(text)
    assert world.reasons(text)
    assert not world.staged.explain(text).startswith("s1  opaque")


def test_rows_of_a_range_are_known(world: Both) -> None:
    plan = world.staged.explain("SELECT count(*) FROM range(3000) AS r(i) JOIN t USING (i)")
    assert "3.0k rows" in plan and plan.count("tables:") == 1


def test_progress_says_that_a_stage_runs_whole(world: Both) -> None:
    job = world.staged.submit("SELECT count(*) FROM range(7) AS r(i) JOIN t USING (i)")
    job.result()
    assert "runs whole: the table function range" in [stage.label for stage in job.progress().stages]


def test_a_sample_is_drawn_before_where(world: Both) -> None:
    rows = world.staged.sql("SELECT count(*) FROM t WHERE k > 1 USING SAMPLE 5 ROWS").fetchall()
    assert rows[0][0] <= 5


def test_a_sample_is_drawn_once(world: Both) -> None:
    text = "WITH q AS (SELECT i FROM t USING SAMPLE 9 ROWS) SELECT count(*) FROM q JOIN q AS p USING (i)"
    assert world.staged.sql(text).fetchall() == [(9,)]


def test_random_numbers_are_not_drawn_again(world: Both) -> None:
    text = "SELECT count(DISTINCT x.r) FROM t, LATERAL (SELECT random() AS r) x"
    world.check(text)
    assert world.reasons(text) == ["LATERAL over non-deterministic rows"]


def test_a_file_in_a_join_is_read_whole_and_no_more_of_it_than_is_needed(world: Both, tmp_path: Path) -> None:
    file = tmp_path / "some.csv"
    file.write_text("i,k,z\n1,2,a\n3,4,b\n3,1,\n")
    text = f"SELECT c.z, sum(t.k) FROM read_csv('{file}', header=true) AS c JOIN t ON t.i = c.i GROUP BY c.z"
    world.check(text)
    assert world.reasons(text) == ["the table function read_csv"]
    (leaf,) = [stage for stage in world.staged.submit(text).plan.stages if stage.opaque]
    assert sorted(type_ for _, type_ in leaf.columns) == ["BIGINT", "VARCHAR"]
