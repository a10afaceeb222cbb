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

    __main__.py   the command line
    adaptive/     the loop: runs jobs by plans, and changes the plan when resources or data change
    query/        a query from its text to its result
    programs/     what runs several jobs for one question: answers that grow, steps that are repeated
    session/      sessions: tables, statements and queries of one user
    interfaces/   the faces of sessions: shell, page, servers, adapters, notebooks
"""

from __future__ import annotations

import logging
import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

# In a clone, the siblings of this folder hold the rest. Not as qoop.qoop: it would contain itself without end.
if __name__ == "qoop" and not os.path.isdir(os.path.join(__path__[0], "catalog")):
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
    ProcessEnded,
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
from qoop.interfaces.former_paths import install

if TYPE_CHECKING:
    from qoop.adaptive.profiles import CapacityProfile, replay
    from qoop.interfaces.notebook import load_ipython_extension
    from qoop.programs.sweeps.space import int_uniform, log_uniform, uniform
    from qoop.query.job import Job
    from qoop.query.options import ConnectOptions
    from qoop.query.result import Result
    from qoop.session.opening import connect, resume, sql
    from qoop.session.session import Session
    from qoop.session.slices import lambda_handler, slices

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
    "ProcessEnded",
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
    "int_uniform",
    "lambda_handler",
    "load_ipython_extension",
    "log_uniform",
    "replay",
    "resume",
    "slices",
    "sql",
    "uniform",
]

install()

logging.getLogger("qoop").addHandler(logging.NullHandler())  # who embeds it decides what is to be seen

_HOME = {
    "CapacityProfile": "qoop.adaptive.profiles",
    "ConnectOptions": "qoop.query.options",
    "Job": "qoop.query.job",
    "Result": "qoop.query.result",
    "Session": "qoop.session.session",
    "connect": "qoop.session.opening",
    "int_uniform": "qoop.programs.sweeps.space",
    "lambda_handler": "qoop.session.slices",
    "load_ipython_extension": "qoop.interfaces.notebook",
    "log_uniform": "qoop.programs.sweeps.space",
    "replay": "qoop.adaptive.profiles",
    "resume": "qoop.session.opening",
    "slices": "qoop.session.slices",
    "sql": "qoop.session.opening",
    "uniform": "qoop.programs.sweeps.space",
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
