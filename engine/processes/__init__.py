"""Child processes that run one call at a time, within limits of memory, and that can be killed.

::

    nursery.py          the process that forks the others: warm, without threads
    child.py            what runs in them: calls come in, frames of bytes and one result go out
    process.py          one of them, as its parent sees it: a call, its limits, its end
    pool.py             the processes that wait for a call
    isolated_kernel.py  runs a task in one of them, in place of a kernel of this process
    isolated_task.py    that task as JSON
    task_in_process.py  the same task within the process

DuckDB folds constants while it binds a text, and the values of one row lie outside its `memory_limit`. So a text may
take any memory, for any time, and some functions cannot be interrupted. In a process all of that has an end.
"""
