"""Partial groups of a view that are cut below its joins, so that a changed dimension reads no file of the fact.

::

    cut.py      a query of sums as groups below its joins, and the joins of these groups; pure
    choice.py   which joins are above the groups, by the number of groups
    groups.py   the table of groups
    joining.py  which groups are joined after a file was replaced; pure
"""
