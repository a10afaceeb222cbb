"""Files of tables in DuckDB's own format, for the texts that DuckDB plans itself.

::

    copies.py    the copies that exist, the files that are worth one, the SQL that reads them
    worth.py     the texts that are slower over copies
    making.py    makes a copy of a file
"""
