"""CREATE MACRO and DROP MACRO: expressions and queries with a name and parameters.

A text that calls one is read as if the body stood there, so that it is planned in stages like any other. DuckDB itself
says whether a macro makes sense, and which columns a text with calls has.

::

    reading.py    from text to statements
    expanding.py  the macros of a session, and texts with their bodies in place of the calls
    defined.py    the same together with the DuckDB that texts are bound by
    naming.py     renames the columns of a text
"""
