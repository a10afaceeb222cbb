"""A SQL engine made to change its plan while the query runs; its answers are DuckDB's.

`sql` runs a text in a session of the process. `connect` opens a `Session`, which knows tables and runs queries.
`Session.sql` waits for the answer and returns a
`Result`; `Session.submit` returns a `Job` at once, which runs next to others. Every error is a `QoopError`.

>>> import qoop
>>> with qoop.connect(slots=2) as session:
...     session.sql("SELECT 6 * 7 AS answer").fetchall()
[(42,)]

``import qoop`` loads the errors alone; each other name is loaded when it is first used, so that
``import qoop.planner`` does not load the rest.

::

    __main__.py         the command line
    commands/           its larger sub-commands
    repl/               the shell
    dbapi.py            the Python database API
    notebook.py         results and jobs as HTML, and ``%%qoop``
    options.py          the options of a session, in one table
    config.py           the values of options: from arguments, the environment, files, defaults
    session.py          `Session`, the face: tables, statements and queries
    sessions/           what is behind it: options, texts, statements, EXPLAIN, suspension
    session_tables.py   the tables and views of a session, by name
    planning.py         plans a session's queries, and learns from those that ran
    statements/         statements other than SELECT: views, COPY, SET, parameters
    duckdb_plans.py     DuckDB's own plans of queries, and what they took
    growing/            answers that grow more certain while more is read
    iterating/          steps in SQL that are repeated until a loss falls no more
    plan_memo.py        plans of texts that were planned before
    plan_cache.py       the store of those plans
    calibrated.py       the cost constants of this machine
    job.py              one run of a query
    control/            the loop that runs jobs on machines and divides the resources
    schedulers/         policies that grant free resources to jobs
    server/             `qoop serve`: many clients, as users with limits
    replanning/         decisions to change the plan of a running job
    adapters/           what other tools speak: SQLAlchemy, ibis
    page/               the live page: queries in a browser
    result.py           the answer
    bundle.py           a suspended job as a folder
    copies.py           finds copies of tables that hold the same rows
    programs/           pure state machines above jobs: rounds that grow, steps that are repeated
    profiles/           capacity over time
    monitor/            measures what the machine can spare
    simulation.py       jobs on simulated machines, on the same core
    retrace/            replays a trace
    drawing/            pictures, tables and formats of output
    streams.py          signals, warnings and streams of a command line
    terminal.py         size and colours of the terminal
    interrupts.py       Ctrl-C while DuckDB does something short
"""

from __future__ import annotations

import logging
import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if not os.path.isdir(os.path.join(__path__[0], "catalog")):  # in a clone, its siblings hold the rest
    __path__.append(os.path.dirname(__path__[0]))

from qoop.catalog.errors import (
    BindError,
    Cancelled,
    CatalogError,
    CheckpointError,
    ConfigError,
    DiskFull,
    ExecutionError,
    Forbidden,
    FunctionError,
    FunctionFailed,
    GuardMismatch,
    NoCapacity,
    OutOfMemory,
    Overloaded,
    ParseError,
    PlanError,
    QoopError,
    QueryError,
    Revoked,
    SessionClosed,
    SourceError,
    Suspended,
    TableChanged,
    Timeout,
    UnknownFunction,
    UnknownTable,
)

if TYPE_CHECKING:
    from qoop.job import Job
    from qoop.notebook import load_ipython_extension
    from qoop.options import ConnectOptions
    from qoop.profiles import CapacityProfile, replay
    from qoop.result import Result
    from qoop.session import Session, connect, resume, sql

    __version__: str

__all__ = [
    "BindError",
    "Cancelled",
    "CapacityProfile",
    "CatalogError",
    "CheckpointError",
    "ConfigError",
    "ConnectOptions",
    "DiskFull",
    "ExecutionError",
    "Forbidden",
    "FunctionError",
    "FunctionFailed",
    "GuardMismatch",
    "Job",
    "NoCapacity",
    "OutOfMemory",
    "Overloaded",
    "ParseError",
    "PlanError",
    "QoopError",
    "QueryError",
    "Result",
    "Revoked",
    "Session",
    "SessionClosed",
    "SourceError",
    "Suspended",
    "TableChanged",
    "Timeout",
    "UnknownFunction",
    "UnknownTable",
    "__version__",
    "connect",
    "load_ipython_extension",
    "replay",
    "resume",
    "sql",
]

logging.getLogger("qoop").addHandler(logging.NullHandler())  # who embeds it decides what is to be seen

_HOME = {
    "CapacityProfile": "qoop.profiles",
    "ConnectOptions": "qoop.options",
    "Job": "qoop.job",
    "Result": "qoop.result",
    "Session": "qoop.session",
    "connect": "qoop.session",
    "load_ipython_extension": "qoop.notebook",
    "replay": "qoop.profiles",
    "resume": "qoop.session",
    "sql": "qoop.session",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("qoop")
    if name not in _HOME:
        raise AttributeError(f"module 'qoop' has no attribute {name!r}; it has {', '.join(__all__)}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)  # what users use, without what this module imports
