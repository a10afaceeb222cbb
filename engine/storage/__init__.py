"""Committed outputs of tasks.

::

    partition.py      cuts rows by ``hash(keys) % parts``
    growing.py        an output while it is made, in memory or in a file
    checkpoint.py     outputs in tiers: memory first, then files
    entries.py        the outputs that are known, by key and by what they mean
    retention.py      the rules for what is kept, and warnings of what does not outlive the process
    write_behind.py   writes durable outputs behind the running tasks
    segments.py       the data file: an Arrow stream for every partition
    manifest.py       checkpoints in a folder: data first, the manifest last
    users.py          the users of a folder of checkpoints, known through files and locks
    shared_store.py   checkpoints in a store that machines share
    local_copies.py   parts of them that stand on this machine
    space.py          the space that they take, and the removal of those that are needed least
    listing.py        the names of its objects
    packs.py          many outputs in one data file
    pack_index.py     the packs that this process knows
    merging.py        small files become larger ones while the query runs
    leases.py         the users of such a store, known through leases
    guard.py          compares outputs of one signature
    scratch.py        temporary folders that do not outlive their process
"""
