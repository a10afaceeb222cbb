"""A step in SQL that is repeated over its own answer: k-means, gradient descent, any method whose loss falls.

    a step, its answer ──> the table that the next step reads ──> … ──> the loss stops falling: the end

`qoop.programs.steps` decides what comes next, without IO and without a clock.

::

    curves.py      predicts losses from the losses so far
    iteration.py   runs the steps as jobs of its session: the result of `Session.iterate`
    start.py       from a step to its iteration
    planning.py    plans a step over the answer of the one before
"""
