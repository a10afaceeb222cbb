"""Databases next to the session's own tables: ATTACH, DETACH, USE, SHOW DATABASES, INSTALL and LOAD.

::

    attaching.py   from text to what they ask for
    attached.py    the databases of a session, by name
"""
