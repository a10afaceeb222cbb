"""The requests and seconds that packed outputs save behind a slow store (`qoop bench pack`).

::

    in_memory.py a store in memory
    distant.py   a store that counts its requests by kind and delays each
    shuffle.py   a durable shuffle over such a store: written by one machine, read by another
    small_query.py  a query for which packing is of no use
    bench.py     the figures, and the command
"""
