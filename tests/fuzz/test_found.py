"""Statements that once had a wrong answer or none, each in every physical form."""

from __future__ import annotations

import pytest
from fuzz_world import World

FORMS = ("usual", "split", "hash", "random 1", "random 2", "random 3")

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
}


@pytest.mark.parametrize("name", FOUND)
def test_found(world: World, name: str) -> None:
    assert world.check(FOUND[name], FORMS)
