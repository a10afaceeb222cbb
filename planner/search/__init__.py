"""Many plans for one query.

::

    alternatives.py   the pool of candidates and the few that are kept
    candidate.py      candidates, grids of shares and kept plans, as values
    fallback_plans.py         plans that are cheap to switch to
    decisions.py      the decisions behind plans, to make them again for other literals
    difference.py     the common part of two plans
    reuse.py          finished work of other plans in a plan without an equal stage
"""
