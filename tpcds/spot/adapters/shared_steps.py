"""A query as steps whose results can be kept: DuckDB with a store of results, as good as can be made.

DuckDB has no plans that outlive a process, and to keep them would save some milliseconds. What it lacks when it begins
again is what it had computed. So the common table expressions that a text reads more than once become
tables, each committed when it is complete. DuckDB computes these once and separately in any case. The rest of the text
reads the tables. A process that begins again finds those that were complete.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp


@dataclass(frozen=True, slots=True)
class Steps:
    """shared: name and text of each table to be kept, in an order in which they can be made. last: what is left of the
    text, which reads them by these names."""

    shared: Sequence[tuple[str, str]]
    last: str


def steps(text: str) -> Steps:
    """Take a text apart; one with nothing to keep is its own last step.

    >>> found = steps("WITH a AS (SELECT 1 AS i), b AS (FROM a) SELECT * FROM b AS x, b AS y")
    >>> found.shared
    [('b', 'WITH a AS (SELECT 1 AS i), b AS (SELECT * FROM a) SELECT * FROM b')]
    >>> found.last
    'WITH a AS (SELECT 1 AS i) SELECT * FROM b AS x, b AS y'
    """
    query = sqlglot.parse_one(text, dialect="duckdb")
    tables = query.ctes if isinstance(query, exp.Query) else []
    if not isinstance(query, exp.Query) or not tables or query.args["with_"].args.get("recursive"):
        return Steps([], text)
    read = Counter(table.name.lower() for table in query.find_all(exp.Table) if not table.db)
    inside: list[exp.CTE] = []
    shared = []
    for table in tables:
        if read[table.alias.lower()] > 1:
            whole = _with([*inside, table], exp.select("*").from_(exp.to_identifier(table.alias)))
            shared.append((table.alias, whole.sql(dialect="duckdb")))
        else:
            inside.append(table)
    if not shared:
        return Steps([], text)
    last = query.copy()
    last.set("with_", None)
    return Steps(shared, _with(inside, last).sql(dialect="duckdb"))


def _with(tables: Sequence[exp.CTE], query: exp.Query) -> exp.Query:
    if tables:
        query.set("with_", exp.With(expressions=[table.copy() for table in tables]))
    return query
