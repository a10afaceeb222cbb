"""A step in SQL that is repeated over its own answer: k-means, gradient descent, whatever has a loss that falls.

    a step, its answer ──> the table that the next step reads ──> … ──> the loss falls no more: the end

`qoop.programs.steps` says what happens next, without IO and without a clock, as the rounds of a growing answer do.

::

    curves.py      the losses to come, by those that were
    iteration.py   does the steps with jobs of its session: what `Session.iterate` gives
    start.py       from a step to its iteration
    planning.py    plans a step over the answer of the one before
"""
