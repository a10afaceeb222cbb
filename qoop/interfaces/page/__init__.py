"""The live page: the queries of a session, or of a trace, in a browser on this machine.

The path of a record to the screen: a job's history → `job_progress` folds it → `views` makes JSON of that and of a
`snapshot` of the cluster → `app` sends the changes → the JavaScript in `assets` draws them. `recorded` replays a trace
once and then serves it like a session in which nothing runs.

::

    job_progress.py   a job's history, folded: tasks, finished parts, plans, decisions
    snapshot.py       machines, tenants and expectations of running jobs at one time
    sweeps.py         the sweeps as JSON
    views.py          both, as JSON
    plan_map.py       the plan that would end first, by slots and memory
    live.py           the jobs of a session
    recorded.py       the jobs of a trace, at any time of it
    rows.py           the list of queries as HTML, for browsers without JavaScript
    app.py            addresses, headers and the stream of events
    opening.py        opens and closes a page
    command.py        ``qoop page FILE``
"""
