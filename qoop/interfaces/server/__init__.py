"""``qoop serve``: many clients on one locked session, each with a token, as a tenant and within limits.

The way of a query: `http` reads a request and asks `users` whose it is → `service` admits it or not → `queries` plans,
runs and counts it → `answers` writes its parts as Arrow, JSON or CSV → `audit` and `metrics` hear how it ended.

::

    answers.py     an answer as bytes, piece by piece: Arrow, JSON, JSON lines or CSV
    audit.py       a line of JSON for each statement
    flight.py      Arrow Flight SQL: queries, prepared statements, cancelling
    flight_messages.py  its messages, in protobuf's encoding
    flight_metadata.py  its questions about tables, types and abilities
    http.py        POST /sql, /queries, /healthz, /metrics
    http_server.py the threads of its queries, and where it listens
    identity/      the file of users, read again when it changes, and tokens of OpenID Connect
    kept.py        queries that go on without their client
    limits.py      limits of users and tenants; requests a minute
    listening.py   the socket of HTTP, TLS, connections that dawdle, a thread of its own
    logs.py        the log as lines of JSON; files that lines are added to
    metrics.py     counts and present values for Prometheus
    postgres/      PostgreSQL's wire protocol
    queries.py     one query of a user, from its text to its last row
    restart/       the folder of these queries, and ports, which servers share
    service.py     the queries of all users on one session
    slow_log.py    a line of JSON for each slow query
    spans.py       spans of OpenTelemetry
    timeouts.py    the address that is listened to, and limits for all clients
    turns.py       the queue of each user and tenant
    users.py       the users: tokens and passwords as digests, limits of tenants
    verifiers.py   verifiers of passwords by SCRAM
"""
