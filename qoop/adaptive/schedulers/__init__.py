"""Schedulers decide which job gets the next free resources. A scheduler knows no plan and returns values.

::

    base.py            the input and the answers of a scheduler
    waiting.py         requests of all jobs, kept from one grant to the next
    described.py       schedulers by name, and by what a trace says of them
    terms.py           the owner of a job, its deadline, and how far its program is
    shares.py          shares by weight: of tenants first, then of the jobs of each
    max_min.py         max-min fairness, the usual one
    reserving.py       reserves resources for a task that was passed over too often
    remaining_work.py  what a job has still to do, for schedulers that need it
    finish_time.py     what would end first on a part of its own first
    urgency.py         deadlines and priorities within a tenant
    quality/           to the growing answer whose error falls most

Schedulers of the literature, which the benchmarks compare with these, are in `qoop.tpcds.schedulers`.
"""
