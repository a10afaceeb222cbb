"""Gives out what machines have, in every turn of the loop.

::

    granter.py          the turn: ready tasks begin as the scheduler says, until nothing fits
    tenant_limits.py    the slots and memory that the jobs of a tenant, or of a user, may hold together
    spare_resources.py  idle slots and memory that a granted task may have
    elastic.py          tasks whose slots change while they run
    node_places.py      tasks that wait at machines
    extra_slots.py      a slot on top of those there are, for a job that waits with nothing running
    short_tenants.py    the tenants whose queries were as short as estimated
    extra_grants.py     gives those slots, and interrupts a task where even that does not help
    preemption.py       the task that is interrupted for a job that waits
    revocation.py       what to do when capacity is about to go
"""
