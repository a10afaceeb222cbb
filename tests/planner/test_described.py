"""The columns of a query that was parsed before: DuckDB takes its tree in place of the text."""

from __future__ import annotations

import pytest

import qoop
from qoop.catalog import duckdb_introspection
from qoop.query.statements.statement import query_text

TEXTS = (
    "SELECT 1 AS a, 2 AS a",
    "SELECT x AS X, s.y, s FROM t ;",
    "FROM t JOIN t AS u USING (x)",
    "SELECT NULL, [], {'A b': NULL}, 1.50, 'x'::VARCHAR(3), INTERVAL 1 DAY",
    "SELECT sum(x), avg(x), count(*) FROM t -- the end",
    "SELECT COLUMNS('x|m') FROM t",
    "VALUES (1, 'a')",
    "SELECT '[]'::JSON, DATE '2020-01-01', UNION_VALUE(n := 2), MAP {'k': 1}",
)


@pytest.fixture
def session():  # type: ignore[no-untyped-def]
    with qoop.connect() as session:
        session.sql("CREATE TABLE t AS SELECT 1 AS x, {'y': 'a'} AS s, TRUE AS m")
        yield session


@pytest.mark.parametrize("text", TEXTS)
def test_a_parsed_query_has_the_columns_of_its_text(session: qoop.Session, text: str) -> None:
    binder, text = session._tables.binder, query_text(text)
    assert duckdb_introspection.known_query(text) is not None
    as_parsed = binder.describe(text)
    duckdb_introspection._queries.clear()
    assert binder.describe(text) == as_parsed


def test_a_fault_of_a_parsed_query_has_its_place(session: qoop.Session) -> None:
    text = query_text("SELECT x,\n  nope FROM t;")
    assert duckdb_introspection.known_query(text) is not None
    with pytest.raises(qoop.QueryError, match=r"(?s)line 2:   nope FROM t\n *\^\^\^\^$"):
        session._tables.binder.describe(text)


def test_few_queries_are_remembered_and_no_long_one() -> None:
    for number in range(3 * duckdb_introspection._MOST_QUERIES):
        query_text(f"SELECT {number} AS one_of_many")
    query_text(f"SELECT '{'x' * (1 << 15)}'")
    kept = duckdb_introspection._queries
    assert 0 < len(kept) <= duckdb_introspection._MOST_QUERIES
    assert max(map(len, kept)) < 1000


def test_options_that_change_what_a_text_means_change_its_columns(session: qoop.Session) -> None:
    text = query_text("SELECT x / 2 AS half FROM t")
    assert session.describe(text) == (("half", "DOUBLE"),)
    session.set("integer_division", True)
    assert session.describe(text) == (("half", "INTEGER"),)
