"""Queries that are computed from the groups of one finer aggregate, a summary (:mod:`qoop.planner.summaries`).

::

    grouping.py   which queries that come at the same time share a summary
    plans.py      the plan of a summary, and those of the queries that read it
"""
