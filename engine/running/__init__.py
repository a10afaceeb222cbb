"""The parts of a run.

::

    attempts.py    the living attempts, and the table of their states
    outputs.py     the outputs that can be read, and facts of those released
    plan.py        the plan that runs, kept in line with attempts and outputs
    retries.py     which failure ends the job
    task_specs.py  the order of a task
    going_on.py    the names by which non-deterministic outputs serve the next process
    log.py         the clock of a run, its history and its commands
    view.py        a run as others read it
    invariants.py  the invariants of a run, checked after every event
"""
