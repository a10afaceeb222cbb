"""The statements of a session.

::

    words.py         a statement, read word by word
    statement.py     texts into statements
    reading.py       CREATE, DROP and COPY
    parameters.py    values for ``?`` and ``$name``
    pivots.py        values for a PIVOT that has none
    copying.py       where COPY may write
    normal_text.py   texts that say the same
    settings.py      SET options that change results
    definitions.py   views, created tables and files, by name
    views.py         queries with a name
    files.py         files that a query reads by path
    keeping.py       where created tables are kept
    showing.py       the answer to SHOW FUNCTIONS
"""
