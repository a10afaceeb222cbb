"""The SQL of a stage from elsewhere is one SELECT over its inputs, or it does not run."""

from __future__ import annotations

import pytest

from qoop.catalog.errors import PlanError
from qoop.engine.stage_sql import check_stage
from qoop.planner.plan import Layout, Stage, TableInput

COLUMNS = (("a", "INTEGER"),)
WHOLE = Layout()


def stage(sql: str, *names: str, layout: Layout = WHOLE, opaque: str | None = None) -> Stage:
    inputs = tuple(TableInput(name, name, "v1", ("a",), False) for name in names)
    return Stage("s1", sql, inputs, COLUMNS, 1, "f00", layout, opaque=opaque)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a FROM t", "SELECT a FROM T AS x WHERE a IN (SELECT a FROM u)", "SELECT 1", "VALUES (1), (2)",
        "WITH c AS (SELECT a FROM t), d AS MATERIALIZED (SELECT * FROM c) SELECT * FROM d JOIN u USING (a)",
        "WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM r WHERE a < 3) SELECT * FROM r",
        "WITH c AS (SELECT 1 AS a) SELECT * FROM t WHERE a = (SELECT max(a) FROM c)",
        "SELECT unnest([1]) FROM range(3)", "(SELECT a FROM t) EXCEPT ALL (SELECT a FROM u) ORDER BY 1 LIMIT 3",
        "FROM t PIVOT (sum(a) FOR a IN (1, 2))", "SELECT * FROM t LEFT JOIN LATERAL (SELECT t.a + 1) ON true",
    ],
)  # fmt: skip
def test_a_select_over_its_inputs_may_run(sql: str) -> None:
    check_stage(stage(sql, "t", "u"))


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT * FROM 'x.csv'", "reads x.csv"), ("SELECT * FROM t, v", "reads v"), ("FROM main.t", "reads main.t"),
        ("SELECT * FROM duckdb_secrets", "duckdb_secrets"), ("SELECT * FROM read_text('/etc/passwd')", "read_text"),
        ("SELECT (SELECT max(content) FROM read_text('f')) FROM t", "read_text"), ("FROM query('SELECT 1')", "query"),
        ("SELECT a FROM t WHERE a IN (FROM 'f')", "reads f"), ("SELECT 1 UNION ALL FROM 'f'", "reads f"),
        ("SELECT 1 ORDER BY (FROM 'f')", "reads f"), ("SELECT 1 LIMIT (FROM 'f')", "reads f"),
        ("VALUES ((FROM 'f'))", "reads f"), ("FROM 'f' PIVOT (sum(a) FOR a IN (1))", "reads f"),
        ("SELECT * FROM range((SELECT count(*) FROM 'f'))", "reads f"),
        ("SELECT * FROM t JOIN u ON t.a = (SELECT 1 FROM 'f')", "reads f"),
        ('SELECT * FROM "f", (WITH "f" AS (SELECT 1) SELECT * FROM "f")', "reads f"),
        ('WITH "f" AS (SELECT * FROM "f") SELECT * FROM "f"', "reads f"),
        ("SELECT 1; SELECT 2", "2 statements"), ("", "0 statements"), ("SELECT", "selection list"),
        ("COPY t TO 'x'", "Only SELECT"), ("ATTACH 'x'", "Only SELECT"), ("PRAGMA version", "Only SELECT"),
        ("DROP TABLE t", "Only SELECT"), ("SET threads = 1", "Only SELECT"), ("DESCRIBE t", "SHOW_REF"),
        ("SELECT * FROM (SHOW TABLES)", "SHOW_REF"), ("SELECT '", "unterminated"),
    ],
)  # fmt: skip
def test_all_else_is_refused(sql: str, why: str) -> None:
    with pytest.raises(PlanError, match=why):
        check_stage(stage(sql, "t", "u"))


def test_the_keys_of_a_layout_are_text_that_runs_too() -> None:
    check_stage(stage("SELECT a FROM t", "t", layout=Layout(("a + 1",), 4)))
    for key in ("(SELECT count(*) FROM 'f')", "1) % 4 AS UTINYINT) FROM 'f' --"):
        with pytest.raises(PlanError, match="reads f"):
            check_stage(stage("SELECT a FROM t", "t", layout=Layout((key,), 4)))


def test_text_that_the_planner_has_not_taken_apart_is_refused() -> None:
    with pytest.raises(PlanError, match="was not checked"):
        check_stage(stage("SELECT 1 AS a", opaque="why"))
