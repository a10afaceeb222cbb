"""The storage of the tables that statements create.

::

    storage.py     pieces in memory, or in a folder: what both have in common, and the former
    folder.py      the latter: Parquet files, with a manifest for each version
    background.py  packs small pieces of these by a thread
"""
