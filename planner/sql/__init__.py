"""From SQL text to a relation.

::

    bind.py           parses with sqlglot, checks and types with DuckDB
    columns_read.py   the columns that a query may read, before it is bound
    sources.py        the sources of a query: tables, files, and those outside the session
    reading.py        the check that sqlglot reads a text as DuckDB does
    scope.py          names in scope: FROM items, outer blocks, CTEs
    unions.py         queries with values of a UNION, which run whole
    parts.py          the parts of nodes that the builder supports: blocks with others are refused
    unique_cte_names.py  renames queries of a WITH that share a name
    build.py          a statement: CTEs, set operations, ORDER BY and LIMIT
    query_block.py    a query block while it is built
    select_block.py   a SELECT, clause by clause
    from_clause.py    FROM: its items and joins
    select_list.py    the items of a SELECT, and which of their names other clauses may use
    stars.py          stars and COLUMNS spelt out
    merged_selects.py plain SELECTs in FROM and WITH, merged into the SELECT that reads them
    latest.py         correlated subqueries of the latest row: a join with it
    running.py        correlated aggregates of the rows up to a bound, as window functions
    subquery.py       subqueries in expressions become joins
    convert.py        expressions
"""
