"""Statements that repeat, and statements that come together: the figures of `qoop bench streams` and `tiles`.

::

    constants.py   texts with other constants, from the values in the data
    workload.py    the statements of a stream: new ones, other constants, repeats, changes of tables
    tables.py      a copy of the data, and its changes
    bench.py       the streams on qoop and on DuckDB, statement by statement
    boards.py      dashboards of 20 tiles
    tiles.py       the boards on qoop, together and in turn, and on DuckDB
"""
