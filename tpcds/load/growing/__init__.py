"""Growing answers that share a simulated cluster, under each scheduler: ``qoop bench grow``.

::

    answers.py   a growing answer that is drawn: its work, and its error after each round
    simulate.py  many of them, with exact queries, on a simulated cluster, and the outcome
    times.py     the queries of TPC-DS on this machine, one after the other, next to their exact runs
    commands.py  ``qoop bench grow``
"""
