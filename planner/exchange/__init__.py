"""Exchanges, where rows move between tasks, and the SQL that each stage runs.

::

    distribution.py    how rows lie over the tasks of a fragment
    exchange_cost.py   seconds of each form of an exchange
    fragments.py       fragments that are being built, and the exchanges that end them
    aggregates.py      aggregates over rows that lie in many tasks
    exchange.py        places exchanges and chooses the number of tasks
    top_ranks.py       the first ranks of each partition, found before rows move
    cut.py             one stage for every exchange: the plan
    sqlgen.py          a relation as DuckDB SQL
"""
