"""A SQL engine made to change its plan while the query runs; its answers are DuckDB's.

`connect` opens a `Session`, which knows tables and runs queries; `Session.sql` gives a `Result`, `Session.submit` a
`Job` that runs next to others. Every error is a `QoopError`.

>>> import qoop
>>> with qoop.connect(slots=2) as session:
...     session.sql("SELECT 6 * 7 AS answer").fetchall()
[(42,)]

The errors are here at once; all else is loaded when it is first used, so that ``import qoop.planner`` does not
pull in the rest.

::

    __main__.py         the command line
    commands/           its larger sub-commands
    repl/               the shell
    dbapi.py            the Python database API
    notebook.py         results and jobs as HTML, and ``%%qoop``
    options.py          the options of a session, in one table
    config.py           settles them: arguments, environment, files, defaults
    session.py          tables, statements and queries: the face of qoop
    session_tables.py   what names mean in a session
    planning.py         how a session plans its queries, and learns from them
    statements/         what a text asks of a session
    duckdb_plans.py     DuckDB's own plans of queries, and what they took
    plan_memo.py           plans of texts that were planned before
    plan_cache.py       where those are kept
    calibrated.py       the cost constants of this machine
    job.py              one run of a query
    control/            the loop that decides: jobs, machines, and who gets what
    schedulers/         who gets the next free resources
    replanning/         which plan to run from here on
    result.py           the answer
    suspend.py          a job as a folder, to go on elsewhere
    copies.py           which copies of its tables hold the same
    profiles/           capacity over time
    monitor/            what the machine has to give
    simulation.py       jobs on simulated machines, on the same core
    retrace/            a trace gone through again
    drawing/            what people look at
    streams.py          signals, warnings and streams of a command line
    terminal.py         size and colours of the terminal
    interrupts.py       Ctrl-C while DuckDB does something short
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from qoop.catalog.errors import (
    BindError,
    Cancelled,
    CatalogError,
    CheckpointError,
    ConfigError,
    DiskFull,
    ExecutionError,
    Forbidden,
    GuardMismatch,
    NoCapacity,
    OutOfMemory,
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
    UnknownTable,
)

if TYPE_CHECKING:
    from qoop.job import Job
    from qoop.notebook import load_ipython_extension
    from qoop.profiles import CapacityProfile, replay
    from qoop.result import Result
    from qoop.session import Session, connect
    from qoop.suspend import resume

    __version__: str

__all__ = [
    "BindError",
    "Cancelled",
    "CapacityProfile",
    "CatalogError",
    "CheckpointError",
    "ConfigError",
    "DiskFull",
    "ExecutionError",
    "Forbidden",
    "GuardMismatch",
    "Job",
    "NoCapacity",
    "OutOfMemory",
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
    "UnknownTable",
    "__version__",
    "connect",
    "load_ipython_extension",
    "replay",
    "resume",
]

logging.getLogger("qoop").addHandler(logging.NullHandler())  # who embeds it decides what is to be seen

_HOME = {
    "CapacityProfile": "qoop.profiles",
    "Job": "qoop.job",
    "Result": "qoop.result",
    "Session": "qoop.session",
    "connect": "qoop.session",
    "load_ipython_extension": "qoop.notebook",
    "replay": "qoop.profiles",
    "resume": "qoop.suspend",
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
    return sorted({*globals(), *__all__})
