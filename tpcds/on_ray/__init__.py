"""Real nodes of Ray on this machine.

::

    ray_nodes.py    a cluster whose nodes come and go
    ray_arrive.py   nodes that arrive while a query runs
"""
