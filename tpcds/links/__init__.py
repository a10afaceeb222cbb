"""The gain of ways in which nodes pull rows from each other.

::

    workload.py   plans whose exchanges take long, and some whose work does
    search.py     orders and segments of pulls, searched by simulating them
    bench.py      all ways on the same plans, in virtual time
    shaped.py     links of token buckets between nodes on one machine
    bucket.py     a bucket on this machine behind a proxy that counts and delays requests
    ray_links.py  the ways on real nodes with such links, which also join and die
"""
