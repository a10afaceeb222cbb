"""Statements of DuckDB that a session runs in another way, or refuses.

::

    pragmas.py  PRAGMA, which sets an option or is a query
    refused.py  the errors for statements that a session does not run
"""
