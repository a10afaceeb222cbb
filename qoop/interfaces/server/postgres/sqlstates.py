"""Errors as PostgreSQL numbers them, with the place in the text where the message underlines it."""

from __future__ import annotations

import re

from qoop.catalog.errors import (
    BindError,
    Busy,
    Cancelled,
    CatalogError,
    DiskFull,
    Forbidden,
    NoCapacity,
    NotKnown,
    OutOfMemory,
    Overloaded,
    ParseError,
    QoopError,
    QueryError,
    SessionClosed,
    Timeout,
    TooMuch,
    UnknownTable,
)
from qoop.interfaces.server.postgres.messages import message, text
from qoop.interfaces.server.postgres.public_schema import SYSTEM_COLUMNS

_STATES: tuple[tuple[type[QoopError], str], ...] = (
    (NotKnown, "28P01"), (ParseError, "42601"), (Forbidden, "42501"), (UnknownTable, "42P01"), (QueryError, "42000"),
    (TooMuch, "54000"), (Busy, "53300"), (Overloaded, "53300"), (Timeout, "57014"), (Cancelled, "57014"),
    (OutOfMemory, "53200"), (DiskFull, "53100"), (NoCapacity, "53000"), (SessionClosed, "57P01"),
    (CatalogError, "58030"), (QoopError, "XX000"),
)  # fmt: skip
FAILED_TRANSACTION = "25P02"
_SYSTEM_COLUMN = re.compile(rf'column (?:named )?"(?:{"|".join(SYSTEM_COLUMNS)})"')
_NO_VERSIONS = "Rows have no versions here: system columns are NULL in a SELECT list, and in no condition or ORDER BY."
_LINE = re.compile(r"^line (\d+): (.*)\n( *)\^", re.MULTILINE)


def failed(error: QoopError, statement: str = "", state: str = "", fatal: bool = False) -> bytes:
    """The message of an error. statement: the text that failed. fatal: the connection ends with it."""
    state = state or next(state for kind, state in _STATES if isinstance(error, kind))
    word = "FATAL" if fatal else "ERROR"
    summary, place = f"{type(error).__name__}: {error}", position(str(error), statement)
    if place is not None:  # the client shows the line
        summary = _LINE.split(summary)[0].rstrip()
    fields = {"S": word, "V": word, "C": state, "M": summary} | ({} if place is None else {"P": str(place)})
    if isinstance(error, BindError) and _SYSTEM_COLUMN.search(summary):
        fields["H"] = _NO_VERSIONS
    return message(b"E", *(key.encode() + text(value) for key, value in fields.items()), b"\0")


def position(report: str, statement: str) -> int | None:
    """The place in a text that a message underlines, counted in characters from 1.

    >>> position("no x.\\n\\nline 2: FROM x\\n             ^", "SELECT *\\nFROM x")
    15
    """
    found = _LINE.search(report)
    lines = statement.split("\n")
    if found is None or not 1 <= int(found[1]) <= len(lines):
        return None
    number = int(found[1]) - 1
    offset = len(found[3]) - len(f"line {found[1]}: ")
    return sum(len(line) + 1 for line in lines[:number]) + offset + 1 if lines[number].startswith(found[2]) else None
