"""The backends, which run tasks.

::

    base.py             the seam between the core and a backend
    local.py            slots in this process
    simulated.py        scripted durations and failures under a virtual clock
    shared_rate.py      a disk or link that attempts share
    worker_pool.py      the workers of a simulated machine
    last_first.py       threads that wait for work, the last of which is woken first
    release_memory.py   gives freed memory back to the system
    work_watch.py       reports the progress of long attempts
    while_working.py    a thread that looks again and again while there is work
    ahead.py            inputs of an attempt that waits, fetched before it begins
    simulated_nodes.py  when simulated machines are heard of
    ray/                nodes of a Ray cluster
"""
