"""Re-planning: the choice of the plan to run from here on.

::

    adaptive.py       what a job needs to change plan
    triggers.py       when it is time to think again
    replanner.py      asks at that time, and applies the answers
    answers.py        how a question is answered, in the planner thread
    decision.py       carries progress over to every plan: what a policy decides on, and its answer
    slowdown.py       by which factor tasks take longer than estimated; the end and the progress by that
    end_seconds.py    the seconds of a plan to its end, as a distribution
    policies.py       the policies by their names
    greedy.py         the plan that ends first on the share at hand
    observations.py   what a session saw of its stages
    observed_seconds.py what functions of Python, and slow tables, have taken so far
    baselines.py      planners that choose once, and the best choice in hindsight
    price.py          a policy that counts dollars
    worthwhile.py     which outputs are worth writing
"""
