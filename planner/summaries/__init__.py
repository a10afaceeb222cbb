"""Summaries: one finer aggregate from which several coarser ones are rolled up.

::

    block.py     an aggregate over joins of base tables, in the tables' own columns
    summary.py   the finer aggregate that covers several such blocks
    roll_up.py   a block computed from the groups of a summary

A summary groups by all that its blocks group by, and by what their predicates differ in. So each block filters and
regroups the groups of the summary (J. Gray et al., "Data Cube", 1997; A. Gupta, V. Harinarayan, D. Quass,
"Aggregate-Query Processing in Data Warehousing Environments", VLDB 1995).
"""
