"""The profile of a task, as DuckDB tells it under EXPLAIN ANALYZE.

::

    reading.py   reads it off DuckDB, of either version
"""
