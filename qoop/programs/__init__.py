"""Programs above jobs: pure state machines. A message goes in; the next state and steps come out.

The owner of a program carries out its steps with jobs and reports their results as messages. The trace of the session
has each message (:mod:`qoop.adaptive.program_log`), so a rerun goes through the same states.

::

    rounds.py      the rounds of an answer that grows
    approximate/   answers that grow more certain as more data is read, in such rounds
    steps.py       a step that is repeated
    iterate/       steps in SQL that are repeated until their loss stops falling
    sweeps/        many settings of one query, of which only the good ones cost
    views/         views that are kept, and refreshed at the cost of what has changed
    parts.py       rows by a digest, in memory or in a folder
    file_rows.py   rows of files that several views read
    shared_duckdb.py  the DuckDBs of all views of a session
    prepared.py    queries over rows of Arrow that are planned once
    folder_lock.py one process at a time uses a folder
    kinds.py       the classes of programs, for a rerun
"""
