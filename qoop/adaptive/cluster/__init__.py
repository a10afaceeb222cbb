"""The loop that decides: jobs, machines, and who gets what.

::

    cluster.py          the loop: jobs, machines and a scheduler
    granting/           gives out what machines have, in every turn
    active_job.py       a job that the loop has
    past_jobs.py        accounts of the jobs that have ended
    job_handle.py       a submitted job as its owner sees it
    job_status.py       how a job stands, for people
    messages.py         what callers ask of the loop
    admission.py        jobs that queue until they may run
    deadlines.py        whether running jobs will meet their deadlines
    remaining_work.py   what a job has still to do, for schedulers
    questions.py        asks the planner about jobs, and does what it answers
    planner_thread.py   where decisions are worked out
    tenants.py          what tenants are sure of and use, and how fairly they are served
    sizing.py           how large a session is
    announcements.py    the sizes that the machines are to have later
    arbiter.py          several sessions on one Ray cluster
    recorder.py         puts down turns of the loop
    ticks.py            what goes into one turn of the loop, and what comes out
    trace.py            the record of a session
    trace_codec.py      the lines of a trace
    journal.py          what happens, for the module `logging`
"""
