"""The live page: the queries of a session, or of a trace, in a browser on this machine.

The way of a record to the screen: a job's history → `account` adds it up → `views` makes JSON of that and of the
`moment` (what only the cluster knows) → `app` sends what has changed → the JavaScript in `assets` draws it. A trace is
gone through once by `recorded`; after that it answers like a session that stands still.

::

    account.py    the history of one job, added up: tasks, stages, plans, decisions
    moment.py     what machines, tenants and jobs that run are like now
    views.py      both, as JSON
    plan_map.py   which plan would end first on how many slots and how much memory
    live.py       the jobs of a session
    recorded.py   the jobs of a trace, at any time of it
    rows.py       the list of queries as HTML, for browsers without JavaScript
    app.py        addresses, headers and the stream of events
    opening.py    opens a page, and closes it
    command.py    ``qoop page FILE``
"""
