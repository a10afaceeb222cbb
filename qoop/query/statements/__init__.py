"""The statements of a session.

::

    words.py            a statement, read word by word
    statement.py        texts into statements
    reading.py          CREATE, DROP, COPY and changes of tables
    materialized.py     CREATE, REFRESH, ALTER, DROP and SHOW of materialized views
    changing.py         tables without rows; INSERT, UPDATE, DELETE, MERGE, ALTER TABLE and COPY … FROM
    prepared.py         PREPARE, EXECUTE, SET VARIABLE, CALL and BEGIN
    session_state.py    the prepared statements and variables of a session
    local_frames.py     tables among the variables of the program
    parameters.py       values for ``?`` and ``$name``
    pivots.py           values for a PIVOT that has none
    normal_text.py      texts that say the same
    settings.py         SET options that change results
    databases/          ATTACH, DETACH, USE, schemas and extensions
    import_export/      EXPORT DATABASE and IMPORT DATABASE
    kinds/              PRAGMA, and the statements that are refused
    macros/             CREATE MACRO and DROP MACRO
    session_names.py    which names of tables, views and schemas exist, and which are free
    definitions.py      views, created tables and files, by name
    views.py            queries with a name
    plain_names.py      names with schemas, the catalog, and files, as tables by one name
    session_catalog.py  DuckDB's catalog functions, for the tables of a session
    error_location.py   the place in a query that caused the error of a task
    created/            the storage of created tables: pieces in memory, or in a folder
    listings.py         the rows of SHOW TABLES and SHOW FUNCTIONS
"""
