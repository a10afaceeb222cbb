"""The gain of queues at the nodes for short jobs.

::

    workload.py   the jobs of the source's mix
    measures.py   what is measured of a run
    bench.py      all ways to queue on the same jobs
"""
