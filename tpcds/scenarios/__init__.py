"""One query under changing capacity, in virtual time on the real core.

::

    scenario.py       where a query runs
    adversary.py   the capacity that is worst for a policy
"""
