"""Stores of bytes that other processes and machines read.

::

    objects.py      a shared folder or a bucket: get, put if absent, list
    node_cache.py   pieces of objects on this machine, shared by its processes
    private.py      files and folders that only their owner can read
    whole_file.py   files that appear whole or not at all
"""
