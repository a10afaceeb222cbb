"""The engines: each is a program that speaks JSON lines, in an environment that need not have qoop.

::

    protocol.py          the loop that all of them share
    qoop_resuming.py     qoop, which goes on from its checkpoints
    duckdb_again.py      DuckDB, which starts again
    duckdb_keeping.py    DuckDB that keeps what a text reads more than once
    shared_steps.py      the steps that it can keep
    polars_streaming.py  Polars, its streaming engine
    datafusion_again.py  DataFusion
    spark_local.py       Spark in one process
"""
