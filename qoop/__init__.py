"""A SQL engine made to change its plan while the query runs; its answers are DuckDB's.

`connect` opens a `Session`, which knows tables and runs queries; `Session.sql` gives a `Result`, `Session.submit` a
`Job` that runs beside others. Every error is a `QoopError`.

>>> import qoop
>>> with qoop.connect(slots=2) as session:
...     session.sql("SELECT 6 * 7 AS answer").fetchall()
[(42,)]

The errors are here at once; all else is loaded when it is first used, so that ``import qoop.planner`` does not
pull in the rest.
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
