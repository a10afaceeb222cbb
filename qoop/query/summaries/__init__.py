"""Queries that are computed from the groups of one finer aggregate, a summary (:mod:`qoop.planner.summaries`).

::

    grouping.py   which queries that come at the same time share a summary
    templates.py  texts that differ in constants alone: when a summary answers them
    plans.py      the plan of a summary, and those of the queries that read it
"""
