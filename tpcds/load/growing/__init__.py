"""Growing answers that share a simulated cluster, under each scheduler: ``qoop bench grow``.

::

    answers.py   a growing answer that is drawn: its work, and its error after each round
    simulate.py  many of them, with exact queries, on a simulated cluster, and the outcome
    commands.py  ``qoop bench grow``
"""
