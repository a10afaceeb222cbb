"""Real nodes of Ray on this machine.

::

    ray_nodes.py    a cluster whose nodes come and go
    cpu_quota.py    a part of a processor for each of them
    ray_arrive.py   nodes that arrive while a query runs
"""
