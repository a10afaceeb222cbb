"""Machines that are the nodes of a Ray cluster. Needs the extra ``qoop[ray]``.

::

    backend.py       the nodes as machines
    nodes.py         which nodes there are
    machines.py      nodes as machines, those on which a process is starting, those that come and go
    outputs.py       where outputs are, and which jobs need them
    threads.py       the threads of the session's side
    home.py          the store of the session's own process
    worker.py        the actor on a node, with a local backend of the node's size
    agent.py         the actor on a node that serves all sessions
    slot_gate.py     its slots, in front of the backends of the sessions
    channel.py       the calls to either
    orders.py        what a session tells a node
    connection.py    the connection between them
    messages.py      what goes over it, as JSON
    peers.py         outputs read from node to node by Arrow Flight
    pulls.py         outputs read from several nodes at once
    tls.py           certificates of the nodes
    reservation.py   the session's resources in Ray's own accounts
"""
