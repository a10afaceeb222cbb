"""Many plans for one query.

::

    alternatives.py   the pool of candidates and the few that are kept
    candidate.py      candidates, grids of shares and kept plans, as values
    fallback_plans.py         plans that are cheap to switch to
    decisions.py      how plans were found, to make them again for other literals
    difference.py     what two plans have in common
    reuse.py          finished work of other plans in a plan without an equal stage
"""
