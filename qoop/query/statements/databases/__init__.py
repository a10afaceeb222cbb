"""Databases next to the session's own tables, and schemas within it.

::

    schemas.py     CREATE SCHEMA and DROP SCHEMA, and the schemas of a session
    attaching.py   ATTACH, DETACH and USE: from text to statements
    attached.py    the databases of a session, by name
    file_views.py  the views of DuckDB files
    search_path.py the value of current_schema() and its kin once USE has named a schema
    postgres.py    the tables of a PostgreSQL database as views
    passwords.py   keeps the password of one out of the texts of queries
    extending.py   INSTALL and LOAD: from text to statements
    moves.py       EXPORT and IMPORT DATABASE: from text to statements
"""
