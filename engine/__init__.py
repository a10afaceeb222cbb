"""Runs the tasks of a plan; never judges a plan.

::

    events.py        events, commands, demands and grants
    task.py          one task: its stage, its part, where its inputs lie
    run.py           the state machine of one job: events in, commands out
    frontier.py      which tasks still have to run, and which can run now
    state.py         states of a job and limits of a run
    demand.py        how much memory and cpu a task asks for
    data_locality.py on which machine the inputs of a task lie
    driver.py        carries events to runs and commands to the backend
    backends/        the backends, which run tasks
    kernel.py        runs one task at a time
    instance.py      the DuckDB it runs in: the files it may open, its options
    one_pipeline.py  queries whose rows can leave DuckDB as a stream
    stage_sql.py     checks that a stage's SQL only reads its inputs
    storage/         committed outputs
    digest.py        digests of outputs: a few numbers
    failures.py      errors of DuckDB, Arrow and the system as ours
    progress.py      how far a job is
    history.py       what a job did and why, as sentences
    invariants.py    the invariants of a run, checked after every event
    clock.py         wall time and simulated time
    interpreter.py   how long a thread keeps Python's lock
    relief.py        memory that was freed goes back to the system
"""
