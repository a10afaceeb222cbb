"""Statistics: the planner's knowledge of data that it has not read.

::

    stats.py            statistics of a table and of a column, as values
    parquet_chunks.py   what Parquet footers and the headers of dictionaries say
    footers.py          makes statistics of what footers say, which is cheap
    pilot.py            how values are spread, from a few row groups
    collect.py          collects them from data with two or three DuckDB queries
    scalars.py          values of every type as numbers or texts that order alike
    merging.py          those of two parts of a table together
    keys.py             columns whose values are unique, counted exactly
    column_content.py   digests of single columns
    unchanged_columns.py  versions of a table that hold the same in some columns
    duckdb_plan.py      DuckDB's own plan of a query, by its EXPLAIN
    stats_cache.py      keeps statistics by table version, in memory and on disk
    earlier_version.py  the version of a table before files were added
"""
