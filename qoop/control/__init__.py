"""The loop that decides: jobs, machines, and who gets what.

::

    cluster.py          the loop: jobs, machines and a scheduler
    job_handle.py       a submitted job as its owner sees it
    messages.py          what callers ask of the loop
    ticks.py            what goes into one round of the loop, and what comes out
    sizing.py           how large a session is
    announcements.py    the sizes that the machines are to have later
    last_resort.py      the task that is interrupted for a job that waits
    revocation.py       what to do when capacity is about to go
    admission.py        jobs that queue until they may run
    deadlines.py        whether running jobs will meet their deadlines
    tenants.py          what tenants are sure of and use, and how fairly they are served
    extra_slots.py      a slot on top of those there are, for a job that waits with nothing running
    spare_resources.py  what a task may have of slots and memory that nobody needs
    planner_thread.py   where decisions are worked out
    remaining_work.py          what a job has still to do, for schedulers
    job_status.py         how a job stands, for people
    journal.py          what happens, for the module `logging`
    trace.py            the record of a session
    trace_codec.py      the lines of a trace
    arbiter.py          several sessions on one Ray cluster
"""
