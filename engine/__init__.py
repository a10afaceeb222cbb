"""Runs the tasks of a plan; never judges a plan.

::

    events.py         events, commands, demands and grants
    task.py           one task: its stage, its part, where its inputs lie
    run.py            the state machine of one job: events in, commands out
    running/          the parts of a run: its attempts, its outputs, the plan that runs
    frontier.py       the tasks that still have to run, and those that can run now
    state.py          states of a job and limits of a run
    demand.py         the memory and cpu that a task asks for
    data_locality.py  prefers the machine that holds a task's inputs
    driver.py         carries events to runs and commands to the backend
    backends/         the backends, which run tasks
    exchanges/        which pull from another machine comes next, and links in simulations
    node_queues/      queues of granted tasks at the nodes
    kernel.py         runs one task at a time
    kernel_options.py the options of DuckDB for one task
    instance.py       the DuckDB that a task runs in: its files and options
    native/           copies of files of tables in DuckDB's own format
    functions/        functions of Python inside a kernel
    processes/        child processes for texts that are not trusted
    profiling/        what DuckDB says of a task that has run
    memory.py         the memory that a process takes
    stage_sql.py      checks that a stage's SQL only reads its inputs
    storage/          committed outputs
    digest.py         digests of outputs: a few numbers
    failures.py       turns errors of DuckDB, Arrow and the system into ours
    progress.py       the progress of a job
    history.py        the records of a job: what it did and why
    notices.py        those of them that a user should see without the history
    replay.py         a history as attempts with intervals, shares, capacity and stages
    clock.py          wall time and simulated time
"""
