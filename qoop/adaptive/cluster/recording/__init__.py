"""The record of the loop: what goes into each of its turns, and what comes out.

::

    messages.py         what callers and the planner send the loop
    ticks.py            what else goes into one turn of the loop, and what comes out of it
    recorder.py         puts down turns of the loop
    trace.py            the record of a session
    trace_codec.py      the lines of a trace
    journal.py          what happens, for the module `logging`
"""
