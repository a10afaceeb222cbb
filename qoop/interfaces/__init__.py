"""The interfaces of a session: for people, for programs, and for clients over a network.

::

    repl/             the shell
    page/             the live page: queries in a browser
    server/           `qoop serve`: many clients, as users with limits
    adapters/         SQLAlchemy, ibis, dbt and Airflow
    commands/         the larger sub-commands of the command line
    dbapi.py          the Python database API
    notebook.py       results and jobs as HTML, and ``%%qoop``
    detached.py       queries that go on after the program that began them
    former_paths.py   modules under their former names
"""
