"""Tables and views of a session as a folder, and such a folder as tables and views.

::

    exporting.py   EXPORT DATABASE: a folder that DuckDB imports
    importing.py   IMPORT DATABASE
"""
