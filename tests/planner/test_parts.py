"""A part of a syntax node that the planner does not know makes the block opaque: nothing that is written gets lost."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
import sqlglot
from sqlglot import exp

import qoop
from qoop.planner.algebra.relation import Opaque, walk
from qoop.planner.sql.bind import Binder, Bound
from qoop.planner.sql.build import build
from qoop.planner.sql.parts import CLAUSES, EXPRESSIONS
from qoop.planner.sql.unique_cte_names import unique_cte_names

QUERIES = [
    "WITH w(k) AS (SELECT a FROM t) SELECT k, sum(b) AS s FROM w JOIN t ON k = t.a WHERE b > 0 "
    "GROUP BY k HAVING sum(b) > 1 ORDER BY k LIMIT 3 OFFSET 1",
    "SELECT DISTINCT ON (a) a, b FROM t QUALIFY row_number() OVER (ORDER BY a, b) < 9 ORDER BY a, b",
    "SELECT *, q.x FROM t, (SELECT a AS x FROM t) AS q, (VALUES (1)) AS v(y)",
    "SELECT a FROM t UNION ALL SELECT b FROM t",
    "SELECT a FROM t EXCEPT SELECT b FROM t",
    "SELECT a FROM t INTERSECT SELECT b FROM t",
    "SELECT COLUMNS('a') FROM t WHERE a = (SELECT max(b) FROM t)",
]
"""Between them they have a node of each type that the builder takes apart."""

TABLE = frozenset("this alias joins db catalog pivots sample".split())  # noqa: SIM905
"""The same of a table in FROM: DuckDB draws a sample of one, and makes the columns of a PIVOT."""


@pytest.fixture(scope="module")
def binder() -> Iterator[Binder]:
    made = Binder()
    made.add_table("t", "1", (("a", "INTEGER"), ("b", "INTEGER")))
    yield made
    made.close()


def _has_opaque(bound: Bound, binder: Binder) -> bool:
    return any(isinstance(node, Opaque) for node in walk(build(bound, binder.describe)))


@pytest.mark.parametrize("node", [*CLAUSES, exp.Table], ids=lambda node: node.__name__)
def test_a_part_that_is_not_known_makes_a_block_opaque(node: type[exp.Expr], binder: Binder) -> None:
    known = CLAUSES.get(node, TABLE)
    bounds = [binder.bind(query) for query in QUERIES]
    bound, found = next(
        (bound, one) for bound in bounds if bound.ast is not None for one in bound.ast.find_all(node)
        if type(one) is node
    )  # fmt: skip
    assert not _has_opaque(bound, binder)
    for part in set(node.arg_types) - set(known):
        found.set(part, exp.true())
        assert _has_opaque(bound, binder), part
        found.set(part, None)


def test_all_that_is_known_is_a_part_of_a_node() -> None:
    """sqlglot names them otherwise now and then."""
    lost = [
        (node.__name__, part) for known in (CLAUSES, EXPRESSIONS) for node, parts in known.items() for part in parts
        if part not in node.arg_types
    ]  # fmt: skip
    assert lost == []


IN_PARENTHESES = [
    "SELECT ((SELECT 2) LIMIT 0)",
    "SELECT a, ((SELECT max(a) FROM t) LIMIT 0) FROM t",
    "SELECT count(*) FROM t WHERE a IN ((SELECT a FROM t) LIMIT 0)",
    "SELECT EXISTS(((FROM t) LIMIT 0))",
    "(((SELECT 1 UNION ALL SELECT 2) LIMIT 1)) UNION ALL SELECT 3",
    "SELECT * FROM ((FROM t) ORDER BY a LIMIT 1)",
    "VALUES (1), (2) ORDER BY 1 DESC LIMIT 1",
]
USING_KEY = [
    "WITH RECURSIVE r(a, b) USING KEY (a) AS (SELECT 1, 1 UNION SELECT a, b + 1 FROM r WHERE b < 10) FROM r",
    "WITH RECURSIVE r(k, b) USING KEY (k) AS (SELECT a, 1 FROM t UNION SELECT k, b + 1 FROM r WHERE b < 10) "
    "SELECT k, r.b, t.b FROM r JOIN t ON k = t.a",
    "WITH RECURSIVE r(k, b) USING KEY (k) AS (SELECT a % 3, a FROM t UNION "
    "SELECT r.k, u.b + 1 FROM r JOIN recurring.r AS u ON r.k = u.k WHERE r.b < 10) SELECT * FROM r",
    "WITH r AS (SELECT 7 AS a) SELECT * FROM r, (WITH RECURSIVE r(k, b) USING KEY (k) AS (SELECT a % 3, a FROM t UNION "
    "SELECT r.k, u.b + 1 FROM r JOIN recurring.r AS u ON r.k = u.k WHERE r.b < 10) SELECT * FROM r)",
]
NAMED_BY_COLUMNS = [
    "SELECT struct_pack(a) FROM t",
    "SELECT struct_pack(COLUMNS('a')) FROM t",
    "SELECT struct_pack(b, c := a), typeof(struct_pack(a)) FROM t",
    "SELECT to_json(struct_pack(s)) FROM (SELECT sum(a) AS s FROM t GROUP BY b)",
]


@pytest.fixture(scope="module")
def session() -> Iterator[qoop.Session]:
    with qoop.connect(slots=1, memory="500MB", staged=True) as opened:
        opened.sql("CREATE TABLE t AS SELECT i AS a, i % 2 AS b FROM range(7) r(i)")
        yield opened


@pytest.mark.parametrize("query", IN_PARENTHESES + USING_KEY + NAMED_BY_COLUMNS)
def test_what_is_written_counts(query: str, session: qoop.Session) -> None:
    with duckdb.connect() as oracle:
        oracle.sql("CREATE TABLE t AS SELECT i AS a, i % 2 AS b FROM range(7) r(i)")
        asked = oracle.sql(query)
        rows = asked.fetchall()
    found = session.sql(query)
    assert sorted(found.fetchall(), key=repr) == sorted(rows, key=repr) != []


def test_a_table_of_a_with_that_recurs_is_told_apart() -> None:
    text = (
        "WITH r AS (SELECT 1) SELECT * FROM r, (WITH RECURSIVE r(k) USING KEY (k) AS "
        "(SELECT 1 UNION SELECT u.k FROM r JOIN recurring.r AS u ON true) FROM r)"
    )
    assert "recurring.r " not in unique_cte_names(sqlglot.parse_one(text, read="duckdb")).sql("duckdb")
