"""Rewrites of a relation that need estimates.

::

    arrange.py              runs them in order
    inline.py               shared subplans written out where that pays
    eager_aggregation.py    groups before joins that only widen rows
    reduce_build_sides.py   cuts a large build side down by a small probe side
    reduce_facts.py         cuts a large side of a join down by the keys of the other
"""
