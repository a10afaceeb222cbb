"""Statements that a text makes of a session; a refusal has a message that says what is possible."""

from __future__ import annotations

import pytest

from qoop.catalog.errors import ParseError, QueryError
from qoop.query.statements.statement import Explain, Query, SetOption, ShowFunctions, ShowTables, query_text, statements


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "VALUES (1)",
        "FROM t",
        "WITH a AS (SELECT 1) FROM a",
        "TABLE t",
        "(SELECT 1) UNION (SELECT 2)",
        "PIVOT t ON a IN ('x') USING sum(b)",
        "UNPIVOT t ON a",
    ],
)
def test_all_that_gives_rows_is_a_query(text: str) -> None:
    assert statements(text) == (Query(text),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SET TimeZone = 'Asia/Tokyo'", SetOption("TimeZone", "Asia/Tokyo")),
        ("set global default_order to 'desc';", SetOption("default_order", "desc")),
        ("SET integer_division=true", SetOption("integer_division", "true")),
        ("SET default_collation = 'it''s'", SetOption("default_collation", "it's")),
        ("SET default_collation = ''", SetOption("default_collation", "")),
        ("-- a word first\n/* and another */ SET TimeZone TO 'UTC' ;", SetOption("TimeZone", "UTC")),
        ("SET TimeZone = DEFAULT", SetOption("TimeZone", None)),
        ("RESET TimeZone", SetOption("TimeZone", None)),
        ("EXPLAIN SELECT 1", Explain("SELECT 1")),
        ("explain analyze FROM t", Explain("FROM t", "analyze")),
        ("-- all\nexplain alternatives FROM t", Explain("FROM t", "alternatives")),
        ("EXPLAIN  History\nFROM t", Explain("FROM t", "history")),
        ("SHOW TABLES;", ShowTables()),
        ("show functions", ShowFunctions()),
        ("DESCRIBE t;", Query("FROM (DESCRIBE t)")),
        ("summarize FROM t", Query("FROM (summarize FROM t)")),
    ],
)
def test_other_statements(text: str, expected: object) -> None:
    assert statements(text) == (expected,)


def test_several_statements_come_in_order() -> None:
    assert [type(item) for item in statements("SET TimeZone='UTC'; SELECT ';' ; FROM t;")] == [SetOption, Query, Query]


@pytest.mark.parametrize("text", ["ALTER VIEW v RENAME TO w", "VACUUM", "/* now */ CHECKPOINT"])
def test_other_statements_are_refused(text: str) -> None:
    with pytest.raises(QueryError, match=r"^(ALTER VIEW|VACUUM|CHECKPOINT) is not for a session: "):
        statements(text)


def test_what_is_not_sql_is_a_parse_error_that_points_at_the_place() -> None:
    with pytest.raises(ParseError, match=r"(?s)selec.*\^"):
        statements("selec 1")


def test_a_pivot_whose_columns_depend_on_the_rows_is_one_query() -> None:
    text = "PIVOT t ON a USING sum(b)"
    assert statements(f"FROM t; {text}; -- done") == (Query("FROM t"), Query(text))


@pytest.mark.parametrize("text", ["", "  ;", "-- nothing"])
def test_an_empty_text_is_refused(text: str) -> None:
    with pytest.raises(QueryError, match="no statement"):
        statements(text)


@pytest.mark.parametrize("text", ["SELECT ?", "SELECT $1", "SELECT $name"])
def test_parameters_are_refused(text: str) -> None:
    with pytest.raises(QueryError, match="parameters"):
        statements(text)


@pytest.mark.parametrize("text", ["SELECT 1; SELECT 2", "SET TimeZone='UTC'"])
def test_a_job_is_one_query(text: str) -> None:
    with pytest.raises(QueryError, match="single query"):
        query_text(text)
