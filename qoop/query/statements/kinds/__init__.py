"""Statements that DuckDB does not have, or that a session runs in another way, or refuses.

::

    materialized.py  CREATE, REFRESH, ALTER, DROP and SHOW of materialized views
    pragmas.py       PRAGMA, which sets an option or is a query
    refused.py       the errors for statements that a session does not run
"""
