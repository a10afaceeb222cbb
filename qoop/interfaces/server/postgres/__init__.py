"""PostgreSQL's wire protocol, version 3: psql, psycopg, JDBC and the tools above them ask the same service.

A connection has a thread. Its statements are PostgreSQL's in form only: their SQL is DuckDB's, as everywhere.

::

    catalog/        questions about pg_catalog and information_schema, and a DuckDB that answers them
    client.py       the statements of one client: simple and prepared ones
    copying.py      COPY to the client: text, CSV and binary
    cursors.py      SQL cursors: DECLARE, FETCH, MOVE and CLOSE
    door.py         the begin of a connection: TLS, name and password, or the cancelling of another's query
    explaining.py   EXPLAIN with PostgreSQL's options, as JSON
    messages.py     messages on the wire
    parameter_types.py  types of parameters, by their place in the text
    parameters.py   values of parameters as SQL
    portals.py      what a client keeps: prepared statements, portals, answers
    public_schema.py  tables by the name of PostgreSQL's schema, public
    rows.py         rows as messages
    scram.py        passwords that are proven, and not sent
    server.py       the socket, the threads, and the end of all of them
    sqlstates.py    errors as PostgreSQL numbers them
    utility_statements.py  statements that are no queries, and those that write, which are refused
"""
