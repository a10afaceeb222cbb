"""Exchanges between machines: which pull comes next, and how long it takes. Pure: no clock, no thread, no IO.

::

    order.py      which of the pulls that wait at a machine begins next
    links.py      what flows over links gets of them: max-min fair rates
    terms.py      how simulated machines read from each other, and from a store
    transfers.py  the inputs of simulated attempts on their way
"""
