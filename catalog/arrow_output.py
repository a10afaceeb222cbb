"""DuckDB's answers as Arrow rows.

DuckDB 2.0 keeps the rows of an executed statement in another format. It copies them into Arrow's, and collects all
before it returns the first (938 MB for 28.8 M rows of 6 columns). There only a relation streams (143 MB). In DuckDB
1.5.5 both stream. A relation is bound twice, which takes 2 ms for a query of TPC-DS, and 4 ms in 2.0. So there a query
is submitted as a relation does it, without the relation.

In 2.0 a connection also refuses relations and `register` until all rows of an executed statement are fetched.

Several pipelines feed one stream in the branches of a UNION ALL, and for the unmatched rows of an outer join. DuckDB
1.5.5 returns the stream once the last pipeline has begun. If the stream's buffer fills before, it waits for ever. So
DuckDB first collects such rows in memory that it can spill, and one pipeline reads them from there.
"""

from __future__ import annotations

import re

import duckdb
import pyarrow as pa

from qoop.catalog.by_text import by_text
from qoop.catalog.lexer import rare

_STREAMS_WHAT_IS_EXECUTED = duckdb.__version__.startswith("1.")
_SUBMIT = getattr(duckdb.DuckDBPyConnection, "_submit", None)  # no part of the public interface
_BATCH = 1 << 17
_has_several_pipelines = rare(r"\b(?:union|full|right|recursive)\b", "union", "full", "right", "recursive")
_NOT_TOP_LEVEL = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\([^()'\"]*\)")
_ORDERED = re.compile(r"\bORDER\s+BY\b", re.I)


def stream(connection: duckdb.DuckDBPyConnection, sql: str, rows: int) -> pa.RecordBatchReader:
    """The rows of a query as they come, in batches of `rows` rows."""
    if _STREAMS_WHAT_IS_EXECUTED:
        return connection.execute(sql).to_arrow_reader(rows)
    if _SUBMIT is None:
        return connection.sql(sql).to_arrow_reader(rows)
    return _SUBMIT(connection, sql, None, "stream", rows).arrow_reader()


def collected(connection: duckdb.DuckDBPyConnection, sql: str, rows: int) -> pa.Table:
    """All rows of a query, whatever pipelines feed its result, in batches of `rows` rows."""
    if _SUBMIT is None:
        return connection.sql(sql).to_arrow_table(rows)
    return _SUBMIT(connection, sql, None, "arrow", rows).arrow_table()


def table(connection: duckdb.DuckDBPyConnection, sql: str) -> pa.Table:
    """All rows of a query."""
    return connection.execute(sql).to_arrow_table() if _STREAMS_WHAT_IS_EXECUTED else collected(connection, sql, _BATCH)


@by_text(most=256)
def has_several_pipelines(sql: str) -> bool:
    """True if more than one pipeline may feed the result.

    >>> has_several_pipelines("SELECT a FROM t"), has_several_pipelines("FROM t UNION ALL FROM u")
    (False, True)
    """
    return _has_several_pipelines(sql)


def through_one_pipeline(sql: str) -> str:
    """The SELECT of a planned stage, so that one pipeline feeds its result.

    One that is sorted at its top level has one already: the sort collects all rows before it gives any.

    >>> through_one_pipeline("SELECT a FROM t")
    'SELECT a FROM t'
    >>> through_one_pipeline("FROM t UNION ALL FROM u")
    'WITH "all rows" AS MATERIALIZED (FROM t UNION ALL FROM u) SELECT * FROM "all rows"'
    >>> through_one_pipeline("SELECT a FROM (FROM t UNION ALL FROM u) ORDER BY a")
    'SELECT a FROM (FROM t UNION ALL FROM u) ORDER BY a'
    """
    if not has_several_pipelines(sql) or _ORDERED.search(_top_level(sql)):
        return sql
    return f'WITH "all rows" AS MATERIALIZED ({sql}) SELECT * FROM "all rows"'


def _top_level(sql: str) -> str:
    """The text without what stands in quotes or parentheses."""
    while (shorter := _NOT_TOP_LEVEL.sub(" ", sql)) != sql:
        sql = shorter
    return sql
