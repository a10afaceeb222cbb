"""Statements that once had a wrong answer or none, each in every physical form."""

from __future__ import annotations

import duckdb
import pytest
from fuzz_forms import planning_as
from fuzz_world import World

import qoop

FORMS = ("usual", "split", "hash", "random 1")

FOUND = {
    "ILIKE has no argument of its own": "SELECT s FROM t2 WHERE NOT (s ILIKE '_')",
    "IN of a correlated aggregate over no rows": """
        SELECT id FROM t3 WHERE NOT 5 IN (SELECT median(t1.id) FROM t1 WHERE t1.s = t3.s || 'never')""",
    "IN of a correlated count of nothing": """
        SELECT id FROM t3 WHERE 0 IN (SELECT count(*) FROM nothing n WHERE n.k = t3.k)""",
    "of correlated aggregates over nothing, only counts are not NULL": """
        SELECT id, (SELECT regr_count(n.k, n.id) + 1 FROM nothing n WHERE n.s = t3.s),
               (SELECT count(*) + 1 FROM nothing n WHERE n.s = t3.s) FROM t3""",
    "count_if of nothing is NULL": "SELECT count_if(k > 1) FROM t1 WHERE id < 0",
    "a full join inside a correlated NOT IN": """
        SELECT ts FROM t1 AS r1
        WHERE NOT r1.k IN (SELECT r4.v FROM t2 AS r3 FULL JOIN t4 AS r4 ON r3.k = r4.k WHERE r1.c < r3.id)""",
    "a cross join with an outer join on its right": "SELECT 1 FROM t2 AS r1 RIGHT JOIN t4 AS r2 ON false, t4 AS r3",
    "a cross join of which no column is read": "SELECT r2.f FROM t1 AS r1, t3 AS r2",
    "a comma binds less than a join": "SELECT r1.id, r2.k, r3.k FROM t3 r1, t4 r2 RIGHT JOIN t3 r3 ON r2.k + 1 = r3.id",
    "USING between commas": """
        SELECT t3.id, n.id, t4.v FROM t4 x JOIN t3 USING (k), t1 n JOIN t4 USING (k) WHERE n.id < 40""",
    "ON that reaches over a comma": "SELECT t3.id, t1.id FROM t3, t4 JOIN t1 ON t1.k = t3.g WHERE t1.id = t4.v",
    "two rows of a scalar subquery that nobody asks for": """
        SELECT id, (SELECT v FROM (SELECT 1 AS k, 2 AS v UNION ALL SELECT 99, 1 UNION ALL SELECT 99, 2) n
                    WHERE n.k = t3.k)
        FROM t3""",
    "floats that are no numbers": """
        SELECT x, count(*), min(y), max(y) FROM (SELECT CASE WHEN k = 1 THEN 'nan'::DOUBLE WHEN k = 2 THEN 'inf' ELSE e
        END AS x, CASE WHEN id % 7 = 1 THEN 'nan'::DOUBLE ELSE -e END AS y FROM t1) AS q GROUP BY x""",
    "joins of floats that are no numbers": """
        WITH q AS (SELECT id, CASE WHEN k = 1 THEN 'nan'::DOUBLE WHEN k = 2 THEN -0.0 ELSE e END AS x FROM t1)
        SELECT a.id, b.id FROM q AS a JOIN q AS b ON a.x = b.x WHERE a.id < 60""",
    "a NULL that crosses a stage border": """
        SELECT r2.s FROM t3 AS r2
        WHERE r2.f OR DATE '2020-03-01' <= (SELECT min(NULL) FROM t4 AS r7, t4 AS r8 WHERE r2.s = r8.s)""",
    "a number as a truth": "SELECT CAST((k AND true) AS VARCHAR) FROM t3",
    "a rollup of which no column is read": """
        SELECT 1 FROM (SELECT s FROM t1 GROUP BY ROLLUP (s)) AS r LEFT JOIN t2 ON false""",
    "different values of a constant, of no rows": """
        SELECT count(DISTINCT 7), count(DISTINCT 'x') FILTER (WHERE true) FROM t1, t3 WHERE t1.id < 0""",
    "an aggregate of a constant that sqlglot does not know, in a window": """
        SELECT sum(product(2)) OVER () FROM t1 GROUP BY s""",
    "a constant that is a key of some grouping sets": """
        SELECT false AS a, k, 'x' || 'y' AS b FROM t3 GROUP BY GROUPING SETS ((), (false), (k, 'x' || 'y'))""",
    "several grand totals of which no column is read": """
        SELECT true FROM (SELECT max(s) AS v FROM t2 GROUP BY GROUPING SETS ((), (), (), (x))) AS r WHERE 2 < 3""",
    "the last of two aliases": "SELECT id AS a, k AS a FROM t3 ORDER BY a NULLS FIRST, 1 LIMIT 20",
    "an alias that is also the name of a column": "SELECT *, -id AS id FROM t3 ORDER BY id LIMIT 5",
    "an alias before a column of its name": "SELECT -id AS k, k FROM t3 ORDER BY k LIMIT 5",
    "the first of two names of a union": "SELECT id AS a, k AS a FROM t3 UNION ALL SELECT 99, -5 ORDER BY a LIMIT 5",
    "the row of a table before an alias of its name": "SELECT t4.k AS t4, t4 FROM t4",
    "equal values of a correlated subquery with DISTINCT": """
        SELECT id, (SELECT DISTINCT t1.s FROM t1 WHERE t1.s = t3.s) FROM t3""",
    "a small number that was a column": "SELECT c + x, c * y FROM (SELECT c, 32767 AS x, -9999 AS y FROM t1)",
    "a field of a column that is called as its table": """
        SELECT q.q.a FROM (SELECT {'a': k} AS q, 5 AS a FROM t3) AS q""",
    "a field of a column that is called as a table around": """
        SELECT (SELECT count(*) FROM (SELECT {'a': k} AS q FROM t3) AS i WHERE q.a = 1) FROM (SELECT 2 AS a) AS q""",
    "a text like a mark": "SELECT concat('__slot0__', s, '__slot1__') FROM t3",
    "lists of numbers of different kinds": "SELECT a FROM (SELECT [1] AS a UNION ALL SELECT [2.5]) AS q",
    "a CTE whose rows are others each time": """
        WITH q AS (SELECT id, random() AS r FROM t3) SELECT count(*) FROM q AS a JOIN q AS b ON a.r = b.r""",
    "a sample read twice": "WITH q AS (FROM t3 USING SAMPLE 9 ROWS) SELECT count(*) FROM q AS a JOIN q AS b USING (id)",
    "a CTE whose rows are others each time, in an opaque block, too": """
        WITH q AS (SELECT id, random() AS r FROM t3)
        SELECT count(*) FROM (SELECT DISTINCT ON (id) id, r FROM q ORDER BY id) AS a JOIN q AS b ON a.r = b.r""",
    "a CTE that is to be computed for each use": """
        WITH q AS NOT MATERIALIZED (SELECT random() AS r FROM t3)
        SELECT count(*) FROM q AS a JOIN q AS b ON a.r = b.r""",
    "columns of a CTE that need quotes, in an opaque block": """
        WITH q("a b", "Select") AS (SELECT id, k FROM t3)
        SELECT "a b", u FROM (SELECT "a b", unnest(["Select"]) AS u FROM q) JOIN q USING ("a b")""",
    "more names than columns": "WITH q(a, b) AS (SELECT id FROM t3) SELECT * FROM q",
    "any_value of which rows are left out": "SELECT g, any_value('a') FILTER (WHERE k > 1) FROM t3 GROUP BY g",
    "a macro of aggregates": "SELECT var_pop(id), geomean(id + 1) FROM t3",
    "a macro of aggregates in HAVING": "SELECT g FROM t3 GROUP BY g HAVING wavg(id, 2) > 20",
    "a macro that gives several rows": "SELECT count(*), regexp_split_to_table('a b', ' ') FROM t3 GROUP BY g",
    "an ENUM that crosses a stage border": """
        SELECT max(c), min(c), max({'of': c})
        FROM (SELECT DISTINCT s, (CASE WHEN k > 1 THEN 'a' ELSE 'z' END)::ENUM('z', 'a') AS c FROM t1) AS q
             FULL JOIN t4 ON q.s = t4.s""",
    "an ENUM is compared with texts as a text": """
        SELECT id, e, e < 'a', e IN ('a', 'q'), e BETWEEN 'b' AND 'z', e = 'q'
        FROM (SELECT DISTINCT id, (CASE WHEN k > 1 THEN 'a' ELSE 'z' END)::ENUM('z', 'a') AS e FROM t3) AS q
        WHERE e > 'A' AND e <> 'q'""",
    "the type of texts among the items of IN and BETWEEN": """
        SELECT id, id IN ('1.5', 2.5), id BETWEEN '1.5' AND 7.2, id NOT IN ('3.4', 9, NULL), id IN ('2', 3, k),
               "when"::DATE BETWEEN '2020-02-28 06:00:00' AND DATE '2020-02-28' + INTERVAL 1 DAY
        FROM t3
        WHERE id IN ('2', 3, 40.5) OR "when"::DATE BETWEEN '2020-02-28' AND DATE '2020-02-28' + INTERVAL 2 DAY""",
    "a window's aggregate with FILTER is none of the block": """
        SELECT count(*) FILTER (WHERE true) OVER (), count(*) FILTER (WHERE k > 1) OVER (PARTITION BY s) FROM t3""",
    "a letter of a text that was computed": "SELECT concat('a', s)[1], ('a' || s)[-1], concat('a', s)[-2:] FROM t3",
    "GROUPING of a key that is no column": """
        SELECT GROUPING(if(false, id, k)), count(*) FROM t3 GROUP BY ROLLUP (if(false, id, k))""",
    "the type of a correlated aggregate over nothing": """
        SELECT id, (SELECT typeof(sum(n.k)) FROM nothing n WHERE n.k = t3.k) FROM t3""",
    "what has no type yet meets a text": """
        SELECT x < 'abc', typeof(x), x IN ('a') FROM (SELECT max(NULL) AS x FROM t1 GROUP BY k)""",
    "what has no type yet in a union": """
        SELECT typeof(x), count(*) FROM (SELECT NULL AS x FROM t3 UNION ALL SELECT f FROM t3) GROUP BY ALL""",
    "what has no type yet in another stage": """
        SELECT id FROM t1 WHERE NOT f OR dt NOT IN (SELECT nullif(NULL, t2.s) FROM t2 WHERE t2.id = t1.k)""",
    "the order of a UNION with members that are NULL": """
        SELECT id, v FROM (SELECT id, union_value(k := s) AS u, u::VARCHAR AS v FROM t3) ORDER BY u NULLS FIRST, id""",
    "a constant that cannot be computed, and need not be": """
        SELECT id FROM t3 WHERE s IN (
            SELECT t2.u FROM t2, LATERAL (SELECT k FROM t4 WHERE t4.k = t2.k) AS l
            WHERE t2.k = t3.id + 100 AND list_contains([1, 2], (7 / 0)::INTEGER)) OR id = 2""",
    "a field of a struct that has no type": "SELECT id, true, unnest(struct_pack(a := 1, b := NULL)) FROM t1",
    "the type of an aggregate of no rows, laterally": """
        SELECT t1.id, l.v FROM t1 LEFT JOIN LATERAL (
            SELECT typeof(sum(1)) FROM t2 WHERE t2.k = t1.id + 1) l(v) ON true""",
    "two rows of constants in an anti join": """
        SELECT max(r1.v1) AS m FROM (VALUES ('a', 1), ('b', 2)) AS r1(v0, v1)
            ANTI JOIN (VALUES ('a', 1)) AS r2(v0, v1) ON r1.v1 = r2.v1 GROUP BY GROUPING SETS (())""",
    "an operator that is no comparison, of a constant and a column that a join pads": """
        SELECT t1.id FROM t1 LEFT JOIN t2 ON t2.k = t1.id + 1 WHERE 0.5::FLOAT IS DISTINCT FROM t2.k""",
    "what sqlglot cannot print": "SELECT approx_top_k(id % 1, 2) FROM t1",
}


@pytest.mark.parametrize("name", FOUND)
def test_found(world: World, name: str) -> None:
    assert world.check(FOUND[name], FORMS)


REFUSED = {
    "an anti join with a CTE in a correlated subquery": """
        WITH w AS (SELECT k FROM t4) SELECT id FROM t3 WHERE EXISTS (
            SELECT 1 FROM t2 ANTI JOIN w ON t2.k = w.k WHERE t2.id = t3.id)""",
    "a full join with a CTE in a correlated subquery": """
        WITH w AS (SELECT k FROM t4) SELECT id FROM t3 WHERE k > (
            SELECT min(t2.k) FROM t2 FULL JOIN w ON t2.k = w.k WHERE t2.id = t3.id)""",
    "a full join with LATERAL binds more than the comma before it": """
        SELECT a.x, b.y, d.z FROM (VALUES (1), (2)) a(x), LATERAL (SELECT 1 AS y WHERE a.x = 5) b
            FULL JOIN (VALUES (1), (7), (8)) d(z) ON b.y = d.z""",
    "a sample in a correlated subquery": """
        SELECT id FROM t3 WHERE EXISTS (SELECT 1 FROM (FROM t2 USING SAMPLE 5 ROWS) s WHERE s.id = t3.id)""",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_duckdb_refuses_while_it_plans_is_refused_in_stages(world: World, name: str) -> None:
    """Or answered, where this DuckDB does."""
    theirs = world.theirs(REFUSED[name])
    if not isinstance(theirs, duckdb.Error):
        assert "sample" in name or world.check(REFUSED[name], FORMS[:1])
        return
    with pytest.raises(qoop.ExecutionError, match="correlated"), planning_as("usual"):
        world.session.sql(REFUSED[name]).arrow()
