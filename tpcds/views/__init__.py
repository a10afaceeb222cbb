"""Continuous queries that share a machine by lag and quality, simulated: ``qoop bench views``.

::

    allocation.py   slots and configurations of queries, by MAXMIN or MAXSUM of their utilities; fair shares; first-come
    workload.py     the queries that are drawn: their configurations, goals and times
    simulate.py     they share slots on a virtual clock
    commands.py     ``qoop bench views``
"""
