"""Watches the machine: what control groups allow and other programs take becomes what a session may use.

::

    machine.py     reads what the kernel reports
    cgroup.py      limits of control groups
    held_files.py  reads files of the kernel again without opening them
    available.py   what this process may use
    reading.py     the state of the machine at one moment, as values
    judging.py     the size that a session should have
    alarm.py       waits for the next reading
    sleep.py       detects that the machine slept
    notices.py     notices of clouds that they take the machine away
    watch.py       gives that size to the session
"""
