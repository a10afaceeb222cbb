"""A trace gone through again.

::

    rerun.py      the same goes in, the same must come out
    reading.py    a trace file, as the turns of its session
    recorded.py   the backend and the planner of a rerun
    story.py      the history of a job in words
"""
