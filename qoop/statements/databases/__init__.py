"""Databases next to the session's own tables, and schemas within it: ATTACH, DETACH, USE, SHOW DATABASES, CREATE SCHEMA.

::

    schemas.py     the schemas of a session
    attaching.py   from text to what they ask for
    attached.py    the databases of a session, by name
"""
