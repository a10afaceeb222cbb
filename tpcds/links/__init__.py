"""The gain of ways in which nodes pull rows from each other.

::

    workload.py   plans whose exchanges take long, and some whose work does
    bench.py      all ways on the same plans, in virtual time
"""
