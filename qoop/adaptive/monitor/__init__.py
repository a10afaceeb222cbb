"""Watches the machine: what control groups allow and other programs take becomes what a session may use.

::

    machine.py     what the kernel tells
    cgroup.py      limits of control groups
    available.py   what this process may use
    reading.py     one look at the machine, as values
    judging.py     what a session should use
    watch.py       gives it to the session
"""
