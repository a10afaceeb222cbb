"""Streams of statements that repeat: the figures of `qoop bench streams`.

::

    constants.py   texts with other constants, from the values in the data
    workload.py    the statements of a stream: new ones, other constants, repeats, changes of tables
    tables.py      a copy of the data, and its changes
    bench.py       the streams on qoop and on DuckDB, statement by statement
"""
