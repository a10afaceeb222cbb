"""Programs above jobs: pure state machines. A message goes in; the next state and steps come out.

The owner of a program does its steps with jobs and tells it what became of them. The trace of the session has each
message to a program (:mod:`qoop.adaptive.program_log`), so that a rerun goes through its states again.

::

    rounds.py      the rounds of an answer that grows
    approximate/   answers that grow more certain while more is read: runs such rounds
    steps.py       a step that is repeated
    iterate/       steps in SQL that are repeated until a loss falls no more
    kinds.py       the classes of programs, for a rerun
"""
