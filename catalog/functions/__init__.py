"""Functions of Python that queries may call.

::

    function.py   a function: its name, its types and its guarantees
    version.py    the digest of a function's code
    registry.py   the functions of a session by name
"""
