"""From SQL text to a relation.

::

    bind.py       parses with sqlglot, checks and types with DuckDB
    reading.py    whether sqlglot reads a text as DuckDB does
    scope.py      names in scope: FROM items, outer blocks, CTEs
    build.py      query blocks, clause by clause
    subquery.py   subqueries in expressions become joins
    convert.py    expressions
"""
