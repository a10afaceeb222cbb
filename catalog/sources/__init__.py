"""From a path or an object to a `Table`: schema, version, and rows in splits.

::

    register.py   detects the kind of a path or an object, and makes a table of it
    files.py      finds files, and names them in SQL
    footer.py     the footer of a Parquet file
    file_stamp.py   detects changed files by size and times, without reading them
    parquet.py    Parquet files: footers give schema, row groups and version
    lake.py       tables of a lake: Parquet files that a log lists
    created.py    tables that statements create in a folder: versions of pieces
    packing.py    chooses small pieces of such tables that become one
    delta.py      the logs of Delta tables
    iceberg.py    the metadata of Iceberg tables
    text.py       CSV and JSON files
    csv_sample.py  checks that all rows of a CSV file have the types detected from a sample
    lines.py      counts the rows of a large text by the ends of its lines
    database.py   tables of a DuckDB file
    sqlite.py     tables of an SQLite file
    sqlite_rows.py  the same without DuckDB's extension for them
    memory.py     Arrow tables in memory
    pieces.py     some pieces of a table as a source
    remote.py     Parquet files in a bucket, read in parts
    probe.py      the catalog's own DuckDB, which reads schemas and statistics
"""
