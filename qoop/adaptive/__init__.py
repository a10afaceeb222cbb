"""The loop of the paper: it runs jobs by plans, and changes the plan when the machines, the share or the data change.

::

    cluster/         the loop: jobs, machines, grants; what it records of each turn
    replanning/      the decision: stay with the plan, or switch to which one
    schedulers/      policies that grant free resources to jobs
    profiles/        capacity over time
    monitor/         measures what the machine can spare
    retrace/         replays a trace
    simulation.py    jobs on simulated machines, on the same core
    program.py       messages and steps that all programs above jobs have
    program_log.py   messages to programs as texts, and the steps that follow from them
"""
