"""Questions about pg_catalog and information_schema: a DuckDB answers them that has these relations and no data.

::

    carriers.py     types that DuckDB does not have, such as oid, and the types that carry them
    column_names.py  the names that PostgreSQL gives the columns of a query
    data/           the relations, types, functions and settings of PostgreSQL 16, a line each
    database.py     the DuckDB: all relations, with rows for what is here
    functions.py    the functions of PostgreSQL's catalog, as macros
    growth.py       questions that are refused, for their values may grow without bound
    json_operators.py  JSON's ?, @>, #>> and the like, as calls of DuckDB
    number_formats.py  patterns of to_char for numbers
    operands.py     where an operand or a type of a text begins and ends
    questions.py    a question of one client, from its text to its rows
    settings.py     the settings of one client, which SET and SHOW name
    text_functions.py  functions such as to_char, as DuckDB has them
    translation.py  PostgreSQL's SQL as DuckDB takes it
    types.py        types of DuckDB as those of PostgreSQL
    viewer.py       the client: what it may see, and do to its own connections
"""
