"""PostgreSQL's wire protocol, version 3: psql, psycopg, JDBC and the tools above them ask the same service.

A connection has a thread. Its statements are PostgreSQL's in form only: their SQL is DuckDB's, as everywhere.

::

    catalog.py      questions about pg_catalog, answered by a DuckDB that has the tables without their rows
    catalog_tables.py  the tables of pg_catalog there
    client.py       the statements of one client: simple and prepared ones
    copying.py      COPY to the client: text, CSV and binary
    door.py         the begin of a connection: TLS, name and password, or the cancelling of another's query
    messages.py     messages on the wire
    parameters.py   values of parameters as SQL
    portals.py      what a client keeps: prepared statements, portals, answers
    rows.py         rows as messages
    scram.py        passwords that are proven, and not sent
    server.py       the socket, the threads, and the end of all of them
    session_statements.py  statements that change nothing here: BEGIN, SET of what clients always set, SHOW of it
    sqlstates.py    errors as PostgreSQL numbers them
    types.py        types of DuckDB as those of PostgreSQL
"""
