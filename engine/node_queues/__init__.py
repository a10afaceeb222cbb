"""Queues of granted tasks at the nodes, so that one begins when another ends, without a message.

Source: Rasley et al., "Efficient Queue Management for Cluster Scheduling", EuroSys 2016 (Yaq). Bounding, placing and
ordering are needed together: a queue that is first in, first out keeps short tasks behind long ones.

::

    ticket.py     a task that may wait at a node, and the work that its job has left
    ordering.py   which of the waiting tasks begins first, and how long any may be passed over
    queue.py      the bounded queue of one node
    node.py       the tasks that run on a node, and those that wait there
    shared.py     the tasks of several sessions at one node, which take turns
    view.py       what a scheduler knows of all nodes between their reports
    placement.py  the node at which the next task should wait
    policy.py     the choices for the nodes of a cluster, together
"""
