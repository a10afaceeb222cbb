"""What packed outputs save where every request to a store takes its time (`qoop bench pack`).

::

    in_memory.py a store in memory
    distant.py   a store that counts its requests by kind and delays each
    shuffle.py   a durable shuffle over such a store: written by one machine, read by another
"""
