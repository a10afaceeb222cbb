"""The loop: jobs, machines, and the decisions about both.

::

    cluster.py          the loop: jobs, machines and a scheduler
    options.py          how the loop behaves
    job_table.py        the jobs that the loop has
    owners.py           the users whose jobs have made outputs
    active_job.py       one of them, with its run, plans and remaining work
    fair_shares.py      divides the machines between the jobs
    job_group.py        several jobs with the weight of one
    granting/           gives out what machines have, in every turn
    backend_size.py     resizes the backend, at once or as announced
    time_limits.py      the times at which jobs fail
    past_jobs.py        accounts of the jobs that have ended
    job_handle.py       a submitted job as its owner sees it
    job_status.py       how a job stands, for people
    admission.py        jobs that queue until they may run
    deadlines.py        whether running jobs will meet their deadlines
    remaining_work.py   what a job has still to do, for schedulers
    planner_requests.py requests to the planner about jobs, and what its replies change
    planner_thread.py   where decisions are worked out
    recording/          messages to the loop, and the trace of all that goes in and comes out
    tenants.py          what tenants are sure of and use, and how fairly they are served
    sizing.py           how large a session is
    arbiter.py          several sessions on one Ray cluster
"""
