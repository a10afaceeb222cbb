"""The backends, which run tasks.

::

    base.py               the seam between the core and a backend
    local.py              slots in this process
    local_attempt.py      an attempt in this process
    attempt_runner.py     inputs, computing and outputs of attempts in this process
    sliced.py             a task in slices, for processes that live shorter than it
    simulated.py          scripted durations and failures under a virtual clock
    outcomes.py           the script of a simulation
    simulated_outputs.py  the outputs of a simulation
    agenda.py             actions of a simulation in order of time
    efforts.py            work on simulated machines
    devices.py            disks and links of simulated machines
    shared_rate.py        a disk or link that attempts share
    worker_pool.py        the workers of a simulated machine
    warm_kernels.py       kernels that wait, the last of which is used first
    interpreter.py        limits how long a thread keeps Python's lock
    release_memory.py     gives freed memory back to the system
    work_watch.py         reports the progress of long attempts
    while_working.py      a thread that looks again and again while there is work
    ahead.py              inputs of an attempt that waits, fetched before it begins
    simulated_nodes.py    how simulated machines behave and report, and an attempt on one
    ray/                  nodes of a Ray cluster
"""
