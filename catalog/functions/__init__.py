"""Functions of Python that queries may call.

::

    function.py   a function: its name, its types and what it promises
    version.py    the digest of what a function is
    registry.py   the functions of a session by name
"""
