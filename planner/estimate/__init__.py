"""Estimates: of rows, bytes and seconds.

::

    profile.py         the known facts about a relation's output
    calendar.py        values of parts of dates
    selectivity.py     fractions of a column's rows
    predicates.py      the fraction of rows that a predicate keeps
    equijoin.py        the fraction of a cross product that an equality keeps
    frequent.py        frequent values that meet frequent values
    doubts.py          filters and joins that depend on facts from footers only
    clustering.py      groups within a range of a table, where equal keys lie together
    skipping.py        the part of a table that a scan reads
    unions.py          the profile of a union
    cardinality.py     rows, distinct values and bytes of every operator
    calls.py           the cost of functions of Python
    cost.py            constants of a machine
    tree_cost.py       seconds of an operator tree
    observed.py        true rows, bytes and seconds of earlier runs, by signature
    observed_rows.py   finds them while a query is planned
    join_errors.py     errors that plans have in common
    reestimate.py      corrects a plan's estimates by observations
"""
