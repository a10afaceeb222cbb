"""Programs above jobs: pure state machines. A message goes in; the next state and steps come out.

The owner of a program does its steps with jobs and tells it what became of them. The trace of the session has each
message to a program (:mod:`qoop.programs.told`), so that a rerun goes through its states again.

::

    program.py   messages and steps that all of them have
    rounds.py    the rounds of an answer that grows (:mod:`qoop.growing`)
    steps.py     a step that is repeated (:mod:`qoop.iterating`)
    kinds.py     the classes of these, for a rerun
    told.py      messages to programs as texts, and the steps that follow from them
"""
