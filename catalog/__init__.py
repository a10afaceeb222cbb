"""The data that exists: tables, schemas, statistics, and the errors of all layers.

::

    errors.py         the error tree, drawn at its top
    faults.py         faults of a configuration, all in one message
    catalog.py        the tables of a session by name, and their statistics
    table.py          a table: name, schema and version over a source that can be read in splits
    functions/        functions of Python that queries may call
    sources/          files, Arrow data, DuckDB files and buckets as tables
    statistics/       rows, distinct values, ranges and keys of a table
    stores/           folders and buckets that several machines share
    opening.py        the one way to open a DuckDB
    extensions.py     extensions of DuckDB, on this machine and in an instance
    access.py         which files a DuckDB must be able to open to read tables
    duckdb_introspection.py  DuckDB's keywords, types and options, and its parser
    lexer.py          the words of a text, by DuckDB's lexer
    by_text.py        the memory of what functions say of texts
    paths.py          paths that come from outside; the user's folders
    forks.py          what a forked process may not share with its parent
    interrupts.py     Ctrl-C while DuckDB works
    priority.py       long work goes behind short work on the CPUs
    arrow_input.py    Arrow rows as DuckDB's input, without pandas
    arrow_output.py   DuckDB's answers as Arrow rows, of either version
    signed_json.py    JSON documents with a checksum, and a signature by the user's key
    user_key.py       the user's key
    sizes.py          sizes such as "2GB"
    written/          values as text, and read again
    value.py          a frozen dataclass that costs nothing at run time
"""
