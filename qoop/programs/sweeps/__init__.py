"""Sweeps: many settings of one query at once, of which only the good ones cost.

::

    messages.py     messages to the program of a sweep, and its orders
    sweep.py        the program: which trial runs its next step; pure
    policies.py     the fate of a trial at a boundary, and which trial a free slot runs
    race.py         the program of a race between queries whose answers grow; pure
    contest.py      the queries of a race: the metrics of several trials side by side
    paired.py       which trials are beaten, by differences over the same pieces
    division.py     how many slots promising trials deserve
    prospects.py    the chance that a curve of scores reaches a level
    fidelity.py     early steps over some pieces of a table
    scale_free.py   queries whose answer over some rows estimates that over all of them
    texts.py        the steps of trials as the session reads them, each with its metric
    space.py        the settings of the trials
    optuna_source.py   settings that an Optuna study proposes
    ray_scheduler.py   a scheduler of Ray Tune as the policy
    journal.py      the record of a named sweep, for a process that goes on with it
    study.py        carries out the orders with jobs of a session
    report.py       trials as a table, as a sentence, and as HTML
    named.py        the sweeps of a session by name, for `FROM sweep('rates')`
    kinds_of_options.py   refuses options of another kind
    start.py        checks a sweep, and begins or continues it
"""
