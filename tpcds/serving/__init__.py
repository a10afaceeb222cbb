"""The cost of asking a server in place of its session (`qoop bench serve`).

::

    served.py   a server of both protocols in this process, and clients of it
    bench.py    the figures, and the command
"""
