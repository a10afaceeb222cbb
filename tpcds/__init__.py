"""An application of the rest: benchmark data, queries, oracle, and all measurements.

::

    data.py             TPC-DS and TPC-H data as Parquet
    manifest.py         the list of the tables in a folder
    skew.py             the same data with skewed keys
    skew_tpch.py        the same for TPC-H
    queries.py          the texts of the queries
    ordering.py         the order that a text promises
    oracle.py           whether two answers agree
    oracle_process.py   DuckDB's answers from another process
    results.py          results of a long run, kept as they come
    scaling.py          statistics as they would be at a larger scale
    control_groups.py   limits of memory and CPUs for processes
    memory.py           the peak of anonymous memory
    quantiles.py        quantiles and confidence of a sample
    processes.py        worker processes that do not outlive this one
    cli.py              ``qoop tpcds``
    bench_cli.py        ``qoop bench``
    bench/              real runs
    links/              ways to pull rows from other machines, compared
    load/               many queries of several tenants at once, in virtual time
    map/                a map of where changing plan pays
    on_ray/             real nodes of Ray on this machine
    streams/            statements that repeat, while tables change
    queues/             what queues at nodes do for short jobs
    schedulers/         schedulers as published, to compare with those of the product
    simulate/           what tasks of large data take, and replicas of real machines
    spot/               engines under recorded spot markets
    suite/              the paper's evaluation
    views/              goals of lag and quality on shared slots
"""
