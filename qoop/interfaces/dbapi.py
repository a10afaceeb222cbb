"""The Python database API, version 2.0 (PEP 249), for tools that expect it, such as ``pandas.read_sql``.

>>> connection = connect(slots=1)
>>> cursor = connection.cursor()
>>> cursor.execute("SELECT n, n * ? AS m FROM range(3) AS t(n) ORDER BY n", [2]).fetchall()
[(0, 0), (1, 2), (2, 4)]
>>> cursor.description[1][0], cursor.rowcount
('m', 3)
>>> connection.close()
"""

from __future__ import annotations

import datetime
import os
import time
from typing import Any

from qoop.session.cursors import (
    Connection,
    Cursor,
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
    errors_of_pep_249,
)
from qoop.session.opening import connect as open_session
from qoop.session.session import Session

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]

apilevel = "2.0"
threadsafety = 2
"""Threads may share the module and connections, not cursors."""
paramstyle = "qmark"
"""``?``; ``$1`` and ``$name``, with a mapping, work too."""


class _Type:
    """Equal to the DuckDB types of one kind."""

    def __init__(self, *beginnings: str) -> None:
        self._beginnings = beginnings

    def __eq__(self, other: object) -> bool:
        return other is self or (isinstance(other, str) and other.upper().startswith(self._beginnings))

    __hash__ = None  # type: ignore[assignment]  # equal to many texts


STRING = _Type("VARCHAR", "ENUM", "UUID", "JSON")
BINARY = _Type("BLOB", "BIT")
NUMBER = _Type(
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT",
    "DECIMAL", "FLOAT", "DOUBLE", "BOOLEAN",
)  # fmt: skip
DATETIME = _Type("DATE", "TIME")
ROWID = _Type("ROWID")

Date, Time, Timestamp = datetime.date, datetime.time, datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:
    """The local date at that many seconds since 1970."""
    return Date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> datetime.time:
    """The local time of day at that many seconds since 1970."""
    return Time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime.datetime:
    """The local time at that many seconds since 1970."""
    return Timestamp(*time.localtime(ticks)[:6])


def connect(*data: str | os.PathLike[str], session: Session | None = None, **options: Any) -> Connection:
    """A connection to folders, DuckDB files and data files, or to an existing session.

    options: those of :func:`qoop.connect`. Closing the connection does not close a session that was passed.
    """
    with errors_of_pep_249():
        if session is None:
            return Connection(open_session(*data, **options), owned=True)
        for path in data:
            session.register_path(path)
    return Connection(session, owned=False)
