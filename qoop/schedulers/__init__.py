"""Schedulers: which job gets the next free resources. They know no plan and return values.

::

    base.py       what a scheduler is given and must answer
    waiting.py    requests that wait, kept from one grant to the next
    max_min.py    max-min fairness, the usual one
    reserving.py    keeps resources for a task that was passed over too often
    demand_aware.py   promises what a plan has no use for to other jobs
    remaining_work.py    what a job has still to do, for schedulers that ask
    drf.py        dominant resource fairness, as published
    sjf.py        the job with the least left first
    tetris.py     packing by all resources, as published
    carbyne.py    altruistic scheduling, as published
"""
