"""Functions of Python inside a kernel.

::

    calls.py         calls that are measured, can be stopped, and fail in our words
    measured.py      rows and seconds of functions, of one task and of all; facts that kernels share
    filters.py       filters in a kernel whose predicates may run in any order
    ordering.py      the order of expensive predicates, found while they run
    fused_filter.py  plain calls as one function, which calls them in turn
"""
