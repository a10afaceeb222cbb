"""Queries with goals of lag: simulated, with quality (``qoop bench views``), and real (``qoop bench fresh``).

::

    workload.py     the queries that are drawn: their configurations, goals and times
    simulate.py     they share slots on a virtual clock
    shapes.py       materialized views in the shapes of TPC-DS
    days.py         sales that arrive by the day
    load.py         such views in a session of this machine
    recorded.py     the costs of their refreshes, recorded once
    virtual.py      policies over these costs on a virtual clock
    by_hand.py      their cost next to the same change by hand in DuckDB
    commands.py     both commands
"""
