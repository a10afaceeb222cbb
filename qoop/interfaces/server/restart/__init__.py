"""Queries and ports that outlive a server: the next one, or another on the same folder of answers, goes on with them.

::

    handover.py     listening sockets that the next server takes over
    kept_folder.py  queries that go on without their client, in a folder that servers share
    readiness.py    the message to systemd that the server has begun
"""
