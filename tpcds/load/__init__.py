"""Many queries of several tenants at once: open arrivals at a given load, for schedulers to be compared on.

::

    arrivals.py   the queries of tenants of three habits, by a seed
    simulate.py   one run of them on simulated machines, under a policy
    measures.py   times, finish-time fairness and deadlines of a run; ratios over seeds
    pictures.py   curves over load, and the distribution of fairness
    growing/      growing answers that share simulated machines
    commands.py   ``qoop bench load``
"""
