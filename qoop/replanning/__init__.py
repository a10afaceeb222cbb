"""Which plan to run from here on.

::

    replanner.py      when to think again, and what becomes of the answer
    decision.py       carries progress over to every plan, and chooses greedily
    observations.py   what a session saw of its stages
    baselines.py      planners that choose once, and the best choice in hindsight
    demand.py         how many slots a plan has a use for
    moves.py          how a share moves
    forecast.py       a policy that expects the share to go on moving
    price.py          a policy that counts dollars
    worthwhile.py     which outputs are worth writing
"""
