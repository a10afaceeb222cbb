"""Rewrites of a relation that need estimates.

::

    arrange.py              runs them in order
    inline.py               shared subplans written out where that pays
    eager_aggregation.py    groups before joins that only widen rows
    roll_up.py              grouping sets from the groups of finer ones
    join_forms.py           joins in another form where that pays: the next two
    extremes.py             EXISTS and IN with an inequality compare with the ends of each key
    split_or_joins.py       hash joins for each branch of a join's OR
    running_joins.py        aggregates over joins by an inequality as running aggregates
    reduce_build_sides.py   cuts a large build side down by a small probe side
    late_calls.py           predicates that call Python, above joins that leave few rows
    transfer.py             keys of one side of a join cut the other down where its rows come from
    key_target.py           where they go
    work.py                 seconds of trees that differ in a few operators
"""
