"""Statistics: the planner's knowledge of data that it has not read.

::

    stats.py         statistics of a table and of a column, as values
    collect.py       collects them with two or three DuckDB queries
    scalars.py       values of every type as numbers or texts that order alike
    keys.py          columns whose values are unique, counted exactly
    stats_cache.py   keeps statistics by table version, in memory and on disk
"""
