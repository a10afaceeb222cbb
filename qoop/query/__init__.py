"""A query from its text to its result: statements, planning, the job and its answer, options, and their drawings.

::

    options.py        the options of a session, in one table
    config.py         the values of options: from arguments, the environment, files, defaults
    tables.py         the tables and views of a session, by name
    statements/       statements other than SELECT: views, COPY, SET, parameters
    planning.py       the plan that a query begins with: DuckDB's, or one of stages
    plan_search.py    the plans of a query and their estimates, also while it runs
    preparation.py    binds queries and collects the statistics that their planning needs
    quick_plans.py    plans of stages that are quick to make, to compare DuckDB's plan with
    earlier_work.py   the outputs and plans that earlier runs have left
    output_losses.py  the work that is lost with a process
    job_lessons.py    facts for later plans from jobs that have ended
    duckdb_plans.py   DuckDB's own plans of queries, and what they took
    plan_store.py     plans of texts that were planned before, in memory and in files
    plan_keys.py      the identity of those plans
    calibrated.py     the cost constants of this machine
    job.py            one run of a query
    result.py         the answer
    writing.py        the answer in files
    bundle.py         a suspended job as a folder
    copies.py         finds copies of tables that hold the same rows
    isolation/        texts that are bound in child processes
    drawing/          pictures, tables and formats of output
    streams.py        signals, warnings and streams of a command line
"""
