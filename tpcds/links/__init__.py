"""The gain of ways in which nodes pull rows from each other.

::

    workload.py   plans with long exchanges, and some with long work
    bench.py      all ways on the same plans, in virtual time
"""
