"""Benchmarks that run for real.

::

    side_by_side.py      the queries through qoop and through DuckDB
    cold.py              each query in a new process, next to Python with DuckDB
    report.py            that, as text
    system_under_test.py        one side of a comparison, in a process that may be killed
    modes.py             the options of its sessions: the default ones, or stages only
    contest.py           starts one, takes resources from it, judges its answer
    resized.py           resources change in mid-query: they go away and come back, or arrive
    query_loop.py        queries one after another, in a process whose control group changes
    resizes.py           the limits of a control group change at random
    interrupt.py         the process is killed again and again
    continued.py         the process is killed at a part of its work, and another goes on
    lives.py             a query lives in short processes of random size
    bombs.py             dashboards and bombs, on a server and in DuckDB alone
    real_sweeps.py       sweeps for real, next to Optuna and Ray Tune
    shapes.py            queries of shapes that optimisers get wrong
    orders.py            queries whose texts name the tables in random orders
    overhead.py          what adaptivity costs where nothing changes
    eta.py               how good the predicted end is
    core_speed.py        events a second through the core
"""
