"""A trace gone through again.

::

    rerun.py   the same goes in, the same must come out
    story.py   the history of a job in words
"""
