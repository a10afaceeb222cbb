"""Schedulers as published, which the benchmarks compare with those of the product.

A name of a trace or of `connect(scheduler="SJF()")` finds them too (:mod:`qoop.adaptive.schedulers.described`).

::

    drf.py       dominant resource fairness
    sjf.py       the job with the least left first
    tetris.py    packing by all resources
    carbyne.py   altruistic scheduling
    las.py       the job that was served least first
    edf.py       the next deadline first
"""
